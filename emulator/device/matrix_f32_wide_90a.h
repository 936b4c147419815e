// What warps multiply in wide parts of the f32 product, where operands lie as [k][lines] (matrix_f32_slots_90a.h): 32 x 96
// outputs, a lane a patch of 8 x 12. Compiled for sm_90a alone, and for code that is made for one product.
//
// A lane has four neighbouring lines of each of three strips of 32 that the right operand has.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_f32_slots_90a.h"

namespace trek::device::matrix_f32 {

namespace wide_90a {

using namespace slots_90a;  // NOLINT(google-build-using-namespace)

inline constexpr uint32_t kStripLines = 4 * kAcross;
inline constexpr uint32_t kStrips = kWideColumns / kStripLines;
static_assert(kStrips * kStripLines == kWideColumns);

// Four lines of each strip, at one k and at the next.
struct Strips {
  Float4 of[2 * kStrips];

  TREK_ON_DEVICE float get(uint32_t j, uint32_t k) const {
    return of[k % 2 * kStrips + j / 4][j % 4];
  }
  // Those of the k-th of a step, from that place of a slot.
  template <class Lines>
  TREK_ON_DEVICE void load(const Lines& lines, uint32_t k, uint32_t place) {
#pragma unroll
    for (uint32_t s = 0; s < kStrips; ++s) of[k % 2 * kStrips + s] = lines.load_lines(place, s);
  }
  template <class Lines>
  TREK_ON_DEVICE void begin(const Lines& lines) {
    load(lines, 0, 0);
  }
};

struct PatchOf {
  static constexpr uint32_t kColumns = 4 * kStrips;
  static constexpr uint32_t kWarpSums = 8 * kStrips * kFour;
  using Sums = float[8][kColumns];
  using Right = Lines<false, kAcross, kWideColumns * 4, kStripLines * 4>;
  using Elements = Strips;
};

// As those of narrower patches, for multiply_step().
template <class Left, class Right>
TREK_TILE void load_lines_ahead(const Left& left, const Right& right, Elements<false>& x, Strips& y,
                                uint32_t k, uint32_t ahead) {
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) x.of[(k + 1) % 2 * 2 + h] = left.load_lines(ahead, h);
  y.load(right, k + 1, ahead);
}

template <class Left, class Right>
TREK_TILE void multiply_k(const Left&, const Right&, const Elements<false>& x, const Strips& y,
                          PatchOf::Sums& sum, uint32_t k, uint32_t) {
  // To and fro, so that each multiplication shares an operand with the one before.
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
#pragma unroll
    for (uint32_t n = 0; n < PatchOf::kColumns; ++n) {
      const uint32_t j = i % 2 == 0 ? n : PatchOf::kColumns - 1 - n;
      sum[i][j] = semantics::fma(x.get(i, k), y.get(j, k), sum[i][j]);
    }
  }
}

}  // namespace wide_90a

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
