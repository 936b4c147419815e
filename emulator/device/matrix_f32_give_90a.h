// From the sums of a part that warps have left in shared memory (matrix_f32_slots_90a.h) to the result. Compiled for
// sm_90a alone.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_f32_result.h"
#include "emulator/device/matrix_f32_wide_90a.h"

namespace trek::device::matrix_f32 {

// Where a thread's fours are in a part of patches of so many rows and columns: of every warp's from warp `first` on, the one of
// the thread's own place, `four`, and those eight behind it and so on, of which the n-th is asked for.
template <uint32_t kRows, uint32_t kColumns>
struct Places {
  static constexpr uint32_t kOfRow = kColumns / 4;
  static constexpr uint32_t kOfWarp = kRows * kOfRow;
  uint32_t down;
  uint32_t across;
  uint32_t four;
  uint32_t across_bits;

  TREK_ON_DEVICE Places(const Cut&, uint32_t lane, uint32_t of_warp, uint32_t bits)
      : down(lane_down(lane)), across(lane_across(lane)), four(of_warp), across_bits(bits) {}
  TREK_ON_DEVICE uint32_t row_of(uint32_t first, uint32_t n) const {
    const uint32_t warp = first + (four + 8 * n) / kOfWarp;
    return (warp >> across_bits) * (slots_90a::kDown * kRows) +
           wide_90a::line_of<kRows>(slots_90a::kDown, down, (four + 8 * n) % kOfWarp / kOfRow);
  }
  TREK_ON_DEVICE uint32_t column_of(uint32_t first, uint32_t n) const {
    const uint32_t warp = first + (four + 8 * n) / kOfWarp;
    return (warp & ((1u << across_bits) - 1)) * (slots_90a::kAcross * kColumns) +
           wide_90a::line_of<kColumns>(slots_90a::kAcross, across,
                                       (four + 8 * n) % kOfWarp % kOfRow * 4);
  }
};
template <>
struct Places<8, 8> {
  uint32_t row;  // of the first warp's first one
  uint32_t column;
  uint32_t across_bits;

  TREK_ON_DEVICE Places(const Cut& cut, uint32_t lane, uint32_t four, uint32_t bits)
      : row(line_of(cut.left.by_line != 0, slots_90a::kDown, lane_down(lane), four / 2)),
        column(
            line_of(cut.right.by_line != 0, slots_90a::kAcross, lane_across(lane), four % 2 * 4)),
        across_bits(bits) {}
  TREK_ON_DEVICE uint32_t row_of(uint32_t first, uint32_t n) const {
    return row + ((first + n / 2) >> across_bits) * slots_90a::kWarpRows +
           n % 2 * (slots_90a::kWarpRows / 2);
  }
  TREK_ON_DEVICE uint32_t column_of(uint32_t first, uint32_t n) const {
    return column + ((first + n / 2) & ((1u << across_bits) - 1)) * slots_90a::kWarpColumns;
  }
};

// Gives the sums at `sums` of the part at kPart, of patches of so many rows and columns and of so many warps, an even number,
// 1 << across_bits of them beside one another: to the result, or where it has a tail that is not plain, to kValues:
// [rows][columns]. By all threads, which have left their sums.
template <uint32_t kRows, uint32_t kColumns>
TREK_UNIT_CALL void give_sums(Task task, uint32_t sums, uint32_t warps, uint32_t across_bits) {
  using namespace slots_90a;  // NOLINT(google-build-using-namespace)
  // Fours of a thread whose tails' operands are on their way together: those of two warps.
  constexpr uint32_t kOfWarp = kRows * kColumns / 4;
  constexpr uint32_t kAtOnce = 2 * kOfWarp / 8;
  static_assert(kBlockThreads == 8 * 32 && kAtOnce * 8 == 2 * kOfWarp);
  const Part part = part_of(task);
  const Cut& cut = kept_cut(task);
  const bool is_plain = cut.plain != 0;
  const bool has_tail = is_plain && cut.tails != 0;
  const uint32_t apart = cut.right.by_line != 0 ? kAcross : 1;
  const uint32_t lane = task.thread() % 32;
  const uint32_t four = task.thread() / 32;
  const Places<kRows, kColumns> places(cut, lane, four, across_bits);
  const int64_t width = is_plain ? task.node().matrix.n : part.columns;
  float* const to = is_plain ? reinterpret_cast<float*>(task.memory(task.node().result(0))) +
                                   part.row * width + part.column
                             : task.shared<float>(shared_at::kValues);
  const bool in_fours =
      is_plain && apart == 1 && width % 4 == 0 && (reinterpret_cast<uint64_t>(to) & 15) == 0;
  sums += four * kFour + lane * 16;
  TREK_ROLLED
  for (uint32_t first = 0; first < warps; first += 2) {
    const auto row_of = [&](uint32_t n) TREK_TILE_LAMBDA { return places.row_of(first, n); };
    const auto column_of = [&](uint32_t n) TREK_TILE_LAMBDA { return places.column_of(first, n); };
    const auto exists = [&](uint32_t n) TREK_TILE_LAMBDA {
      return row_of(n) < part.rows && column_of(n) < part.columns;
    };
    const auto outputs_of = [&](uint32_t n) TREK_TILE_LAMBDA {
      return Outputs{part.row + row_of(n), part.column + column_of(n), apart,
                     part.column + part.columns};
    };
    // Defined on every path, or ptxas would take its registers for some that all callers keep.
    Float4 beside[kAtOnce][kCutTails];
#pragma unroll
    for (uint32_t n = 0; n < kAtOnce; ++n) {
#pragma unroll
      for (uint32_t s = 0; s < kCutTails; ++s) beside[n][s] = 0;
      if (has_tail && exists(n)) load_beside(task, outputs_of(n), beside[n]);
    }
    if (first == 0) task.sync();  // with what stands beside on its way
#pragma unroll
    for (uint32_t n = 0; n < kAtOnce; ++n) {
      if (!exists(n)) continue;
      const Float4 total = load_four(sums + (first * kOfWarp + n * 8) * kFour);
      if (has_tail) {
        give_four(task, outputs_of(n), beside[n], total);
        continue;
      }
      float* at = to + row_of(n) * width + column_of(n);
      if (in_fours && column_of(n) + 3 < part.columns) {
        *reinterpret_cast<Float4*>(at) = total;
        continue;
      }
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e)
        if (column_of(n) + e * apart < part.columns) at[e * apart] = total[e];
    }
  }
}

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
