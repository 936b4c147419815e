// Exponentials of numbers that are not far below 0, as those of a softmax mostly are.
#pragma once

#include "emulator/device/block.h"
#include "emulator/device/element.h"
#include "isa/semantics/exponential.h"

namespace trek::device {

// e^kNear is above Divisor::kLeast.
inline constexpr float kNear = -55.0f;

// semantics::exp_negative(x) for kNear <= x <= 0, of which three instructions are left out: no argument is so small that
// it must be raised, and what is scaled by 2^k stays a normal number, so that k is added to its exponent.
TREK_UNIT float exp_near(float x) {
  const semantics::ExpParts<float> e = semantics::exp_parts_within(x, 0.0f);
  return as_float(bits_of(semantics::exp_sum(e)) + (static_cast<uint32_t>(e.k) << 23));
}

}  // namespace trek::device
