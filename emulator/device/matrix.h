// The matrix product, by the dot order (isa/semantics/dot.h).
//
// A tile is worked on in parts of M × threads outputs, 64 × 64 for f32 on the device. For each block of 64
// k the lines of both operands are staged in the accumulator's type, [k][line], then every thread
// multiplies for its M × M outputs: one accumulator each for the block, whose sums join the segment's.
// Segments' sums join the totals, which wait in shared memory. Scale, bias, tail and the conversion to the
// result are steps of the node's program.
#pragma once

#include "emulator/device/stage.h"
#include "isa/semantics/dot.h"
#include "isa/semantics/elements.h"

namespace trek::device {

namespace matrix_detail {

using semantics::kDotBlock;
using semantics::kDotSegment;

// Outputs of a thread, in each direction, by accumulator.
template <typename A>
inline constexpr uint32_t kOutputs = 2;
template <>
inline constexpr uint32_t kOutputs<float> = 4;
inline constexpr uint32_t kMostDown = 16;  // threads, in each direction
// From the elements of one k to those of the next; the rest keeps threads out of each other's banks.
template <typename A>
inline constexpr uint32_t kLineStep = kMostDown * kOutputs<A> + 4;
inline constexpr uint32_t kLeft = shared_at::kWork;
template <typename A>
inline constexpr uint32_t kRight = kLeft + sizeof(A) * kDotBlock * kLineStep<A>;
static_assert(kRight<float> + kDotBlock * kLineStep<float> * 4 <= kSharedBytes);
static_assert(kRight<double> + kDotBlock * kLineStep<double> * 8 <= kSharedBytes);

template <typename A>
TREK_UNIT A multiply_add(A x, A y, A sum) {
  if constexpr (semantics::kIsFloat<A>)
    return semantics::fma(x, y, sum);
  else
    return sum + x * y;  // unsigned, so modulo 2^n
}

// An element as an accumulator's type.
template <typename A>
TREK_UNIT A element_as(const std::byte* data, DType type, int64_t index) {
  if constexpr (__is_same(A, float)) {
    return as_float(load32(data, type, index));
  } else if constexpr (__is_same(A, double)) {
    return read<double>(data, index);
  } else if constexpr (sizeof(A) == 4) {
    return load32(data, type, index);
  } else {
    return load64(data, type, index);
  }
}

// Lines of one operand: line l and place k lie at data[l × line + k × along].
struct Side {
  const std::byte* data;
  int64_t line;
  int64_t along;
  uint32_t lines;  // there are; the others are given as 0
};

// Brings `lines` lines at k ... k + n - 1 to to[place × kLineStep + line].
template <typename A>
TREK_UNIT void stage_side(const Task& task, const Side& side, DType type, uint32_t lines, int64_t k,
                          uint32_t n, A* to) {
  const bool by_line = side.line == 1;  // neighbours in memory are neighbouring lines
  const uint32_t fast = by_line ? lines : kDotBlock;
  for (uint32_t i = task.thread(); i < lines * kDotBlock; i += task.threads()) {
    const uint32_t slow = i / fast;
    const uint32_t line = by_line ? i - slow * fast : slow;
    const uint32_t place = by_line ? slow : i - slow * fast;
    if (place >= n) continue;
    A value = A(0);
    if (line < side.lines)
      value = element_as<A>(side.data, type, line * side.line + (k + place) * side.along);
    to[place * kLineStep<A> + line] = value;
  }
}

template <typename A>
struct Outputs {
  static constexpr uint32_t M = kOutputs<A>;
  A at[M][M];
};

// One block: sums over n staged places.
template <typename A>
TREK_UNIT void multiply(const A* left, const A* right, uint32_t n, Outputs<A>& block) {
  constexpr uint32_t M = kOutputs<A>;
  for (uint32_t i = 0; i < M; ++i)
    for (uint32_t j = 0; j < M; ++j) block.at[i][j] = A(0);
  for (uint32_t k = 0; k < n; ++k) {
    A x[M];
    A y[M];
    for (uint32_t i = 0; i < M; ++i) x[i] = left[k * kLineStep<A> + i];
    for (uint32_t j = 0; j < M; ++j) y[j] = right[k * kLineStep<A> + j];
    for (uint32_t i = 0; i < M; ++i)
      for (uint32_t j = 0; j < M; ++j) block.at[i][j] = multiply_add(x[i], y[j], block.at[i][j]);
  }
}

template <typename A>
TREK_UNIT void add_to(Outputs<A>& sum, const Outputs<A>& part, bool first) {
  constexpr uint32_t M = kOutputs<A>;
  for (uint32_t i = 0; i < M; ++i)
    for (uint32_t j = 0; j < M; ++j)
      sum.at[i][j] = first ? part.at[i][j] : semantics::add(sum.at[i][j], part.at[i][j]);
}

// How threads stand over the outputs.
struct Layout {
  uint32_t down;
  uint32_t across;
};
TREK_UNIT Layout layout_of(uint32_t threads) {
  uint32_t down = 1;
  while (4 * down * down <= threads && down < kMostDown) down *= 2;
  const uint32_t across = threads / down;
  return {down, across < kMostDown ? across : kMostDown};
}

// A part of the result: of rows counted through the batch.
struct Part {
  int64_t row;
  int64_t column;
  uint32_t m;
  uint32_t n;
};
TREK_UNIT_CALL void deliver_part(Task task, Part part) {
  Positions where;
  where.width = part.n;
  where.rows = task.node().matrix.result_rows;
  where.first_row = part.row;
  where.columns = task.node().matrix.result_columns;
  where.first_column = part.column;
  run(task, kDeliver, where, part.m * part.n, shared_at::kValues, 0);
}

}  // namespace matrix_detail

// The tile of number `tile`.
template <typename A>
TREK_UNIT_CALL void multiply_tile(Task task, int64_t tile) {
  using namespace matrix_detail;  // NOLINT(google-build-using-namespace)
  constexpr uint32_t M = kOutputs<A>;
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const auto a_type = static_cast<DType>(node.operand(0).dtype);
  const auto b_type = static_cast<DType>(node.operand(1).dtype);
  const Layout layout = layout_of(task.threads());
  const uint32_t rows = layout.down * M;
  const uint32_t columns = layout.across * M;
  const uint32_t my_row = task.thread() / layout.across * M;
  const uint32_t my_column = task.thread() % layout.across * M;
  const bool works = my_row < rows;
  A* left = task.shared<A>(kLeft);
  A* right = task.shared<A>(kRight<A>);
  const Staged<A> totals{shared_at::kValues, shift_of(node)};

  const int64_t batch = tile / (of.down * of.across);
  const int64_t within = tile - batch * of.down * of.across;
  const int64_t first_row = within / of.across * of.tile_rows;
  const int64_t first_column = within % of.across * of.tile_columns;
  const int64_t end_row = of.m - first_row < of.tile_rows ? of.m : first_row + of.tile_rows;
  const int64_t end_column =
      of.n - first_column < of.tile_columns ? of.n : first_column + of.tile_columns;
  const std::byte* a = task.memory(node.operand(0)) +
                       place_of(node, of.a_batch, batch) * of.a_matrix * size_of(a_type);
  const std::byte* b = task.memory(node.operand(1)) +
                       place_of(node, of.b_batch, batch) * of.b_matrix * size_of(b_type);

  for (int64_t row = first_row; row < end_row; row += rows)
    for (int64_t column = first_column; column < end_column; column += columns) {
      const auto m = static_cast<uint32_t>(end_row - row < rows ? end_row - row : rows);
      const auto n =
          static_cast<uint32_t>(end_column - column < columns ? end_column - column : columns);
      const Side x{a + row * of.a_row * size_of(a_type), of.a_row, of.a_k, m};
      const Side y{b + column * of.b_column * size_of(b_type), of.b_column, of.b_k, n};
      Outputs<A> segment{};
      for (int64_t k = 0; k < of.k; k += kDotBlock) {
        const auto length = static_cast<uint32_t>(of.k - k < kDotBlock ? of.k - k : kDotBlock);
        stage_side(task, x, a_type, rows, k, length, left);
        stage_side(task, y, b_type, columns, k, length, right);
        task.sync();
        Outputs<A> block{};
        if (works) {
          multiply(left + my_row, right + my_column, length, block);
          add_to(segment, block, k % kDotSegment == 0);
        }
        task.sync();
        const bool ends = k + kDotBlock >= of.k || (k + kDotBlock) % kDotSegment == 0;
        if (!ends || !works) continue;
        for (uint32_t i = 0; i < M; ++i)
          for (uint32_t j = 0; j < M; ++j) {
            if (my_row + i >= m || my_column + j >= n) continue;
            const uint32_t at = (my_row + i) * n + my_column + j;
            totals.put(task, at,
                       k < kDotSegment ? segment.at[i][j]
                                       : semantics::add(totals.get(task, at), segment.at[i][j]));
          }
      }
      if (of.k == 0)
        for (uint32_t i = task.thread(); i < m * n; i += task.threads()) totals.put(task, i, A(0));
      task.sync();
      deliver_part(task, {batch * of.m + row, column, m, n});
      task.sync();
    }
}

}  // namespace trek::device
