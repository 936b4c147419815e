// Optimizer steps, in place, and the clipping of gradients by their common norm.
#pragma once

#include "emulator/device/reduce_order.h"
#include "emulator/device/step_asked.h"
#include "emulator/device/step_fours.h"
#include "emulator/device/step_gradient.h"

namespace trek::device {

namespace train_detail {

// The corrections of the last Adam of this block: a program's steps have the same for all of its weights.
struct KeptCorrections {
  int64_t step;
  float beta1;
  float beta2;
  float correction1;
  float correction2;
};
static_assert(shared_at::kKept + sizeof(KeptCorrections) <= shared_at::kPlaces);

// Where in shared memory what is the same for all elements of an Adam is, and behind it its corrections.
inline constexpr uint32_t kAdam = shared_at::kSlots;

// What is the same for all elements of an Adam. The powers may be long, so two warps make one each. A sync at the end.
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
      task.shared<C>(kAdam + sizeof(to))[i] = correction;
    }
  }
  task.sync();
  if (known) return;
  if (task.thread() == 0) {
    const C* made = task.shared<C>(kAdam + sizeof(to));
    to.correction1 = made[0];
    to.correction2 = made[1];
    if constexpr (sizeof(C) == 4) kept = {step, beta1, beta2, made[0], made[1]};
  }
  task.sync();
}

#ifndef __CUDA__
// A box of w by a gradient that is made here: what step_gradient.h does on a device.
template <Opcode kOpcode, class Prepare>
void step_by_made(const Task& task, const Rule<float>& with, int64_t number, Prepare prepare) {
  prepare();
  const Matrix& of = task.node().matrix;
  const MadeBox box(of, number);
  const auto* left = reinterpret_cast<const float*>(task.memory(made_from(task.node(), 0)));
  const auto* right = reinterpret_cast<const float*>(task.memory(made_from(task.node(), 1)));
  for (int64_t i = task.thread(); i < int64_t{box.rows} * box.columns; i += task.threads()) {
    const int64_t row = box.row + i / box.columns;
    const int64_t column = box.column + i % box.columns;
    semantics::Dot<float> dot;
    for (int64_t k = 0; k < of.k; ++k) dot.push(left[k * of.m + row], right[k * of.n + column]);
    step_one<kOpcode>(task, with, row * of.n + column, dot.finish());
  }
}
template <Opcode kOpcode, class Prepare>
void step_by_sums(const Task& task, const Rule<float>& with, int64_t first, int64_t count,
                  Prepare prepare) {
  prepare();
  const Matrix& of = task.node().matrix;
  const auto* from = reinterpret_cast<const float*>(task.memory(made_from(task.node(), 0)));
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads()) {
    semantics::Ordered<float, float (*)(float, float)> sum(
        [](float a, float b) { return semantics::add(a, b); });
    for (int64_t k = 0; k < of.k; ++k) sum.push(from[k * of.n + i]);
    step_one<kOpcode>(task, with, i, sum.finish(0));
  }
}
#endif

// Elements [first, first + count) of w by one rule, four at a time where all are f32; of a node that makes its gradient perhaps
// the box of number `first`, which is_early() waits for itself. `prepare` works out what the rule has in shared memory, which
// takes about as long as what is read first is on its way.
template <Opcode kOpcode, typename C, class Prepare>
TREK_UNIT void step_all(const Task& task, const Rule<C>& with, int64_t first, int64_t count,
                        Prepare prepare) {
  using Tensors = FourTensors<kOpcode>;
  const Node& node = task.node();
  if constexpr (sizeof(C) == 4 && !kForCpu)
    if (makes_gradient(node))
      return steps_boxes(node) ? step_by_made<kOpcode>(task, with, first, prepare)
                               : step_by_sums<kOpcode>(task, with, first, count, prepare);
  bool is_prepared = false;
  if constexpr (sizeof(C) == 4 && !kForCpu) {
    if ((first & 3) == 0 && Tensors::are_all(node)) {
      const int64_t i = first / 4 + task.thread();
      const int64_t end = (first + count) / 4;
#ifdef __CUDA__
      if (!kSpecialised || task.threads() == kBlockThreads)  // else a wide kernel's
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
  const Operand& g_of = node.operand(Tensors::kGradient);
  const uint32_t blocks = blocks_of(w_of, g_of);
  TREK_ROLLED
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads()) {
    C g = value_of<C>(task, g_of, i);
    TREK_ROLLED
    for (uint32_t b = 1; b < blocks; ++b) g += value_of<C>(task, g_of, i + b * w_of.elements);
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMostParts; ++p)
      if (has_part(node, p)) g += value_of<C>(task, node.operand(node.operands + p), i);
    step_one<kOpcode>(task, with, i, g);
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
  auto& adam_with = *task.shared<semantics::AdamParameters<C>>(kAdam);
  const int64_t number = is_adam(opcode) ? static_cast<int64_t>(task.attribute(5)) : 1;
  if constexpr (sizeof(C) == 4) {
    // A step of boxes waits behind having asked for what stands there.
    const bool is_box = steps_boxes(node);
    const bool waits = is_early(node) && (is_box || !kSpecialised);
    if (waits && (!is_box || number < 1) && !await_inputs()) return;
  }
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
