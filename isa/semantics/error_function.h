// erf, its complement, and the tail of the normal distribution. Near 0 erf x = x + x S(x^2); elsewhere it is 1 - erfc |x|, and
//     erfc z = e^(-z^2) P(t) / (z + K),   t = (z - K) / (z + K) = 1 - 2K / (z + K),   z >= 0,
// one polynomial for the whole half line (the substitution is Shepherd and Laframboise's,
// Math. Comp. 36, 1981).
#pragma once

#include "isa/semantics/exponential.h"
#include "isa/semantics/pair.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

// e^(z^2) erfc z for z in [0, 11.4] (f32), [0, 28] (f64); the pair leaves out only the rounding of the polynomial.
template <Float T>
TREK_FN Pair<T> scaled_erfc(T z) {
  const T center = constant<T>(2.0f, 3.0);
  const T twice = T(2) * center;
  const Pair<T> d = fast_two_sum(center, z);
  const T inverse = semantics::inverse(d.hi);
  // 1 / (z + K) = inverse (1 + rest)
  const T rest = fma(-inverse, d.lo, fma(-inverse, d.hi, T(1)));
  const T t = fma(-twice * inverse, rest, fma(-twice, inverse, T(1)));
  T p;
  if constexpr (sizeof(T) == 4) {
    p = horner(t, 0x1.058672p+0f, -0x1.5fd38ep-1f, 0x1.1e2dc6p-2f, -0x1.2a7bb2p-5f, -0x1.604d5ep-6f,
               0x1.a5bcf8p-8f, 0x1.8ed752p-9f, -0x1.7cd26ap-11f, -0x1.156d4ep-11f,
               -0x1.88991cp-15f);
  } else {
    p = horner(t, 0x1.12f21ddd9f5e2p+0, -0x1.c44c471baa376p-1, 0x1.2e326945de2b4p-1,
               -0x1.3deb21415dd28p-2, 0x1.e995f11b1744ep-4, -0x1.b78993d6a2c99p-6,
               -0x1.3dd3e71221e2ep-10, 0x1.8dae3a1f6779cp-9, -0x1.1f78e10e18debp-11,
               -0x1.2238fbc686ae9p-12, 0x1.c3252705ad4d6p-14, 0x1.fdfecb3652d6ap-16,
               -0x1.2519814b6286ap-16, -0x1.3eb2561dfb3fp-18, 0x1.72feef4b96cfcp-19,
               0x1.0bf182fe397d6p-20, -0x1.b3d688e27923bp-22, -0x1.f291772bc467fp-23,
               0x1.7b22d6764e9d3p-25, 0x1.a3f8fb2eaf149p-25, -0x1.cbb5e15089df4p-33,
               -0x1.e57cfc4cde536p-28, -0x1.ce80480671e92p-31, 0x1.6aef630474009p-32);
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
  const Pair<T> tail = multiply(exp_pair(e), scaled_erfc(z));
  const T far = T(1) - scale(tail.hi + tail.lo, e.k);
  return copy_sign(magnitude < T(0.875) ? near : far, x);
}

// 1 - Phi(y) = 2^k ratio (1 + growth), Phi the normal distribution function, and e^(-y^2/2) = 2^k density. By the
// same substitution, in y: 1 - Phi(y) = e^(-y^2/2) P(t) / (y + K), t = 1 - 2K / (y + K). What 1 / (y + K) and the
// exponential leave out is in growth, so that a product with it is rounded once: gelu of a negative number keeps its
// relative precision.
template <Float T>
struct NormalTail {
  IntOf<T> k;
  T ratio;
  T growth;
  T density;
};

// The magnitude from which on gelu and its gradient have reached their limits.
template <Float T>
TREK_FN T normal_most() {
  return constant<T>(16.0f, 39.5);
}

// Of a magnitude up to that.
template <Float T>
TREK_FN NormalTail<T> normal_tail(T y) {
  const Pair<T> exponent = two_product(T(-0.5) * y, y);
  const ExpReduced<T> reduced = exp_reduce(exponent.hi, exponent.lo);
  const T r = reduced.first + reduced.second;
  const T slope = fma(r, exp_polynomial(r), T(1));  // (e^r - 1) / r

  const T center = T(3.5);
  const Pair<T> d = fast_two_sum(center, y);
  const T inverse = semantics::inverse(d.hi);
  const T rest = fma(-inverse, d.lo, fma(-inverse, d.hi, T(1)));
  const T t = fma(T(-2) * center * inverse, rest, fma(T(-2) * center, inverse, T(1)));
  T p;
  if constexpr (sizeof(T) == 4) {
    p = horner(t, 0x1.7d241ap-1f, -0x1.21914ep-1f, 0x1.42fecap-2f, -0x1.db5a78p-4f, 0x1.1d3018p-6f,
               0x1.a9862cp-8f, -0x1.a04262p-9f, -0x1.03788ap-11f, 0x1.bb29aep-12f, 0x1.d1f5aep-14f);
  } else {
    p = horner(t, 0x1.7d241a953a614p-1, -0x1.2191517fa27b8p-1, 0x1.42fec3680acabp-2,
               -0x1.db5837f7f553cp-4, 0x1.1d35bdee16cbbp-6, 0x1.a86cec766c74fp-8,
               -0x1.a200796a89733p-9, -0x1.d2a14111182dep-12, 0x1.f3cfaae396474p-12,
               0x1.1928624f90e63p-14, -0x1.3d066dc079029p-14, -0x1.3b39af8e590ffp-16,
               0x1.8219902f26408p-17, 0x1.7b4af9865aa55p-18, -0x1.38bf8f7da0dd9p-20,
               -0x1.8d0ecf90c8f0fp-20, -0x1.337e78a7b7396p-23, 0x1.3c1d38af79e87p-22,
               0x1.0a2bd8fb182d8p-23, -0x1.02bb53d3cb1f6p-25, -0x1.38844080e603ep-25,
               -0x1.096bab35b003ap-28, 0x1.52808b84113f5p-28, 0x1.9a66e36f60fc9p-30);
  }
  return {reduced.k, p * inverse, fma(r, slope, rest), fma(r, slope, T(1))};
}

}  // namespace trek::semantics
