// Thin products of one row of 16 bits by tensor cores, under fast numerics, in compiled code on a device.
//
// By the dot order a block of 64 k of a column is one thread's, 64 additions that wait for each other: for a row of a few
// hundred elements that takes longer than all else between a task's inputs and its result. Here the row is the first of
// the 16 that a product of tensor cores has, and the other 15 are zero. Columns are taken by eights. Of fewer eights than
// warps each warp has all of them and shares the k with the others; the sums of warps are in the place of those of
// blocks, and are added in the same order.
#pragma once

#if defined(TREK_SPECIALISED) && defined(__CUDA__)

#include "emulator/device/matrix_thin_tail.h"
#include "emulator/device/tensor_core.h"

namespace trek::device::thin {

// The row is staged as it is multiplied: 16 bits each.
TREK_TILE uint32_t row_at() { return shared_at::kValues; }
// Where element k goes.
template <DType kType>
TREK_TILE void put_in_row(const Task& task, uint32_t k, float value) {
  uint16_t bits = 0;
  if constexpr (kType == DType::bf16)
    bits = semantics::narrow<BF16>(value).bits;
  else
    bits = semantics::narrow<F16>(value).bits;
  *task.shared<Aliased<uint16_t>>(row_at() + 2 * k) = bits;
}

// The sums of a part's columns: [share of k][column].
template <DType kType>
TREK_TILE void multiply_by_tensor_cores(const Task& task, const Work& work, uint32_t panel,
                                        uint32_t columns) {
  constexpr auto kFactors = kType == DType::bf16 ? tensor::Factors::bf16 : tensor::Factors::f16;
  constexpr uint32_t kAtTime = 4;  // steps whose part of the row is loaded at once
  const Thin& cut = work.cut();
  const uint32_t warp = task.thread() / 32;
  const uint32_t lane = task.thread() % 32;
  const uint32_t eights = columns / kEight;
  const bool shares_k = cut.shares > 1;
  const bool by_line = cut.by_line != 0;
  float* sums = task.shared<float>(cut.sums);
  const uint32_t x = shared_address(task.shared<std::byte>(row_at())) + 4 * (lane % 4);
  const uint32_t weights = shared_address(task.shared<std::byte>(panel));
  // Where this lane's row of eight elements lies, of those that lanes load together: of k neighbours a column's at k
  // ... k + 7, else a k's of eight columns.
  const uint32_t line = line_of(cut, 2);
  const uint32_t row = by_line ? lane % 8 * line + lane / 8 * 16 : lane * cut.row;
  const uint32_t across = by_line ? kEight * line : 2 * kEight;
  const uint32_t steps = cut.k / kDeep;
  const uint32_t begin = shares_k ? warp : 0;
  const uint32_t by = shares_k ? kWarps : 1;

  TREK_ROLLED
  for (uint32_t first = shares_k ? 0 : warp; first < eights; first += kWarps) {
    const uint32_t count = shares_k ? eights : 1;
    float sum[kWarps][2][4] = {};
    TREK_ROLLED
    for (uint32_t step = begin; step < steps; step += kAtTime * by) {
      uint32_t a[kAtTime][4];
      TREK_UNROLLED
      for (uint32_t u = 0; u < kAtTime; ++u) TREK_UNROLLED
      for (uint32_t q = 0; q < 4; ++q) {
        a[u][q] = 0;
        if (step + u * by < steps) {
          const uint32_t word = tensor::load_word(x + 2 * kDeep * (step + u * by) + 16 * q);
          a[u][q] = lane < 4 ? word : 0;
        }
      }
      TREK_UNROLLED
      for (uint32_t u = 0; u < kAtTime; ++u) {
        if (step + u * by >= steps) continue;
        const uint32_t k = kDeep * (step + u * by);
        const uint32_t at =
            weights + first * across + row + (by_line ? 2 * k : (k + k / kBlock) * cut.row);
        const uint32_t near[4] = {a[u][0], 0, a[u][1], 0};
        const uint32_t far[4] = {a[u][2], 0, a[u][3], 0};
        each_row<kWarps>(count, [&](uint32_t e) TREK_TILE_LAMBDA {
          uint32_t b[4];
          if (by_line)
            tensor::load_matrices<false>(b, at + e * across);
          else
            tensor::load_matrices<true>(b, at + e * across);
          tensor::multiply<kFactors>(sum[e][0], near, b[0], b[1]);
          tensor::multiply<kFactors>(sum[e][1], far, b[2], b[3]);
        });
      }
    }
    if (lane < 4)
      each_row<kWarps>(count, [&](uint32_t e) TREK_TILE_LAMBDA {
        float* to = sums + (shares_k ? warp * columns : 0) + (first + e) * kEight + 2 * lane;
        to[0] = sum[e][0][0] + sum[e][1][0];
        to[1] = sum[e][0][1] + sum[e][1][1];
      });
  }
}

}  // namespace trek::device::thin

#endif
