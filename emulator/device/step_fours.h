// An optimizer's step by its rule: of one element, and of four f32 in line, which come to registers.
#pragma once

#include "emulator/device/adam_direction.h"
#include "emulator/device/element.h"
#include "emulator/device/shared.h"
#include "isa/semantics/optimizer_sparing.h"

namespace trek::device {

namespace train_detail {

// Where a compiler makes vectors of the loop over elements for a CPU: they are of single elements, and subnormal
// numbers are slow there.
#if defined(TREK_SPECIALISED) && !defined(__CUDA__)
inline constexpr bool kForCpu = true;
#else
inline constexpr bool kForCpu = false;
#endif

constexpr bool is_adam(Opcode opcode) { return opcode == Opcode::Adam || opcode == Opcode::Adamw; }

// What a step has besides the tensors. adam: in shared memory.
template <typename C>
struct Rule {
  C lr;
  C weight_decay;
  C third;
  C fourth;
  bool nesterov;
  const semantics::AdamParameters<C>* adam;
};

// One element's step; what the instruction has no m or v for is not looked at.
template <Opcode kOpcode, typename C>
TREK_UNIT C next_weight(const Rule<C>& with, C w, C& m, C& v, C g) {
  if constexpr (kOpcode == Opcode::Sgd)
    return semantics::sgd<C>({with.lr, with.weight_decay}, w, g);
  else if constexpr (kOpcode == Opcode::SgdMomentum && kForCpu)
    return semantics::sgd_momentum_sparing<C>(
        {with.lr, with.third, with.weight_decay, with.nesterov}, w, v, g);
  else if constexpr (kOpcode == Opcode::SgdMomentum)
    return semantics::sgd_momentum<C>({with.lr, with.third, with.weight_decay, with.nesterov}, w, v,
                                      g);
  else if constexpr (kOpcode == Opcode::Adam)
    return semantics::adam<C>(*with.adam, w, m, v, g);
  else if constexpr (kOpcode == Opcode::Adamw)
    return semantics::adamw<C>(*with.adam, w, m, v, g);
  else
    return semantics::rmsprop<C>({with.lr, with.third, with.fourth, with.weight_decay}, w, v, g);
}

// Parts of the gradient that are added to it, behind a node's own operands: of f32, as all of these are then, and in code that is
// made for it.
TREK_UNIT uint32_t parts_of(const Node& node) {
  return kSpecialised && !makes_gradient(node) ? node.all_operands - node.operands : 0;
}
TREK_UNIT bool has_part(const Node& node, uint32_t number) { return number < parts_of(node); }

// How many blocks a node's gradient comes in, in code that is made for it; it is their sum, from the first on.
TREK_UNIT uint32_t blocks_of(const Operand& w, const Operand& g) {
  return kSpecialised && w.elements != 0 ? static_cast<uint32_t>(g.elements / w.elements) : 1;
}

// Four elements of f32 in line, read and written together.
struct __attribute__((may_alias, aligned(16))) Fours {
  float x[4];
};
// All that a step of four elements reads.
struct StepFour {
  Fours w{};
  Fours m{};
  Fours v{};
  Fours g{};
  Fours part[kMostParts]{};
};
#ifdef __CUDA__
inline constexpr int kTurns = 2;  // fours that a thread has at once
#else
inline constexpr int kTurns = 1;
#endif
TREK_UNIT bool in_fours(const Operand& of) {
  return static_cast<DType>(of.dtype) == DType::f32 && (of.offset & 15) == 0;
}

// Four elements' step by one rule.
template <Opcode kOpcode, typename C>
class FourSteps {
 public:
  TREK_ON_DEVICE explicit FourSteps(const Rule<C>& with) : with_(with) {}
  TREK_ON_DEVICE void step(StepFour& of) const {
    TREK_UNROLLED
    for (int e = 0; e < 4; ++e)
      of.w.x[e] = next_weight<kOpcode, C>(with_, of.w.x[e], of.m.x[e], of.v.x[e], of.g.x[e]);
  }

 private:
  const Rule<C>& with_;
};
#ifdef __CUDA__
template <Opcode kOpcode>
  requires(is_adam(kOpcode))
class FourSteps<kOpcode, float> {
 public:
  TREK_ON_DEVICE explicit FourSteps(const Rule<float>& with)
      : with_(*with.adam), direction_(with_) {}
  TREK_ON_DEVICE void step(StepFour& of) const {
    TREK_UNROLLED
    for (int e = 0; e < 4; ++e) {
      float g = of.g.x[e];
      if (kOpcode == Opcode::Adam) g = semantics::decayed(with_.weight_decay, of.w.x[e], g);
      semantics::adam_moments(with_, of.m.x[e], of.v.x[e], g);
      if (kOpcode == Opcode::Adamw) of.w.x[e] = semantics::adamw_decayed(with_, of.w.x[e]);
    }
    Fours m = of.m;
    Fours v = of.v;
    bool suits = direction_.suits(m.x, v.x);
    if (!suits) [[unlikely]] {
      direction_.leave_out(of.w.x, m.x, v.x);
      suits = direction_.suits(m.x, v.x);
    }
    float along[4];
    if (suits) [[likely]] {
      TREK_UNROLLED
      for (int e = 0; e < 4; ++e) along[e] = direction_.get(m.x[e], v.x[e]);
    } else {
      TREK_UNROLLED
      for (int e = 0; e < 4; ++e) along[e] = semantics::adam_direction(with_, of.m.x[e], of.v.x[e]);
    }
    TREK_UNROLLED
    for (int e = 0; e < 4; ++e) of.w.x[e] = semantics::fma(-with_.lr, along[e], of.w.x[e]);
  }

 private:
  semantics::AdamParameters<float> with_;
  AdamDirection direction_;
};
#endif

// The tensors of a step, four elements of each at a time: element 4 * at and those behind it.
template <Opcode kOpcode>
class FourTensors {
 public:
  // Where the instruction has no m or v, w stands for it and is not written twice.
  static constexpr bool kHasV = kOpcode != Opcode::Sgd;
  static constexpr bool kHasM = is_adam(kOpcode);
  static constexpr uint32_t kGradient = 1 + (kHasM ? 1 : 0) + (kHasV ? 1 : 0);

  TREK_ON_DEVICE explicit FourTensors(const Task& task)
      : task_(task),
        node_(task.node()),
        w_(memory(0)),
        m_(memory(kHasM ? 1 : 0)),
        v_(memory(kHasM   ? 2
                  : kHasV ? 1
                          : 0)),
        g_(memory(kGradient)),
        blocks_(blocks_of(node_.operand(0), node_.operand(kGradient))),
        apart_(node_.operand(0).elements / 4) {}
  TREK_ON_DEVICE static bool are_all(const Node& node) {
    bool are = blocks_of(node.operand(0), node.operand(kGradient)) == 1 ||
               node.operand(0).elements % 4 == 0;
    TREK_UNROLLED
    for (uint32_t i = 0; i <= kGradient; ++i) are = are && in_fours(node.operand(i));
    return are;
  }

  TREK_ON_DEVICE void load(int64_t at, StepFour& to) const {
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMostParts; ++p)
      if (has_part(node_, p)) to.part[p] = part(p)[at];
    to.w = w_[at];
    to.g = gradient(at);
    if constexpr (kHasV) to.v = v_[at];
    if constexpr (kHasM) to.m = m_[at];
  }
  template <typename C>
  TREK_ON_DEVICE void step(const FourSteps<kOpcode, C>& by, int64_t at, StepFour& of) const {
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMostParts; ++p)
      if (has_part(node_, p)) {
        TREK_UNROLLED
        for (int e = 0; e < 4; ++e) of.g.x[e] += of.part[p].x[e];
      }
    by.step(of);
    w_[at] = of.w;
    if constexpr (kHasV) v_[at] = of.v;
    if constexpr (kHasM) m_[at] = of.m;
  }
  TREK_ON_DEVICE void prefetch_all(int64_t at) const {
    prefetch(w_ + at);
    prefetch(g_ + at);
    if constexpr (kHasV) prefetch(v_ + at);
    if constexpr (kHasM) prefetch(m_ + at);
  }

 protected:
  TREK_ON_DEVICE Fours* memory(uint32_t operand) const {
    return reinterpret_cast<Fours*>(task_.memory(node_.operand(operand)));
  }
  TREK_ON_DEVICE const Fours* part(uint32_t number) const {
    return memory(node_.operands + number);
  }
  TREK_ON_DEVICE Fours gradient(int64_t at) const {
    // Seven times nine are the blocks of a segment behind the first. With more at once this is the one function of a step
    // that takes all registers, and all others lose by it (README.md, "What the kernel keeps").
    constexpr uint32_t kTogether = 9;
    Fours sum = g_[at];
    TREK_ROLLED
    for (uint32_t b = 1; b < blocks_; b += kTogether) {
      Fours next[kTogether];
      TREK_UNROLLED
      for (uint32_t j = 0; j < kTogether; ++j)
        if (b + j < blocks_) next[j] = g_[at + (b + j) * apart_];
      TREK_UNROLLED
      for (uint32_t j = 0; j < kTogether; ++j) {
        TREK_UNROLLED
        for (int e = 0; e < 4; ++e)
          if (b + j < blocks_) sum.x[e] += next[j].x[e];
      }
    }
    return sum;
  }

  const Task& task_;
  const Node& node_;
  Fours* w_;
  Fours* m_;
  Fours* v_;
  const Fours* g_;
  uint32_t blocks_;
  int64_t apart_;  // fours from a block to the next
};

// Fours i, i + block_threads(), ... of [i, end), a thread's; prepare() as step_all() has it.
template <Opcode kOpcode, typename C, class Prepare>
TREK_UNIT void step_in_registers(const Task& task, const Rule<C>& with, int64_t i, int64_t end,
                                 Prepare prepare) {
  prepare();
  const FourTensors<kOpcode> of(task);
  const FourSteps<kOpcode, C> by(with);
  const int64_t threads = task.threads();
  TREK_ROLLED
  for (; i < end; i += kTurns * threads) {
    // All that a thread wants is on its way before it begins.
    StepFour fours[kTurns];
    TREK_UNROLLED
    for (int t = 0; t < kTurns; ++t)
      if (i + t * threads < end) of.load(i + t * threads, fours[t]);
    TREK_UNROLLED
    for (int t = 0; t < kTurns; ++t) {
      const int64_t next = i + (kTurns + t) * threads;
      if (next < end) of.prefetch_all(next);
    }
    TREK_UNROLLED
    for (int t = 0; t < kTurns; ++t)
      if (i + t * threads < end) of.step(by, i + t * threads, fours[t]);
  }
}

// A number in the compute type C, from register form.
template <typename C>
TREK_UNIT C real_of(uint64_t bits) {
  if constexpr (sizeof(C) == 4)
    return as_float(bits);
  else
    return as_double(bits);
}

// Element `index` of operand i as C.
template <typename C>
TREK_UNIT C value_of(const Task& task, const Operand& operand, int64_t index) {
  const auto type = static_cast<DType>(operand.dtype);
  if (sizeof(C) == 4 && type == DType::f32) return read<C>(task.memory(operand), index);
  return real_of<C>(load64(task.memory(operand), type, index));
}
template <typename C>
TREK_UNIT void give_value(const Task& task, const Operand& operand, int64_t index, C value) {
  const auto type = static_cast<DType>(operand.dtype);
  if (sizeof(C) == 4 && type == DType::f32) return write<C>(task.memory(operand), index, value);
  store64(task.memory(operand), type, index, bits_of(value));
}

// Element i of w, by its gradient.
template <Opcode kOpcode, typename C>
TREK_UNIT void step_one(const Task& task, const Rule<C>& with, int64_t i, C g) {
  using Tensors = FourTensors<kOpcode>;
  const Node& node = task.node();
  const Operand& w_of = node.operand(0);
  const Operand& m_of = node.operand(Tensors::kHasM ? 1 : 0);
  const Operand& v_of = node.operand(Tensors::kHasM ? 2 : Tensors::kHasV ? 1 : 0);
  C w = value_of<C>(task, w_of, i);
  C v = Tensors::kHasV ? value_of<C>(task, v_of, i) : C(0);
  C m = Tensors::kHasM ? value_of<C>(task, m_of, i) : C(0);
  w = next_weight<kOpcode, C>(with, w, m, v, g);
  give_value<C>(task, w_of, i, w);
  if constexpr (Tensors::kHasV) give_value<C>(task, v_of, i, v);
  if constexpr (Tensors::kHasM) give_value<C>(task, m_of, i, m);
}

}  // namespace train_detail

}  // namespace trek::device
