// Optimizer steps, in place, and the clipping of gradients by their common norm.
#pragma once

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

// Elements [first, first + count) of w by one rule; four at a time where all are f32. `prepare` works out what the rule has in
// shared memory, which takes about as long as what is read first is on its way.
template <Opcode kOpcode, typename C, class Prepare>
TREK_UNIT void step_all(const Task& task, const Rule<C>& with, int64_t first, int64_t count,
                        Prepare prepare) {
  // Where the instruction has no m or v, w stands for it and is not written twice.
  constexpr bool kHasV = kOpcode != Opcode::Sgd;
  constexpr bool kHasM = kOpcode == Opcode::Adam || kOpcode == Opcode::Adamw;
  const Node& node = task.node();
  const Operand& w_of = node.operand(0);
  const Operand& m_of = node.operand(kHasM ? 1 : 0);
  const Operand& v_of = node.operand(kHasM ? 2 : kHasV ? 1 : 0);
  const Operand& g_of = node.operand(1 + (kHasV ? 1 : 0) + (kHasM ? 1 : 0));
  const uint32_t blocks = blocks_of(w_of, g_of);
  constexpr bool kInFours = sizeof(C) == 4 && !kForCpu;
  constexpr bool kAhead = kInFours && kSpecialised;
  if (!kAhead) prepare();
  if constexpr (kInFours) {
    const bool lie_in_fours = blocks == 1 || w_of.elements % 4 == 0;
    if ((first & 3) == 0 && lie_in_fours && in_fours(w_of) && in_fours(v_of) && in_fours(m_of) &&
        in_fours(g_of)) {
      const auto fours_of = [&](uint32_t operand) TREK_TILE_LAMBDA {
        return reinterpret_cast<const Fours*>(task.memory(node.operand(operand)));
      };
      auto* ws = reinterpret_cast<Fours*>(task.memory(w_of));
      auto* ms = reinterpret_cast<Fours*>(task.memory(m_of));
      auto* vs = reinterpret_cast<Fours*>(task.memory(v_of));
      const auto* gs = reinterpret_cast<const Fours*>(task.memory(g_of));
      const int64_t end = (first + count) / 4;
      const int64_t threads = task.threads();
      const int64_t apart = w_of.elements / 4;
      const auto gradient_of = [&](int64_t at) TREK_TILE_LAMBDA {
        // Seven times nine are the blocks of a segment behind the first. With more at once this is the one function of a step
        // that takes all registers, and all others lose by it (README.md, "What the kernel keeps").
        constexpr uint32_t kTogether = 9;
        Fours sum = gs[at];
        TREK_ROLLED
        for (uint32_t b = 1; b < blocks; b += kTogether) {
          Fours next[kTogether];
          TREK_UNROLLED
          for (uint32_t j = 0; j < kTogether; ++j)
            if (b + j < blocks) next[j] = gs[at + (b + j) * apart];
          TREK_UNROLLED
          for (uint32_t j = 0; j < kTogether; ++j) {
            TREK_UNROLLED
            for (int e = 0; e < 4; ++e)
              if (b + j < blocks) sum.x[e] += next[j].x[e];
          }
        }
        return sum;
      };
      const auto load = [&](int64_t at, StepFour& to) TREK_TILE_LAMBDA {
        TREK_UNROLLED
        for (uint32_t p = 0; p < kMostParts; ++p)
          if (has_part(node, p)) to.part[p] = fours_of(node.operands + p)[at];
        to.w = ws[at];
        to.g = gradient_of(at);
        if constexpr (kHasV) to.v = vs[at];
        if constexpr (kHasM) to.m = ms[at];
      };
      const auto step = [&](int64_t at, StepFour& of) TREK_TILE_LAMBDA {
        TREK_UNROLLED
        for (uint32_t p = 0; p < kMostParts; ++p)
          if (has_part(node, p)) {
            TREK_UNROLLED
            for (int e = 0; e < 4; ++e) of.g.x[e] += of.part[p].x[e];
          }
        TREK_UNROLLED
        for (int e = 0; e < 4; ++e)
          of.w.x[e] = next_weight<kOpcode, C>(with, of.w.x[e], of.m.x[e], of.v.x[e], of.g.x[e]);
        ws[at] = of.w;
        if constexpr (kHasV) vs[at] = of.v;
        if constexpr (kHasM) ms[at] = of.m;
      };
      int64_t i = first / 4 + task.thread();
      if (kAhead && threads == kBlockThreads) {
        // What takes a step of four elements is hundreds of instructions, which are on their way for as long as data is: so
        // they are there once, and what the next turn reads is asked for before.
        StepFour here;
        if (i < end) load(i, here);
        prepare();
        TREK_ROLLED
        while (i < end) {
          const int64_t next = i + threads;
          StepFour ahead;
          if (next < end) load(next, ahead);
          step(i, here);
          here = ahead;
          i = next;
        }
      } else if (kAhead) {
        prepare();
      }
      TREK_ROLLED
      for (; i < end; i += kTurns * threads) {
        // All that a thread wants is on its way before it begins.
        StepFour fours[kTurns];
        TREK_UNROLLED
        for (int t = 0; t < kTurns; ++t)
          if (i + t * threads < end) load(i + t * threads, fours[t]);
        TREK_UNROLLED
        for (int t = 0; t < kTurns; ++t) {
          const int64_t next = i + (kTurns + t) * threads;
          if (next >= end) continue;
          prefetch(ws + next);
          prefetch(gs + next);
          if constexpr (kHasV) prefetch(vs + next);
          if constexpr (kHasM) prefetch(ms + next);
        }
        TREK_UNROLLED
        for (int t = 0; t < kTurns; ++t)
          if (i + t * threads < end) step(i + t * threads, fours[t]);
      }
      count = first + count - 4 * end;
      first = 4 * end;
    } else if (kAhead) {
      prepare();
    }
  }
  TREK_ROLLED
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads()) {
    C w = value_of<C>(task, w_of, i);
    C g = value_of<C>(task, g_of, i);
    TREK_ROLLED
    for (uint32_t b = 1; b < blocks; ++b) g += value_of<C>(task, g_of, i + b * w_of.elements);
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMostParts; ++p)
      if (has_part(node, p)) g += value_of<C>(task, node.operand(node.operands + p), i);
    C v = kHasV ? value_of<C>(task, v_of, i) : C(0);
    C m = kHasM ? value_of<C>(task, m_of, i) : C(0);
    w = next_weight<kOpcode, C>(with, w, m, v, g);
    give_value<C>(task, w_of, i, w);
    if constexpr (kHasV) give_value<C>(task, v_of, i, v);
    if constexpr (kHasM) give_value<C>(task, m_of, i, m);
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
  const bool is_adam = opcode == Opcode::Adam || opcode == Opcode::Adamw;
  const int64_t number = is_adam ? static_cast<int64_t>(task.attribute(5)) : 1;
  if (number < 1) return task.fail(-1);
  const auto prepare = [&]() TREK_TILE_LAMBDA {
    if (is_adam)
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
