// Optimizer steps, in place, and the clipping of gradients by their common norm.
#pragma once

#include "emulator/device/reduce_order.h"
#include "isa/semantics/optimizer.h"

namespace trek::device {

namespace train_detail {

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
  if (opcode == Opcode::Adam || opcode == Opcode::Adamw) {
    const auto step = static_cast<int64_t>(task.attribute(5));
    if (step < 1) return task.fail(-1);
    if (task.thread() == 0)
      adam_with = semantics::adam_parameters<C>(lr, third, fourth, real_of<C>(task.attribute(4)),
                                                weight_decay, step);
    task.sync();
  }
  const uint32_t gradient_at = node.operands - 1;
  const Operand w_of = node.operand(0);
  const Operand v_of = node.operand(gradient_at > 0 ? gradient_at - 1 : 0);
  const Operand m_of = node.operand(gradient_at > 2 ? 1 : 0);
  const Operand g_of = node.operand(gradient_at);
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads()) {
    C w = value_of<C>(task, w_of, i);
    const C g = value_of<C>(task, g_of, i);
    C v = gradient_at > 1 ? value_of<C>(task, v_of, i) : C(0);
    C m = gradient_at > 2 ? value_of<C>(task, m_of, i) : C(0);
    switch (opcode) {
      case Opcode::Sgd:
        w = semantics::sgd<C>({lr, weight_decay}, w, g);
        break;
      case Opcode::SgdMomentum:
        w = semantics::sgd_momentum<C>({lr, third, weight_decay, node.flag != 0}, w, v, g);
        break;
      case Opcode::Adam:
        w = semantics::adam<C>(adam_with, w, m, v, g);
        break;
      case Opcode::Adamw:
        w = semantics::adamw<C>(adam_with, w, m, v, g);
        break;
      default:
        w = semantics::rmsprop<C>({lr, third, fourth, weight_decay}, w, v, g);
    }
    give_value<C>(task, w_of, i, w);
    if (gradient_at > 1) give_value<C>(task, v_of, i, v);
    if (gradient_at > 2) give_value<C>(task, m_of, i, m);
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
