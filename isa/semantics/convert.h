// `cast`: one element of any type as any other, and the storage types that C++ does not have.
//
//   to a float     rounded once to nearest even; beyond the range infinity, in f8e4m3 NaN
//   float to int   truncated toward zero, saturated, NaN to 0
//   int to int     modulo 2^n
//   to bool        x != 0 (NaN is true); from bool 0 or 1
//
// "Rounded once" is what needs care: a 64-bit integer or an f64 must not pass through f32 on its way
// to a narrow float. f64 is narrowed directly, and an integer passes through f64 rounded to odd, which
// keeps what a second rounding needs to know (Boldo and Melquiond, 2008).
#pragma once

#include "isa/semantics/target.h"

namespace trek::semantics {

// The storage of one element. Arithmetic on the narrow floats is that of float.
struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};
struct F8E4M3 {
  std::uint8_t bits;
};
struct F8E5M2 {
  std::uint8_t bits;
};
struct Bool {
  std::uint8_t value;  // 0 or 1
};

template <typename T, typename... Among>
inline constexpr bool kIsOneOf = (__is_same(T, Among) || ...);
template <typename T>
inline constexpr bool kIsInteger =
    kIsOneOf<T, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
             std::uint32_t, std::uint64_t>;
template <typename T>
inline constexpr bool kIsNarrow = kIsOneOf<T, F16, BF16, F8E4M3, F8E5M2>;
template <typename T>
concept Integer = kIsInteger<T>;
template <typename T>
concept Narrow = kIsNarrow<T>;

template <Integer T>
inline constexpr bool kIsSigned = T(-1) < T(0);
template <Integer T>
inline constexpr T kGreatest = static_cast<T>(
    kIsSigned<T> ? (std::uint64_t{1} << (8 * sizeof(T) - 1)) - 1 : ~std::uint64_t{0});
template <Integer T>
inline constexpr T kLeast = static_cast<T>(kIsSigned<T> ? ~kGreatest<T> : 0);

// The layout of a narrow float.
template <Narrow T>
struct NarrowFormat;
template <>
struct NarrowFormat<F16> {
  using UInt = std::uint16_t;
  static constexpr int kExponentBits = 5;
  static constexpr int kMantissaBits = 10;
  static constexpr bool kHasInfinity = true;
};
template <>
struct NarrowFormat<BF16> {
  using UInt = std::uint16_t;
  static constexpr int kExponentBits = 8;
  static constexpr int kMantissaBits = 7;
  static constexpr bool kHasInfinity = true;
};
template <>
struct NarrowFormat<F8E4M3> {
  using UInt = std::uint8_t;
  static constexpr int kExponentBits = 4;
  static constexpr int kMantissaBits = 3;
  static constexpr bool kHasInfinity = false;  // its one NaN has all bits but the sign set
};
template <>
struct NarrowFormat<F8E5M2> {
  using UInt = std::uint8_t;
  static constexpr int kExponentBits = 5;
  static constexpr int kMantissaBits = 2;
  static constexpr bool kHasInfinity = true;
};

// The exact value of a narrow float. The exponent is rebased by a product, which is exact and brings
// subnormals with it.
template <Narrow T>
TREK_FN float widen(T x) {
  using N = NarrowFormat<T>;
  constexpr int kBias = (1 << (N::kExponentBits - 1)) - 1;
  constexpr std::uint32_t kMagnitude = (1u << (N::kExponentBits + N::kMantissaBits)) - 1;
  constexpr std::uint32_t kTop = ((1u << N::kExponentBits) - 1) << N::kMantissaBits;
  const std::uint32_t magnitude = x.bits & kMagnitude;
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & ~kMagnitude)
                             << (31 - N::kExponentBits - N::kMantissaBits);
  const std::uint32_t aligned = magnitude << (23 - N::kMantissaBits);
  std::uint32_t bits = 0;
  if constexpr (N::kExponentBits == 8) {
    bits = aligned;
  } else {
    constexpr std::uint32_t kRebase = static_cast<std::uint32_t>(127 + 127 - kBias) << 23;
    bits = to_bits(from_bits<float>(aligned) * from_bits<float>(kRebase));
    if constexpr (N::kHasInfinity) {
      bits = magnitude >= kTop ? aligned | 0x7F800000u : bits;
    } else {
      bits = magnitude == kMagnitude ? 0x7FC00000u : bits;
    }
  }
  return from_bits<float>(bits | sign);
}

// The nearest narrow float, halves to even.
template <Narrow T, Float F>
TREK_FN T narrow(F x) {
  using N = NarrowFormat<T>;
  using U = UIntOf<F>;
  constexpr int kDrop = Format<F>::kMantissaBits - N::kMantissaBits;
  constexpr int kBias = (1 << (N::kExponentBits - 1)) - 1;
  constexpr U kSign = U{1} << (8 * sizeof(F) - 1);
  constexpr U kRebase = static_cast<U>(Format<F>::kBias - kBias) << Format<F>::kMantissaBits;
  constexpr U kLeastNormal = static_cast<U>(Format<F>::kBias - kBias + 1)
                             << Format<F>::kMantissaBits;
  constexpr U kTop = static_cast<U>((1u << N::kExponentBits) - 1) << N::kMantissaBits;
  constexpr U kOverflow = N::kHasInfinity ? kTop : kTop | ((U{1} << N::kMantissaBits) - 1);
  constexpr U kNan = N::kHasInfinity ? kTop | (U{1} << (N::kMantissaBits - 1)) : kOverflow;
  // One whose last place is the least subnormal: adding it rounds a smaller number to that place.
  constexpr U kMagic = static_cast<U>(Format<F>::kBias + kDrop + 1 - kBias)
                       << Format<F>::kMantissaBits;

  const U bits = to_bits(x);
  const U magnitude = bits & ~kSign;
  const U tie_to_even = ((U{1} << (kDrop - 1)) - 1) + ((magnitude >> kDrop) & 1);
  const U normal = (magnitude - kRebase + tie_to_even) >> kDrop;
  const U subnormal = to_bits(from_bits<F>(magnitude) + from_bits<F>(kMagic)) - kMagic;
  U result = magnitude < kLeastNormal ? subnormal : normal;
  result = result > kOverflow ? kOverflow : result;
  result = is_nan(x) ? kNan : result;
  constexpr int kSignShift =
      8 * static_cast<int>(sizeof(F)) - 1 - N::kExponentBits - N::kMantissaBits;
  return {static_cast<typename N::UInt>(result | ((bits & kSign) >> kSignShift))};
}

// An integer as an f64 whose last bit says whether anything was lost: what is then rounded to at most
// 51 bits is rounded as the integer itself would be.
template <Integer I>
TREK_FN double rounded_to_odd(I x) {
  if constexpr (sizeof(I) < 8) {
    return static_cast<double>(x);
  } else {
    const bool negative = x < I(0);
    const std::uint64_t magnitude =
        negative ? std::uint64_t{0} - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
    constexpr std::uint64_t kLost = (1u << 11) - 1;
    const std::uint64_t sticky = (magnitude & kLost) != 0 ? kLost + 1 : 0;
    const std::uint64_t odd = magnitude >> 53 == 0 ? magnitude : ((magnitude & ~kLost) | sticky);
    const double value = static_cast<double>(odd);
    return negative ? -value : value;
  }
}

// Truncated toward zero, saturated, NaN to 0. Out-of-range numbers never reach the C++ conversion,
// which is not defined for them.
template <Integer I, Float F>
TREK_FN I to_integer(F x) {
  // Both bounds are powers of two, or 0: exact in F.
  constexpr F kAbove =
      static_cast<F>(std::uint64_t{1} << (8 * sizeof(I) - 1)) * (kIsSigned<I> ? F(1) : F(2));
  constexpr F kBelow = kIsSigned<I> ? -kAbove : F(0);
  const bool low = x <= kBelow;  // at the bound itself the least integer is the value
  const bool high = x >= kAbove;
  const F inside = low || high || is_nan(x) ? F(0) : x;
  const I value = static_cast<I>(inside);
  const I bounded = low ? kLeast<I> : value;
  return high ? kGreatest<I> : bounded;
}

template <typename To, typename From>
TREK_FN To convert(From x) {
  if constexpr (__is_same(To, From)) {
    return x;
  } else if constexpr (__is_same(From, Bool)) {
    return convert<To>(x.value);
  } else if constexpr (kIsNarrow<From>) {
    return convert<To>(widen(x));
  } else if constexpr (__is_same(To, Bool)) {
    return {static_cast<std::uint8_t>(x != From(0) ? 1 : 0)};
  } else if constexpr (kIsNarrow<To>) {
    if constexpr (kIsFloat<From>) {
      return narrow<To>(x);
    } else if constexpr (sizeof(From) < 4) {
      return narrow<To>(static_cast<float>(x));  // exact so far
    } else {
      return narrow<To>(rounded_to_odd(x));
    }
  } else if constexpr (kIsInteger<To> && kIsFloat<From>) {
    return to_integer<To>(x);
  } else {
    return static_cast<To>(x);  // integers modulo 2^n; to f32 and f64 rounded once
  }
}

// The type in which arithmetic on T happens.
template <typename T>
struct ComputeType {
  using Type = T;
};
template <Narrow T>
struct ComputeType<T> {
  using Type = float;
};
template <typename T>
using Compute = typename ComputeType<T>::Type;

}  // namespace trek::semantics
