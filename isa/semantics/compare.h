// Comparisons, and the order in which `sort`, `argmax` and their kin see elements.
#pragma once

#include "isa/semantics/convert.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

// IEEE: false where either is NaN, but for `ne`. +0 equals -0.
template <typename T>
TREK_FN Bool eq(T x, T y) {
  return {static_cast<std::uint8_t>(x == y ? 1 : 0)};
}
template <typename T>
TREK_FN Bool ne(T x, T y) {
  return {static_cast<std::uint8_t>(x != y ? 1 : 0)};
}
template <typename T>
TREK_FN Bool lt(T x, T y) {
  return {static_cast<std::uint8_t>(x < y ? 1 : 0)};
}
template <typename T>
TREK_FN Bool le(T x, T y) {
  return {static_cast<std::uint8_t>(x <= y ? 1 : 0)};
}
template <typename T>
TREK_FN Bool gt(T x, T y) {
  return {static_cast<std::uint8_t>(x > y ? 1 : 0)};
}
template <typename T>
TREK_FN Bool ge(T x, T y) {
  return {static_cast<std::uint8_t>(x >= y ? 1 : 0)};
}
TREK_FN Bool eq(Bool x, Bool y) { return eq(x.value, y.value); }
TREK_FN Bool ne(Bool x, Bool y) { return ne(x.value, y.value); }

// An unsigned integer of at least 32 bits that orders elements: -inf ... -0, +0 ... +inf, then all
// NaNs as one; false before true.
template <typename T>
struct OrderKey {
  using Type = std::uint32_t;
};
template <typename T>
  requires(sizeof(T) == 8)
struct OrderKey<T> {
  using Type = std::uint64_t;
};
template <typename T>
using OrderKeyOf = typename OrderKey<T>::Type;

template <typename T>
TREK_FN OrderKeyOf<T> order_key(T x) {
  using K = OrderKeyOf<T>;
  if constexpr (__is_same(T, Bool)) {
    return x.value;
  } else if constexpr (kIsNarrow<T>) {
    return order_key(widen(x));
  } else if constexpr (kIsFloat<T>) {
    constexpr K kSign = K{1} << (8 * sizeof(T) - 1);
    const K bits = to_bits(x);
    const K key = (bits & kSign) != 0 ? ~bits : bits | kSign;
    return is_nan(x) ? ~K{0} : key;
  } else if constexpr (kIsSigned<T>) {
    return static_cast<K>(x) ^ (K{1} << (8 * sizeof(K) - 1));
  } else {
    return x;
  }
}

// A key by which the least element is the greatest, and a NaN still is: what `argmin` looks for.
template <typename T>
TREK_FN OrderKeyOf<T> least_key(T x) {
  const OrderKeyOf<T> key = order_key(x);
  const OrderKeyOf<T> reversed = static_cast<OrderKeyOf<T>>(~key);
  if constexpr (kIsFloat<T> || kIsNarrow<T>) {
    return reversed == 0 ? key : reversed;
  } else {
    return reversed;
  }
}

}  // namespace trek::semantics
