// The floored modulo of floats, as in Python and torch.remainder. x - y floor(x / y) in floating
// point would be wrong in every digit for a large quotient, so the truncated remainder is computed
// exactly, by long division of the mantissas in 64-bit integers: 40 (f32) or 11 (f64) bits of
// quotient per step, at most 7 or 187 steps.
#pragma once

#include "isa/semantics/target.h"

namespace trek::semantics {

// x - y trunc(x / y), exact, with the sign of x. NaN if x is infinite, y is 0 or either is NaN.
template <Float T>
TREK_FN T truncated_remainder(T x, T y) {
  constexpr int kBits = Format<T>::kMantissaBits;
  constexpr int kStep = 64 - (kBits + 1);
  constexpr UIntOf<T> kHidden = UIntOf<T>{1} << kBits;
  const T a = abs(x);
  const T b = abs(y);
  if (!(a < infinity<T>()) || is_nan(b) || b == T(0)) {
    return quiet_nan<T>();
  }
  if (a < b) {
    return x;
  }
  // value = mantissa * 2^(exponent - kBias - kBits); a subnormal counts as exponent 1.
  const UIntOf<T> a_bits = to_bits(a);
  const UIntOf<T> b_bits = to_bits(b);
  const int a_field = static_cast<int>(a_bits >> kBits);
  const int b_field = static_cast<int>(b_bits >> kBits);
  const int a_exponent = a_field == 0 ? 1 : a_field;
  const int b_exponent = b_field == 0 ? 1 : b_field;
  const std::uint64_t divisor = (b_bits & (kHidden - 1)) | (b_field == 0 ? 0 : kHidden);
  std::uint64_t rest = (a_bits & (kHidden - 1)) | (a_field == 0 ? 0 : kHidden);
  rest %= divisor;
  for (int left = a_exponent - b_exponent; left > 0; left -= kStep) {
    rest = (rest << (left < kStep ? left : kStep)) % divisor;
  }
  // rest < divisor, so it is a number in the format of y: converting and scaling are exact.
  const T magnitude =
      scale(static_cast<T>(rest), static_cast<IntOf<T>>(b_exponent) - Format<T>::kBias - kBits);
  return copy_sign(magnitude, x);
}

// x - y floor(x / y): the truncated remainder r, if it is not 0 and its sign differs from that of
// y, plus y (rounded once); a zero has the sign of y. mod(x, +-inf) is x or, if the signs differ,
// +-inf.
template <Float T>
TREK_FN T mod(T x, T y) {
  const T r = truncated_remainder(x, y);
  const T zero = copy_sign(T(0), y);
  const T moved = r + y;
  const T signed_rest = (r < T(0)) != (y < T(0)) ? moved : r;
  return r == T(0) ? zero : signed_rest;
}

}  // namespace trek::semantics
