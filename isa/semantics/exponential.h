// e^x. The argument is reduced to r = x - k ln 2, |r| <= ln(2)/2, and
//     e^x = 2^k (1 + r + r^2 Q(r)),
// Q a minimax polynomial. `exp_parts` keeps r and the sum as pairs, so the error before rounding
// is about 2^-29 (f32) and 2^-59 (f64): the functions built on it (sigmoid, tanh, erfc, pow, the
// activations) inherit only that, and exp itself is one rounding away from the true value.
#pragma once

#include "isa/semantics/pair.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

// 2^k (1 + r + tail), |r| <= 0.35.
template <Float T>
struct ExpParts {
  IntOf<T> k;
  T r;
  T tail;
};

// Beyond this e^x is 0 even after a factor of -x, or infinite.
template <Float T>
TREK_FN T exp_least() {
  return constant<T>(-130.0f, -800.0);
}
template <Float T>
TREK_FN T exp_most() {
  return constant<T>(100.0f, 720.0);
}

// x + lo = k ln 2 + first + second, both parts rounded once.
template <Float T>
struct ExpReduced {
  IntOf<T> k;
  T first;
  T second;
};

// Of x in the range above, |lo| <= ulp(x); NaN stays NaN.
template <Float T>
TREK_FN ExpReduced<T> exp_reduce(T x, T lo) {
  // Adding 1.5 * 2^p leaves the nearest integer in the low bits of the sum.
  const T shift = constant<T>(0x1.8p23f, 0x1.8p52);
  const T shifted = fma(x, constant<T>(0x1.715476p+0f, 0x1.71547652b82fep+0), shift);
  const T k = shifted - shift;
  const IntOf<T> exponent =
      static_cast<IntOf<T>>(to_bits(shifted)) - static_cast<IntOf<T>>(to_bits(shift));

  // x - k ln2_hi is exact (a multiple of ulp(x) or of ulp(ln2_hi), below 0.36).
  const T ln2_hi = constant<T>(0x1.62e43p-1f, 0x1.62e42fefa39efp-1);
  const T ln2_lo = constant<T>(-0x1.05c61p-29f, 0x1.abc9e3b39803fp-56);
  return {exponent, fma(-k, ln2_hi, x), fma(-k, ln2_lo, lo)};
}

// Q: e^r = 1 + r + r^2 Q(r).
template <Float T>
TREK_FN T exp_polynomial(T r) {
  if constexpr (sizeof(T) == 4)
    return horner(r, 0x1p-1f, 0x1.555556p-3f, 0x1.5554aep-5f, 0x1.111046p-7f, 0x1.6d9658p-10f,
                  0x1.a1b7f6p-13f);
  else
    return horner(r, 0x1p-1, 0x1.5555555555555p-3, 0x1.555555555555cp-5, 0x1.1111111111149p-7,
                  0x1.6c16c16c13edfp-10, 0x1.a01a01a01713bp-13, 0x1.a01a01b17525ap-16,
                  0x1.71de3a640390dp-19, 0x1.27e4c512bb6ebp-22, 0x1.ae6409f3e5baep-26,
                  0x1.1f952f48a5e5p-29, 0x1.61ef960d2ebf1p-33);
}

// e^(x + lo), |lo| <= ulp(x), for x in the range above; NaN stays NaN.
template <Float T>
TREK_FN ExpParts<T> exp_parts_within(T x, T lo) {
  const ExpReduced<T> reduced = exp_reduce(x, lo);
  // first is 0, not below second, or a multiple of 2^-25 (f64: 2^-54), where second is below 2^-17 (2^-42).
  const Pair<T> r = fast_two_sum(reduced.first, reduced.second);
  // e^(r.hi + r.lo) = 1 + r.hi + (r.hi^2 Q + r.lo (1 + r.hi)).
  const T tail = fma(r.hi * r.hi, exp_polynomial(r.hi), fma(r.lo, r.hi, r.lo));
  return {reduced.k, r.hi, tail};
}

// The same for any hi, which is first brought into that range.
template <Float T>
TREK_FN ExpParts<T> exp_parts(T hi, T lo) {
  return exp_parts_within(at_least(at_most(hi, exp_most<T>()), exp_least<T>()), lo);
}

// 1 + r + tail, rounded once.
template <Float T>
TREK_FN T exp_sum(ExpParts<T> e) {
  const Pair<T> sum = fast_two_sum(T(1), e.r);
  return sum.hi + (sum.lo + e.tail);
}

// 1 + r + tail as a normalised pair.
template <Float T>
TREK_FN Pair<T> exp_pair(ExpParts<T> e) {
  const Pair<T> sum = fast_two_sum(T(1), e.r);
  return fast_two_sum(sum.hi, sum.lo + e.tail);
}

// e^x; e^inf = inf, e^-inf = +0.
template <Float T>
TREK_FN T exp(T x) {
  const ExpParts<T> e = exp_parts(x, T(0));
  return scale(exp_sum(e), e.k);
}

// e^x for x <= 0.
template <Float T>
TREK_FN T exp_negative(T x) {
  const ExpParts<T> e = exp_parts_within(at_least(x, exp_least<T>()), T(0));
  return scale_down(exp_sum(e), e.k);
}

// e^x - 1 for x <= 0 as a pair, full relative precision near 0. An argument below -30 (f32), -60
// (f64) counts as that bound, where the result as a number has long been -1.
template <Float T>
TREK_FN Pair<T> expm1_negative(T x) {
  const T least = constant<T>(-30.0f, -60.0);
  const ExpParts<T> e = exp_parts_within(at_least(x, least), T(0));
  const T power = power_of_two<T>(e.k);
  const Pair<T> p = exp_pair(e);
  const Pair<T> sum = two_sum(T(-1), power * p.hi);
  const T lo = sum.lo + power * p.lo;
  return e.k == 0 ? fast_two_sum(e.r, e.tail) : fast_two_sum(sum.hi, lo);
}

}  // namespace trek::semantics
