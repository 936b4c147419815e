// Integer and bool arithmetic: two's complement, modulo 2^n, in every width. C++ would promote narrow
// operands to int and leave signed overflow undefined, so all of it happens in an unsigned type that
// is at least as wide as unsigned int.
#pragma once

#include "isa/semantics/convert.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

template <Integer T>
struct WideUnsigned {
  using Type = std::uint32_t;
};
template <Integer T>
  requires(sizeof(T) == 8)
struct WideUnsigned<T> {
  using Type = std::uint64_t;
};
template <Integer T>
using Wide = typename WideUnsigned<T>::Type;

template <Integer T>
TREK_FN T add(T x, T y) {
  return static_cast<T>(static_cast<Wide<T>>(x) + static_cast<Wide<T>>(y));
}
template <Integer T>
TREK_FN T sub(T x, T y) {
  return static_cast<T>(static_cast<Wide<T>>(x) - static_cast<Wide<T>>(y));
}
template <Integer T>
TREK_FN T mul(T x, T y) {
  return static_cast<T>(static_cast<Wide<T>>(x) * static_cast<Wide<T>>(y));
}
template <Integer T>
TREK_FN T neg(T x) {
  return sub(T(0), x);
}

// Truncated toward zero; y is not 0. The least integer / -1 is itself.
template <Integer T>
TREK_FN T div(T x, T y) {
  if constexpr (kIsSigned<T>) {
    if (y == T(-1)) return neg(x);
  }
  return static_cast<T>(x / y);
}

// The remainder with the sign of y, which is not 0.
template <Integer T>
TREK_FN T mod(T x, T y) {
  if constexpr (kIsSigned<T>) {
    if (y == T(-1)) return T(0);
    const T rest = static_cast<T>(x % y);
    return rest != T(0) && (rest < T(0)) != (y < T(0)) ? static_cast<T>(rest + y) : rest;
  } else {
    return static_cast<T>(x % y);
  }
}

template <Integer T>
TREK_FN T max(T x, T y) {
  return x > y ? x : y;
}
template <Integer T>
TREK_FN T min(T x, T y) {
  return x < y ? x : y;
}
template <Integer T>
TREK_FN T clamp(T x, T low, T high) {
  return min(max(x, low), high);
}
// The least signed integer is itself.
template <Integer T>
TREK_FN T abs(T x) {
  return x < T(0) ? neg(x) : x;
}
template <Integer T>
TREK_FN T sign(T x) {
  return static_cast<T>((x > T(0) ? 1 : 0) - (x < T(0) ? 1 : 0));
}

template <Integer T>
TREK_FN T bit_and(T x, T y) {
  return static_cast<T>(x & y);
}
template <Integer T>
TREK_FN T bit_or(T x, T y) {
  return static_cast<T>(x | y);
}
template <Integer T>
TREK_FN T bit_xor(T x, T y) {
  return static_cast<T>(x ^ y);
}
template <Integer T>
TREK_FN T bit_not(T x) {
  return static_cast<T>(~x);
}

// The count is read as unsigned; from the width on nothing of x is left but, to the right, its sign.
template <Integer T>
TREK_FN T shift_left(T x, T y) {
  constexpr Wide<T> kWidth = 8 * sizeof(T);
  const Wide<T> count =
      static_cast<Wide<T>>(y) & (~Wide<T>{0} >> (8 * (sizeof(Wide<T>) - sizeof(T))));
  const Wide<T> shifted = static_cast<Wide<T>>(x) << (count & (kWidth - 1));
  return count < kWidth ? static_cast<T>(shifted) : T(0);
}
template <Integer T>
TREK_FN T shift_right(T x, T y) {
  constexpr Wide<T> kWidth = 8 * sizeof(T);
  const Wide<T> count =
      static_cast<Wide<T>>(y) & (~Wide<T>{0} >> (8 * (sizeof(Wide<T>) - sizeof(T))));
  const T gone = x < T(0) ? T(-1) : T(0);
  return count < kWidth ? static_cast<T>(x >> (count & (kWidth - 1))) : gone;
}

TREK_FN Bool bit_and(Bool x, Bool y) { return {static_cast<std::uint8_t>(x.value & y.value)}; }
TREK_FN Bool bit_or(Bool x, Bool y) { return {static_cast<std::uint8_t>(x.value | y.value)}; }
TREK_FN Bool bit_xor(Bool x, Bool y) { return {static_cast<std::uint8_t>(x.value ^ y.value)}; }
TREK_FN Bool bit_not(Bool x) { return {static_cast<std::uint8_t>(x.value ^ 1)}; }

}  // namespace trek::semantics
