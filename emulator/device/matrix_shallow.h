// Products of f32 of a few k, by the dot order, which is one accumulator for each output: what the gradient of a
// classifier's last layer gives to the layer before. Device only, in code that is made for one product.
//
// Such a product reads little and writes much, and most of what it reads is its tail's. So a thread keeps the right operand
// of four columns in registers, and goes down the rows of the tile, two at a time, in a loop that is short, since its
// instructions are met for the first time. What the tails of all rows have beside the sums is asked for before anything is
// multiplied, to shared memory, where it is the thread's own affair; the left operand is there, too, where all lanes read the
// same.
#pragma once

#if defined(__CUDA__) && defined(TREK_SPECIALISED)

#include "emulator/device/matrix_f32_part.h"
#include "emulator/device/matrix_small.h"
#include "emulator/device/own_fours.h"

namespace trek::device {

namespace shallow {

using matrix_f32::Float4;

inline constexpr uint32_t kFour = 4;        // columns of a thread
inline constexpr uint32_t kRows = 2;        // that it multiplies side by side
using Beside = OwnFours<shared_at::kWork>;  // what its tail reads, behind the left operand
static_assert(Beside::kMost >= kMaxTail);

// Four elements of an operand or a result, in line; of f32 they begin at a multiple of four.
TREK_TILE Float4 load_four(const std::byte* at, DType type, int64_t element) {
  if (type == DType::f32) return *reinterpret_cast<const Float4*>(at + 4 * element);
  Float4 value;
  TREK_UNROLLED
  for (uint32_t e = 0; e < kFour; ++e) value[e] = as_float(load32(at, type, element + e));
  return value;
}
TREK_TILE void store_four(std::byte* at, DType type, int64_t element, Float4 value) {
  if (type == DType::f32) {
    *reinterpret_cast<Float4*>(at + 4 * element) = value;
    return;
  }
  TREK_UNROLLED
  for (uint32_t e = 0; e < kFour; ++e) store32(at, type, element + e, bits_of(value[e]));
}

// Whether a step reads an element of its own for each output that is asked for ahead.
TREK_TILE bool is_ahead(const Node& node, const TailStep& step) {
  return step.second == TailStep::elements &&
         static_cast<DType>(node.operand(step.index).dtype) == DType::f32;
}

// The right operand's columns from `column` on: [k][column]. Where a column's k are neighbours, and columns too, four of these
// are as many fours in line as they have k; else every number is a request of its own, of which a warp's are on 32 lines.
TREK_TILE void load_right(const Matrix& of, const std::byte* data, int64_t column,
                          Float4 (&right)[kShallowDepth]) {
  const auto depth = static_cast<uint32_t>(of.k);
  const auto four_at = [&](int64_t element) TREK_TILE_LAMBDA {
    return *reinterpret_cast<const Float4*>(data + 4 * element);
  };
  if (of.b_k == 1 && of.b_column == of.k) {
    float in_line[kFour * kShallowDepth];
    each_row<kShallowDepth>(depth, [&](uint32_t i) TREK_TILE_LAMBDA {
      const Float4 four = four_at(column * of.b_column + kFour * i);
      TREK_UNROLLED
      for (uint32_t e = 0; e < kFour; ++e) in_line[kFour * i + e] = four[e];
    });
    each_row<kShallowDepth>(depth, [&](uint32_t k) TREK_TILE_LAMBDA {
      TREK_UNROLLED
      for (uint32_t e = 0; e < kFour; ++e) right[k][e] = in_line[e * depth + k];
    });
    return;
  }
  each_row<kShallowDepth>(depth, [&](uint32_t k) TREK_TILE_LAMBDA {
    if (of.b_column == 1) {
      right[k] = four_at(k * of.b_k + column);
      return;
    }
    TREK_UNROLLED
    for (uint32_t e = 0; e < kFour; ++e)
      right[k][e] =
          *reinterpret_cast<const float*>(data + 4 * ((column + e) * of.b_column + k * of.b_k));
  });
}

}  // namespace shallow

// The tile of number `number` of a node whose product is `shallow`; its tail is one for registers.
TREK_UNIT_CALL void multiply_tile_shallow(Task task, int64_t number) {
  using namespace shallow;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const tensor::Tile tile = tensor::tile_of(of, number);
  const auto rows = static_cast<uint32_t>(tile.end_row - tile.first_row);
  const auto depth = static_cast<uint32_t>(of.k);
  const uint32_t line =
      (depth + kFour - 1) / kFour * kFour;  // of the left operand, in shared memory
  const std::byte* left =
      task.memory(node.operand(0)) +
      4 * (tensor::matrix_of(node, of.a_batch, tile) * of.a_matrix + tile.first_row * of.a_row);
  const std::byte* right =
      task.memory(node.operand(1)) + 4 * (tensor::matrix_of(node, of.b_batch, tile) * of.b_matrix);
  const uint32_t panel = shared_address(task.shared<std::byte>(shared_at::kValues));

  // Threads side by side have all columns, and as many times so many as there are go down every so many rows.
  const auto wide =
      static_cast<uint32_t>((of.n < of.tile_columns ? of.n : of.tile_columns) / kFour);
  const uint32_t apart = kBlockThreads / wide;
  const uint32_t first = task.thread() / wide;
  const int64_t column = tile.first_column + kFour * (task.thread() - first * wide);
  const bool exists = first < apart && column < tile.end_column;
  const auto element_of = [&](uint32_t row) TREK_TILE_LAMBDA {
    return (tile.batch * of.m + tile.first_row + row) * of.n + column;
  };
  // What the tail reads ahead: of so many of a thread's rows at once.
  uint32_t reads = 0;
  each_row<kMaxTail>(of.tail_steps,
                     [&](uint32_t s) TREK_TILE_LAMBDA { reads += is_ahead(node, of.tail[s]); });
  const uint32_t strip = reads == 0 ? rows : Beside::kMost / reads;
  const Beside beside(task);
  const auto ask = [&](uint32_t row) TREK_TILE_LAMBDA {
    TREK_ROLLED
    for (uint32_t j = 0; j < strip && row + j * apart < rows; ++j) {
      uint32_t read = j * reads;
      each_row<kMaxTail>(of.tail_steps, [&](uint32_t s) TREK_TILE_LAMBDA {
        if (!is_ahead(node, of.tail[s])) return;
        const std::byte* from = task.memory(node.operand(of.tail[s].index));
        beside.ask(read++, from + 4 * element_of(row + j * apart));
      });
    }
    commit_copies();
  };
  if (exists && reads != 0) ask(first);
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < rows * depth; i += kBlockThreads) {
    const uint32_t row = i / depth;
    const uint32_t k = i - row * depth;
    copy_ahead<4>(panel + 4 * (row * line + k), left + 4 * (row * of.a_row + k * of.a_k));
  }
  commit_copies();
  Float4 by_column[kShallowDepth] = {};
  Float4 by_row[kMaxTail] = {};  // what steps read of the column
  if (exists) {
    load_right(of, right, column, by_column);
    each_row<kMaxTail>(of.tail_steps, [&](uint32_t s) TREK_TILE_LAMBDA {
      if (of.tail[s].second != TailStep::row) return;
      const Operand& from = node.operand(of.tail[s].index);
      by_row[s] = load_four(task.memory(from), static_cast<DType>(from.dtype), column);
    });
  }
  wait_for_copies(0);
  task.sync();
  if (!exists) return;
  const Operand& to = node.result(0);
  // A row, the j-th of its strip.
  const auto multiply = [&](uint32_t row, uint32_t j) TREK_TILE_LAMBDA {
    const auto* by_k = task.shared<const float>(shared_at::kValues) + row * line;
    Float4 sum = {0, 0, 0, 0};
    each_row<kShallowDepth / kFour>(line / kFour, [&](uint32_t four) TREK_TILE_LAMBDA {
      const Float4 a = reinterpret_cast<const Float4*>(by_k)[four];
      TREK_UNROLLED
      for (uint32_t e = 0; e < kFour; ++e) {
        if (kFour * four + e >= depth) continue;
        TREK_UNROLLED
        for (uint32_t c = 0; c < kFour; ++c)
          sum[c] = semantics::fma(a[e], by_column[kFour * four + e][c], sum[c]);
      }
    });
    uint32_t read = j * reads;
    each_row<kMaxTail>(of.tail_steps, [&](uint32_t s) TREK_TILE_LAMBDA {
      const TailStep step = of.tail[s];
      Float4 second = {0, 0, 0, 0};
      if (step.second == TailStep::row) second = by_row[s];
      if (step.second == TailStep::scalar) second = as_float(task.scalar(step.index));
      if (is_ahead(node, step)) {
        second = beside.get<Float4>(read++);
      } else if (step.second == TailStep::elements) {
        const Operand& from = node.operand(step.index);
        second = load_four(task.memory(from), static_cast<DType>(from.dtype), element_of(row));
      }
      TREK_UNROLLED
      for (uint32_t c = 0; c < kFour; ++c) sum[c] = thin::apply_tail_step(step, sum[c], second[c]);
    });
    store_four(task.memory(to), static_cast<DType>(to.dtype), element_of(row), sum);
  };
  TREK_ROLLED
  for (uint32_t row = first; row < rows; row += strip * apart) {
    if (row != first) {
      ask(row);
      wait_for_copies(0);
    }
    TREK_ROLLED
    for (uint32_t j = 0; j < strip && row + j * apart < rows; j += kRows)
      each_row<kRows>(kRows, [&](uint32_t r) TREK_TILE_LAMBDA {
        const uint32_t mine = row + (j + r) * apart;
        if (j + r < strip && mine < rows) multiply(mine, j + r);
      });
  }
}

}  // namespace trek::device

#endif  // __CUDA__ && TREK_SPECIALISED
