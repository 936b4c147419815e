// Many divisions by one number, with the bits of each: for those that a device does in some ten instructions with a
// branch, which keeps it from working on the next one meanwhile.
//
// Let r be 1/v, correctly rounded. A quotient that is less than one unit in the last place from x/v becomes the
// correctly rounded one by q + r (x - q v), both fused (Markstein, IBM J. Res. Dev. 34, 1990), and so near is x r + x s,
// where s is what 1/v is more than r. What is asked for is that no remainder x - q v underflows, which has 46 bits less
// than x at most.
#pragma once

#include "emulator/device/block.h"
#include "emulator/device/element.h"
#include "isa/semantics/elements.h"

namespace trek::device {

class Divisor {
 public:
  // Numbers from this size on, and +0, can be divided by a good divisor, and what comes out by another.
  static constexpr float kLeast = 0x1p-80f;
  TREK_ON_DEVICE static bool is_good(float v) { return v >= 1.0f && v <= 0x1p20f; }

  // Numbers whose reciprocal is exact, so that a product with it is the quotient.
  TREK_ON_DEVICE static bool is_power(float v) { return is_good(v) && (bits_of(v) << 9) == 0; }

  TREK_ON_DEVICE explicit Divisor(float v)
      : value_(v),
        reciprocal_(1.0f / v),
        rest_(semantics::fma(-reciprocal_, v, 1.0f) * reciprocal_) {}
  // x / v, where v is from 2^-20 to 2^20, and x is +0 or, in size, from 2^-100 to 2^60.
  TREK_ON_DEVICE float divide(float x) const {
    const float q = semantics::fma(x, reciprocal_, x * rest_);
    return semantics::fma(semantics::fma(-q, value_, x), reciprocal_, q);
  }
  TREK_ON_DEVICE float reciprocal() const { return reciprocal_; }

 private:
  float value_;
  float reciprocal_;
  float rest_;  // 1 / v less the reciprocal, rounded
};

}  // namespace trek::device
