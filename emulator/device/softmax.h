// Softmax, log-softmax and their gradients, along lines; cross-entropy, whose lines are rows of logits.
//
// What a line needs as a whole (its maximum, its sum) is reduced first, then its elements are made in place
// of what was staged. A line that does not fit is staged once more for each of these.
#pragma once

#include "emulator/device/reduce.h"

namespace trek::device {

namespace softmax_detail {

// The maximum (`to_most`) and the sum of exp(x - maximum) (`to_sum`) of each line of a group.
template <typename C>
TREK_UNIT void soften(const Task& task, const Grouping& grouping, const Group& group, C* to_most,
                      C* to_sum) {
  Term<C> term{TermOf::element, staged<C>(task, shared_at::kValues)};
  Joining how = Joining::greatest;
  C* to = to_most;
  TREK_ROLLED
  for (int round = 0; round < 2; ++round) {
    reduce_group<C>(task, grouping, group, term, how, 1, to);
    term.what = TermOf::exponential;
    term.subtrahend = to_most;
    how = Joining::sum;
    to = to_sum;
  }
}

}  // namespace softmax_detail

template <typename C>
TREK_UNIT_CALL void softmax(Task task, int64_t first, int64_t count) {
  const Node& node = task.node;
  const auto opcode = static_cast<Opcode>(node.opcode);
  const bool forward = opcode == Opcode::Softmax || opcode == Opcode::LogSoftmax;
  constexpr uint32_t kSecondArray = shared_at::kValues + kValuesBytes / 2;
  const uint32_t room = capacity(node, forward ? kValuesBytes : kValuesBytes / 2);
  const uint32_t tiles = node.lines.n == 0 || node.lines.n > room
                             ? 1
                             : reduce_detail::tiles_of(static_cast<uint32_t>(node.lines.n));
  const Grouping grouping{
      first,        first + count,
      room,         tiles == 1 ? reduce_at::kPairs : reduce_at::kPairs / (2 * tiles),
      node.lines.n, node.lines.across != 0};
  C* most = task.shared<C>(reduce_at::kFirst);
  C* sums = task.shared<C>(reduce_at::kOther);
  const Staged<C> x = staged<C>(task, shared_at::kValues);
  const Staged<C> y = staged<C>(task, kSecondArray);
  if (grouping.n == 0) return;
  for (int64_t line = first; line < first + count;) {
    const Group group = grouping.at(line);
    if (grouping.whole()) {
      stage(task, group, 0, shared_at::kValues);
      if (!forward) stage(task, group, 1, kSecondArray);
      task.sync();
    }
    if (forward) {
      softmax_detail::soften<C>(task, grouping, group, most, sums);
    } else {
      const bool product = opcode == Opcode::SoftmaxGrad;
      const Term<C> term{product ? TermOf::product : TermOf::element, x, y};
      reduce_group<C>(task, grouping, group, term, Joining::sum, 2, sums);
    }
    for (int64_t k = 0; k < grouping.n; k += grouping.room) {
      const Group part = grouping.part(group, k);
      if (!grouping.whole()) {
        stage(task, part, 0, shared_at::kValues);
        if (!forward) stage(task, part, 1, kSecondArray);
        task.sync();
      }
      for (uint32_t i = task.thread(); i < part.size(); i += task.threads()) {
        const uint32_t l = part.across ? i % part.lines : i / part.n;
        const C value = x.get(i);
        C result;
        switch (opcode) {
          case Opcode::Softmax:
            result = semantics::exp(value - most[l]) / sums[l];
            break;
          case Opcode::LogSoftmax:
            result = (value - most[l]) - semantics::log(sums[l]);
            break;
          case Opcode::SoftmaxGrad:
            result = y.get(i) * (value - sums[l]);
            break;
          default: {
            const C share = semantics::exp(y.get(i)) * sums[l];
            result = value - share;
          }
        }
        x.put(i, result);
      }
      task.sync();
      deliver(task, part, 0, shared_at::kValues);
      task.sync();
    }
    line += group.lines;
  }
}

// ---- cross-entropy -------------------------------------------------------------------------------

enum class LossReduction : uint8_t { mean, sum, none };  // Node::flag

// Lines are rows, n the classes. Own operands: logits and classes, for the gradient alone dl before them;
// fetch[0] reads the logits. Results: loss and gradient, or one of them. For the gradient the programs are
// deliver[1], for the loss deliver[0].
template <typename C>
TREK_UNIT_CALL void cross_entropy(Task task) {
  const Node& node = task.node;
  const auto opcode = static_cast<Opcode>(node.opcode);
  const bool wants_loss = opcode != Opcode::CrossEntropyGrad;
  const bool wants_gradient = opcode != Opcode::CrossEntropy;
  const uint32_t classes = wants_loss ? 1 : 2;  // the operand
  const auto reduction = static_cast<LossReduction>(node.flag);
  const int64_t rows = node.lines.lines;
  for (int64_t row = task.thread(); row < rows; row += task.threads()) {
    const auto t = static_cast<int64_t>(task.operand(classes, row));
    if (t < 0 || t >= node.lines.n) task.fail(row);
  }
  task.sync();
  if (task.fault->element != INT64_MAX) return;
  const uint32_t room = capacity(node, kValuesBytes);
  const uint32_t tiles =
      node.lines.n > room ? 1 : reduce_detail::tiles_of(static_cast<uint32_t>(node.lines.n));
  const Grouping grouping{0,
                          rows,
                          room,
                          tiles == 1 ? reduce_at::kPairs : reduce_at::kPairs / (2 * tiles),
                          node.lines.n,
                          false};
  C* most = task.shared<C>(reduce_at::kFirst);
  C* sums = task.shared<C>(reduce_at::kOther);
  const Staged<C> x = staged<C>(task, shared_at::kValues);
  // Losses wait in the arena, because their reduction needs the room that rows need.
  auto* losses = reinterpret_cast<C*>(task.arena + node.scratch);
  for (int64_t row = 0; row < rows && grouping.n > 0;) {
    const Group group = grouping.at(row);
    if (grouping.whole()) {
      stage(task, group, 0, shared_at::kValues);
      task.sync();
    }
    softmax_detail::soften<C>(task, grouping, group, most, sums);
    for (int64_t k = 0; k < grouping.n; k += grouping.room) {
      const Group part = grouping.part(group, k);
      if (!grouping.whole()) {
        stage(task, part, 0, shared_at::kValues);
        task.sync();
      }
      for (uint32_t i = task.thread(); i < part.size(); i += task.threads()) {
        const uint32_t l = i / part.n;
        const int64_t own = static_cast<int64_t>(task.operand(classes, row + l));
        const bool hit = part.k + (i - l * part.n) == own;
        const C value = x.get(i);
        if (hit && wants_loss) losses[row + l] = semantics::log(sums[l]) - (value - most[l]);
        if (!wants_gradient) continue;
        C gradient = semantics::exp(value - most[l]) / sums[l];
        if (hit) gradient = gradient - C(1);
        if (reduction == LossReduction::mean) gradient = gradient / static_cast<C>(rows);
        if (!wants_loss) {
          const int64_t at = reduction == LossReduction::none ? row + l : 0;
          gradient = read<C>(task.memory(node.operand(0)), at) * gradient;
        }
        x.put(i, gradient);
      }
      task.sync();
      if (wants_gradient) {
        const Positions where = positions_of(part, node.lines.kept, node.lines.along);
        run(task, node.deliver[1], where, part.size(), shared_at::kValues,
            &node.result(wants_loss ? 1 : 0));
        task.sync();
      }
    }
    row += group.lines;
  }
  if (!wants_loss) return;
  std::byte* out = task.memory(node.result(0));
  if (reduction == LossReduction::none) {
    for (int64_t row = task.thread(); row < rows; row += task.threads())
      write<C>(out, row, losses[row]);
    return;
  }
  // The losses, in the reduction order, through the same room.
  C total = C(0);
  if (rows > 0) {
    constexpr uint32_t kShift = sizeof(C) == 4 ? 2 : 3;
    constexpr uint32_t kRoom = kValuesBytes / 8;
    LongReduction<C> sum(task, Joining::sum);
    for (int64_t row = 0; row < rows; row += kRoom) {
      const auto n = static_cast<uint32_t>(rows - row < kRoom ? rows - row : kRoom);
      const Term<C> term{TermOf::element, {reinterpret_cast<std::byte*>(losses + row), kShift}};
      sum.push(term, n);
    }
    sum.finish(sums);
    total = sums[0];
  }
  if (task.thread() == 0)
    write<C>(out, 0, reduction == LossReduction::mean ? total / static_cast<C>(rows) : total);
}

}  // namespace trek::device
