// What warps multiply in wide parts of the f32 product (matrix_cut.h), where operands lie as [k][lines]
// (matrix_f32_slots_90a.h): 32 x 96 outputs, a lane a patch of 8 x 12, or 40 x 64 and 10 x 8. Compiled for sm_90a alone, and
// for code that is made for one product.
//
// A lane has four neighbouring lines of each of two or three strips of an operand, and where these are ten two of a last one.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_f32_slots_90a.h"

namespace trek::device::matrix_f32 {

namespace wide_90a {

using namespace slots_90a;  // NOLINT(google-build-using-namespace)

// The number of line i of a lane's kPatch, counted from the warp's first, where the lane is the `lane`-th of `lanes` beside
// each other.
template <uint32_t kPatch>
TREK_TILE uint32_t line_of(uint32_t lanes, uint32_t lane, uint32_t i) {
  const uint32_t together = kPatch % 4 != 0 && i >= kPatch / 4 * 4 ? 2 : 4;
  return i / 4 * 4 * lanes + together * lane + i % 4;
}

// A lane's lines of an operand of kPanelLines in a slot, of which `first` is the warp's first: fours, and the last two.
template <uint32_t kPatch, uint32_t kLanes, uint32_t kPanelLines>
struct Lines : slots_90a::Lines<false, kLanes, kPanelLines * 4> {
  using Fours = slots_90a::Lines<false, kLanes, kPanelLines * 4>;

  uint32_t two;

  TREK_ON_DEVICE Lines(uint32_t panel, uint32_t first, uint32_t lane)
      : Fours(panel, first, lane), two(panel + first * 4 + kPatch / 4 * Fours::kStrip + 8 * lane) {}
  TREK_ON_DEVICE void move(uint32_t from, uint32_t to) {
    Fours::move(from, to);
    two += (to - from) * (kPanelLines * 4);
  }
  TREK_ON_DEVICE Float2 load_two(uint32_t k) const {
    return matrix_f32::load_two(two + k * (kPanelLines * 4));
  }
};

// What a lane has of one operand, at one k and at the next.
template <uint32_t kPatch>
struct Elements {
  static constexpr uint32_t kFours = kPatch / 4;
  static constexpr bool kHasTwo = kPatch % 4 != 0;

  Float4 of[2][kFours];
  Float2 two[kHasTwo ? 2 : 1];

  TREK_ON_DEVICE float get(uint32_t i, uint32_t k) const {
    return i < 4 * kFours ? of[k % 2][i / 4][i % 4] : two[kHasTwo ? k % 2 : 0][i % 2];
  }
  // Those of the k-th of a step, from that place of a slot.
  template <class Lines>
  TREK_ON_DEVICE void load(const Lines& lines, uint32_t k, uint32_t place) {
#pragma unroll
    for (uint32_t s = 0; s < kFours; ++s) of[k % 2][s] = lines.load_lines(place, s);
    if constexpr (kHasTwo) two[k % 2] = lines.load_two(place);
  }
  template <class Lines>
  TREK_ON_DEVICE void begin(const Lines& lines) {
    load(lines, 0, 0);
  }
};

// As those of patches of 8 x 8, for multiply_step().
template <class Left, class Right, uint32_t kRows, uint32_t kColumns>
TREK_TILE void load_lines_ahead(const Left& left, const Right& right, Elements<kRows>& x,
                                Elements<kColumns>& y, uint32_t k, uint32_t ahead) {
  x.load(left, k + 1, ahead);
  y.load(right, k + 1, ahead);
}

template <class Left, class Right, uint32_t kRows, uint32_t kColumns>
TREK_TILE void multiply_k(const Left&, const Right&, const Elements<kRows>& x,
                          const Elements<kColumns>& y, float (&sum)[kRows][kColumns], uint32_t k,
                          uint32_t) {
  // To and fro, so that each multiplication shares an operand with the one before.
#pragma unroll
  for (uint32_t i = 0; i < kRows; ++i) {
#pragma unroll
    for (uint32_t n = 0; n < kColumns; ++n) {
      const uint32_t j = i % 2 == 0 ? n : kColumns - 1 - n;
      sum[i][j] = semantics::fma(x.get(i, k), y.get(j, k), sum[i][j]);
    }
  }
}

}  // namespace wide_90a

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
