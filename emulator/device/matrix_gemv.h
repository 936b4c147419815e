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
//   row       asked for at once by all threads, in words (words.h) if it comes in such; then its norm, whose moments one warp
//             finds, or its softmax, by one warp; then it is in shared memory, of 16 bits
//   multiply  tensor cores: 16 rows of their left operand are eight columns for one half of 32 k and for the other, of eight
//             columns of their right one two are these halves of the row; warps share columns and k
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

inline constexpr uint32_t kTogether = 3;  // steps whose operands are loaded at once

// What a warp multiplies of parts that have the same columns: some eights of them, of k a share of the steps.
struct Shares {
  uint32_t share;   // this warp's,
  uint32_t bits;    // of 1 << bits
  uint32_t count;   // eights of this one
  uint32_t at;      // in a stage, this lane's row of eight elements of the first eight and step;
  uint32_t across;  // from an eight of the warp's to the next,
  uint32_t down;    // and from a step
  uint32_t row;     // in the row, this lane's of the first step
  uint32_t give;    // among sums, where those of the first eight go that are this lane's

  TREK_TILE_MEMBER Shares(const Task& task, const Gemv& of, const Part& part)
      : bits(of.share_bits) {
    const uint32_t lane = task.thread() % 32;
    const uint32_t warp = tensor::of_warp(task.thread() / 32);
    const bool by_line = of.by_line != 0;
    share = warp & ((1U << bits) - 1);
    const uint32_t first = warp >> bits;  // of the eights, of which it has every groups-th
    const uint32_t groups = kWarps >> bits;
    count = (part.columns / kEight + groups - 1 - first) >> (kWarpBits - bits);
    const uint32_t apart = by_line ? kEight * of.line : 16 * part.k;
    const uint32_t step = by_line ? 2 * kDeep : 16 * kDeep;
    // Eight k of a column a lane, or eight columns of a k: of the first half of 32 k, of the second, and then what follows
    // in each.
    const uint32_t eight = lane / 16 + lane / 8 % 2 * 2;
    at = (by_line ? lane % 8 * of.line + eight * 16 : (lane % 8 + eight * 8) * 16) + first * apart +
         share * step;
    across = groups * apart;
    down = step << bits;
    row = shared_address(
        task.shared<std::byte>(kRow + lane / 4 % 2 * kDeep + lane % 4 * 8 + 2 * kDeep * share));
    give = 4 * (kWarps * (first * kEight + lane / 4) + share);
    for (uint32_t* each : {&share, &bits, &count, &at, &across, &down, &row, &give}) settle(*each);
  }
};

// The products of kCount eights.
template <uint32_t kCount, bool kBf16>
struct Products {
  static constexpr tensor::Factors kFactors = kBf16 ? tensor::Factors::bf16 : tensor::Factors::f16;
  float sum[kCount][4] = {};

  // This warp's of a part, in the stage at `stage`.
  TREK_TILE_MEMBER void multiply(const Task& task, bool by_line, const Shares& of, const Part& part,
                                 uint32_t stage) {
    const uint32_t steps = (part.k / kDeep + (1U << of.bits) - 1 - of.share) >> of.bits;
    const uint32_t at = shared_address(task.shared<std::byte>(stage)) + of.at;
    const uint32_t row = of.row + 2 * part.first_k;
    if (by_line)
      multiply<false>(of, steps, row, at);
    else
      multiply<true>(of, steps, row, at);
  }
  // The sums of all parts, to [column][share] at `to`. A tensor core's lane l has of rows l / 4 and l / 4 + 8 what the columns
  // 2 (l mod 4) and the next give.
  TREK_TILE_MEMBER void give(const Task& task, const Shares& of, uint32_t to) const {
    const uint32_t lane = task.thread() % 32;
    if (lane % 4 != 0) return;
    uint32_t at = to + of.give;
    TREK_UNROLLED
    for (uint32_t e = 0; e < kCount; ++e, at += 4 * kWarps * kEight * (kWarps >> of.bits))
      *task.shared<float>(at) = sum[e][0] + sum[e][3];
  }

 private:
  template <bool kTransposed>
  TREK_TILE_MEMBER void multiply(const Shares& of, uint32_t steps, uint32_t row, uint32_t at) {
    TREK_ROLLED
    for (; steps >= kTogether; steps -= kTogether) {
      multiply_steps<kTransposed, kTogether>(of, row, at);
      at += kTogether * of.down;
      row += kTogether * (2 * kDeep << of.bits);
    }
    static_assert(kTogether == 3);
    if (steps == 0) return;
    if (steps == 2)
      multiply_steps<kTransposed, 2>(of, row, at);
    else
      multiply_steps<kTransposed, 1>(of, row, at);
  }
  // kSteps of them, from where `row` and `at` are.
  template <bool kTransposed, uint32_t kSteps>
  TREK_TILE_MEMBER void multiply_steps(const Shares& of, uint32_t row, uint32_t at) {
    uint32_t x[kSteps][2];
    uint32_t w[kSteps][kCount][4];
    TREK_UNROLLED
    for (uint32_t s = 0; s < kSteps; ++s) {
      tensor::load_words(x[s][0], x[s][1], row + s * (2 * kDeep << of.bits));
      TREK_UNROLLED
      for (uint32_t e = 0; e < kCount; ++e)
        tensor::load_matrices<kTransposed>(w[s][e], at + s * of.down + e * of.across);
    }
    TREK_UNROLLED
    for (uint32_t s = 0; s < kSteps; ++s) TREK_UNROLLED
    for (uint32_t e = 0; e < kCount; ++e)
      tensor::multiply<kFactors>(sum[e], w[s][e], x[s][0], x[s][1]);
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

// Warps that have outputs are late for the next task, which others have by then. So they are some of few elements of a row, and
// others in the task behind.
TREK_TILE uint32_t first_of_outputs(uint32_t turn) {
  return kBlockThreads - kMostColumns * (1 + turn % 2);
}

// A thread's output of a part: where it goes, and what stands beside it, which is asked for before the row is there.
class Output {
 public:
  // `first`: the thread that has the first output.
  TREK_TILE_MEMBER Output(const Task& task, const Gemv& of, const Tile& tile, const Part& part,
                          std::byte* arena, uint32_t first)
      : of_(of), arena_(arena), thread_(task.thread() - first), columns_(part.columns) {
    column_ = tile.column + part.column + (has() ? thread_ : 0);
    element_ = tile.matrix * of.n + column_;
    is_f32_ = static_cast<DType>(of.result_type) == DType::f32;
    uint64_t place = element_;
    if (of.inner != UINT32_MAX) [[unlikely]] {
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
    if (!any()) return;
    TREK_UNROLLED
    for (uint32_t i = 0; i < kMostBeside; ++i)
      if (of_.beside[i].mask != 0) beside_[i].ask(of_.beside[i], place(of_.beside[i]), arena_);
    adds_ = of_.adds;
    tails_ = of_.tails;
    is_f16_ = static_cast<DType>(of_.besides) == DType::f16 ? 1 : 0;
    leaves_here_ = of_.leaves_here;
    for (uint32_t* each : {&adds_, &tails_, &is_f16_, &leaves_here_}) settle(*each);
  }

  // The output, of sums at `sums`, [column][share of `shares`]; by all threads.
  TREK_TILE_MEMBER void finish(const Task& task, uint32_t sums, uint32_t shares, uint32_t tag) {
    if (!any()) return;
    float value = added(task, sums + 4 * kWarps * (has() ? thread_ : 0), shares);
    static_assert(kMostBeside == 2);
    if (beside_[0].is_missing(tag) || beside_[1].is_missing(tag)) [[unlikely]]
      ask_again(tag);
    const float others[kMostBeside] = {beside_[0].value(is_f16_), beside_[1].value(is_f16_)};
    if (adds_ > 0) value = semantics::add(value, others[0]);
    if (adds_ > 1) value = semantics::add(value, others[1]);
    TREK_ROLLED
    for (uint32_t s = adds_; s < tails_; ++s) {
      const GemvTail& tail = of_.tail[s];
      const TailStep step = tail.step;
      const float other = tail.operand == 0   ? others[0]
                          : tail.operand == 1 ? others[1]
                                              : tail.scalar;
      const auto opcode = static_cast<Opcode>(step.opcode);
      const bool is_rounded = static_cast<DType>(step.to) != DType::f32;
      if (opcode == Opcode::Mul && !is_rounded)
        value = semantics::mul(value, other);
      else if (opcode == Opcode::GeluTanh && !is_rounded)
        value = gelu_step(value);
      else
        value = other_step(step, value, other);
    }
    give(task, value, tag);
  }

 private:
  // What one operand has: eight bytes of memory, which are a word, or among which it is. They come in one form, so that nothing
  // waits for them until they are wanted.
  struct Beside {
    uint32_t low = 0;
    uint32_t high = 0;
    uint32_t mask = 0;
    uint32_t how = 0;
    enum How : uint32_t { is_word = 1, is_high = 2, is_low_half = 16 };

    TREK_TILE_MEMBER void ask(const GemvBeside& of, uint32_t place, const std::byte* arena) {
      const uint64_t offset = offset_of(of, place);
      mask = of.mask;
      how = (of.in_words != 0  ? is_word
             : offset % 8 != 0 ? is_high
                               : 0) |
            (static_cast<uint16_t>(mask) == 0 && place % 2 == 0 ? is_low_half : 0);
      settle(mask);
      settle(how);
      asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                   : "=r"(low), "=r"(high)
                   : "l"(arena + offset / 8 * 8)
                   : "memory");
    }
    // Where what has the element of number `place` is in the arena.
    TREK_TILE_MEMBER static uint64_t offset_of(const GemvBeside& of, uint32_t place) {
      return static_cast<uint64_t>(of.offset) + (uint64_t{place >> of.pair_bits} << of.shift);
    }
    TREK_TILE_MEMBER bool is_missing(uint32_t tag) const {
      return (how & is_word) != 0 && high != tag;
    }
    TREK_TILE_MEMBER float value(uint32_t is_f16) const {
      const uint32_t bits = ((how & is_high) != 0 ? high : low) << (how & is_low_half) & mask;
      if (is_f16 != 0 && static_cast<uint16_t>(mask) == 0) [[unlikely]]
        return semantics::widen(F16{static_cast<uint16_t>(bits >> 16)});
      return as_float(bits);
    }
  };

  TREK_TILE_MEMBER bool has() const { return thread_ < columns_; }
  // Of this warp. Its threads that have none do as its first.
  TREK_TILE_MEMBER bool any() const { return thread_ / 32 * 32 < columns_; }
  TREK_TILE_MEMBER uint32_t place(const GemvBeside& of) const {
    return of.by_column != 0 ? column_ : element_;
  }
  TREK_TILE_MEMBER void ask_again(uint32_t tag) {
    TREK_UNROLLED
    for (uint32_t i = 0; i < kMostBeside; ++i) {
      if (!beside_[i].is_missing(tag)) continue;
      const GemvBeside& of = of_.beside[i];
      beside_[i].low =
          static_cast<uint32_t>(asked_again(arena_ + Beside::offset_of(of, place(of)), tag));
      beside_[i].high = tag;
    }
  }
  TREK_TILE_MEMBER static float added(const Task& task, uint32_t at, uint32_t shares) {
    static_assert(kWarps == 8);
    float x[2][4];
    TREK_UNROLLED
    for (uint32_t i = 0; i < 2; ++i) {
      uint32_t four[4];
      tensor::load_piece(four, shared_address(task.shared<std::byte>(at + 16 * i)));
      TREK_UNROLLED
      for (uint32_t j = 0; j < 4; ++j) x[i][j] = 4 * i + j < shares ? as_float(four[j]) : -0.0f;
    }
    return ((x[0][0] + x[0][1]) + (x[0][2] + x[0][3])) +
           ((x[1][0] + x[1][1]) + (x[1][2] + x[1][3]));
  }
  TREK_TILE_MEMBER void give(const Task& task, float value, uint32_t tag) const {
    if (is_f32_) {
      if (!has()) return;
      if (words_ != nullptr) give_word(words_, tag, bits_of(value));
      if (leaves_here_ != 0) *task.shared<float>(kHere + 4 * column_) = value;
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
  uint32_t thread_;  // from the one that has the first output on; one before it has none
  uint32_t columns_;
  uint32_t column_;
  uint32_t element_;
  bool is_f32_;
  std::byte* at_;
  std::byte* words_;  // null: there are none
  Beside beside_[kMostBeside];
  uint32_t adds_ = 0;
  uint32_t tails_ = 0;
  uint32_t is_f16_ = 0;
  uint32_t leaves_here_ = 0;
};

// This warp is through with a stage: goes on to the step behind it.
template <uint32_t kArrivals>
TREK_TILE void release(const Task& task, uint32_t& step) {
  tensor::warp_sync();
  if (task.thread() % 32 < kArrivals) tensor::barrier_arrive(empty(step));
  ++step;
}
// Of a task that is not to be executed: what is on its way comes, and stages are free again. The step behind it.
template <uint32_t kArrivals>
TREK_UNIT_CALL uint32_t leave(Task task, const Gemv& of, Tile tile, uint32_t step) {
  wait_for_copies(0);
  if (of.streams == 0) return step;
  TREK_ROLLED
  for (Part part(of, tile); part.is_there(tile); part.next(of, tile)) {
    tensor::barrier_wait(full(step), parity(step));
    release<kArrivals>(task, step);
  }
  task.sync();
  return step;
}

// A task, from before its inputs are there: see multiply_gemv().
template <class Tasks, bool kBf16>
class Execution {
 public:
  TREK_TILE_MEMBER Execution(const Task& task, const Tasks& tasks, std::byte* arena, uint32_t& step)
      : task_(task),
        tasks_(tasks),
        of_(tasks.of()),
        tile_(of_, tasks.number()),
        arena_(arena),
        tag_(tasks.tag()),
        streams_(of_.streams != 0),
        in_words_(of_.row == Gemv::words || of_.line_items != 0),
        step_(step) {}

  TREK_TILE_MEMBER void run() {
    uint32_t sums = kSums;
    bool are_there = true;
    TREK_ROLLED
    for (Part part(of_, tile_);;) {
      const bool is_first = part.column == 0;
      Items items(task_, of_, tile_, arena_);
      if (is_first && in_words_) items.ask();
      Output output(task_, of_, tile_, part, arena_, first_of_outputs(tasks_.turn()));
      const Shares shares(task_, of_, part);
      if (is_first && !tasks_.ready()) [[unlikely]] {
        step_ = leave<Tasks::kArrivals>(task_, of_, tile_, step_);
        return;
      }
      output.ask();
      if (is_first) {
        if (streams_) are_there = come();
        make_row(part, items);
        if (!streams_) [[unlikely]]
          wait_for_copies(0);
        task_.sync();
      }
      if (!are_there) [[unlikely]]
        bring_columns(task_, of_, tile_, part, step_, arena_);
      static_assert(kMostEights == 3);
      if (shares.count == 3)
        multiply<3>(shares, part, sums);
      else if (shares.count == 2)
        multiply<2>(shares, part, sums);
      else
        multiply<1>(shares, part, sums);
      task_.sync();
      // A stage is given back behind what others wait for, but where more of the tile is to come.
      const bool ends = part.column + part.columns >= tile_.columns;
      if (streams_ && !ends) release();
      output.finish(task_, sums, 1U << shares.bits, tag_);
      if (streams_ && ends) release();
      if (ends) [[likely]]
        break;
      part.next(of_, tile_);
      sums = kSums + kSumsBytes - (sums - kSums);
    }
    if (!are_there && of_.packed != Areas::kNone) [[unlikely]]
      tasks_.has_packed();
  }

 private:
  // Waits for the first stage: whether its part came, or is to be brought.
  TREK_TILE_MEMBER bool come() const {
    tensor::barrier_wait(full(step_), parity(step_));
    return tasks_.are_there();
  }
  // The parts of k of some columns, of which this warp has kCount eights, or where that is one perhaps none; `part` is the
  // last then. The tile's first is there.
  template <uint32_t kCount>
  TREK_TILE_MEMBER void multiply(const Shares& shares, Part& part, uint32_t sums) {
    Products<kCount, kBf16> products;
    const bool by_line = of_.by_line != 0;
    TREK_ROLLED
    for (bool is_there = part.column == 0;; is_there = false) {
      const bool is_last = part.is_last_of_columns(of_);
      if (streams_ && !is_there) tensor::barrier_wait(full(step_), parity(step_));
      if (shares.count != 0)
        products.multiply(task_, by_line, shares, part, streams_ ? stage_at(step_) : kPanel);
      if (is_last) break;
      if (streams_) release();
      part.next(of_, tile_);
    }
    if (shares.count != 0) products.give(task_, shares, sums);
  }
  // Waits for the row, and leaves it in shared memory, for which there is a sync to come. Where the columns are copied by the
  // block, they are on their way.
  TREK_TILE_MEMBER void make_row(const Part& part, Items& items) {
    const auto form = static_cast<RowForm>(of_.form);
    Norm<kBf16> norm;
    if (!streams_) [[unlikely]]
      copy_panel(task_, of_, tile_, part, arena_);
    if (form == RowForm::norm) norm.ask(of_, items, arena_);
    if (in_words_)
      items.await(tag_);
    else if (form != RowForm::softmax)
      items.load();
    tasks_.inputs_came();
    if (form == RowForm::norm)
      norm.make(task_, items);
    else if (items.is_of_line()) [[unlikely]]
      put_line(items);
    else if (form == RowForm::softmax) [[unlikely]]
      make_softmax<kBf16>(task_, of_, items.from());
    else
      put_items(task_, items);
  }
  // Puts an item of the line that comes in words among the columns, which are there.
  TREK_TILE_MEMBER void put_line(const Items& items) const {
    if (!items.has(0)) return;
    const uint32_t line = written_line_of(of_, tile_);
    const uint32_t i = items.number(0);
    const uint32_t at =
        of_.by_line != 0 ? line * of_.line + 8 * i : (line + i / 2 * of_.k) * 16 + i % 2 * 8;
    *task_.shared<Aliased<uint64_t>>(stage_at(step_) + at) =
        uint64_t{items.high(0)} << 32 | items.low(0);
    tensor::before_engine(true);
  }
  TREK_TILE_MEMBER void release() { gemv::release<Tasks::kArrivals>(task_, step_); }
  const Task& task_;
  const Tasks& tasks_;
  const Gemv& of_;
  Tile tile_;
  std::byte* arena_;
  uint32_t tag_;
  bool streams_;
  bool in_words_;   // the row, or a line of the columns
  uint32_t& step_;  // of the ring
};

}  // namespace gemv

// Tasks that are executed as GEMV, of factors of bf16, or of f16: code for each, since what is met once in a task is bound by
// the instruction cache. `tasks` has one at hand: of() and number() are its descriptor and tile, tag() the number of its
// trip, turn() one that the next task has another of; ready() waits until all inputs are there that do not come in words, and says whether it is to be executed;
// inputs_came() is told that the others are; are_there() says, once the first part is here, whether its columns came in
// stages; has_packed() is told that they now lie packed. next() goes on to the next, and says whether that is one of these, of
// the same factors.
template <bool kBf16, class Tasks>
TREK_TILE void multiply_gemv(const Task& task, Tasks& tasks, std::byte* arena) {
  forget_places(task);
  uint32_t step = gemv::ring().step;
  TREK_ROLLED
  do gemv::Execution<Tasks, kBf16>(task, tasks, arena, step).run();
  while (tasks.next());
  if (task.thread() == 0) gemv::ring().step = step;
  task.sync();  // what comes may be tasks of other factors
}

#endif

}  // namespace trek::device
