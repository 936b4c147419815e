// log x. x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1 (exact), s = f / (2 + f), and
//     log x = k ln 2 + 2 s + s^3 (2/3 + s^2 R(s^2)),
// the series of 2 artanh(s) with a minimax R. s is kept as a pair, so the error before rounding
// is about 2^-30 (f32) and 2^-59 (f64); pow needs the product by 2/3 in a pair as well
// (`log_pair`).
#pragma once

#include "isa/semantics/pair.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

// f and k of the reduction above.
template <Float T>
struct LogReduced {
  T f;
  T k;
};

// Reduces x > 0, finite, subnormal or not.
template <Float T>
TREK_FN LogReduced<T> log_reduce(T x) {
  using U = UIntOf<T>;
  constexpr int kBits = Format<T>::kMantissaBits;
  // Subnormals are brought into the normal range first.
  const bool tiny = x < constant<T>(0x1p-126f, 0x1p-1022);
  const T lifted = x * constant<T>(0x1p24f, 0x1p54);
  const T normal = tiny ? lifted : x;
  const U lift = tiny ? U{sizeof(T) == 4 ? 24 : 54} : U{0};

  // The distance in bits from sqrt(1/2) carries k above the mantissa; kBias keeps it positive.
  const U start = to_bits(constant<T>(0x1.6a09e6p-1f, 0x1.6a09e667f3bcdp-1));
  constexpr U kBias = U{Format<T>::kBias};
  const U distance = to_bits(normal) - start + (kBias << kBits);
  const U mantissa = distance & ((U{1} << kBits) - 1);
  const T f = from_bits<T>(mantissa + start) - T(1);
  // k as a number: its bits below those of 1.5 * 2^p.
  const T shift = constant<T>(0x1.8p23f, 0x1.8p52);
  return {f, from_bits<T>(to_bits(shift) + (distance >> kBits) - kBias - lift) - shift};
}

// s = f / (2 + f) as a pair.
template <Float T>
TREK_FN Pair<T> log_quotient(Pair<T> f) {
  const Pair<T> d = fast_two_sum(T(2), f.hi);
  return divide(f, Pair<T>{d.hi, d.lo + f.lo});
}

// R(z), z = s^2.
template <Float T>
TREK_FN T log_series(T z) {
  if constexpr (sizeof(T) == 4) {
    return horner(z, 0x1.999998p-2f, 0x1.249362p-2f, 0x1.c66964p-3f, 0x1.8dc344p-3f);
  } else {
    return horner(z, 0x1.999999999999ap-2, 0x1.2492492492479p-2, 0x1.c71c71c71f27dp-3,
                  0x1.745d1743511b9p-3, 0x1.3b13b27c51af4p-3, 0x1.1110b142dd74fp-3,
                  0x1.e204d083f4825p-4, 0x1.ab587b45736a6p-4, 0x1.c0328f1e0d7f1p-4);
  }
}

// k ln 2 + log(1 + f) as a pair with the error above.
template <Float T>
TREK_FN Pair<T> log_sum(T k, Pair<T> f) {
  const Pair<T> s = log_quotient(f);
  const T z = s.hi * s.hi;
  const T series = fma(z, log_series(z), constant<T>(0x1.555556p-1f, 0x1.5555555555555p-1));
  const T tail = fma(s.hi * z, series, T(2) * s.lo);
  // k ln2_hi is exact: ln2_hi has 16 (f32), 42 (f64) bits.
  const T ln2_hi = constant<T>(0x1.62e4p-1f, 0x1.62e42fefa38p-1);
  const T ln2_lo = constant<T>(0x1.7f7d1cp-20f, 0x1.ef35793c7673p-45);
  const Pair<T> sum = two_sum(k * ln2_hi, T(2) * s.hi);
  return {sum.hi, sum.lo + fma(k, ln2_lo, tail)};
}

// The same with relative error about 2^-35 (f32), 2^-65 (f64), normalised; for x > 0 and finite.
template <Float T>
TREK_FN Pair<T> log_pair(T x) {
  const LogReduced<T> reduced = log_reduce(x);
  const Pair<T> raw = log_quotient(Pair<T>{reduced.f, T(0)});
  const Pair<T> s = fast_two_sum(raw.hi, raw.lo);
  const Pair<T> z = multiply(s, s);
  const Pair<T> cube = multiply(s, z);
  const Pair<T> two_thirds = {constant<T>(0x1.555556p-1f, 0x1.5555555555555p-1),
                              constant<T>(-0x1.555556p-26f, 0x1.5555555555555p-55)};
  const Pair<T> third = multiply(cube, two_thirds);
  const T rest = cube.hi * z.hi * log_series(z.hi);

  const T ln2_hi = constant<T>(0x1.62e4p-1f, 0x1.62e42fefa38p-1);
  const T ln2_lo = constant<T>(0x1.7f7d1cp-20f, 0x1.ef35793c7673p-45);
  const Pair<T> a = two_sum(reduced.k * ln2_hi, T(2) * s.hi);
  const Pair<T> b = two_sum(third.hi, fma(T(2), s.lo, third.lo + rest));
  const Pair<T> c = two_sum(a.hi, b.hi);
  const Pair<T> d = two_sum(reduced.k * ln2_lo, a.lo);
  const Pair<T> e = two_sum(d.hi, c.lo);
  const T low = e.lo + d.lo + b.lo;
  const Pair<T> high = fast_two_sum(c.hi, e.hi);
  return fast_two_sum(high.hi, high.lo + low);
}

// log x; log(+-0) = -inf, log(inf) = inf, log(x < 0) = NaN.
template <Float T>
TREK_FN T log(T x) {
  const LogReduced<T> reduced = log_reduce(x);
  const Pair<T> sum = log_sum(reduced.k, Pair<T>{reduced.f, T(0)});
  T result = sum.hi + sum.lo;
  result = x < infinity<T>() ? result : x;
  result = x == T(0) ? -infinity<T>() : result;
  return x < T(0) ? quiet_nan<T>() : result;
}

// log(1 + e) for e in [0, 1] as a pair.
template <Float T>
TREK_FN Pair<T> log1p_unit(T e) {
  const Pair<T> one_plus = fast_two_sum(T(1), e);
  const LogReduced<T> reduced = log_reduce(one_plus.hi);
  // one_plus.hi is in [1, 2], so k is 0 or 1 and the low part is scaled like the high one.
  const T low = reduced.k == T(0) ? one_plus.lo : T(0.5) * one_plus.lo;
  const Pair<T> sum = log_sum(reduced.k, two_sum(reduced.f, low));
  // Below 2^-25 (2^-54) log(1 + e) rounds to e, and s would meet the subnormals.
  const bool small = e < constant<T>(0x1p-25f, 0x1p-54);
  return {small ? e : sum.hi, small ? T(0) : sum.lo};
}

}  // namespace trek::semantics
