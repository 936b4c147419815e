// Single elements of tensors, and the instructions that trap.
#pragma once

#include "emulator/device/move.h"

namespace trek::device {

// load, store: attributes are the indices, then for store the value as an element of the tensor. Numbers as
// for begin_of_box().
TREK_UNIT void exchange(const Task& task) {
  const Node& node = task.node();
  const int64_t at = move_detail::begin_of_box(task);
  task.sync();
  if (task.failed() || task.thread() != 0) return;
  const Operand& x = node.operand(0);
  const auto type = static_cast<DType>(x.dtype);
  if (static_cast<Opcode>(node.opcode) == Opcode::Store) {
    store64(task.memory(x), type, at, task.attribute(node.move.rank));
    return;
  }
  const Operand& out = node.result(0);
  const auto to = static_cast<DType>(out.dtype);
  store64(task.memory(out), to, 0, cast(type, to, operand_of(task, 0, at)));
}

// Traps at the lowest element that is an infinity or a NaN. A scalar is attribute 0.
TREK_UNIT void assert_finite(const Task& task) {
  const Node& node = task.node();
  const auto type = static_cast<DType>(node.type);
  const bool scalar = node.flag != 0;
  const int64_t count = scalar ? 1 : node.operand(0).elements;
  const uint64_t infinity = type == DType::f64 ? uint64_t{0x7FF} << 52 : uint64_t{0xFF} << 23;
  for (int64_t i = task.thread(); i < count; i += task.threads()) {
    const uint64_t bits = scalar ? task.attribute(0) : operand_of(task, 0, i);
    if ((bits & infinity) == infinity) task.fail(i);
  }
}

}  // namespace trek::device
