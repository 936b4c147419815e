// What warps multiply in wide parts of the f32 product, where operands lie as [k][lines] (matrix_f32_slots_90a.h): 32 x 96
// outputs, a lane a patch of 8 x 12. Compiled for sm_90a alone, and for code that is made for one product.
//
// Of the right operand a slot has three strips of 32 lines, of which a lane has four neighbouring lines each. A lane has
// registers for one k of it: where a strip has been multiplied for the last time, what follows comes there.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_f32_slots_90a.h"

namespace trek::device::matrix_f32 {

namespace wide_90a {

using namespace slots_90a;  // NOLINT(google-build-using-namespace)

inline constexpr uint32_t kStrips = kWideColumns / kStripLines;
static_assert(kStripLines == 4 * kAcross);

// Four lines of each strip, at one k.
struct Strips {
  Float4 of[kStrips];

  TREK_ON_DEVICE float get(uint32_t j) const { return of[j / 4][j % 4]; }
  template <class Lines>
  TREK_ON_DEVICE void begin(const Lines& lines, uint32_t k) {
#pragma unroll
    for (uint32_t s = 0; s < kStrips; ++s) of[s] = lines.load_lines(k, s);
  }
};

struct PatchOf {
  static constexpr uint32_t kColumns = 4 * kStrips;
  static constexpr uint32_t kWarpSums = 8 * kStrips * kFour;
  using Sums = float[8][kColumns];
  using Right = Lines<false, kAcross, kStripLines * 4, kDepth * kStripLines * 4>;
  using Elements = Strips;
};

// As those of narrower patches, for multiply_step().
template <class Left, class Right>
TREK_TILE void load_lines_ahead(const Left& left, const Right&, Elements<false>& x, Strips&,
                                uint32_t k, uint32_t ahead) {
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) x.of[(k + 1) % 2 * 2 + h] = left.load_lines(ahead, h);
}

template <class Right>
TREK_TILE void begin_block(const Right& right, uint32_t sums, const Elements<false>& x, Strips& y,
                           PatchOf::Sums& sum, uint32_t ahead) {
  constexpr uint32_t kSoon = 2;  // fours that are on their way
  const auto at = [&](uint32_t n)
                      TREK_TILE_LAMBDA { return sums + (n % 8 * kStrips + n / 8) * kFour; };
  Float4 four[kSoon + 1];
#pragma unroll
  for (uint32_t n = 0; n < kSoon; ++n) four[n] = load_four(at(n));
#pragma unroll
  for (uint32_t n = 0; n < 8 * kStrips; ++n) {
    const uint32_t i = n % 8;
    const uint32_t s = n / 8;
    if (n + kSoon < 8 * kStrips) four[(n + kSoon) % (kSoon + 1)] = load_four(at(n + kSoon));
    store_four(at(n), four[n % (kSoon + 1)] + half_row(sum, i, s));
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      const uint32_t j = 4 * s + (i % 2 == 0 ? e : 3 - e);
      sum[i][j] = semantics::fma(x.get(i, 0), y.get(j), 0.0f);
    }
    if (i == 7) y.of[s] = right.load_lines(ahead, s);
  }
}

template <class Left, class Right>
TREK_TILE void multiply_k(const Left&, const Right& right, Elements<false>& x, Strips& y,
                          PatchOf::Sums& sum, uint32_t k, uint32_t ahead) {
#pragma unroll
  for (uint32_t s = 0; s < kStrips; ++s) {
    // To and fro, so that each multiplication shares an operand with the one before.
#pragma unroll
    for (uint32_t n = 0; n < 8; ++n) {
      const uint32_t i = s % 2 == 0 ? n : 7 - n;
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) {
        const uint32_t j = 4 * s + (n % 2 == 0 ? e : 3 - e);
        sum[i][j] = semantics::fma(x.get(i, k), y.get(j), sum[i][j]);
      }
    }
    y.of[s] = right.load_lines(ahead, s);
  }
}

}  // namespace wide_90a

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
