// Optimizer steps, in place, and the clipping of gradients by their common norm.
#pragma once

#include "emulator/device/adam_direction.h"
#include "emulator/device/copies.h"
#include "emulator/device/reduce_order.h"
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

constexpr bool is_adam(Opcode opcode) { return opcode == Opcode::Adam || opcode == Opcode::Adamw; }

// The corrections of the last Adam of this block: a program's steps have the same for all of its weights, and
// they take longer than a tile.
struct KeptCorrections {
  int64_t step;
  float beta1;
  float beta2;
  float correction1;
  float correction2;
};
static_assert(shared_at::kKept + sizeof(KeptCorrections) <= shared_at::kPlaces);

// What is the same for all elements of an Adam. The powers are long, so two warps make one each. A sync at the
// end.
template <typename C>
TREK_UNIT void make_adam(const Task& task, C lr, C beta1, C beta2, C eps, C weight_decay,
                         int64_t step, semantics::AdamParameters<C>& to) {
  bool known = false;
  auto& kept = *task.shared<KeptCorrections>(shared_at::kKept);
  if constexpr (sizeof(C) == 4) {
    known = kept.step == step && bits_of(kept.beta1) == bits_of(beta1) &&
            bits_of(kept.beta2) == bits_of(beta2);
    task.sync();  // all have looked
  }
  if (task.thread() == 0)
    to = semantics::adam_parameters(lr, beta1, beta2, eps, weight_decay, C(kept.correction1),
                                    C(kept.correction2));
  const uint32_t second = task.threads() > 32 ? 32 : 0;
  if (!known && task.thread() % 32 == 0 && task.thread() <= second) {
    TREK_ROLLED
    for (uint32_t i = task.thread() / 32; i < 2; i += second / 32 + 1) {
      const C correction = semantics::adam_correction(i == 0 ? beta1 : beta2, step);
      task.shared<C>(shared_at::kValues + sizeof(to))[i] = correction;
    }
  }
  task.sync();
  if (known) return;
  if (task.thread() == 0) {
    const C* made = task.shared<C>(shared_at::kValues + sizeof(to));
    to.correction1 = made[0];
    to.correction2 = made[1];
    if constexpr (sizeof(C) == 4) kept = {step, beta1, beta2, made[0], made[1]};
  }
  task.sync();
}

// Whether a node has a part of the gradient that is added to it, the `number`-th behind its own operands: of f32, as all of
// these are then, and in code that is made for it.
TREK_UNIT bool has_part(const Node& node, uint32_t number) {
  return kSpecialised && node.operands + number < node.all_operands;
}

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
    float along[4];
    if (direction_.suits(of.m.x, of.v.x)) [[likely]] {
      TREK_UNROLLED
      for (int e = 0; e < 4; ++e) along[e] = direction_.get(of.m.x[e], of.v.x[e]);
    } else {
      TREK_UNROLLED
      for (int e = 0; e < 4; ++e) along[e] = semantics::adam_direction(with_, of.m.x[e], of.v.x[e]);
    }
    TREK_UNROLLED
    for (int e = 0; e < 4; ++e) of.w.x[e] = semantics::fma(-with_.lr, along[e], of.w.x[e]);
  }

 private:
  const semantics::AdamParameters<float> with_;
  const AdamDirection direction_;
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

#if defined(__CUDA__) && defined(TREK_SPECIALISED)
  // The same by way of shared memory, to which a thread asks for its fours of several turns at once; they are its own affair.
  // A gradient in blocks comes to registers.
  TREK_ON_DEVICE uint32_t turns() const { return kMostAsked / asked(); }
  TREK_ON_DEVICE void ask(int64_t at, uint32_t turn) const {
    ask(turn, 0, w_ + at);
    if constexpr (kHasV) ask(turn, 1, v_ + at);
    if constexpr (kHasM) ask(turn, 2, m_ + at);
    if (blocks_ == 1) ask(turn, kGradient, g_ + at);
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMostParts; ++p)
      if (has_part(node_, p)) ask(turn, kGradient + 1 + p, part(p) + at);
  }
  TREK_ON_DEVICE void take(int64_t at, uint32_t turn, StepFour& to) const {
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMostParts; ++p)
      if (has_part(node_, p)) to.part[p] = asked(turn, kGradient + 1 + p);
    to.w = asked(turn, 0);
    to.g = blocks_ == 1 ? asked(turn, kGradient) : gradient(at);
    if constexpr (kHasV) to.v = asked(turn, 1);
    if constexpr (kHasM) to.m = asked(turn, 2);
  }
#endif

 private:
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

#if defined(__CUDA__) && defined(TREK_SPECIALISED)
  // Fours of each thread, behind what Adam's are.
  static constexpr uint32_t kPitch = 16 * kBlockThreads;
  static constexpr uint32_t kAsked = shared_at::kValues + 128;
  static constexpr uint32_t kMostAsked = (kSharedBytes - kAsked) / kPitch;
  static_assert(kMostAsked > kGradient + kMostParts &&
                sizeof(semantics::AdamParameters<float>) + 8 <= 128);
  TREK_ON_DEVICE uint32_t asked() const {
    return kGradient + 1 + node_.all_operands - node_.operands;
  }
  TREK_ON_DEVICE uint32_t place(uint32_t turn, uint32_t which) const {
    return kAsked + (turn * asked() + which) * kPitch + 16 * task_.thread();
  }
  TREK_ON_DEVICE void ask(uint32_t turn, uint32_t which, const Fours* from) const {
    copy_ahead<16>(shared_address(task_.template shared<std::byte>(0)) + place(turn, which), from);
  }
  TREK_ON_DEVICE Fours asked(uint32_t turn, uint32_t which) const {
    return *task_.template shared<const Fours>(place(turn, which));
  }
#endif

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

#if defined(__CUDA__) && defined(TREK_SPECIALISED)
// The same with all that several turns read on its way at once: much of it comes from memory, and a step's instructions, of
// which there are hundreds, are there once.
template <Opcode kOpcode, typename C, class Prepare>
TREK_UNIT void step_asked(const Task& task, const Rule<C>& with, int64_t i, int64_t end,
                          Prepare prepare) {
  const FourTensors<kOpcode> of(task);
  const uint32_t most = of.turns();
  const auto each = [&](auto act) TREK_TILE_LAMBDA {
    int64_t at = i;
    TREK_ROLLED
    for (uint32_t turn = 0; turn < most && at < end; ++turn, at += kBlockThreads) act(at, turn);
  };
  const auto ask = [&]() TREK_TILE_LAMBDA {
    each([&](int64_t at, uint32_t turn) TREK_TILE_LAMBDA { of.ask(at, turn); });
    commit_copies();
  };
  ask();
  prepare();
  const FourSteps<kOpcode, C> by(with);
  TREK_ROLLED
  while (true) {
    wait_for_copies(0);
    each([&](int64_t at, uint32_t turn) TREK_TILE_LAMBDA {
      StepFour four;
      of.take(at, turn, four);
      of.step(by, at, four);
    });
    i += int64_t{most} * kBlockThreads;
    if (i >= end) return;
    ask();
  }
}
#endif

// Elements [first, first + count) of w by one rule; four at a time where all are f32. `prepare` works out what the rule has in
// shared memory, which takes about as long as what is read first is on its way.
template <Opcode kOpcode, typename C, class Prepare>
TREK_UNIT void step_all(const Task& task, const Rule<C>& with, int64_t first, int64_t count,
                        Prepare prepare) {
  using Tensors = FourTensors<kOpcode>;
  const Node& node = task.node();
  bool is_prepared = false;
  if constexpr (sizeof(C) == 4 && !kForCpu) {
    if ((first & 3) == 0 && Tensors::are_all(node)) {
      const int64_t i = first / 4 + task.thread();
      const int64_t end = (first + count) / 4;
#if defined(__CUDA__) && defined(TREK_SPECIALISED)
      if (task.threads() == kBlockThreads)
        step_asked<kOpcode>(task, with, i, end, prepare);
      else
#endif
        step_in_registers<kOpcode>(task, with, i, end, prepare);
      is_prepared = true;
      count = first + count - 4 * end;
      first = 4 * end;
    }
  }
  if (!is_prepared) prepare();
  const Operand& w_of = node.operand(0);
  const Operand& m_of = node.operand(Tensors::kHasM ? 1 : 0);
  const Operand& v_of = node.operand(Tensors::kHasM ? 2 : Tensors::kHasV ? 1 : 0);
  const Operand& g_of = node.operand(Tensors::kGradient);
  const uint32_t blocks = blocks_of(w_of, g_of);
  TREK_ROLLED
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads()) {
    C w = value_of<C>(task, w_of, i);
    C g = value_of<C>(task, g_of, i);
    TREK_ROLLED
    for (uint32_t b = 1; b < blocks; ++b) g += value_of<C>(task, g_of, i + b * w_of.elements);
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMostParts; ++p)
      if (has_part(node, p)) g += value_of<C>(task, node.operand(node.operands + p), i);
    C v = Tensors::kHasV ? value_of<C>(task, v_of, i) : C(0);
    C m = Tensors::kHasM ? value_of<C>(task, m_of, i) : C(0);
    w = next_weight<kOpcode, C>(with, w, m, v, g);
    give_value<C>(task, w_of, i, w);
    if constexpr (Tensors::kHasV) give_value<C>(task, v_of, i, v);
    if constexpr (Tensors::kHasM) give_value<C>(task, m_of, i, m);
  }
}

}  // namespace train_detail

// Attributes, as C but for the last: lr, weight_decay; momentum: momentum; rmsprop: decay, eps; the Adams:
// beta1, beta2, eps, step. Node::flag: nesterov. Elements [first, first + count) of w.
template <typename C>
TREK_UNIT_CALL void optimize(Task task, int64_t first, int64_t count) {
  using namespace train_detail;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const auto opcode = static_cast<Opcode>(node.opcode);
  const C lr = real_of<C>(task.attribute(0));
  const C weight_decay = real_of<C>(task.attribute(1));
  const C third = real_of<C>(task.attribute(2));
  const C fourth = real_of<C>(task.attribute(3));
  auto& adam_with = *task.shared<semantics::AdamParameters<C>>(shared_at::kValues);
  const int64_t number = is_adam(opcode) ? static_cast<int64_t>(task.attribute(5)) : 1;
  if (number < 1) return task.fail(-1);
  const auto prepare = [&]() TREK_TILE_LAMBDA {
    if (is_adam(opcode))
      make_adam<C>(task, lr, third, fourth, real_of<C>(task.attribute(4)), weight_decay, number,
                   adam_with);
  };
  const Rule<C> with = {lr, weight_decay, third, fourth, node.flag != 0, &adam_with};
  switch (opcode) {
    case Opcode::Sgd:
      return step_all<Opcode::Sgd>(task, with, first, count, prepare);
    case Opcode::SgdMomentum:
      return step_all<Opcode::SgdMomentum>(task, with, first, count, prepare);
    case Opcode::Adam:
      return step_all<Opcode::Adam>(task, with, first, count, prepare);
    case Opcode::Adamw:
      return step_all<Opcode::Adamw>(task, with, first, count, prepare);
    default:
      return step_all<Opcode::Rmsprop>(task, with, first, count, prepare);
  }
}

// clip_norm. Attribute: max, as C. Results: the norm, then the tensors.
template <typename C>
TREK_UNIT_CALL void clip(Task task) {
  using namespace train_detail;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  constexpr uint32_t kRoom = kValuesBytes / 8;
  C total = C(0);
  for (uint32_t t = 0; t < node.operands; ++t) {
    const Operand& from = node.operand(t);
    C squares = C(0);
    begin_long<C>(task);
    uint32_t filled = 0;
    for (int64_t at = 0; at < from.elements;) {
      const int64_t left = from.elements - at;
      const auto n = static_cast<uint32_t>(left < kRoom ? left : kRoom);
      for (uint32_t i = task.thread(); i < n; i += task.threads())
        task.shared<C>(shared_at::kValues)[i] = value_of<C>(task, from, at + i);
      task.sync();
      at += n;
      filled = push_long<C>(task, {shared_at::kValues, kShift<C>}, Term::square, Joining::sum, n,
                            filled, at == from.elements, reduce_at::kFirst);
      if (at == from.elements) squares = task.shared<C>(reduce_at::kFirst)[0];
    }
    total = t == 0 ? squares : total + squares;
  }
  const C norm = semantics::sqrt(total);
  const C most = real_of<C>(task.attribute(0));
  const C factor = norm > most ? most / norm : C(1);
  if (task.thread() == 0) give_value<C>(task, node.result(0), 0, norm);
  for (uint32_t t = 0; t < node.operands; ++t) {
    const Operand from = node.operand(t);
    const Operand to = node.result(t + 1);
    for (int64_t i = task.thread(); i < from.elements; i += task.threads())
      give_value<C>(task, to, i, value_of<C>(task, from, i) * factor);
  }
}

}  // namespace trek::device
