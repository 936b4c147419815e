// The sums of a large part of the f32 product: of 128 x 128 outputs a thread has a patch of 8 x 8. Those of a
// block of k are in its registers, those of the segment in shared memory, and behind these, where there are
// several segments, the totals. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_f32_part.h"

namespace trek::device::matrix_f32 {

inline constexpr uint32_t kSums = kLargeLines * kLargeLines * 4;

// The 16 fours of a thread, each four rows of a column of its patch, are kFours bytes apart.
inline constexpr uint32_t kFours = kBlockThreads * 16;

inline constexpr Float4 kNothing = {-0.0f, -0.0f, -0.0f,
                                    -0.0f};  // what is added first stays itself

using Patch = float[8][8];

TREK_TILE void clear_sums(uint32_t sums, Patch& sum) {
#pragma unroll
  for (uint32_t v = 0; v < 16; ++v) store_four(sums + v * kFours, kNothing);
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i)
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j) sum[i][j] = 0;
}

// Adds a block to its segment, behind the kStep of k from `from` on, which end the block; and at the end of a
// segment the segment to the totals.
TREK_TILE void add_block(uint32_t sums, Patch& sum, uint32_t from, uint32_t k_end) {
#pragma unroll
  for (uint32_t v = 0; v < 16; ++v) {
    const uint32_t i = v / 8 * 4;
    const uint32_t j = v % 8;
    store_four(sums + v * kFours,
               load_four(sums + v * kFours) +
                   Float4{sum[i][j], sum[i + 1][j], sum[i + 2][j], sum[i + 3][j]});
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) sum[i + e][j] = 0;
  }
  const bool last = from + kStep >= k_end;
  if (k_end <= kSegment || (from % kSegment != kSegment - kStep && !last)) return;
  TREK_ROLLED
  for (uint32_t at = sums; at != sums + kSums; at += kFours) {
    Float4 total = load_four_now(at);
    if (from >= kSegment) total = load_four_now(at + kSums) + total;
    store_four(at + kSums, total);
    store_four(at, last ? total : kNothing);
  }
}

// The patch, of which each thread has read its own when this returns for all: the memory is free.
TREK_TILE void take_sums(const Task& task, uint32_t sums, Patch& sum) {
#pragma unroll
  for (uint32_t v = 0; v < 16; ++v) {
    const Float4 four = load_four_now(sums + v * kFours);
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) sum[v / 8 * 4 + e][v % 8] = four[e];
  }
  task.sync();
}

// Each thread has sums of its own; now they lie in rows, at kValues: [rows][columns] of the part. row_of(i) and
// column_of(j) say where in it row i and column j of the patch are.
template <class RowOf, class ColumnOf>
TREK_TILE void lay_in_rows(const Task& task, const Patch& sum, RowOf row_of, ColumnOf column_of) {
  float* values = task.shared<float>(shared_at::kValues);
  const uint32_t rows = part_of(task).rows;
  const uint32_t columns = part_of(task).columns;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i)
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j) {
      const uint32_t row = row_of(i);
      const uint32_t column = column_of(j);
      if (row < rows && column < columns) values[row * columns + column] = sum[i][j];
    }
}

}  // namespace trek::device::matrix_f32

#endif  // __CUDA__
