// Rounding to an integral value and the order of numbers, without libm and without reading the
// rounding mode: adding and subtracting 2^p (p the mantissa bits) rounds a smaller magnitude half
// to even, because IEEE addition does; the other directions correct that by one.
#pragma once

#include "isa/semantics/target.h"

namespace trek::semantics {

// The magnitude from which every number is an integer.
template <Float T>
TREK_FN T integral_from() {
  return constant<T>(0x1p23f, 0x1p52);
}

// The nearest integer, halves to even; keeps the sign of zero, NaN and infinities.
template <Float T>
TREK_FN T round(T x) {
  const T big = integral_from<T>();
  const T magnitude = abs(x);
  const T rounded = copy_sign((magnitude + big) - big, x);
  return magnitude < big ? rounded : x;
}

// The largest integer not above x.
template <Float T>
TREK_FN T floor(T x) {
  const T nearest = round(x);
  const T down = nearest - T(1);
  return copy_sign(nearest > x ? down : nearest, x);
}

// The smallest integer not below x; ceil of (-1, 0) is -0.
template <Float T>
TREK_FN T ceil(T x) {
  const T nearest = round(x);
  const T up = nearest + T(1);
  return copy_sign(nearest < x ? up : nearest, x);
}

// The integer towards zero.
template <Float T>
TREK_FN T trunc(T x) {
  const T magnitude = abs(x);
  const T nearest = round(magnitude);
  const T down = nearest - T(1);
  return copy_sign(nearest > magnitude ? down : nearest, x);
}

// The larger number: a NaN wins (the first if both are), +0 is above -0, else the first of equals.
template <Float T>
TREK_FN T max(T a, T b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) return __nvvm_fmax_nan_f(a, b);
#endif
  // Equal numbers differ in bits only as +0 and -0; the conjunction of the bits is +0 then.
  const T equal = from_bits<T>(static_cast<UIntOf<T>>(to_bits(a) & to_bits(b)));
  const T larger = a > b ? a : b;
  const T ordered = a == b ? equal : larger;
  const T right = is_nan(b) ? b : ordered;
  return is_nan(a) ? a : right;
}

// The smaller number: a NaN wins (the first if both are), -0 is below +0, else the first of equals.
template <Float T>
TREK_FN T min(T a, T b) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) return __nvvm_fmin_nan_f(a, b);
#endif
  const T equal = from_bits<T>(static_cast<UIntOf<T>>(to_bits(a) | to_bits(b)));
  const T smaller = a < b ? a : b;
  const T ordered = a == b ? equal : smaller;
  const T right = is_nan(b) ? b : ordered;
  return is_nan(a) ? a : right;
}

// -1, +1, or x itself if x is a zero or NaN.
template <Float T>
TREK_FN T sign(T x) {
  const T one = copy_sign(T(1), x);
  return x > T(0) || x < T(0) ? one : x;
}

}  // namespace trek::semantics
