// Under `strict` every engine computes the same bits, so the meaning of an instruction may use
// only operations that IEEE 754 defines to the last bit on every target: + - * / sqrt, fma where
// it is written, comparisons, conversions and integers. This file gives the other headers of this
// folder that set, for a host and for clang's CUDA device compilation without the CUDA SDK.
//
// What must hold in every translation unit that includes these headers:
//   - contraction is off: -ffp-contract=off (clang's CUDA default is `fast`, gcc's too);
//   - no -ffast-math, no flush of subnormals, rounding to nearest even;
//   - 32-bit x86 needs SSE arithmetic (x87 would round twice).
// fma must be the machine's instruction to be fast (-mfma, sm_*); it is correct without.
#pragma once

#include <cstdint>

#ifdef __CUDA__
#define TREK_TARGET __attribute__((host)) __attribute__((device))
#else
#define TREK_TARGET
#endif

// A function of the semantics: inline everywhere, so that loops over it vectorise and nothing of
// it is left to a linker.
#define TREK_FN TREK_TARGET static inline __attribute__((always_inline))

#ifdef __FAST_MATH__
#error "trek semantics are bit-exact: do not compile them with -ffast-math"
#endif

namespace trek::semantics {

// binary32 and binary64, the two formats in which floating-point meaning is computed. Narrower
// formats are widened to float and rounded once.
template <typename T>
struct Format;

template <>
struct Format<float> {
  using Int = std::int32_t;
  using UInt = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr int kBias = 127;
};

template <>
struct Format<double> {
  using Int = std::int64_t;
  using UInt = std::uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr int kBias = 1023;
};

template <typename T>
inline constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<float> = true;
template <>
inline constexpr bool kIsFloat<double> = true;

template <typename T>
concept Float = kIsFloat<T>;

template <Float T>
using IntOf = typename Format<T>::Int;
template <Float T>
using UIntOf = typename Format<T>::UInt;

// The constant of the type T out of a pair written as float and double literals.
template <Float T>
TREK_FN constexpr T constant(float single, double full) {
  if constexpr (sizeof(T) == 4) {
    return single;
  } else {
    return full;
  }
}

template <Float T>
TREK_FN UIntOf<T> to_bits(T x) {
  return __builtin_bit_cast(UIntOf<T>, x);
}

template <Float T>
TREK_FN T from_bits(UIntOf<T> bits) {
  return __builtin_bit_cast(T, bits);
}

template <Float T>
TREK_FN T infinity() {
  constexpr UIntOf<T> kExponentBits = UIntOf<T>{2} * Format<T>::kBias + 1;
  return from_bits<T>(static_cast<UIntOf<T>>(kExponentBits << Format<T>::kMantissaBits));
}

// The one NaN: positive, quiet, no payload. All NaNs are one value when bits are compared.
template <Float T>
TREK_FN T quiet_nan() {
  return from_bits<T>(static_cast<UIntOf<T>>(to_bits(infinity<T>()) |
                                             (UIntOf<T>{1} << (Format<T>::kMantissaBits - 1))));
}

template <Float T>
TREK_FN bool is_nan(T x) {
  return __builtin_isnan(x);
}

// x * y + z, rounded once.
template <Float T>
TREK_FN T fma(T x, T y, T z) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_fmaf(x, y, z);
  } else {
    return __builtin_fma(x, y, z);
  }
}

// The correctly rounded square root; sqrt(-0) = -0, sqrt(x < 0) = NaN. Compile with
// -fno-math-errno, or the compiler keeps a branch to libm's sqrt for the sake of errno.
template <Float T>
TREK_FN T sqrt(T x) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_sqrtf(x);
  } else {
    return __builtin_sqrt(x);
  }
}

template <Float T>
TREK_FN T abs(T x) {
  if constexpr (sizeof(T) == 4) {
    return __builtin_fabsf(x);
  } else {
    return __builtin_fabs(x);
  }
}

template <Float T>
TREK_FN bool is_negative(T x) {  // by its sign, so -0 is
  return static_cast<IntOf<T>>(to_bits(x)) < 0;
}

template <Float T>
TREK_FN T neg(T x) {
  constexpr UIntOf<T> kSign = UIntOf<T>{1} << (8 * sizeof(T) - 1);
  return from_bits<T>(static_cast<UIntOf<T>>(to_bits(x) ^ kSign));
}

// The magnitude of `x` with the sign bit of `s`.
template <Float T>
TREK_FN T copy_sign(T x, T s) {
  constexpr UIntOf<T> kSign = UIntOf<T>{1} << (8 * sizeof(T) - 1);
  return from_bits<T>(static_cast<UIntOf<T>>((to_bits(x) & ~kSign) | (to_bits(s) & kSign)));
}

// The smaller and the larger of x and a bound that is a number; NaN stays. One instruction of a GPU, as of a CPU.
template <Float T>
TREK_FN T at_most(T x, T bound) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) return __nvvm_fmin_nan_f(x, bound);
#endif
  return x > bound ? bound : x;
}
template <Float T>
TREK_FN T at_least(T x, T bound) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) return __nvvm_fmax_nan_f(x, bound);
#endif
  return x < bound ? bound : x;
}

// 1 / x, correctly rounded, for 2^-100 <= |x| <= 2^100; NaN stays. What a GPU divides with outside of its branch for
// other numbers: an approximation within one unit in the last place, and a Newton step with an exact remainder.
template <Float T>
TREK_FN T inverse(T x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) {
    const T near = __nvvm_rcp_approx_ftz_f(x);
    return fma(near, fma(-x, near, T(1)), near);
  }
#endif
  return T(1) / x;
}

// 2^k as a number of T; -kBias < k <= kBias. Any other k (from a NaN) gives some number.
template <Float T>
TREK_FN T power_of_two(IntOf<T> k) {
  constexpr UIntOf<T> kBias = UIntOf<T>{Format<T>::kBias};
  return from_bits<T>((static_cast<UIntOf<T>>(k) + kBias) << Format<T>::kMantissaBits);
}

// x * 2^k, rounded once if |x| is in [2^-30, 2^30] and -4/3 kBias < k < 4/3 kBias: the first
// product is exact, only the second can meet the subnormals or overflow.
template <Float T>
TREK_FN T scale(T x, IntOf<T> k) {
  // Unsigned: AVX2 has no arithmetic shift of 64 bits, and a k from a NaN may be anything.
  using U = UIntOf<T>;
  const U half = ((static_cast<U>(k) + 8192) >> 1) - 4096;  // floor(k / 2)
  const U other = static_cast<U>(k) - half;
  return x * power_of_two<T>(static_cast<IntOf<T>>(half)) *
         power_of_two<T>(static_cast<IntOf<T>>(other));
}

// x * 2^k, rounded once if |x| is in [1/2, 2^60] or k is 0, and -1.4 kBias < k <= 0: the first product is exact.
template <Float T>
TREK_FN T scale_down(T x, IntOf<T> k) {
  using U = UIntOf<T>;
  constexpr U kAhead = Format<T>::kBias / 2 + 1;  // 64, 512
  const T least = power_of_two<T>(-static_cast<IntOf<T>>(kAhead));
  return x * power_of_two<T>(static_cast<IntOf<T>>(static_cast<U>(k) + kAhead)) * least;
}

// c0 + x (c1 + x (c2 + ...)), one fma per coefficient, the innermost first.
template <Float T>
TREK_FN T horner(T, T c0) {
  return c0;
}
template <Float T, typename... Rest>
TREK_FN T horner(T x, T c0, Rest... rest) {
  return fma(x, horner(x, rest...), c0);
}

}  // namespace trek::semantics
