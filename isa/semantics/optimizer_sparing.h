// The momentum step without operations on subnormal numbers, with the bits of sgd_momentum().
//
// Where a gradient stays 0 (a pixel that is never lit), the velocity shrinks by a constant factor a step until it is
// subnormal, and then stays there: 4 * 0.9 of the smallest number rounds to 4 of it. A CPU takes some 150 cycles for
// each operation that meets such a number, so after an epoch or two the step takes ten times as long. A subnormal
// number is an integer of units of 2^-149, and its product with the momentum is exact in f64: integers are rounded
// to nearest even as the product would have been, and nothing slow is touched.
#pragma once

#include "isa/semantics/optimizer.h"

namespace trek::semantics {

namespace sparing_detail {

inline constexpr std::uint32_t kSign = 0x8000'0000U;
inline constexpr std::uint32_t kLeastNormal = 0x0080'0000U;
inline constexpr std::uint32_t kLarge = (127U - 64U)
                                        << 23;  // 2^-64: a subnormal number is no half ulp of it

TREK_FN std::uint32_t magnitude(float x) { return to_bits(x) & ~kSign; }
TREK_FN std::uint32_t mask(bool is) { return 0U - static_cast<std::uint32_t>(is); }

// momentum * v for a subnormal v and 0 < |momentum| <= 1.
TREK_FN float scaled(float momentum, float v) {
  constexpr double kRound =
      0x1.8p52;  // adding it leaves an integer, to nearest even, in the lower bits
  const auto units = static_cast<double>(static_cast<std::int32_t>(magnitude(v)));
  const double product = units * static_cast<double>(abs(momentum));
  const auto rounded = static_cast<std::uint32_t>(to_bits(product + kRound));
  return from_bits<float>(rounded | ((to_bits(momentum) ^ to_bits(v)) & kSign));
}

}  // namespace sparing_detail

template <Float C>
TREK_FN C sgd_momentum_sparing(const MomentumParameters<C>& p, C w, C& v, C gradient) {
  if constexpr (sizeof(C) == 8) {
    return sgd_momentum(p, w, v, gradient);
  } else {
    using namespace sparing_detail;  // NOLINT(google-build-using-namespace)
    const std::uint32_t g = magnitude(decayed(p.weight_decay, w, gradient));
    const std::uint32_t old = to_bits(v);
    const bool usual =
        abs(p.momentum) <= 1.0F && magnitude(p.momentum) >= kLeastNormal && abs(p.lr) <= 0x1p30F;
    // What v gives to g, and what a subnormal velocity gives to w, is then less than rounding takes away. Masks, since
    // a compiler that finds a choice takes both ways and chooses between the results.
    const std::uint32_t is_subnormal = mask((old & ~kSign) - 1U < kLeastNormal - 1U);
    const std::uint32_t is_still = mask(g == 0);
    const std::uint32_t spares =
        mask(usual) & is_subnormal & (is_still | mask(g >= kLarge)) & mask(magnitude(w) >= kLarge);
    const float shrunk = scaled(p.momentum, from_bits<float>(old & spares));
    float next = from_bits<float>(old & ~spares);
    const float stepped = sgd_momentum(p, w, next, gradient);
    const std::uint32_t shrinks = spares & is_still;
    v = from_bits<float>((to_bits(next) & ~shrinks) | (to_bits(shrunk) & shrinks));
    return stepped;
  }
}

}  // namespace trek::semantics
