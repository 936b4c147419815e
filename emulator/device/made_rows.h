// Cross-entropy of rows of logits that are made here: the product of a few rows of f32 and the weights of a network's last layer,
// and its bias; with what the gradient gives to the layer before (Back). Rows have nothing to do with each other, so all of it
// is one task where three waited for each other.
//
// The task's rows and all weights come to shared memory as they lie. A thread sums products of a block of 64 k of a logit, in the
// dot order; what these give is added in ascending order; the loss is by lanes, as of other short rows (rows.h).
#pragma once

#include "emulator/device/copies.h"
#include "emulator/device/reduce_order.h"
#include "emulator/device/rows.h"
#include "isa/semantics/dot.h"

namespace trek::device::made_rows {

inline constexpr uint32_t kBlock = semantics::kDotBlock;
inline constexpr uint32_t kPiece = 4;  // elements of 16 bytes

// Byte offsets in shared memory: the classes of rows, the bias, the gradient, sums of blocks; the weights, the rows.
inline constexpr uint32_t kOwn = shared_at::kSlots;
inline constexpr uint32_t kBias = kOwn + kMostLossRows * 8;
inline constexpr uint32_t kGradient = kBias + kMostClasses * 4;
inline constexpr uint32_t kSums = kGradient + kMostLossRows * kMostClasses * 4;
inline constexpr uint32_t kWeights = shared_at::kValues;
inline constexpr uint32_t kRows = kWeights + kMostWeights * 4;
static_assert(kMostLossRows == 2);  // sum_blocks()
static_assert(kSums + kMostLossRows * (kMostRow / kBlock) * kMostClasses * 4 <= kWeights);
static_assert(kRows + kMostLossRows * kMostRow * 4 <= kSharedBytes);

struct Of {
  uint32_t rows;  // of the task
  uint32_t row;   // elements of one
  uint32_t classes;
  uint32_t blocks;

  TREK_ON_DEVICE Of(const Node& node, int64_t count)
      : rows(static_cast<uint32_t>(count)),
        row(node.lines.row),
        classes(static_cast<uint32_t>(node.lines.n)),
        blocks((row + kBlock - 1) / kBlock) {}
};

// Elements of f32 in shared memory, from number `first` of those that begin at `at` on.
TREK_UNIT float* elements(const Task& task, uint32_t at, uint32_t first) {
  return task.shared<float>(at + 4 * first);
}

// Brings what the logits are made of; a sync at the end.
TREK_UNIT void bring(const Task& task, const Of& of, int64_t first) {
  const Node& node = task.node();
  const auto from = [&](uint32_t which) TREK_TILE_LAMBDA {
    return reinterpret_cast<const float*>(task.memory(node.operand(node.lines.made_of + which)));
  };
  const auto copy = [&](uint32_t to, const float* all, uint32_t elements) TREK_TILE_LAMBDA {
    TREK_ROLLED
    for (uint32_t i = kPiece * task.thread(); i < elements; i += kPiece * task.threads())
      copy_near<16>(task.shared<float>(to) + i, all + i);
  };
  copy(kRows, from(0) + first * of.row, of.rows * of.row);
  copy(kWeights, from(1), of.row * of.classes);
  if (node.lines.has_bias != 0) {
    TREK_ROLLED
    for (uint32_t i = task.thread(); i < of.classes; i += task.threads())
      copy_near<4>(task.shared<float>(kBias) + i, from(2) + i);
  }
  commit_copies();
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < of.rows; i += task.threads()) {
    const auto own = static_cast<int64_t>(operand_of(task, 1, first + i));
    if (own < 0 || own >= of.classes) task.fail(first + i);
    task.shared<int64_t>(kOwn)[i] = own;
  }
  wait_for_copies(0);
  task.sync();
}

// The products of a block, kTogether at a time; `b` are `pitch` elements apart.
template <uint32_t kTogether>
TREK_UNIT float sum_block(const float* a, const float* b, uint32_t pitch, uint32_t depth) {
  float sum = 0;
  uint32_t i = 0;
  TREK_ROLLED
  for (; i + kTogether <= depth; i += kTogether) {
    TREK_UNROLLED
    for (uint32_t j = 0; j < kTogether; ++j)
      sum = semantics::fma(a[i + j], b[uint64_t{i + j} * pitch], sum);
  }
  TREK_ROLLED
  for (; i < depth; ++i) sum = semantics::fma(a[i], b[uint64_t{i} * pitch], sum);
  return sum;
}

// The sums of blocks of all logits; a sync at the end. A warp has a block, and a lane a class.
TREK_UNIT void sum_blocks(const Task& task, const Of& of) {
  constexpr uint32_t kLanes = kMostClasses;
  float* sums = task.shared<float>(kSums);
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < of.rows * of.blocks * kLanes; i += task.threads()) {
    const uint32_t column = i % kLanes;
    uint32_t block = i / kLanes;
    if (column >= of.classes) continue;
    const uint32_t row = block < of.blocks ? 0 : 1;
    block -= row * of.blocks;
    const uint32_t k = block * kBlock;
    sums[i] = sum_block<16>(elements(task, kRows, row * of.row + k),
                            elements(task, kWeights, k * of.classes + column), of.classes,
                            of.row - k < kBlock ? of.row - k : kBlock);
  }
  task.sync();
}

// A logit, from those sums.
TREK_UNIT float logit(const Task& task, const Of& of, uint32_t row, uint32_t column) {
  const float* sum = elements(task, kSums, row * of.blocks * kMostClasses + column);
  float total = sum[0];
  TREK_ROLLED
  for (uint32_t b = 1; b < of.blocks; ++b)
    total = semantics::add(total, sum[uint64_t{b} * kMostClasses]);
  return task.node().lines.has_bias != 0 ? semantics::add(total, task.shared<float>(kBias)[column])
                                         : total;
}

// Losses, and the gradient: to memory, and to shared memory; a sync at the end.
TREK_UNIT void lose(const Task& task, const Of& of, int64_t first, bool gradient, bool mean) {
  const Node& node = task.node();
  auto* losses = reinterpret_cast<float*>(task.memory(node.result(0)));
  auto* to = reinterpret_cast<float*>(task.memory(node.result(gradient ? 1 : 0)));
  const float rows = mean ? static_cast<float>(node.lines.lines) : 0;
  const auto give = [&](uint32_t row, uint32_t at, float share) TREK_TILE_LAMBDA {
    to[(first + row) * of.classes + at] = share;
    task.shared<float>(kGradient)[row * kMostClasses + at] = share;
  };
#ifdef __CUDA__
  // A warp has a row.
  const rows::Lanes lanes(task, of.classes, 32);
  if (const uint32_t row = task.thread() / 32; row < of.rows) {
    rows::Row<1> x{};
    if (lanes.has(0)) x.x[0] = logit(task, of, row, lanes.lane);
    rows::lose(x, lanes, task.shared<int64_t>(kOwn)[row], losses + first + row, gradient, rows,
               [&](uint32_t column, float share) TREK_TILE_LAMBDA { give(row, column, share); });
  }
#else
  for (uint32_t row = task.thread(); row < of.rows; row += task.threads()) {
    const auto own = static_cast<uint32_t>(task.shared<int64_t>(kOwn)[row]);
    float x[kMostClasses];
    float e[kMostClasses];
    float most = x[0] = logit(task, of, row, 0);
    for (uint32_t i = 1; i < of.classes; ++i) {
      x[i] = logit(task, of, row, i);
      most = semantics::max(most, x[i]);
    }
    float partial[kMostClasses];
    for (uint32_t i = 0; i < of.classes; ++i) partial[i] = e[i] = semantics::exp(x[i] - most);
    semantics::fold(partial, static_cast<int>(of.classes),
                    [](float a, float b) { return semantics::add(a, b); });
    const float sum = partial[0];
    if (own < of.classes) losses[first + row] = semantics::log(sum) - (x[own] - most);
    for (uint32_t i = 0; gradient && i < of.classes; ++i) {
      float share = e[i] / sum;
      if (i == own) share = share - 1.0f;
      give(row, i, rows != 0 ? share / rows : share);
    }
  }
#endif
  task.sync();
}

// What the layer before wants: of each row the gradient times each line of the weights.
TREK_UNIT void give_back(const Task& task, const Of& of, int64_t first) {
  const Node& node = task.node();
  const bool has_tail = static_cast<Back>(node.lines.back) == Back::relu_grad;
  TREK_ROLLED
  for (uint32_t row = 0; row < of.rows; ++row) {
    auto* to = reinterpret_cast<float*>(task.memory(node.result(2))) + (first + row) * of.row;
    const float* layer = elements(task, kRows, row * of.row);
    const float* gradient = elements(task, kGradient, row * kMostClasses);
    TREK_ROLLED
    for (uint32_t i = task.thread(); i < of.row; i += task.threads()) {
      const float sum =
          sum_block<2>(gradient, elements(task, kWeights, i * of.classes), 1, of.classes);
      to[i] = has_tail ? semantics::relu_grad(sum, layer[i]) : sum;
    }
  }
}

// Rows [first, first + count).
TREK_UNIT_CALL void cross_entropy(Task task, int64_t first, int64_t count) {
  const Node& node = task.node();
  const Of of(node, count);
  const bool mean = node.flag == 0;  // LossReduction::mean
  const bool gradient = static_cast<Opcode>(node.opcode) != Opcode::CrossEntropy;
  if (!kSpecialised && is_early(node) && !await_inputs()) return;
  bring(task, of, first);
  sum_blocks(task, of);
  lose(task, of, first, gradient, mean);
  if (static_cast<Back>(node.lines.back) != Back::none) give_back(task, of, first);
}

}  // namespace trek::device::made_rows
