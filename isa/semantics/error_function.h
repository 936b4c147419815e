// erf and its complement. Near 0 erf x = x + x S(x^2); elsewhere it is 1 - erfc |x|, and
//     erfc z = e^(-z^2) P(t) / (z + K),   t = (z - K) / (z + K) = 1 - 2K / (z + K),   z >= 0,
// one polynomial for the whole half line (the substitution is Shepherd and Laframboise's,
// Math. Comp. 36, 1981). erfc keeps full relative precision, which gelu of a negative number needs.
#pragma once

#include "isa/semantics/exponential.h"
#include "isa/semantics/pair.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

// by e^(z^2) erfc z for z = hi + lo in [0, 11.4] (f32), [0, 28] (f64); the pair leaves out only the
// rounding of the polynomial. `by` is a power of two, and so is `unit`, in which z is given: a quarter of an f32 makes
// 2K one, by which nothing is multiplied.
template <Float T>
TREK_FN Pair<T> scaled_erfc(Pair<T> z, T unit, T by) {
  const T center = constant<T>(2.0f, 3.0) * unit;
  const T twice = T(2) * constant<T>(2.0f, 3.0) * unit;
  by = by * unit;
  const Pair<T> d = fast_two_sum(center, z.hi);
  const T inverse = semantics::inverse(d.hi);
  // 1 / (z + K) = inverse (1 + rest)
  const T rest = fma(-inverse, d.lo + z.lo, fma(-inverse, d.hi, T(1)));
  const T t = fma(-twice * inverse, rest, fma(-twice, inverse, T(1)));
  T p;
  if constexpr (sizeof(T) == 4) {
    p = horner(t, by * 0x1.058672p+0f, -by * 0x1.5fd38ep-1f, by * 0x1.1e2dc6p-2f,
               -by * 0x1.2a7bb2p-5f, -by * 0x1.604d5ep-6f, by * 0x1.a5bcf8p-8f, by * 0x1.8ed752p-9f,
               -by * 0x1.7cd26ap-11f, -by * 0x1.156d4ep-11f, -by * 0x1.88991cp-15f);
  } else {
    p = horner(t, by * 0x1.12f21ddd9f5e2p+0, -by * 0x1.c44c471baa376p-1, by * 0x1.2e326945de2b4p-1,
               -by * 0x1.3deb21415dd28p-2, by * 0x1.e995f11b1744ep-4, -by * 0x1.b78993d6a2c99p-6,
               -by * 0x1.3dd3e71221e2ep-10, by * 0x1.8dae3a1f6779cp-9, -by * 0x1.1f78e10e18debp-11,
               -by * 0x1.2238fbc686ae9p-12, by * 0x1.c3252705ad4d6p-14, by * 0x1.fdfecb3652d6ap-16,
               -by * 0x1.2519814b6286ap-16, -by * 0x1.3eb2561dfb3fp-18, by * 0x1.72feef4b96cfcp-19,
               by * 0x1.0bf182fe397d6p-20, -by * 0x1.b3d688e27923bp-22, -by * 0x1.f291772bc467fp-23,
               by * 0x1.7b22d6764e9d3p-25, by * 0x1.a3f8fb2eaf149p-25, -by * 0x1.cbb5e15089df4p-33,
               -by * 0x1.e57cfc4cde536p-28, -by * 0x1.ce80480671e92p-31,
               by * 0x1.6aef630474009p-32);
  }
  const Pair<T> quotient = two_product(p, inverse);
  return {quotient.hi, fma(quotient.hi, rest, quotient.lo)};
}

// erf x, odd; erf(-0) = -0, erf(+-inf) = +-1.
template <Float T>
TREK_FN T erf(T x) {
  const T magnitude = abs(x);
  const T square = x * x;
  T s;
  if constexpr (sizeof(T) == 4) {
    s = horner(square, 0x1.06eba8p-3f, -0x1.812746p-2f, 0x1.ce2e94p-4f, -0x1.b81a7p-6f,
               0x1.5542aap-8f, -0x1.aec89cp-11f, 0x1.6cdc88p-14f);
  } else {
    s = horner(square, 0x1.06eba8214db69p-3, -0x1.812746b0379e7p-2, 0x1.ce2f21a042be2p-4,
               -0x1.b82ce31288b39p-6, 0x1.565bcd0e69ed3p-8, -0x1.c02db4001f063p-11,
               0x1.f9a326f28ee19p-14, -0x1.f4d25b35426cfp-17, 0x1.b9e6af2eefdacp-20,
               -0x1.5f724918170fbp-23, 0x1.fc94cf39a62dep-27, -0x1.5028500c819f6p-30,
               0x1.8aad35469c12cp-34, -0x1.4b94848f0fb09p-38);
  }
  const T near = fma(magnitude, s, magnitude);

  // Beyond 4 (6) erfc is below half an ulp of 1.
  const T most = constant<T>(4.0f, 6.0);
  const T z = at_most(magnitude, most);
  const Pair<T> z2 = two_product(z, z);
  const ExpParts<T> e = exp_parts_within(-z2.hi, -z2.lo);
  const Pair<T> tail = multiply(exp_pair(e), scaled_erfc(Pair<T>{z, T(0)}, T(1), T(1)));
  const T far = T(1) - scale(tail.hi + tail.lo, e.k);
  return copy_sign(magnitude < T(0.875) ? near : far, x);
}

}  // namespace trek::semantics
