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
                 with.eps >= 0x1p-40f && with.eps <= 0x1p20f) {}

  // Whether get() may be asked for these: of each the size is from 2^-80 to 2^60, or it is +0, and no v is negative.
  template <uint32_t kElements>
  TREK_ON_DEVICE bool suits(const float (&m)[kElements], const float (&v)[kElements]) const {
    uint32_t least = kLeast;
    uint32_t most = kLeast;
    const auto see = [&](uint32_t bits, uint32_t size) TREK_TILE_LAMBDA {
      const uint32_t seen = bits == 0 ? kLeast : size;
      least = seen < least ? seen : least;
      most = seen > most ? seen : most;
    };
    TREK_UNROLLED
    for (uint32_t e = 0; e < kElements; ++e) {
      see(bits_of(m[e]), bits_of(m[e]) & 0x7FFFFFFF);  // -0 is no size from 2^-80 on
      see(bits_of(v[e]), bits_of(v[e]));               // nor is a sign one up to 2^60
    }
    return is_good_ && least >= kLeast && most <= kMost;
  }
  // Corrected moments are from 2^-80 to 2^80 or +0, roots from 2^-40 to 2^40 or +0, and so is what is divided by but for 0.
  TREK_ON_DEVICE float get(float m, float v) const {
    const float corrected = second_.divide(v);
    const float root = corrected == 0.0f ? 0.0f : semantics::root(corrected);
    return semantics::quotient(first_.divide(m), root + eps_);
  }

 private:
  TREK_ON_DEVICE static bool is_good_correction(float c) { return c >= 0x1p-20f && c <= 1.0f; }
  static constexpr uint32_t kLeast = (127U - 80U) << 23;
  static constexpr uint32_t kMost = (127U + 60U) << 23;

  Divisor first_;
  Divisor second_;
  float eps_;
  bool is_good_;
};

}  // namespace trek::device

#endif  // __CUDA__
