// The unit of products of one row and a matrix of 16 bits under fast numerics (gemv.h), where a kernel interprets, on Hopper's
// level.
//
// A token of a language model is a chain of such products, and what each takes is hardly arithmetic: of a few hundred tasks
// behind each other each waits for a row, makes its norm, multiplies and gives. The units that do this for any node look up
// what a node has and meet most of their instructions once in a task, from beyond the instruction cache. So here is one
// piece of code, as little of it as may be, that all these tasks go through, and a descriptor that says outright what is
// wanted:
//
//   bring     a warp of the frame has the parts of a task's columns copied to the ring, as soon as the stages are free;
//             nothing writes them, so that it may be tasks ahead
//   row       asked for at once by all threads, in words (words.h) if it comes in such; then its norm, of which every warp
//             adds all, or its softmax, by one warp; then it is in shared memory, of 16 bits
//   multiply  tensor cores, of which the row is the first of 16; warps share columns and k
//   finish    a thread adds the sums of an output, and takes it through the tail; results in words, too
#pragma once

#include "emulator/device/matrix_gemv_columns.h"
#include "emulator/device/matrix_gemv_row.h"
#include "emulator/device/matrix_thin_stays.h"

namespace trek::device {

#ifdef TREK_FOR_CHAINS

namespace gemv {

// Has a value worked out where this stands: before a wait, not behind it, where it is wanted.
TREK_TILE void settle(uint32_t& value) { asm volatile("" : "+r"(value)); }
template <class T>
TREK_TILE void settle(T*& value) {
  asm volatile("" : "+l"(value));
}

// What a warp multiplies of parts that have the same columns: some eights of them, of k a share of the steps.
struct Shares {
  uint32_t columns;
  uint32_t share;  // this warp's,
  uint32_t bits;   // of 1 << bits
  uint32_t first;  // eight, of which it has every groups-th,
  uint32_t groups;
  uint32_t count;   // so many
  uint32_t at;      // in a stage, this lane's row of eight elements of the first eight and step;
  uint32_t across;  // from an eight of the warp's to the next,
  uint32_t down;    // and from a step
  uint32_t row;     // in the row, this lane's of the first step; of lanes that have none, zeros,
  uint32_t on;      // and so that they stay there

  TREK_TILE_MEMBER Shares(const Task& task, const Gemv& of, const Part& part)
      : columns(part.columns), bits(of.share_bits) {
    const uint32_t lane = task.thread() % 32;
    const uint32_t warp = tensor::of_warp(task.thread() / 32);
    const bool by_line = of.by_line != 0;
    share = warp & ((1U << bits) - 1);
    first = warp >> bits;
    groups = kWarps >> bits;
    count = (columns / kEight + groups - 1 - first) >> (kWarpBits - bits);
    const uint32_t apart = by_line ? kEight * of.line : 16 * part.k;
    const uint32_t step = by_line ? 2 * kDeep : 16 * kDeep;
    at = (by_line ? lane % 8 * of.line + lane / 8 * 16 : lane * 16) + first * apart + share * step;
    across = groups * apart;
    down = step << bits;
    row = shared_address(
        task.shared<std::byte>(lane < 4 ? kRow + 16 * lane + 2 * kDeep * share : kZeros));
    on = lane < 4 ? 2 * kDeep << bits : 0;
    for (uint32_t* each :
         {&columns, &share, &first, &groups, &count, &at, &across, &down, &row, &on})
      settle(*each);
  }
};

// The products of kCount eights, of which as many steps as are some products that do not wait for one another are under way
// together.
template <uint32_t kCount, bool kBf16>
struct Products {
  static constexpr uint32_t kTogether = kCount <= 2 ? 2 : 1;
  float sum[kTogether][kCount][2][4] = {};

  // kSteps of them, from where `row` and `at` are.
  template <uint32_t kSteps>
  TREK_TILE_MEMBER void multiply(const Shares& of, bool by_line, uint32_t row, uint32_t at) {
    uint32_t a[kSteps][4];
    uint32_t b[kSteps][kCount][4];
    TREK_UNROLLED
    for (uint32_t s = 0; s < kSteps; ++s) tensor::load_piece(a[s], row + s * of.on);
    if (by_line)
      load<kSteps, false>(of, at, b);
    else
      load<kSteps, true>(of, at, b);
    add<kSteps, kBf16 ? tensor::Factors::bf16 : tensor::Factors::f16>(a, b);
  }
  // This warp's of a part, in the stage at `stage`.
  TREK_TILE_MEMBER void multiply(const Task& task, const Gemv& gemv, const Shares& of,
                                 const Part& part, uint32_t stage) {
    const bool by_line = gemv.by_line != 0;
    uint32_t steps = (part.k / kDeep + (1U << of.bits) - 1 - of.share) >> of.bits;
    uint32_t at = shared_address(task.shared<std::byte>(stage)) + of.at;
    uint32_t row = of.row + (of.on != 0 ? 2 * part.first_k : 0);
    TREK_ROLLED
    for (; steps >= kTogether; steps -= kTogether) {
      multiply<kTogether>(of, by_line, row, at);
      at += kTogether * of.down;
      row += kTogether * of.on;
    }
    if (kTogether > 1 && steps != 0) multiply<1>(of, by_line, row, at);
  }
  // The sums of all parts, to [share][column] at `to`.
  TREK_TILE_MEMBER void give(const Task& task, const Shares& of, uint32_t to) const {
    const uint32_t lane = task.thread() % 32;
    if (lane >= 4) return;
    uint32_t at = to + 4 * (of.share * of.columns + of.first * kEight + 2 * lane);
    TREK_UNROLLED
    for (uint32_t e = 0; e < kCount; ++e, at += 4 * kEight * of.groups)
      *task.shared<Aliased<uint64_t>>(at) =
          uint64_t{bits_of(added(e, 1))} << 32 | bits_of(added(e, 0));
  }

 private:
  template <uint32_t kSteps, bool kTransposed>
  TREK_TILE_MEMBER static void load(const Shares& of, uint32_t at,
                                    uint32_t (&b)[kSteps][kCount][4]) {
    TREK_UNROLLED
    for (uint32_t s = 0; s < kSteps; ++s) TREK_UNROLLED
    for (uint32_t e = 0; e < kCount; ++e)
      tensor::load_matrices<kTransposed>(b[s][e], at + s * of.down + e * of.across);
  }
  template <uint32_t kSteps, tensor::Factors kFactors>
  TREK_TILE_MEMBER void add(const uint32_t (&a)[kSteps][4],
                            const uint32_t (&b)[kSteps][kCount][4]) {
    TREK_UNROLLED
    for (uint32_t half = 0; half < 2; ++half) TREK_UNROLLED
    for (uint32_t s = 0; s < kSteps; ++s) {
      const uint32_t row[4] = {a[s][2 * half], 0, a[s][2 * half + 1], 0};
      TREK_UNROLLED
      for (uint32_t e = 0; e < kCount; ++e)
        tensor::multiply<kFactors>(sum[s][e][half], row, b[s][e][2 * half], b[s][e][2 * half + 1]);
    }
  }
  TREK_TILE_MEMBER float added(uint32_t e, uint32_t c) const {
    const float one = sum[0][e][0][c] + sum[0][e][1][c];
    if constexpr (kTogether == 1) return one;
    return one + (sum[kTogether - 1][e][0][c] + sum[kTogether - 1][e][1][c]);
  }
};

// A step of a tail that is not the commonest. Called: it is more code than all else that a thread does with an output.
TREK_UNIT_CALL float other_step(TailStep step, float value, float other) {
  return thin::apply_tail_step(step, value, other);
}
// A word of what stands beside an output, where it has not come by then. Called: it mostly has.
TREK_UNIT_CALL uint64_t asked_again(const std::byte* at, uint32_t tag) {
  uint64_t word = ask_once(at);
  ask_until(word, at, tag);
  return word;
}
// The step of a language model, which is called without asking which it is.
TREK_UNIT_CALL float gelu_step(float value) { return semantics::gelu_tanh(value); }

// A thread's output of a part: where it goes, and what stands beside it, which is asked for before the row is there.
class Output {
 public:
  TREK_TILE_MEMBER Output(const Task& task, const Gemv& of, const Tile& tile, const Part& part,
                          std::byte* arena)
      : of_(of), arena_(arena), thread_(task.thread()), columns_(part.columns) {
    column_ = tile.column + part.column + (has() ? thread_ : 0);
    element_ = tile.matrix * of.n + column_;
    is_f32_ = static_cast<DType>(of.result_type) == DType::f32;
    uint64_t place = element_;
    if (of.inner != UINT32_MAX) {
      const uint32_t line = element_ / of.inner;
      place = uint64_t{line} * static_cast<uint64_t>(of.outer) + (element_ - line * of.inner);
    }
    at_ = arena + of.result + place * (is_f32_ ? 4 : 2);
    words_ = of.result_words == Areas::kNone
                 ? nullptr
                 : arena + of.result_words + uint64_t{is_f32_ ? kWord : kWord / 2} * element_;
    settle(column_);
    settle(element_);
    settle(at_);
    settle(words_);
  }
  TREK_TILE_MEMBER void ask() {
    if (!has()) return;
    TREK_UNROLLED
    for (uint32_t i = 0; i < kMostBeside; ++i) {
      const GemvBeside& beside = of_.beside[i];
      if (beside.is_there == 0) break;
      raw_[i] = beside.in_words != 0 ? ask_once(at(beside)) : read<uint32_t>(at(beside), 0);
    }
  }

  // The output, of sums at `sums`, [share of `shares`][column]; by all threads.
  TREK_TILE_MEMBER void finish(const Task& task, uint32_t sums, uint32_t shares, uint32_t tag) {
    if (thread_ / 32 * 32 >= columns_) return;  // a warp that has none
    float value = added(task.shared<float>(sums) + (has() ? thread_ : 0), shares);
    float others[kMostBeside] = {};
    TREK_UNROLLED
    for (uint32_t i = 0; i < kMostBeside; ++i) {
      const GemvBeside& beside = of_.beside[i];
      if (beside.is_there == 0) break;
      if (beside.in_words != 0 && has() && tag_of(raw_[i]) != tag)
        raw_[i] = asked_again(at(beside), tag);
      others[i] = thin::from_word(static_cast<DType>(beside.type), static_cast<uint32_t>(raw_[i]),
                                  place(beside));
    }
    static_assert(kMostBeside == 2);
    TREK_ROLLED
    for (uint32_t s = 0; s < of_.tails; ++s) {
      const GemvTail& tail = of_.tail[s];
      const TailStep step = tail.step;
      const float other = tail.operand == 0   ? others[0]
                          : tail.operand == 1 ? others[1]
                                              : tail.scalar;
      const auto opcode = static_cast<Opcode>(step.opcode);
      const bool is_rounded = static_cast<DType>(step.to) != DType::f32;
      if (opcode == Opcode::Add && !is_rounded)
        value = semantics::add(value, other);
      else if (opcode == Opcode::GeluTanh && !is_rounded)
        value = gelu_step(value);
      else
        value = other_step(step, value, other);
    }
    give(task, value, tag);
  }

 private:
  TREK_TILE_MEMBER bool has() const { return thread_ < columns_; }
  TREK_TILE_MEMBER uint32_t place(const GemvBeside& beside) const {
    return beside.by_column != 0 ? column_ : element_;
  }
  TREK_TILE_MEMBER const std::byte* at(const GemvBeside& beside) const {
    return arena_ + beside.offset + (uint64_t{place(beside) >> beside.pair_bits} << beside.shift);
  }
  TREK_TILE_MEMBER float added(const float* sums, uint32_t shares) const {
    static_assert(kWarps == 8);
    float x[kWarps];
    TREK_UNROLLED
    for (uint32_t s = 0; s < kWarps; ++s) x[s] = s < shares ? sums[s * columns_] : -0.0f;
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
  }
  TREK_TILE_MEMBER void give(const Task& task, float value, uint32_t tag) const {
    if (is_f32_) {
      if (!has()) return;
      if (words_ != nullptr) give_word(words_, tag, bits_of(value));
      if (of_.leaves_here != 0) *task.shared<float>(kHere + 4 * column_) = value;
      *reinterpret_cast<Aliased<uint32_t>*>(at_) = bits_of(value);
      return;
    }
    const float next = as_float(static_cast<uint32_t>(
        __nvvm_shfl_sync_down_i32(0xFFFFFFFF, static_cast<int>(bits_of(value)), 1, 31)));
    const uint32_t two =
        tensor::packed(static_cast<DType>(of_.result_type) == DType::bf16, value, next);
    if (!has()) return;
    if (words_ != nullptr && element_ % 2 == 0) give_word(words_, tag, two);
    *reinterpret_cast<Aliased<uint16_t>*>(at_) = static_cast<uint16_t>(two);
  }

  const Gemv& of_;
  std::byte* arena_;
  uint32_t thread_;
  uint32_t columns_;
  uint32_t column_;
  uint32_t element_;
  bool is_f32_;
  std::byte* at_;
  std::byte* words_;  // null: there are none
  uint64_t raw_[kMostBeside] = {};
};

// A task, from before its inputs are there: see multiply_gemv().
template <class Tasks, bool kBf16>
class Execution {
 public:
  TREK_TILE_MEMBER Execution(const Task& task, const Tasks& tasks, std::byte* arena)
      : task_(task),
        tasks_(tasks),
        of_(tasks.of()),
        tile_(of_, tasks.number()),
        arena_(arena),
        tag_(tasks.tag()),
        streams_(of_.streams != 0),
        in_words_(of_.row == Gemv::words),
        step_(ring().step) {}

  TREK_TILE_MEMBER void run() {
    uint32_t sums = kSums;
    bool are_there = true;
    TREK_ROLLED
    for (Part part(of_, tile_); part.is_there(tile_);) {
      const bool is_first = part.column == 0;
      Items items(task_, of_, arena_ + of_.left + uint64_t{tile_.matrix} * of_.left_matrix);
      if (is_first && in_words_) items.ask();
      Output output(task_, of_, tile_, part, arena_);
      const Shares shares(task_, of_, part);
      if (is_first && !tasks_.ready()) return leave();
      output.ask();
      if (is_first) {
        make_row(part, items);
        if (!streams_) wait_for_copies(0);
        task_.sync();
      }
      if (streams_) {
        if (is_first) are_there = come();
        if (!are_there) bring_columns(task_, of_, tile_, part, step_, arena_);
      }
      static_assert(kMostEights == 3);
      if (shares.count == 3)
        multiply<3>(shares, part, sums);
      else if (shares.count == 2)
        multiply<2>(shares, part, sums);
      else
        multiply<1>(shares, part, sums);
      task_.sync();
      output.finish(task_, sums, 1U << shares.bits, tag_);
      sums = kSums + kSumsBytes - (sums - kSums);
    }
    if (!streams_) return;
    if (!are_there && of_.packed != Areas::kNone) tasks_.has_packed();
    if (task_.thread() == 0) ring().step = step_;
  }

 private:
  // Waits for the first stage: whether its part came, or is to be brought.
  TREK_TILE_MEMBER bool come() const {
    tensor::barrier_wait(full(step_), parity(step_));
    return tasks_.are_there();
  }
  // The parts of k of some columns, of which this warp has kCount eights, or where that is one perhaps none; `part` is the
  // one behind them then.
  template <uint32_t kCount>
  TREK_TILE_MEMBER void multiply(const Shares& shares, Part& part, uint32_t sums) {
    Products<kCount, kBf16> products;
    bool is_last = false;
    TREK_ROLLED
    while (!is_last) {
      if (streams_) tensor::barrier_wait(full(step_), parity(step_));
      if (shares.count != 0)
        products.multiply(task_, of_, shares, part, streams_ ? stage_at(step_) : kPanel);
      if (streams_) release();
      is_last = part.is_last_of_columns(of_);
      part.next(of_, tile_);
    }
    if (shares.count != 0) products.give(task_, shares, sums);
  }
  // Waits for the row, and leaves it in shared memory, for which there is a sync to come. Where the columns are copied by the
  // block, they are on their way.
  TREK_TILE_MEMBER void make_row(const Part& part, Items& items) {
    const auto form = static_cast<RowForm>(of_.form);
    Norm<kBf16> norm;
    if (!streams_) Pieces(task_, of_, part, columns_at(of_, tile_, arena_)).copy(task_, kPanel);
    if (form == RowForm::norm) norm.ask(of_, items, arena_);
    if (in_words_)
      items.await(tag_);
    else if (form != RowForm::softmax)
      items.load();
    tasks_.inputs_came();
    if (form == RowForm::norm)
      norm.make(task_, items);
    else if (form == RowForm::softmax)
      make_softmax<kBf16>(task_, of_, items.from());
    else
      put_items(task_, items);
  }
  // This warp is through with a stage.
  TREK_TILE_MEMBER void release() {
    tensor::warp_sync();
    if (task_.thread() % 32 < Tasks::kArrivals) tensor::barrier_arrive(empty(step_));
    ++step_;
  }
  // Of a task that is not to be executed: what is on its way comes, and stages are free again.
  TREK_TILE_MEMBER void leave() {
    wait_for_copies(0);
    if (!streams_) return;
    TREK_ROLLED
    for (Part part(of_, tile_); part.is_there(tile_); part.next(of_, tile_)) {
      tensor::barrier_wait(full(step_), parity(step_));
      release();
    }
    task_.sync();
    if (task_.thread() == 0) ring().step = step_;
  }

  const Task& task_;
  const Tasks& tasks_;
  const Gemv& of_;
  Tile tile_;
  std::byte* arena_;
  uint32_t tag_;
  bool streams_;
  bool in_words_;
  uint32_t step_;  // of the ring
};

}  // namespace gemv

// Tasks that are executed as GEMV, of factors of bf16, or of f16: code for each, since what is met once in a task is bound by
// the instruction cache. `tasks` has one at hand: of() and number() are its descriptor and tile, tag() the number of its
// trip; ready() waits until all inputs are there that do not come in words, and says whether it is to be executed;
// inputs_came() is told that the others are; are_there() says, once the first part is here, whether its columns came in
// stages; has_packed() is told that they now lie packed. next() goes on to the next, and says whether that is one of these, of
// the same factors.
template <bool kBf16, class Tasks>
TREK_TILE void multiply_gemv(const Task& task, Tasks& tasks, std::byte* arena) {
  forget_places(task);
  if (task.thread() < 4) *task.shared<Aliased<uint32_t>>(gemv::kZeros + 4 * task.thread()) = 0;
  TREK_ROLLED
  do gemv::Execution<Tasks, kBf16>(task, tasks, arena).run();
  while (tasks.next());
}

#endif

}  // namespace trek::device
