// The direction of an Adam's step for elements whose moments are neither huge nor tiny, on a GPU: with the bits of
// semantics::adam_direction(), whose three divisions and square root have a branch each, which keeps a thread from working
// on the next element meanwhile.
#pragma once

#ifdef __CUDA__

#include "emulator/device/divisor.h"
#include "isa/semantics/moderate.h"
#include "isa/semantics/optimizer.h"

namespace trek::device {

class AdamDirection {
 public:
  TREK_ON_DEVICE explicit AdamDirection(const semantics::AdamParameters<float>& with)
      : first_(with.correction1),
        second_(with.correction2),
        eps_(with.eps),
        is_good_(is_good_correction(with.correction1) && is_good_correction(with.correction2) &&
                 with.eps >= 0x1p-40f && with.eps <= 0x1p20f),
        // A step along the least m, lr m / (c eps), is then at most 2^-60.
        least_moved_((with.lr < 0 ? -with.lr : with.lr) * 0x1p-20f <= with.correction1 * with.eps
                         ? kLeastMoved
                         : kNone) {}

  // Whether get() may be asked for these: of each m the size is from 2^-80 to 2^60, of each v from 2^-100, or it is +0, and no v
  // is negative.
  template <uint32_t kElements>
  TREK_ON_DEVICE bool suits(const float (&m)[kElements], const float (&v)[kElements]) const {
    uint32_t least_m = kLeastM;
    uint32_t least_v = kLeastV;
    uint32_t most = 0;
    const auto see = [&](uint32_t bits, uint32_t size, uint32_t& least) TREK_TILE_LAMBDA {
      least = bits != 0 && size < least ? size : least;
      most = size > most ? size : most;
    };
    TREK_UNROLLED
    for (uint32_t e = 0; e < kElements; ++e) {
      see(bits_of(m[e]), size_of(m[e]), least_m);  // -0 is no size from 2^-80 on
      see(bits_of(v[e]), bits_of(v[e]), least_v);  // nor is a sign one up to 2^60
    }
    return is_good_ && least_m == kLeastM && least_v == kLeastV && most <= kMost;
  }
  // Makes moments of which m is too small to move its w 0, where v is no sign of anything else: the direction does not change.
  //
  // Where a gradient has become 0, as that of a unit which is never active any more, m shrinks for some 800 steps and then stays
  // among the subnormal numbers, as 0.9 of the four least of them is rounded to four.
  template <uint32_t kElements>
  TREK_ON_DEVICE void leave_out(const float (&w)[kElements], float (&m)[kElements],
                                float (&v)[kElements]) const {
    TREK_UNROLLED
    for (uint32_t e = 0; e < kElements; ++e) {
      const bool is_small = size_of(m[e]) < kLeastM && bits_of(v[e]) <= kMost;
      if (!is_small || size_of(w[e]) < least_moved_) continue;
      m[e] = 0;
      v[e] = 0;
    }
  }
  // Corrected moments are from 2^-100 to 2^80 or +0, roots from 2^-50 to 2^40 or +0, and what is divided by is from 2^-40 on.
  TREK_ON_DEVICE float get(float m, float v) const {
    const float corrected = second_.divide(v);
    const float root = corrected == 0.0f ? 0.0f : semantics::root(corrected);
    return semantics::quotient(first_.divide(m), root + eps_);
  }

 private:
  TREK_ON_DEVICE static bool is_good_correction(float c) { return c >= 0x1p-20f && c <= 1.0f; }
  TREK_ON_DEVICE static uint32_t size_of(float x) { return bits_of(x) & 0x7FFFFFFF; }
  static constexpr uint32_t kLeastM = (127U - 80U) << 23;
  static constexpr uint32_t kLeastV = (127U - 100U) << 23;
  static constexpr uint32_t kMost = (127U + 60U) << 23;
  static constexpr uint32_t kLeastMoved = (127U - 30U) << 23;
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  Divisor first_;
  Divisor second_;
  float eps_;
  bool is_good_;
  uint32_t least_moved_;  // from which size on a weight stays as it is by an m of less than 2^-80
};

}  // namespace trek::device

#endif  // __CUDA__
