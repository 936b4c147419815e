// One number held as the unevaluated sum of two, |lo| <= ulp(hi)/2 or nearly so: twice the
// precision where a result would otherwise lose its last bits, with the same operations on every
// target. The error-free transformations are Dekker's and Knuth's; see Muller et al., Handbook of
// Floating-Point Arithmetic, chapter 4.
#pragma once

#include "isa/semantics/target.h"

namespace trek::semantics {

template <Float T>
struct Pair {
  T hi;
  T lo;
};

// a + b exactly, for |a| >= |b| or a = 0, or wherever a is a multiple of b's last place (Jeannerod and Zimmermann,
// FastTwoSum revisited, 2025).
template <Float T>
TREK_FN Pair<T> fast_two_sum(T a, T b) {
  const T sum = a + b;
  return {sum, b - (sum - a)};
}

// a + b exactly.
template <Float T>
TREK_FN Pair<T> two_sum(T a, T b) {
  const T sum = a + b;
  const T part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

// a * b exactly (barring underflow).
template <Float T>
TREK_FN Pair<T> two_product(T a, T b) {
  const T product = a * b;
  return {product, fma(a, b, -product)};
}

// a * b of pairs, relative error about 2^-2p.
template <Float T>
TREK_FN Pair<T> multiply(Pair<T> a, Pair<T> b) {
  const Pair<T> product = two_product(a.hi, b.hi);
  return {product.hi, fma(a.hi, b.lo, fma(a.lo, b.hi, product.lo))};
}

template <Float T>
TREK_FN Pair<T> multiply(T a, Pair<T> b) {
  const Pair<T> product = two_product(a, b.hi);
  return {product.hi, fma(a, b.lo, product.lo)};
}

// n / d of pairs, 2^-100 <= |d.hi| <= 2^100: the quotient of the leading parts and a correction from the exact remainder.
// The sum of the two parts has a relative error of about 2^-2p.
template <Float T>
TREK_FN Pair<T> divide(Pair<T> n, Pair<T> d) {
  const T inverse = semantics::inverse(d.hi);
  const T quotient = n.hi * inverse;
  const T remainder = fma(-quotient, d.hi, n.hi);
  return {quotient, (remainder + fma(-quotient, d.lo, n.lo)) * inverse};
}

}  // namespace trek::semantics
