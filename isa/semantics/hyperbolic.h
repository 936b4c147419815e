// tanh and the logistic sigmoid, both quotients of e^-|x| held as pairs: nothing overflows, nothing
// cancels, and what is left before the rounding is far below the distance between the values of
// neighbouring arguments, or, where the function flattens out, below what could cross a rounding
// boundary twice. tests/accuracy shows over all binary32 numbers that both are monotone.
#pragma once

#include "isa/semantics/exponential.h"
#include "isa/semantics/pair.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

// tanh x = -m / (2 + m), m = e^(-2|x|) - 1, with the sign of x; tanh(-0) = -0.
template <Float T>
TREK_FN T tanh(T x) {
  const T magnitude = abs(x);
  const Pair<T> m = expm1_negative(T(-2) * magnitude);
  const Pair<T> sum = fast_two_sum(T(2), m.hi);
  const Pair<T> q = divide(Pair<T>{-m.hi, -m.lo}, Pair<T>{sum.hi, sum.lo + m.lo});
  return copy_sign(q.hi + q.lo, x);
}

// With e = 2^k p = e^-|u|: what sigmoid and the functions gated by it are made of.
template <Float T>
struct SigmoidParts {
  IntOf<T> k;
  Pair<T> p;
  Pair<T> one_plus;  // 1 + e
};

// For u = hi + lo <= 0.
template <Float T>
TREK_FN SigmoidParts<T> sigmoid_parts(T hi, T lo) {
  const ExpParts<T> parts = exp_parts_within(at_least(hi, exp_least<T>()), lo);
  const Pair<T> p = exp_pair(parts);
  const Pair<T> sum = fast_two_sum(T(1), scale(p.hi, parts.k));
  return {parts.k, p, {sum.hi, sum.lo + scale(p.lo, parts.k)}};
}

// sigmoid x = e^x / (1 + e^x) for x < 0, 1 / (1 + e^-x) else.
template <Float T>
TREK_FN T sigmoid(T x) {
  const SigmoidParts<T> s = sigmoid_parts(-abs(x), T(0));
  const Pair<T> q = divide(s.p, s.one_plus);
  const T below = scale(q.hi + q.lo, s.k);
  const T above = T(1) - below;
  return x < T(0) ? below : above;
}

}  // namespace trek::semantics
