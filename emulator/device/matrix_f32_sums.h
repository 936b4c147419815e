// The sums of a large part of the f32 product: of 128 x 128 outputs a thread has a patch of 8 x 8. Those of a
// block of k are in its registers. Those of the segment are there too as far as registers go, because all threads
// reach the end of a block together and would wait for shared memory, where the others are; behind these, where
// there are several segments, the totals. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_f32_part.h"

namespace trek::device::matrix_f32 {

// A patch is 16 fours, each four rows of a column; in shared memory a thread's are kFours bytes apart.
inline constexpr uint32_t kPatchFours = 16;
inline constexpr uint32_t kFours = kBlockThreads * 16;

inline constexpr Float4 kNothing = {-0.0f, -0.0f, -0.0f,
                                    -0.0f};  // what is added first stays itself

using Patch = float[8][8];

TREK_TILE Float4 four_of(const Patch& sum, uint32_t v) {
  const uint32_t i = v / 8 * 4;
  return {sum[i][v % 8], sum[i + 1][v % 8], sum[i + 2][v % 8], sum[i + 3][v % 8]};
}

// A thread's sums of a segment, of which the last kKept fours are in registers.
template <uint32_t kKept>
struct SegmentSums {
  static constexpr uint32_t kShared = kPatchFours - kKept;  // the first fours
  static constexpr uint32_t kBytes = kShared * kFours;      // of the block's; the totals behind them
  static constexpr uint32_t kTotalBytes = kPatchFours * kFours;

  uint32_t at;  // the thread's first, in shared memory
  Float4 kept[kKept == 0 ? 1 : kKept];

  TREK_ON_DEVICE explicit SegmentSums(uint32_t first) : at(first) {
#pragma unroll
    for (uint32_t v = 0; v < kShared; ++v) store_four(at + v * kFours, kNothing);
#pragma unroll
    for (Float4& four : kept) four = kNothing;
  }

  // Adds a block, behind the kStep of k from `from` on, which end it; and at the end of a segment the segment to the
  // totals. The block's sums are 0 then.
  TREK_ON_DEVICE void add_block(Patch& sum, uint32_t from, uint32_t k_end) {
#pragma unroll
    for (uint32_t v = 0; v < kShared; ++v)
      store_four(at + v * kFours, load_four(at + v * kFours) + four_of(sum, v));
#pragma unroll
    for (uint32_t v = 0; v < kKept; ++v) kept[v] = kept[v] + four_of(sum, kShared + v);
#pragma unroll
    for (auto& row : sum)
#pragma unroll
      for (float& of : row) of = 0;
    const bool last = from + kStep >= k_end;
    if (k_end > kSegment && (from % kSegment == kSegment - kStep || last)) add_segment(from, last);
  }

  // The results as a patch. The thread has read its own when this returns.
  TREK_ON_DEVICE void take(Patch& sum) const {
#pragma unroll
    for (uint32_t v = 0; v < kPatchFours; ++v) {
      const Float4 four = v < kShared ? load_four_now(at + v * kFours) : kept[v - kShared];
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) sum[v / 8 * 4 + e][v % 8] = four[e];
    }
  }

 private:
  TREK_ON_DEVICE void add_segment(uint32_t from, bool last) {
    const uint32_t totals = at + kBytes;
    TREK_ROLLED
    for (uint32_t v = 0; v != kBytes; v += kFours) {
      Float4 total = load_four_now(at + v);
      if (from >= kSegment) total = load_four_now(totals + v) + total;
      store_four(totals + v, total);
      store_four(at + v, last ? total : kNothing);
    }
#pragma unroll
    for (uint32_t v = 0; v < kKept; ++v) {
      const uint32_t place = totals + (kShared + v) * kFours;
      Float4 total = kept[v];
      if (from >= kSegment) total = load_four_now(place) + total;
      store_four(place, total);
      kept[v] = last ? total : kNothing;
    }
  }
};

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
