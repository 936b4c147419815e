// From the sums of a part that warps have left in shared memory (matrix_f32_slots_90a.h) to the result. Compiled for
// sm_90a alone.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_f32_result.h"
#include "emulator/device/matrix_f32_wide_90a.h"

namespace trek::device::matrix_f32 {

// Where a thread's fours are in a part whose patches have so many in a row: of every warp's the one of the thread's own place
// in a warp, `four`, and those eight and sixteen behind it.
template <uint32_t kStrips>
struct Places;
template <>
struct Places<2> {
  uint32_t row;  // of the first warp's first one
  uint32_t column;
  uint32_t across_bits;

  TREK_ON_DEVICE Places(const Cut& cut, uint32_t lane, uint32_t four, uint32_t bits)
      : row(slots_90a::line_of(cut.left.by_line != 0, slots_90a::kDown, slots_90a::lane_down(lane),
                               four / 2)),
        column(slots_90a::line_of(cut.right.by_line != 0, slots_90a::kAcross,
                                  slots_90a::lane_across(lane), four % 2 * 4)),
        across_bits(bits) {}
  TREK_ON_DEVICE uint32_t row_of(uint32_t warp, uint32_t half) const {
    return row + (warp >> across_bits) * slots_90a::kWarpRows + half * (slots_90a::kWarpRows / 2);
  }
  TREK_ON_DEVICE uint32_t column_of(uint32_t warp, uint32_t) const {
    return column + (warp & ((1u << across_bits) - 1)) * slots_90a::kWarpColumns;
  }
};
// Of wide parts, whose operands' lines are neighbours, and whose warps are below one another.
template <>
struct Places<wide_90a::kStrips> {
  uint32_t down;
  uint32_t across;
  uint32_t four;

  TREK_ON_DEVICE Places(const Cut&, uint32_t lane, uint32_t of_warp, uint32_t)
      : down(slots_90a::lane_down(lane)), across(slots_90a::lane_across(lane)), four(of_warp) {}
  TREK_ON_DEVICE uint32_t row_of(uint32_t warp, uint32_t third) const {
    return warp * slots_90a::kWarpRows + slots_90a::line_of(false, slots_90a::kDown, down,
                                                            (four + 8 * third) / wide_90a::kStrips);
  }
  TREK_ON_DEVICE uint32_t column_of(uint32_t, uint32_t third) const {
    return slots_90a::line_of(false, slots_90a::kAcross, across,
                              (four + 8 * third) % wide_90a::kStrips * 4);
  }
};

// Gives the sums at `sums` of the part at kPart, of patches of so many fours in a row and of so many warps, 1 << across_bits
// of them beside one another: to the result, or where it has a tail that is not plain, to kValues: [rows][columns]. By all
// threads, which have left their sums.
template <uint32_t kStrips>
TREK_UNIT_CALL void give_sums(Task task, uint32_t sums, uint32_t warps, uint32_t across_bits) {
  using namespace slots_90a;  // NOLINT(google-build-using-namespace)
  // Fours of a thread whose tails' operands are on their way together: those of two warps.
  constexpr uint32_t kAtOnce = 2 * kStrips;
  constexpr uint32_t kOfWarp = 8 * kStrips * kFour;
  static_assert(kBlockThreads == 16 / 2 * 32);
  const Part part = part_of(task);
  const Cut& cut = kept_cut(task);
  const bool is_plain = cut.plain != 0;
  const bool has_tail = is_plain && cut.tails != 0;
  const uint32_t apart = cut.right.by_line != 0 ? kAcross : 1;
  const uint32_t lane = task.thread() % 32;
  const uint32_t four = task.thread() / 32;
  const Places<kStrips> places(cut, lane, four, across_bits);
  const int64_t width = is_plain ? task.node().matrix.n : part.columns;
  float* const to = is_plain ? reinterpret_cast<float*>(task.memory(task.node().result(0))) +
                                   part.row * width + part.column
                             : task.shared<float>(shared_at::kValues);
  const bool in_fours =
      is_plain && apart == 1 && width % 4 == 0 && (reinterpret_cast<uint64_t>(to) & 15) == 0;
  sums += four * kFour + lane * 16;
  TREK_ROLLED
  for (uint32_t first = 0; first < warps; first += kAtOnce / kStrips) {
    const auto row_of = [&](uint32_t n) TREK_TILE_LAMBDA {
      return places.row_of(first + n / kStrips, n % kStrips);
    };
    const auto column_of = [&](uint32_t n) TREK_TILE_LAMBDA {
      return places.column_of(first + n / kStrips, n % kStrips);
    };
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
      const Float4 total =
          load_four(sums + (first + n / kStrips) * kOfWarp + n % kStrips * (kOfWarp / kStrips));
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
