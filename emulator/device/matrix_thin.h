// Products with few rows, by the dot order: a vector, or up to four of them, times a matrix.
//
// There is one multiplication for each element of the right operand and row, so what counts is to have many
// elements on their way at once, and to be done soon after the last has come. A block of 64 k of one column
// is one thread's: it asks for half a block before it waits for any, and blocks of a column go side by side.
// Then a thread adds the blocks of an output in ascending order, and takes it through the deliver program.
#pragma once

#include "emulator/device/stage.h"
#include "isa/semantics/dot.h"

namespace trek::device {

namespace thin {

using program_detail::Words;
using semantics::kDotBlock;

inline constexpr uint32_t kLeft = shared_at::kValues;  // [row][k] of float
inline constexpr uint32_t kSums = shared_at::kWork;    // [block][row][column] of float
inline constexpr uint32_t kAtOnce = 32;                // elements that a thread asks for
static_assert(kThinRows * kThinDepth * 4 <= kValuesBytes);
static_assert(kSums + kThinSums * 4 <= kSharedBytes);

template <DType kType>
TREK_UNIT float element(const std::byte* at) {
  if constexpr (kType == DType::f32)
    return as_float(read<uint32_t>(at, 0));
  else if constexpr (kType == DType::bf16)
    return as_float(uint32_t{read<uint16_t>(at, 0)} << 16);
  else
    return semantics::widen(F16{read<uint16_t>(at, 0)});
}
// Element e of a word that has one or two.
template <DType kType>
TREK_UNIT float element_of(uint32_t word, uint32_t e) {
  if constexpr (kType == DType::f32) return as_float(word);
  const auto half = static_cast<uint16_t>(e == 0 ? word : word >> 16);
  if constexpr (kType == DType::bf16) return as_float(uint32_t{half} << 16);
  return semantics::widen(F16{half});
}

// What a task multiplies: columns of one matrix of the right operand.
struct Columns {
  const std::byte* data;
  uint32_t
      pitch;  // bytes from one k to the next, or where k are neighbours from one column to the next
  uint32_t columns;
  uint32_t blocks;
  uint32_t k;
  bool pieces;  // k are neighbours, in pieces of 16 bytes
};

// sum[r] for the elements at x[r][0 ... n) and the n at `at`, of which 1 ... 64 there are.
template <DType kType, bool kByLine, uint32_t kRows>
TREK_UNIT void multiply_block(const Columns& of, const std::byte* at, const float* x, uint32_t n,
                              float (&sum)[kRows]) {
  constexpr uint32_t kBytes = kType == DType::f32 ? 4 : 2;
  uint32_t k = 0;
  if (!kByLine || of.pieces) {
    TREK_ROLLED
    for (; k + kAtOnce <= n; k += kAtOnce) {
      float y[kAtOnce];
      if constexpr (kByLine) {
        constexpr uint32_t kEach = 16 / kBytes;
        Words words[kAtOnce / kEach];
        TREK_UNROLLED
        for (uint32_t i = 0; i < kAtOnce / kEach; ++i)
          words[i] = *reinterpret_cast<const Words*>(at + size_t{kBytes * k + 16 * i});
        TREK_UNROLLED
        for (uint32_t i = 0; i < kAtOnce; ++i)
          y[i] = element_of<kType>(words[i / kEach].e[i % kEach * kBytes / 4], i % (4 / kBytes));
      } else {
        TREK_UNROLLED
        for (uint32_t i = 0; i < kAtOnce; ++i) y[i] = element<kType>(at + size_t{k + i} * of.pitch);
      }
      TREK_UNROLLED
      for (uint32_t i = 0; i < kAtOnce; ++i) TREK_UNROLLED
      for (uint32_t r = 0; r < kRows; ++r)
        sum[r] = semantics::fma(x[r * of.k + k + i], y[i], sum[r]);
    }
  }
  TREK_ROLLED
  for (; k < n; ++k) {
    const float y = element<kType>(at + size_t{k} * (kByLine ? kBytes : of.pitch));
    TREK_UNROLLED
    for (uint32_t r = 0; r < kRows; ++r) sum[r] = semantics::fma(x[r * of.k + k], y, sum[r]);
  }
}

// The sums of all blocks, to kSums.
template <DType kType, bool kByLine, uint32_t kRows>
TREK_UNIT void multiply_blocks(const Task& task, const Columns& of, uint32_t rows) {
  constexpr uint32_t kBytes = kType == DType::f32 ? 4 : 2;
  const float* left = task.shared<float>(kLeft);
  float* sums = task.shared<float>(kSums);
  for (uint32_t i = task.thread(); i < of.blocks * of.columns; i += task.threads()) {
    // Neighbouring threads read what is neighbouring in memory.
    const uint32_t by = kByLine ? of.blocks : of.columns;
    const uint32_t block = kByLine ? i % by : i / by;
    const uint32_t column = kByLine ? i / by : i % by;
    const uint32_t k = block * kDotBlock;
    const uint32_t line = kByLine ? column : k;  // of `pitch` bytes
    const uint32_t in_line = kByLine ? k : column;
    const std::byte* at = of.data + size_t{line} * of.pitch + size_t{kBytes} * in_line;
    float sum[kRows] = {};
    multiply_block<kType, kByLine, kRows>(of, at, left + k,
                                          of.k - k < kDotBlock ? of.k - k : kDotBlock, sum);
    TREK_UNROLLED
    for (uint32_t r = 0; r < kRows; ++r)
      if (r < rows) sums[(block * rows + r) * of.columns + column] = sum[r];
  }
}

template <DType kType, bool kByLine>
TREK_UNIT void multiply_rows(const Task& task, const Columns& of, uint32_t rows) {
  if (rows == 1)
    multiply_blocks<kType, kByLine, 1>(task, of, rows);
  else
    multiply_blocks<kType, kByLine, kThinRows>(task, of, rows);
}
template <DType kType>
TREK_UNIT void multiply_lines(const Task& task, const Columns& of, uint32_t rows, bool by_line) {
  if (by_line)
    multiply_rows<kType, true>(task, of, rows);
  else
    multiply_rows<kType, false>(task, of, rows);
}

}  // namespace thin

// The tile of number `tile` of a node whose product is `thin`.
TREK_UNIT_CALL void multiply_tile_thin(Task task, int64_t tile) {
  using namespace thin;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const auto type = static_cast<DType>(node.operand(0).dtype);
  const int64_t bytes = size_of(type);
  const int64_t batch = tile / of.across;
  const int64_t first = (tile - batch * of.across) * of.tile_columns;
  const int64_t left = of.n - first < of.tile_columns ? of.n - first : of.tile_columns;
  const auto rows = static_cast<uint32_t>(of.m);
  const auto k = static_cast<uint32_t>(of.k);
  const bool by_line = of.b_k == 1;

  const std::byte* a =
      task.memory(node.operand(0)) + place_of(node, of.a_batch, batch) * of.a_matrix * bytes;
  float* x = task.shared<float>(kLeft);
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t i = task.thread(); i < k; i += task.threads())
      x[r * k + i] = as_float(load32(a, type, r * of.a_row + i * of.a_k));
  // Rows that there are not may be anything, but for what traps nobody: numbers.
  if (rows > 1)
    for (uint32_t i = rows * k + task.thread(); i < kThinRows * k; i += task.threads()) x[i] = 0;
  task.sync();

  Columns columns{};
  columns.columns = static_cast<uint32_t>(left);
  columns.k = k;
  columns.blocks = (k + kDotBlock - 1) / kDotBlock;
  columns.pitch = static_cast<uint32_t>((by_line ? of.b_column : of.b_k) * bytes);
  columns.data = task.memory(node.operand(1)) +
                 (place_of(node, of.b_batch, batch) * of.b_matrix + first * of.b_column) * bytes;
  columns.pieces =
      by_line && ((reinterpret_cast<uintptr_t>(columns.data) | columns.pitch) & 15) == 0;
  if (type == DType::f32)
    multiply_lines<DType::f32>(task, columns, rows, by_line);
  else if (type == DType::bf16)
    multiply_lines<DType::bf16>(task, columns, rows, by_line);
  else
    multiply_lines<DType::f16>(task, columns, rows, by_line);
  task.sync();

  const float* sums = task.shared<float>(kSums);
  for (uint32_t i = task.thread(); i < rows * columns.columns; i += task.threads()) {
    float total = sums[i];
    for (uint32_t b = 1; b < columns.blocks; ++b)
      total = semantics::add(total, sums[b * rows * columns.columns + i]);
    const uint32_t row = i / columns.columns;
    const int64_t column = first + (i - row * columns.columns);
    deliver_one(task, bits_of(total), (batch * of.m + row) * of.n + column);
  }
}

}  // namespace trek::device
