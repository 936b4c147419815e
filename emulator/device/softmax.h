// Softmax, log-softmax and their gradients, along lines; cross-entropy, whose lines are rows of logits.
//
// What a line needs as a whole (its maximum, its sum) is reduced first, then its elements are made in place
// of what was staged. A line that has no room is staged once more for each of these.
#pragma once

#include "emulator/device/long_rows.h"
#include "emulator/device/made_rows.h"
#include "emulator/device/reduce_order.h"
#include "emulator/device/rows.h"

namespace trek::device {

namespace softmax_detail {

// The maximum (to kFirst) and the sum of exp(x - maximum) (to kOther) of each line of a group.
template <typename C>
TREK_UNIT void soften(const Task& task, const Group& group) {
  TREK_ROLLED
  for (int round = 0; round < 2; ++round)
    reduce_group<C>(task, group, round == 0 ? Term::element : Term::exponential,
                    round == 0 ? Joining::greatest : Joining::sum, 1,
                    round == 0 ? reduce_at::kFirst : reduce_at::kOther);
}

// The elements of a staged part, from the lines' numbers.
template <typename C>
TREK_UNIT_CALL void finish_part(Task task, const Group& part) {
  const Staged<C> x{shared_at::kValues, shift_of(task.node())};
  const Staged<C> y{kSecondArray, x.shift};
  const C* most = task.shared<C>(reduce_at::kFirst);
  const C* sums = task.shared<C>(reduce_at::kOther);
  const auto opcode = static_cast<Opcode>(task.node().opcode);
  const bool across = task.node().lines.across != 0;
  for (uint32_t i = task.thread(); i < part.size(); i += task.threads()) {
    const uint32_t l = across ? i % part.lines : i / part.n;
    const C value = x.get(task, i);
    C result;
    switch (opcode) {
      case Opcode::Softmax:
        result = semantics::exp(value - most[l]) / sums[l];
        break;
      case Opcode::LogSoftmax:
        result = (value - most[l]) - semantics::log(sums[l]);
        break;
      case Opcode::SoftmaxGrad:
        result = y.get(task, i) * (value - sums[l]);
        break;
      default: {
        const C share = semantics::exp(y.get(task, i)) * sums[l];
        result = value - share;
      }
    }
    x.put(task, i, result);
  }
  task.sync();
}

}  // namespace softmax_detail

// Lines [line, end).
template <typename C>
TREK_UNIT_CALL void softmax(Task task, int64_t line, int64_t end) {
  if (task.node().lines.n == 0) return;
#ifdef __CUDA__
  if constexpr (sizeof(C) == 4) {
    const auto how = static_cast<Rows>(task.node().lines.rows);
    if (how == Rows::by_warps) return rows::softmax(task, line, end);
    if (how == Rows::by_block) return rows::long_softmax(task, line, end);
  }
#endif
  const auto opcode = static_cast<Opcode>(task.node().opcode);
  const uint32_t arrays = opcode == Opcode::Softmax || opcode == Opcode::LogSoftmax ? 1 : 2;
  while (line < end) {
    const Group group = group_at(task.node(), line, end, arrays, most_lines(task.node(), arrays));
    line += group.lines;
    if (is_whole(task.node(), arrays)) {
      stage(task, group, arrays);
      task.sync();
    }
    // Forward the maximum, then the sum; backward a sum.
    TREK_ROLLED
    for (uint32_t round = arrays - 1; round < 2; ++round) {
      const bool first = arrays == 1 && round == 0;
      Term term = first ? Term::element : Term::exponential;
      if (arrays == 2)
        term = static_cast<Opcode>(task.node().opcode) == Opcode::SoftmaxGrad ? Term::product
                                                                              : Term::element;
      reduce_group<C>(task, group, term, first ? Joining::greatest : Joining::sum, arrays,
                      first ? reduce_at::kFirst : reduce_at::kOther);
    }
    for (int64_t k = 0; k < task.node().lines.n; k += room_for(task.node(), arrays)) {
      const Group part = part_of(task.node(), group, k, arrays);
      if (!is_whole(task.node(), arrays)) {
        stage(task, part, arrays);
        task.sync();
      }
      softmax_detail::finish_part<C>(task, part);
      deliver(task, part, 0, 0);
      task.sync();
    }
  }
}

// ---- cross-entropy -------------------------------------------------------------------------------

enum class LossReduction : uint8_t { mean, sum, none };  // Node::flag

namespace softmax_detail {

// Own operands: logits and classes, for the gradient alone dl before them.
TREK_UNIT bool wants_loss(const Node& node) {
  return static_cast<Opcode>(node.opcode) != Opcode::CrossEntropyGrad;
}
TREK_UNIT bool wants_gradient(const Node& node) {
  return static_cast<Opcode>(node.opcode) != Opcode::CrossEntropy;
}

// Of a staged part: the losses of rows whose class is in it, and the elements of the gradient in place.
template <typename C>
TREK_UNIT_CALL void finish_rows(Task task, const Group& part) {
  const Node& node = task.node();
  const bool loss = wants_loss(node);
  const Staged<C> x{shared_at::kValues, shift_of(node)};
  const C* most = task.shared<C>(reduce_at::kFirst);
  const C* sums = task.shared<C>(reduce_at::kOther);
  const auto reduction = static_cast<LossReduction>(node.flag);
  // Losses wait in the arena, because their reduction needs the room that rows need.
  auto* losses = reinterpret_cast<C*>(task.at(node.scratch));
  for (uint32_t i = task.thread(); i < part.size(); i += task.threads()) {
    const uint32_t l = i / part.n;
    const int64_t row = part.first + l;
    const auto own = static_cast<int64_t>(operand_of(task, loss ? 1 : 2, row));
    const bool hit = part.k + (i - l * part.n) == own;
    const C value = x.get(task, i);
    if (hit && loss) losses[row] = semantics::log(sums[l]) - (value - most[l]);
    if (!wants_gradient(node)) continue;
    C gradient = semantics::exp(value - most[l]) / sums[l];
    if (hit) gradient = gradient - C(1);
    if (reduction == LossReduction::mean) gradient = gradient / static_cast<C>(node.lines.lines);
    if (!loss) {
      const int64_t at = reduction == LossReduction::none ? row : 0;
      gradient = read<C>(task.memory(node.operand(0)), at) * gradient;
    }
    x.put(task, i, gradient);
  }
  task.sync();
}

// Whether a node gives a loss for each row, and leaves their reduction to another node.
TREK_UNIT bool gives_rows(const Node& node) {
  return static_cast<Tiling>(node.tiling) != Tiling::whole || node.result(0).elements != 1;
}

// The losses of rows first ... end - 1 as they are, or all of them reduced.
template <typename C>
TREK_UNIT_CALL void finish_loss(Task task, int64_t first, int64_t end) {
  const auto* losses = reinterpret_cast<const C*>(task.at(task.node().scratch));
  const auto reduction = static_cast<LossReduction>(task.node().flag);
  std::byte* out = task.memory(task.node().result(0));
  const int64_t rows = task.node().lines.lines;
  if (gives_rows(task.node())) {
    for (int64_t row = first + task.thread(); row < end; row += task.threads())
      write<C>(out, row, losses[row]);
    return;
  }
  C total = C(0);
  constexpr uint32_t kRoom = kValuesBytes / 8;
#ifdef __CUDA__
  if constexpr (sizeof(C) == 4)
    if (rows <= semantics::kReductionTile) {
      for (int64_t row = task.thread(); row < rows; row += task.threads())
        task.shared<C>(shared_at::kValues)[row] = losses[row];
      task.sync();
      if (task.thread() >= 32) return;
      total = rows::sum_of_tile(task, shared_at::kValues, static_cast<uint32_t>(rows));
      if (task.thread() == 0)
        write<C>(out, 0, reduction == LossReduction::mean ? total / static_cast<C>(rows) : total);
      return;
    }
#endif
  begin_long<C>(task);
  uint32_t filled = 0;
  for (int64_t row = 0; row < rows;) {
    const auto n = static_cast<uint32_t>(rows - row < kRoom ? rows - row : kRoom);
    for (uint32_t i = task.thread(); i < n; i += task.threads())
      task.shared<C>(shared_at::kValues)[i] = losses[row + i];
    task.sync();
    row += n;
    filled = push_long<C>(task, {shared_at::kValues, kShift<C>}, Term::element, Joining::sum, n,
                          filled, row == rows, reduce_at::kOther);
    if (row == rows) total = task.shared<C>(reduce_at::kOther)[0];
  }
  if (task.thread() == 0)
    write<C>(out, 0, reduction == LossReduction::mean ? total / static_cast<C>(rows) : total);
}

}  // namespace softmax_detail

// The rows of a task, or all of a node that is one; n is the number of classes. fetch[0] reads the logits.
// Results: loss and gradient, or one of them.
template <typename C>
TREK_UNIT_CALL void cross_entropy(Task task, int64_t first, int64_t count) {
  using namespace softmax_detail;  // NOLINT(google-build-using-namespace)
  const bool whole = static_cast<Tiling>(task.node().tiling) == Tiling::whole;
  const int64_t begin = whole ? 0 : first;
  const int64_t rows = whole ? task.node().lines.lines : first + count;  // the end of them
  const int64_t classes = task.node().lines.n;
#ifdef __CUDA__
  // Rows that are not staged look at their classes when they come to them.
  const bool looks_later =
      sizeof(C) == 4 && static_cast<Rows>(task.node().lines.rows) != Rows::staged;
#else
  const bool looks_later = false;
#endif
  if constexpr (sizeof(C) == 4)
    if (static_cast<Rows>(task.node().lines.rows) == Rows::made)
      return made_rows::cross_entropy(task, first, count);
  if (!looks_later) {
    for (int64_t row = begin + task.thread(); row < rows; row += task.threads()) {
      const auto t = static_cast<int64_t>(operand_of(task, wants_loss(task.node()) ? 1 : 2, row));
      if (t < 0 || t >= classes) task.fail(row);
    }
    task.sync();
    if (task.failed()) return;
  }
#ifdef __CUDA__
  if constexpr (sizeof(C) == 4)
    if (static_cast<Rows>(task.node().lines.rows) != Rows::staged) {
      const Node& node = task.node();
      const bool by_row = gives_rows(node);
      auto* losses =
          reinterpret_cast<float*>(by_row ? task.memory(node.result(0)) : task.at(node.scratch));
      const bool mean = static_cast<LossReduction>(node.flag) == LossReduction::mean;
      if (static_cast<Rows>(node.lines.rows) == Rows::by_warps)
        rows::cross_entropy(task, begin, rows, losses, wants_gradient(node), mean);
      else
        rows::long_cross_entropy(task, begin, rows, losses, wants_gradient(node), mean);
      if (by_row) return;
      task.sync();
      if (task.failed()) return;
      return finish_loss<C>(task, begin, rows);
    }
#endif
  for (int64_t row = begin; row < rows && task.node().lines.n > 0;) {
    const Group group = group_at(task.node(), row, rows, 1, most_lines(task.node(), 1));
    if (is_whole(task.node(), 1)) {
      stage(task, group, 1);
      task.sync();
    }
    soften<C>(task, group);
    for (int64_t k = 0; k < task.node().lines.n; k += room_for(task.node(), 1)) {
      const Group part = part_of(task.node(), group, k, 1);
      if (!is_whole(task.node(), 1)) {
        stage(task, part, 1);
        task.sync();
      }
      finish_rows<C>(task, part);
      if (wants_gradient(task.node())) {
        deliver(task, part, 1, wants_loss(task.node()) ? 1 : 0);
        task.sync();
      }
    }
    row += group.lines;
  }
  if (wants_loss(task.node())) finish_loss<C>(task, begin, rows);
}

}  // namespace trek::device
