// What a thread does with its output of a product, or of several with one left operand (matrix_thin_group.h), in a task
// that stays (matrix_thin_stays.h).
//
// In the resident kernel a descriptor is interpreted: of a step of an LSTM half of the instructions behind the wait
// worked out where operands, sums and slots are, and which instruction comes. Here that is done before, and kept in
// registers; behind the wait are copies, loads, additions and the steps themselves. What there are no registers for is
// read behind the wait. So it is on Hopper, where compute warps have 208 registers; with 168 the weights leave no room.
// Code that is made for a node knows all this anyway, and a host has fewer threads than outputs.
#pragma once

#include "emulator/device/matrix_thin_group.h"

namespace trek::device::thin {

#if defined(TREK_SM90A) && !defined(TREK_SPECIALISED)

// Two numbers of 16 bits in one register: the compiler is not to see what they are, or it takes two.
class Pair {
 public:
  TREK_TILE_MEMBER Pair() = default;
  TREK_TILE_MEMBER Pair(uint32_t low, uint32_t high) : bits_(low | high << 16) {
    asm("" : "+r"(bits_));
  }
  TREK_TILE_MEMBER uint32_t low() const { return bits_ & 0xFFFF; }
  TREK_TILE_MEMBER uint32_t high() const { return bits_ >> 16; }

 private:
  uint32_t bits_ = 0;
};

class StepOutputs;  // matrix_thin_recurrent.h

// Of tasks one behind the other that are of one form (ThinPlace) nothing but addresses differs: know() finds all else once,
// and aim() these for each task.
class GroupOutputs {
 public:
  static constexpr uint32_t kAtTime = kBlock / 2;  // what is known takes registers, too
  static constexpr bool kInWords = false;
  TREK_TILE_MEMBER GroupOutputs() = default;
  TREK_TILE_MEMBER void know(const Task& task, const Work& work, bool is_alike) {
    if (!is_alike) *this = GroupOutputs(work, task.thread());
    aim(work);
  }

  TREK_TILE_MEMBER void ask(const Task& /*task*/, const Work& /*work*/) {}
  TREK_TILE_MEMBER void put(const Task& /*task*/, const Work& /*work*/) const {}
  // load_group().
  TREK_TILE_MEMBER void load(const Task& task, const Work& work) const {
    TREK_UNROLLED
    for (uint32_t c = 0; c < kCopies; ++c) {
      if (c >= copies_) continue;
      const uint32_t to = 4 * copy_[c].low();
      if (is_plain_)
        copy<4>(task, to, from_[c]);
      else
        load_slice(task, work, work.node.operand(copy_[c].high()), column_, to);
    }
    if (!gives_) return;
    TREK_ROLLED
    for (uint32_t l = loads_known_; l < loads_; ++l) {
      const Load& load = *work.node.load(work.group().first_load + l);
      load_slice(task, work, work.node.operand(load.operand), column_,
                 group_slot_at(load.slot, task.thread()));
    }
  }

  // finish_group().
  TREK_TILE_MEMBER void finish(const Task& task, const Work& work) const {
    if (has_sum_) {
      float value =
          sum_of_blocks(task.shared<float>(4 * sums_.low()), blocks_.low(), blocks_.high());
      const auto beside = [&](uint32_t s) TREK_TILE_LAMBDA {
        return read_slot(task, group_slot::kBeside + s, task.thread());
      };
      if (gate_ == Gate::sigmoid) {
        value = semantics::sigmoid(semantics::add(value, beside(0)));
      } else if (gate_ == Gate::tanh) {
        value = semantics::tanh(semantics::add(value, beside(0)));
      } else {
        TREK_UNROLLED
        for (uint32_t s = 0; s < kGroupTail; ++s)
          if (s < tail_steps_) value = result_of(tail_[s], value, beside(s), 0);
      }
      *task.shared<float>(4 * sums_.high()) = value;
    }
    task.sync();
    if (!gives_) return;
    if (is_cell_) return execute_cell(task);
    TREK_UNROLLED
    for (uint32_t s = 0; s < kKnownSteps; ++s)
      if (s < steps_) execute(task, step_[s]);
    TREK_ROLLED
    for (uint32_t s = kKnownSteps; s < steps_; ++s) group_step(task, work, s, task.thread());
    TREK_UNROLLED
    for (uint32_t r = 0; r < kKnownResults; ++r)
      if (r < results_) give(task, result_[r], to_[r]);
    TREK_ROLLED
    for (uint32_t r = kKnownResults; r < results_; ++r)
      give(task, result_of_group(work, r, task.thread()), place_of_result(work, r));
  }

 private:
  friend class StepOutputs;
  // Places in shared memory are in words of 4 bytes, so that they are of 16 bits.
  using Copy = Pair;    // of an element that stands beside a sum: where to; the operand
  using Result = Pair;  // from where; DType
  struct KnownStep {
    Pair what;   // Opcode; DType of the result
    Pair first;  // the places of two inputs
    Pair last;   // of the third, and of the result
  };
  // A tail that is a bias and the activation of a gate, of f32.
  enum class Gate : uint8_t { none, sigmoid, tanh };
  static constexpr uint32_t kCopies = 3;
  static_assert(kCopies >= kGroupTail);
  static constexpr uint32_t kKnownSteps = 4;
  static constexpr uint32_t kKnownResults = 3;

  TREK_TILE_MEMBER GroupOutputs(const Work& work, uint32_t i) {
    const ThinGroup& group = work.group();
    const uint32_t product = product_of(work, i);
    const Member member = member_of(work, tile_place(work, i));
    column_ = member.output.column;
    has_sum_ = product < group.products && member.exists;
    if (has_sum_) know_sum(work, member, product, i);
    gives_ = product == 0 && member.exists;
    if (gives_) know_program(work, i);
  }
  TREK_TILE_MEMBER void aim(const Work& work) {
    TREK_UNROLLED
    for (uint32_t c = 0; c < kCopies; ++c)
      if (c < copies_ && is_plain_)
        from_[c] = work.memory_of_slice(work.node.operand(copy_[c].high())) + size_t{4} * column_;
    TREK_UNROLLED
    for (uint32_t r = 0; r < kKnownResults; ++r)
      if (r < results_) to_[r] = place_of_result(work, r);
  }
  TREK_TILE_MEMBER std::byte* place_of_result(const Work& work, uint32_t r) const {
    const Operand& to = work.node.result(r);
    return work.memory_of_slice(to) + size_t{column_} * size_of(static_cast<DType>(to.dtype));
  }

  // Whether a step, as its opcode and the type that it gives, is this one and gives f32.
  TREK_TILE_MEMBER static bool is_of_f32(Pair what, Opcode opcode) {
    return what.low() == static_cast<uint32_t>(opcode) &&
           what.high() == static_cast<uint32_t>(DType::f32);
  }
  // In line where it is a layer's or a gate's: these are on the longest way of a network.
  TREK_TILE_MEMBER static float result_of(Pair what, float x, float y, float z) {
    const auto opcode = static_cast<Opcode>(what.low());
    const auto to = static_cast<DType>(what.high());
    if (to == DType::f32) {
      switch (opcode) {
        case Opcode::Add:
          return semantics::add(x, y);
        case Opcode::Mul:
          return semantics::mul(x, y);
        case Opcode::Fma:
          return semantics::fma(x, y, z);
        case Opcode::Relu:
          return semantics::relu(x);
        case Opcode::Sigmoid:
          return semantics::sigmoid(x);
        case Opcode::Tanh:
          return semantics::tanh(x);
        default:
          break;
      }
    }
    return group_result(opcode, to, x, y, z);
  }
  TREK_TILE_MEMBER static float input(const Task& task, uint32_t at) {
    return *task.shared<float>(4 * at);
  }
  TREK_TILE_MEMBER static void execute(const Task& task, const KnownStep& of) {
    *task.shared<float>(4 * of.last.high()) =
        result_of(of.what, input(task, of.first.low()), input(task, of.first.high()),
                  input(task, of.last.low()));
  }
  // The steps that join an LSTM's gates: c = fma(in, cell, forget x c before), h = out x tanh(c). Which instruction comes
  // is a branch, and half of what a step takes; so are slots, and all inputs can be read at once.
  TREK_TILE_MEMBER void execute_cell(const Task& task) const {
    const float forget = input(task, step_[0].first.low());
    const float before = input(task, step_[0].first.high());
    const float in = input(task, step_[1].first.low());
    const float cell = input(task, step_[1].first.high());
    const float out = input(task, step_[3].first.low());
    const float c = semantics::fma(in, cell, semantics::mul(forget, before));
    const float h = semantics::mul(out, semantics::tanh(c));
    TREK_UNROLLED
    for (uint32_t r = 0; r < kKnownResults; ++r)
      if (r < results_)
        *reinterpret_cast<Aliased<uint32_t>*>(to_[r]) =
            bits_of(result_[r].low() == step_[3].last.high() ? h : c);
  }
  TREK_TILE_MEMBER bool is_cell() const {
    const auto is_step = [&](uint32_t s, Opcode opcode)
                             TREK_TILE_LAMBDA { return is_of_f32(step_[s].what, opcode); };
    const uint32_t kept = step_[0].last.high();
    const uint32_t c = step_[1].last.high();
    const uint32_t seen = step_[2].last.high();
    const uint32_t h = step_[3].last.high();
    const uint32_t out = step_[3].first.low();
    static_assert(kKnownSteps == 4);
    bool gives = results_ <= kKnownResults;
    TREK_UNROLLED
    for (uint32_t r = 0; r < kKnownResults; ++r)
      gives = gives && (r >= results_ || (result_[r].high() == static_cast<uint32_t>(DType::f32) &&
                                          (result_[r].low() == c || result_[r].low() == h)));
    return gives && steps_ == kKnownSteps && c != h && is_step(0, Opcode::Mul) &&
           is_step(1, Opcode::Fma) && is_step(2, Opcode::Tanh) && is_step(3, Opcode::Mul) &&
           step_[1].last.low() == kept && step_[1].first.low() != kept &&
           step_[1].first.high() != kept && step_[2].first.low() == c &&
           step_[3].first.high() == seen && out != kept && out != c && out != seen;
  }
  TREK_TILE_MEMBER static void give(const Task& task, const Result& what, std::byte* to) {
    const uint32_t bits = *task.shared<Aliased<uint32_t>>(4 * what.low());
    const auto type = static_cast<DType>(what.high());
    if (type == DType::f32)
      *reinterpret_cast<Aliased<uint32_t>*>(to) = bits;
    else
      store32(to, type, 0, bits);
  }
  TREK_TILE_MEMBER static Result result_of_group(const Work& work, uint32_t r, uint32_t i) {
    return {group_slot_at(work.group().gives[r], i) / 4, work.node.result(r).dtype};
  }
  TREK_TILE_MEMBER static uint32_t input_of(const Work& work, Source source, uint32_t i) {
    if (source.kind == Source::scalar)  // in the descriptor, which is in shared memory, too
      return (shared_address(&work.node.scalar(source.index).value) -
              shared_address(memory_of_units)) /
             4;
    return group_slot_at(source.kind == Source::slot ? source.index : group_slot::kMains, i) / 4;
  }

  TREK_TILE_MEMBER void know_sum(const Work& work, const Member& member, uint32_t product,
                                 uint32_t i) {
    const Thin& cut = work.cut();
    const ThinGroup& group = work.group();
    sums_ = {
        cut.sums / 4 + product * static_cast<uint32_t>(work.matrix().tile_columns) + member.column,
        group_slot_at(group_slot::kMains + product, tile_place(work, i)) / 4};
    blocks_ = {cut.blocks, cut.part};
    tail_steps_ = group.tail_steps[product];
    TREK_UNROLLED
    for (uint32_t s = 0; s < kGroupTail; ++s) {
      if (s >= tail_steps_) continue;
      const TailStep step = group.tail[product][s];
      tail_[s] = {step.opcode, step.to};
      if (is_operand(step)) keep(work, step.index, group_slot_at(group_slot::kBeside + s, i));
    }
    if (tail_steps_ == 2 && is_of_f32(tail_[0], Opcode::Add))
      gate_ = is_of_f32(tail_[1], Opcode::Sigmoid) ? Gate::sigmoid
              : is_of_f32(tail_[1], Opcode::Tanh)  ? Gate::tanh
                                                   : Gate::none;
  }
  TREK_TILE_MEMBER void know_program(const Work& work, uint32_t i) {
    const ThinGroup& group = work.group();
    steps_ = group.steps;
    TREK_UNROLLED
    for (uint32_t s = 0; s < kKnownSteps; ++s) {
      if (s >= steps_) continue;
      const Step step = *work.node.step(group.first_step + s);
      step_[s] = {{step.opcode, step.to},
                  {input_of(work, step.inputs[0], i), input_of(work, step.inputs[1], i)},
                  {input_of(work, step.inputs[2], i), group_slot_at(step.slot, i) / 4}};
    }
    loads_ = group.loads;
    results_ = work.node.results;
    TREK_ROLLED
    while (copies_ < kCopies && loads_known_ < group.loads) {
      const Load& load = *work.node.load(group.first_load + loads_known_);
      keep(work, load.operand, group_slot_at(load.slot, i));
      ++loads_known_;
    }
    TREK_UNROLLED
    for (uint32_t r = 0; r < kKnownResults; ++r)
      if (r < results_) result_[r] = result_of_group(work, r, i);
    is_cell_ = is_cell();
  }
  // Every place of copy_ has a number of its own, or it would be in memory.
  TREK_TILE_MEMBER void keep(const Work& work, uint32_t operand, uint32_t to) {
    TREK_UNROLLED
    for (uint32_t c = 0; c < kCopies; ++c)
      if (c == copies_) copy_[c] = {to / 4, operand};
    ++copies_;
    is_plain_ = is_plain_ && static_cast<DType>(work.node.operand(operand).dtype) == DType::f32;
  }

  const std::byte* from_[kCopies] = {};
  std::byte* to_[kKnownResults] = {};
  Copy copy_[kCopies] = {};
  Pair tail_[kGroupTail] = {};
  KnownStep step_[kKnownSteps] = {};
  Result result_[kKnownResults] = {};
  Pair sums_;            // where the first block's sum is; where the product's value goes
  Pair blocks_;          // how many; words from one's sum to the next one's
  uint32_t column_ = 0;  // of the output; as the product has one row, its element, too
  uint32_t copies_ = 0;
  uint32_t loads_known_ = 0;
  uint32_t loads_ = 0;
  uint32_t results_ = 0;
  uint32_t tail_steps_ = 0;
  uint32_t steps_ = 0;
  Gate gate_ = Gate::none;
  bool is_plain_ = true;  // all that is copied is f32
  bool has_sum_ = false;
  bool gives_ = false;
  bool is_cell_ = false;
};

// The output of one product. A tail of at most two steps whose operands are f32, a bias and an activation, is known; any
// other is as in tasks that do not stay.
class OneOutput {
 public:
  static constexpr uint32_t kAtTime = kBlock;
  static constexpr bool kInWords = true;
  TREK_TILE_MEMBER OneOutput() = default;
  TREK_TILE_MEMBER void know(const Task& task, const Work& work, bool /*is_alike*/) {
    *this = OneOutput(task, work);
  }

  TREK_TILE_MEMBER void ask(const Task& task, const Work& work) {
    if (known_)
      load_known();
    else
      asked_.ask(task, work);
  }
  TREK_TILE_MEMBER void put(const Task& task, const Work& work) const {
    if (!known_) asked_.put(task, work);
  }
  TREK_TILE_MEMBER void load(const Task& task, const Work& work) {
    if (has_tagged_left(work.node)) return;
    if (known_)
      load_known();
    else
      load_tails(task, work);
  }
  TREK_TILE_MEMBER void finish(const Task& task, const Work& work) const {
    if (!known_) return thin::finish<true>(task, work, work.columns, 0);
    if (!has_) return;
    float value = sum_of_blocks(task.shared<float>(sums_), blocks_.low(), blocks_.high());
    if (is_layer_) {
      value = semantics::add(value, beside_[0]);
      if (is_relu_) value = semantics::relu(value);
    } else {
      TREK_UNROLLED
      for (uint32_t s = 0; s < kKnownTail; ++s)
        if (s < steps_) value = result_of(tail_[s], value, beside_[s]);
    }
    if (word_ != nullptr) give_word(word_, tag_, bits_of(value));
    store32(to_, static_cast<DType>(to_type_), 0, bits_of(value));
  }

 private:
  static constexpr uint32_t kKnownTail = 2;

  TREK_TILE_MEMBER OneOutput(const Task& task, const Work& work) {
    const Matrix& of = work.matrix();
    known_ = work.in_registers() && of.tail_steps <= kKnownTail && is_alone(task, work);
    TREK_UNROLLED
    for (uint32_t s = 0; s < kKnownTail; ++s)
      if (known_ && s < of.tail_steps && of.tail[s].reads_operand() &&
          (static_cast<DType>(work.node.operand(of.tail[s].index).dtype) != DType::f32 ||
           (has_tagged_left(work.node) && is_tagged_beside(work.node, of.tail[s].index))))
        known_ = false;
    const Operand& to = work.node.result(0);
    to_type_ = to.dtype;
    if (gives_tagged(work.node) && static_cast<DType>(to_type_) != DType::f32) known_ = false;
    has_ = known_ && has_output(task, work);
    if (!has_) return;
    const Output output = output_of(work, work.columns, 0, task.thread());
    TREK_UNROLLED
    for (uint32_t s = 0; s < kKnownTail; ++s) {
      if (s >= of.tail_steps) continue;
      const TailStep step = of.tail[s];
      steps_ = s + 1;
      tail_[s] = {step.opcode, step.to};
      if (step.second == TailStep::scalar)
        beside_[s] = as_float(static_cast<uint64_t>(work.node.scalar(step.index).value));
      if (is_operand(step))
        from_[s] = work.memory(work.node.operand(step.index)) + 4 * beside_of(step, output);
    }
    const auto is_step = [&](uint32_t s, Opcode opcode) TREK_TILE_LAMBDA {
      return tail_[s].low() == static_cast<uint32_t>(opcode) &&
             tail_[s].high() == static_cast<uint32_t>(DType::f32);
    };
    is_relu_ = steps_ == 2 && is_step(1, Opcode::Relu);
    is_layer_ = steps_ != 0 && is_step(0, Opcode::Add) && (steps_ == 1 || is_relu_);
    const Thin& cut = work.cut();
    sums_ = cut.sums + 4 * task.thread();
    blocks_ = {cut.blocks, work.columns};
    to_ = work.memory(to) +
          place_here(work.node, to.map, output.element) * size_of(static_cast<DType>(to_type_));
    if (!gives_tagged(work.node)) return;
    word_ = work.at(work.node.areas().result) + kWord * output.element;
    tag_ = trek_tag();
  }

  TREK_TILE_MEMBER void load_known() {
    TREK_UNROLLED
    for (uint32_t s = 0; s < kKnownTail; ++s)
      if (from_[s] != nullptr) beside_[s] = as_float(read<uint32_t>(from_[s], 0));
  }
  // In line what layers have.
  TREK_TILE_MEMBER static float result_of(Pair what, float value, float beside) {
    const TailStep step{
        static_cast<uint16_t>(what.low()), static_cast<uint8_t>(what.high()), 0, 0, {}};
    if (static_cast<DType>(step.to) == DType::f32) {
      switch (static_cast<Opcode>(step.opcode)) {
        case Opcode::Add:
          return semantics::add(value, beside);
        case Opcode::Relu:
          return semantics::relu(value);
        default:
          break;
      }
    }
    return apply_tail_step(step, value, beside);
  }

  AskedTails asked_;
  const std::byte* from_[kKnownTail] = {};
  float beside_[kKnownTail] = {};
  Pair tail_[kKnownTail] = {};
  uint32_t sums_ = 0;  // where the first block's sum is
  Pair blocks_;        // how many; words from one's sum to the next one's
  std::byte* to_ = nullptr;
  std::byte* word_ = nullptr;  // where it goes in words, if it does
  uint32_t tag_ = 0;
  uint32_t steps_ = 0;
  uint8_t to_type_ = 0;
  bool known_ = false;
  bool has_ = false;
  bool is_layer_ = false;  // the tail is a bias, and perhaps a relu
  bool is_relu_ = false;
};

#else

class OneOutput {
 public:
  static constexpr uint32_t kAtTime = kSpecialised ? kBlock : kAtOnce;
  static constexpr bool kInWords = true;
  TREK_TILE_MEMBER void know(const Task& /*task*/, const Work& /*work*/, bool /*is_alike*/) {}
  TREK_TILE_MEMBER void ask(const Task& task, const Work& work) { asked_.ask(task, work); }
  TREK_TILE_MEMBER void put(const Task& task, const Work& work) const { asked_.put(task, work); }
  TREK_TILE_MEMBER void load(const Task& task, const Work& work) const {
    if (!has_tagged_left(work.node)) load_tails(task, work);
  }
  TREK_TILE_MEMBER void finish(const Task& task, const Work& work) const {
    thin::finish<true>(task, work, work.columns, 0);
  }

 private:
  AskedTails asked_;
};

struct GroupOutputs {
  static constexpr uint32_t kAtTime = OneOutput::kAtTime;
  static constexpr bool kInWords = true;
  TREK_TILE_MEMBER void know(const Task& /*task*/, const Work& /*work*/, bool /*is_alike*/) {}
  TREK_TILE_MEMBER void ask(const Task& /*task*/, const Work& /*work*/) {}
  TREK_TILE_MEMBER void put(const Task& /*task*/, const Work& /*work*/) const {}
  TREK_TILE_MEMBER void load(const Task& task, const Work& work) const { load_group(task, work); }
  TREK_TILE_MEMBER void finish(const Task& task, const Work& work) const {
    finish_group(task, work);
  }
};

#endif

}  // namespace trek::device::thin
