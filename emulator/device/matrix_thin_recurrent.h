// Recurrent steps: several thin products that a program joins, whose columns stay, each of which has as its row what the one
// before gave (emulator/resident/recurrent.h). Interpreted, on Hopper's level.
//
// Where such a step is a task like another, of some 6 500 cycles (H200) the most are what warps do from task to task, and
// the row is long there. So the tasks of many trips are executed one behind the other, by warps that keep their block of a
// column and all that they know of their outputs (matrix_thin_outputs.h). Of a step that comes nothing is new but addresses;
// these are found, and what stands beside its sums is asked for, while its row is on its way.
#pragma once

#include "emulator/device/matrix_thin_stays.h"

namespace trek::device {

#if defined(TREK_SM90A) && !defined(TREK_SPECIALISED)

namespace thin {

// A step of a trip: what it is told.
struct RecurrentStep {
  const Node& node;
  uint32_t tag;     // of the trip's words
  int64_t counter;  // that says which slices it has
  bool is_first;    // trip of the loop, in which what is of the trip before is as it lies
  bool begins;  // it is the first of those at hand: what the step before gave is in memory alone
};

// What stands beside the sums of a step, asked for by threads that have no output, where there are such: an output of a
// product has another warp behind it then.
class StepInputs {
 public:
  TREK_TILE_MEMBER StepInputs() = default;
  TREK_TILE_MEMBER StepInputs(const Work& work, uint32_t thread) {
    const ThinGroup& group = work.group();
    const bool helps = work.columns <= kWarp && (kWarp >> group.place_bits) == 0;
    const uint32_t product = product_of(work, thread);
    const uint32_t place = tile_place(work, thread) - (helps ? kWarp : 0);
    const Member member = member_of(work, place);
    if (product >= group.products || place >= work.columns || !member.exists) return;
    column_ = member.output.column;
    const uint32_t output = product << group.place_bits | place;
    TREK_ROLLED
    for (uint32_t s = 0; s < group.tail_steps[product]; ++s)
      if (is_operand(group.tail[product][s]))
        keep(group.tail[product][s].index, group_slot_at(group_slot::kBeside + s, output));
    loads_ = product == 0 ? group.loads : 0;
    output_ = output;
  }

  TREK_TILE_MEMBER void ask(const Task& task, const Work& work, const RecurrentStep& step) const {
    TREK_UNROLLED
    for (uint32_t c = 0; c < kGroupTail; ++c)
      if (c < copies_)
        load_slice(task, work, work.node.operand(copy_[c].high()), column_, 4 * copy_[c].low());
    TREK_ROLLED
    for (uint32_t l = 0; l < loads_; ++l) {
      const Load& load = *work.node.load(work.group().first_load + l);
      if (load.carried == 0 || step.begins)
        load_slice(task, work, work.node.operand(load.operand), column_,
                   group_slot_at(load.slot, output_));
    }
  }

 private:
  static constexpr uint32_t kWarp = 32;

  TREK_TILE_MEMBER void keep(uint32_t operand, uint32_t to) {
    TREK_UNROLLED
    for (uint32_t c = 0; c < kGroupTail; ++c)
      if (c == copies_) copy_[c] = {to / 4, operand};
    ++copies_;
  }

  Pair copy_[kGroupTail] =
      {};  // of an element that stands beside a sum: where to, in words; the operand
  uint32_t copies_ = 0;
  uint32_t loads_ = 0;
  uint32_t output_ = 0;
  uint32_t column_ = 0;
};

// What a thread does with its output of a product, and of the program: as GroupOutputs, from which it knows gates and cells.
// Other tails and steps are looked up. What the next step has of the results is put where its program reads it, and one
// result goes to words.
class StepOutputs {
 public:
  static constexpr uint32_t kAtTime = GroupOutputs::kAtTime;
  TREK_TILE_MEMBER StepOutputs() = default;
  TREK_TILE_MEMBER StepOutputs(const Work& work, uint32_t thread) {
    const GroupOutputs of(work, thread);
    column_ = of.column_;
    has_sum_ = of.has_sum_;
    gives_ = of.gives_;
    sums_ = of.sums_;
    blocks_ = of.blocks_;
    gate_ = of.gate_;
    is_cell_ = of.is_cell_ && carries_state(work, of, thread);
    if (!is_cell_) return;
    forget_ = of.step_[0].first;
    in_ = of.step_[1].first;
    const uint32_t h = of.step_[3].last.high();
    TREK_UNROLLED
    for (uint32_t r = 0; r < kResults; ++r)
      if (r < of.results_ && of.result_[r].low() == h) are_hidden_ |= 1U << r;
    if (group_slot_at(work.group().gives[work.node.areas().result_index], thread) / 4 == h)
      are_hidden_ |= kWordsAreHidden;
    out_ = {of.step_[3].first.low(), of.results_};
  }

  // Where a cell's results of one of the steps at hand go, kept at `at` in shared memory to be read there in each trip; slices
  // are those of the first trip, and in the second one as `next`, the same step, has them.
  TREK_TILE_MEMBER void aim_ahead(const Task& task, const Work& work, const Work& next,
                                  uint32_t at) const {
    if (!gives_ || !is_cell_) return;
    Aimed& aimed = *task.shared<Aimed>(at);
    TREK_ROLLED
    for (uint32_t r = 0; r < out_.high(); ++r) {
      aimed.result[r] = place_of_result(work, r);
      aimed.trip[r] = static_cast<int32_t>(place_of_result(next, r) - aimed.result[r]);
    }
    aimed.words = words_of(work);
  }

  // The sums, and the results of the trip `tag`, which is number `trip` of those at hand.
  TREK_TILE_MEMBER void finish(const Task& task, const Work& work, uint32_t tag, uint32_t at,
                               uint32_t trip) const {
    if (has_sum_) *task.shared<float>(4 * sums_.high()) = value_of_sum(task, work);
    Aimed aimed;
    if (is_cell_) aimed = *task.shared<Aimed>(at);
    task.sync();
    if (!gives_) return;
    if (is_cell_)
      execute_cell(task, tag, trip, aimed);
    else
      execute(task, work, tag);
  }

 private:
  static constexpr uint32_t kResults = GroupOutputs::kKnownResults;
  static constexpr uint32_t kWordsAreHidden = 1U << kResults;
  struct alignas(16) Aimed {
    std::byte* result[kResults];
    std::byte* words;
    int32_t trip[kResults];  // bytes to the result of the trip that comes next, of a slice
  };
  static_assert(sizeof(Aimed) == kAimedBytes);

  // Whether the next step has the cell's state of the results, and nothing else.
  TREK_TILE_MEMBER static bool carries_state(const Work& work, const GroupOutputs& of,
                                             uint32_t thread) {
    const ThinGroup& group = work.group();
    if (group.loads != 1) return false;
    const Load& load = *work.node.load(group.first_load);
    return load.carried != 0 &&
           group_slot_at(group.gives[load.carried - 1], thread) / 4 == of.step_[1].last.high() &&
           group_slot_at(load.slot, thread) / 4 == of.step_[0].first.high();
  }
  TREK_TILE_MEMBER std::byte* place_of_result(const Work& work, uint32_t r) const {
    const Operand& to = work.node.result(r);
    return work.memory_of_slice(to) + size_t{column_} * size_of(static_cast<DType>(to.dtype));
  }
  TREK_TILE_MEMBER std::byte* words_of(const Work& work) const {
    return work.at(work.node.areas().result) + size_t{kWord} * column_;
  }

  TREK_TILE_MEMBER float value_of_sum(const Task& task, const Work& work) const {
    const float sum =
        sum_of_blocks(task.shared<float>(4 * sums_.low()), blocks_.low(), blocks_.high());
    if (gate_ == GroupOutputs::Gate::none)
      return group_tail(task, work, product_of(work, task.thread()), task.thread(), sum);
    const float x = semantics::add(sum, read_slot(task, group_slot::kBeside, task.thread()));
    return gate_ == GroupOutputs::Gate::sigmoid ? semantics::sigmoid(x) : semantics::tanh(x);
  }
  TREK_TILE_MEMBER void execute_cell(const Task& task, uint32_t tag, uint32_t trip,
                                     const Aimed& aimed) const {
    const auto input = [&](uint32_t at) TREK_TILE_LAMBDA { return *task.shared<float>(4 * at); };
    const float kept = semantics::mul(input(forget_.low()), input(forget_.high()));
    const float out = input(out_.low());
    const float c = semantics::fma(input(in_.low()), input(in_.high()), kept);
    const float h = semantics::mul(out, semantics::tanh(c));
    give_word(aimed.words, tag, bits_of((are_hidden_ & kWordsAreHidden) != 0 ? h : c));
    *task.shared<float>(4 * forget_.high()) = c;
    TREK_UNROLLED
    for (uint32_t r = 0; r < kResults; ++r)
      if (r < out_.high())
        *reinterpret_cast<Aliased<uint32_t>*>(aimed.result[r] + int64_t{aimed.trip[r]} * trip) =
            bits_of((are_hidden_ >> r & 1) != 0 ? h : c);
  }
  TREK_TILE_MEMBER void execute(const Task& task, const Work& work, uint32_t tag) const {
    const ThinGroup& group = work.group();
    const uint32_t i = task.thread();
    group_steps(task, work, i);
    give_word(words_of(work), tag,
              bits_of(read_slot(task, group.gives[work.node.areas().result_index], i)));
    TREK_ROLLED
    for (uint32_t r = 0; r < work.node.results; ++r) {
      const Operand& to = work.node.result(r);
      store32(work.memory_of_slice(to), static_cast<DType>(to.dtype), column_,
              bits_of(read_slot(task, group.gives[r], i)));
    }
    TREK_ROLLED
    for (uint32_t l = 0; l < group.loads; ++l) {
      const Load& load = *work.node.load(group.first_load + l);
      if (load.carried != 0)
        write_slot(task, load.slot, i, read_slot(task, group.gives[load.carried - 1], i));
    }
  }

  // As of GroupOutputs.
  Pair sums_;
  Pair blocks_;
  uint32_t column_ = 0;
  GroupOutputs::Gate gate_ = GroupOutputs::Gate::none;
  bool has_sum_ = false;
  bool gives_ = false;
  bool is_cell_ = false;
  // Of a cell, where it reads: the forget gate and the state before; input gate and new value; and the output gate, beside
  // which is how many results there are.
  Pair forget_;
  Pair in_;
  Pair out_;
  uint32_t are_hidden_ =
      0;  // bits: which results are the hidden state, not the cell's; kWordsAreHidden
};

// A task's steps at hand, what a thread knows of them, and their execution.
template <class Tasks>
class Recurrence {
 public:
  TREK_TILE_MEMBER Recurrence(const Task& task, Tasks& tasks, std::byte* arena)
      : task_(task), tasks_(tasks), arena_(arena) {
    const Work first = work_of(task, tasks.node(0), tasks.tile(), arena);
    columns_ = staying_columns(first);
    aimed_ = first.cut().panels + task.thread() * kAimedBytes;
    aimed_apart_ = first.columns * kAimedBytes;
    bring_columns(task, first, tasks.place(), chain_);
    inputs_ = StepInputs(first, task.thread());
    outputs_ = StepOutputs(first, task.thread());
  }

  // All steps at hand, for all their trips.
  TREK_TILE_MEMBER void execute() const {
    const uint32_t trips = tasks_.trips();
    const uint32_t together = tasks_.together();
    TREK_ROLLED
    for (uint32_t i = 0; i < together; ++i)
      outputs_.aim_ahead(task_, work_at(tasks_.step(i, 0)), work_at(tasks_.step(i, 1)),
                         aimed_at(i));
    TREK_ROLLED
    for (uint32_t trip = 0; trip < trips; ++trip) TREK_ROLLED
    for (uint32_t i = 0; i < together; ++i) multiply(i, trip);
  }

 private:
  // As far as a step's inputs and outputs, which know their columns, ask for it.
  TREK_TILE_MEMBER Work work_at(const RecurrentStep& step) const {
    Work work = {task_, step.node, arena_, nullptr, nullptr, 0, 0, 0, 0, step.counter};
    work.left = work.memory(step.node.operand(0));
    return work;
  }
  // In the memory of columns, which stay elsewhere: see places_of() (emulator/resident/places.h).
  TREK_TILE_MEMBER uint32_t aimed_at(uint32_t i) const { return aimed_ + i * aimed_apart_; }
  TREK_TILE_MEMBER void multiply(uint32_t i, uint32_t trip) const {
    const RecurrentStep step = tasks_.step(i, trip);
    const Work work = work_at(step);
    const bool in_words = !step.is_first || !is_carried(step.node);
    const AskedTwos row(task_, work, step.tag - step.node.areas().trips_before, in_words);
    inputs_.ask(task_, work, step);
    if (in_words)
      row.put(task_, work);
    else
      stage<DType::f32>(task_, work);
    commit_copies();
    wait_for_copies(0);
    task_.sync();
    chain_.template multiply<StepOutputs::kAtTime>(task_, work, columns_);
    task_.sync();
    outputs_.finish(task_, work, step.tag, aimed_at(i), trip);
  }

  const Task& task_;
  Tasks& tasks_;
  std::byte* arena_;
  uint32_t columns_;  // of all products
  uint32_t aimed_;
  uint32_t aimed_apart_;
  Chain chain_;
  StepInputs inputs_;
  StepOutputs outputs_;
};

}  // namespace thin

// Tasks of a recurrent loop, and those behind them. `tasks` has some at hand: of one trip `together()`, in order, for
// `trips()` trips; node(0), tile() and place() are the first one's, and step(i, trip) is what the i-th is told. ready() as of
// OneStaying, for all at hand; next() goes on behind these, and says whether what comes is of the same loop.
template <class Tasks>
TREK_TILE void multiply_recurrent(const Task& task, Tasks& tasks, std::byte* arena) {
  const thin::Recurrence<Tasks> recurrence(task, tasks, arena);
  TREK_ROLLED
  do {
    if (tasks.ready()) recurrence.execute();
  } while (tasks.next());
}

#endif

}  // namespace trek::device
