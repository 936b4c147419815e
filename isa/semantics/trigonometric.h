// sin and cos of any number. x = n pi/2 + r with |r| <= pi/4, r as a pair; the low two bits of n
// choose sin r or cos r and the sign. Moderate x: n pi/2 is subtracted in three parts (Cody and
// Waite). Large x: the bits of 2/pi that matter are multiplied with the mantissa in integers
// (Payne and Hanek), the only branch of these headers; it is far outside of what networks feed.
#pragma once

#include "isa/semantics/pair.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

__extension__ using UInt128 = unsigned __int128;

// Word i of 2/pi: bits 64 i .. 64 i + 63 after the binary point, the first the most significant.
// A switch and not an array: device code needs no constant memory for it.
TREK_FN std::uint64_t two_over_pi_word(int i) {
  switch (i) {
    case 0:
      return 0xa2f9836e4e441529;
    case 1:
      return 0xfc2757d1f534ddc0;
    case 2:
      return 0xdb6295993c439041;
    case 3:
      return 0xfe5163abdebbc561;
    case 4:
      return 0xb7246e3a424dd2e0;
    case 5:
      return 0x06492eea09d1921c;
    case 6:
      return 0xfe1deb1cb129a73e;
    case 7:
      return 0xe88235f52ebb4484;
    case 8:
      return 0xe99c7026b45f7e41;
    case 9:
      return 0x3991d639835339f4;
    case 10:
      return 0x9c845f8bbdf9283b;
    case 11:
      return 0x1ff897ffde05980f;
    case 12:
      return 0xef2f118b5a0a6d1f;
    case 13:
      return 0x6d367ecf27cb09b7;
    case 14:
      return 0x4f463f669e5fea2d;
    case 15:
      return 0x7527bac7ebe5f17b;
    case 16:
      return 0x3d0739f78a5292ea;
    case 17:
      return 0x6bfb5fb11f8d5d08;
    case 18:
      return 0x56033046fc7b6bab;
    default:
      return 0;  // i = -1: 2/pi < 1
  }
}

// x = n pi/2 + r; n is given modulo 4.
template <Float T>
struct QuarterTurns {
  Pair<T> r;
  UIntOf<T> n;
};

// Finite |x| >= 2^17, by integers.
template <Float T>
TREK_TARGET static __attribute__((noinline)) QuarterTurns<T> reduce_large(T x) {
  constexpr int kBits = Format<T>::kMantissaBits;
  const UIntOf<T> bits = to_bits(abs(x));
  const int exponent = static_cast<int>(bits >> kBits) - Format<T>::kBias - kBits;
  const std::uint64_t mantissa = (bits & ((UIntOf<T>{1} << kBits) - 1)) | (UIntOf<T>{1} << kBits);

  // |x| = mantissa 2^exponent. The 192 bits of 2/pi from position exponent - 2 (after the binary
  // point) on, times mantissa: higher bits add multiples of 4, lower ones are below 2^-136.
  const int position = exponent - 2 + 64;  // >= 0 counted from word -1
  const int word = position / 64 - 1;
  const int offset = position % 64;
  std::uint64_t window[3];
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t left = two_over_pi_word(word + i);
    const std::uint64_t right = two_over_pi_word(word + i + 1);
    window[i] = offset == 0 ? left : (left << offset) | (right >> (64 - offset));
  }
  const UInt128 low = UInt128{window[2]} * mantissa;
  const UInt128 middle = UInt128{window[1]} * mantissa + (low >> 64);
  const std::uint64_t top = window[0] * mantissa + static_cast<std::uint64_t>(middle >> 64);
  const UInt128 turns = (UInt128{top} << 64) | static_cast<std::uint64_t>(middle);

  // turns: n in the top two bits, below them the fraction; from a half on, n + 1 and fraction - 1.
  const UInt128 rounded = turns + (UInt128{1} << 125);
  const UIntOf<T> n = static_cast<UIntOf<T>>(rounded >> 126);
  const UInt128 fraction = turns << 2;
  const bool negative = (fraction >> 127) != 0;
  UInt128 magnitude = negative ? -fraction : fraction;

  // The leading bits as hi (exact), the next ones as lo; then times pi/2.
  const std::uint64_t upper = static_cast<std::uint64_t>(magnitude >> 64);
  const std::uint64_t lower = static_cast<std::uint64_t>(magnitude);
  const int zeros = upper != 0 ? __builtin_clzll(upper) : 64 + __builtin_clzll(lower | 1);
  magnitude <<= zeros;
  constexpr int kDigits = kBits + 1;
  constexpr UInt128 kMask = (UInt128{1} << kDigits) - 1;
  const auto first = static_cast<std::uint64_t>(magnitude >> (128 - kDigits));
  const auto second = static_cast<std::uint64_t>((magnitude >> (128 - 2 * kDigits)) & kMask);
  const T unit = power_of_two<T>(-zeros - kDigits);
  const T fraction_hi = static_cast<T>(first) * unit;
  const T fraction_lo = static_cast<T>(second) * unit * power_of_two<T>(-kDigits);
  const Pair<T> half_pi = {constant<T>(0x1.921fb6p+0f, 0x1.921fb54442d18p+0),
                           constant<T>(-0x1.777a5cp-25f, 0x1.1a62633145c07p-54)};
  const Pair<T> product = multiply(Pair<T>{fraction_hi, fraction_lo}, half_pi);
  const bool flip = negative != (x < T(0));
  const UIntOf<T> turn = x < T(0) ? -n : n;
  return {{flip ? -product.hi : product.hi, flip ? -product.lo : product.lo}, turn};
}

// |x| < 2^17 or NaN.
template <Float T>
TREK_FN QuarterTurns<T> reduce_moderate(T x) {
  const T shift = constant<T>(0x1.8p23f, 0x1.8p52);
  const T shifted = fma(x, constant<T>(0x1.45f306p-1f, 0x1.45f306dc9c883p-1), shift);
  const T n = shifted - shift;
  // x - n P1 is exact; n P2 as a pair; n P3 is below the last bit that matters.
  const T first = fma(-n, constant<T>(0x1.921fb6p+0f, 0x1.921fb54442d18p+0), x);
  const Pair<T> second = two_product(n, constant<T>(-0x1.777a5cp-25f, 0x1.1a62633145c07p-54));
  const T third = n * constant<T>(-0x1.ee59dap-50f, -0x1.f1976b7ed8fbcp-110);
  const Pair<T> r = two_sum(first, -second.hi);
  return {{r.hi, r.lo - (second.lo + third)}, to_bits(shifted)};
}

template <Float T>
TREK_FN QuarterTurns<T> reduce_quarter_turns(T x) {
  const T magnitude = abs(x);
  if (__builtin_expect(magnitude >= T(131072) && magnitude < infinity<T>(), 0)) {
    return reduce_large(x);
  }
  return reduce_moderate(magnitude < infinity<T>() ? x : quiet_nan<T>());
}

// sin r = r + (r^3 S(r^2) + lo), |r| <= pi/4.
template <Float T>
TREK_FN T sin_kernel(Pair<T> r) {
  const T z = r.hi * r.hi;
  T s;
  if constexpr (sizeof(T) == 4) {
    s = horner(z, -0x1.555556p-3f, 0x1.11111ep-7f, -0x1.a00f66p-13f, 0x1.6cd83ap-19f);
  } else {
    s = horner(z, -0x1.5555555555555p-3, 0x1.1111111111101p-7, -0x1.a01a01a018af3p-13,
               0x1.71de3a5339755p-19, -0x1.ae6452984a017p-26, 0x1.612092b6eb9b6p-33,
               -0x1.aaa546f2e3e0cp-41);
  }
  const T low = fma(T(-0.5) * z, r.lo, r.lo);
  return r.hi + fma(r.hi * z, s, low);
}

// cos r = 1 - r^2/2 + (r^4 C(r^2) - r lo), |r| <= pi/4.
template <Float T>
TREK_FN T cos_kernel(Pair<T> r) {
  const T z = r.hi * r.hi;
  T c;
  if constexpr (sizeof(T) == 4) {
    c = horner(z, 0x1.555556p-5f, -0x1.6c16ep-10f, 0x1.a0112ap-16f, -0x1.244c1p-22f);
  } else {
    c = horner(z, 0x1.5555555555555p-5, -0x1.6c16c16c16c01p-10, 0x1.a01a01a01956fp-16,
               -0x1.27e4fb766c749p-22, 0x1.1eed8d135feap-29, -0x1.9393ab19f7decp-37,
               0x1.aaf51d7d3885p-45);
  }
  const T half = T(0.5) * z;
  const Pair<T> sum = fast_two_sum(T(1), -half);
  return sum.hi + (sum.lo + fma(z * z, c, -(r.hi * r.lo)));
}

// sin or cos of r by the parity of n, negated if bit 1 of n is set.
template <Float T>
TREK_FN T turn(Pair<T> r, UIntOf<T> n) {
  const T s = sin_kernel(r);
  const T c = cos_kernel(r);
  const T chosen = (n & 1) == 0 ? s : c;
  return (n & 2) == 0 ? chosen : -chosen;
}

// sin x; sin(-0) = -0, sin(+-inf) = NaN.
template <Float T>
TREK_FN T sin(T x) {
  const QuarterTurns<T> q = reduce_quarter_turns(x);
  const T result = turn(q.r, q.n);
  return x == T(0) ? x : result;
}

// cos x; cos(+-inf) = NaN.
template <Float T>
TREK_FN T cos(T x) {
  const QuarterTurns<T> q = reduce_quarter_turns(x);
  return turn(q.r, q.n + 1);
}

}  // namespace trek::semantics
