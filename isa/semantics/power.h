// x^y = e^(y log |x|), and 1/sqrt. The exponent y log|x| reaches 88 (f32) or 710 (f64) and its
// absolute error is the relative error of the result, so log|x| and the product are pairs that
// carry those 7 or 10 bits and a dozen more.
#pragma once

#include "isa/semantics/exponential.h"
#include "isa/semantics/logarithm.h"
#include "isa/semantics/rounding.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

// 1 / sqrt(x), both operations rounded; +-inf for +-0, +0 for inf, NaN below 0. Two roundings of
// monotone operations: monotone, and within one ulp.
template <Float T>
TREK_FN T rsqrt(T x) {
  return T(1) / sqrt(x);
}

// x^y with the special cases of IEEE 754-2019, 9.2.1:
//   1 if y = +-0 or x = 1, whatever the other is (also NaN); else NaN if x or y is NaN;
//   (-1)^(+-inf) = 1; x < 0 finite with a finite y that is no integer is NaN;
//   the result is negative if x has the sign bit and y is an odd integer;
//   0 and inf behave as their limits, (+-0)^(y < 0) = inf with the sign above.
template <Float T>
TREK_FN T pow(T x, T y) {
  const T magnitude = abs(x);
  Pair<T> l = log_pair(magnitude);
  const bool finite = (magnitude > T(0)) & (magnitude < infinity<T>());
  l.hi = finite ? l.hi : (magnitude == T(0) ? -infinity<T>() : magnitude);
  l.lo = finite ? l.lo : T(0);

  const Pair<T> product = two_product(y, l.hi);
  // Beyond every exponent that matters the low part may be infinite or NaN; it counts as 0.
  const bool moderate = abs(product.hi) < constant<T>(1024.0f, 8192.0);
  const T low = moderate ? fma(y, l.lo, product.lo) : T(0);
  const ExpParts<T> e = exp_parts(product.hi, low);
  T result = scale(exp_sum(e), e.k);
  result = magnitude == T(1) && !is_nan(y) ? T(1) : result;

  const T half = T(0.5) * y;
  const bool integer = round(y) == y;
  const bool odd = integer && round(half) != half;
  const bool negative = copy_sign(T(1), x) < T(0);
  result = negative && odd ? -result : result;
  result = x < T(0) && x > -infinity<T>() && !integer ? quiet_nan<T>() : result;
  return x == T(1) || y == T(0) ? T(1) : result;
}

}  // namespace trek::semantics
