// Activation functions, from the primitives and their parts. Each comment is the definition: the
// operations in order, each rounded to T. NaN in x gives NaN; at +-inf the value is the limit (a
// product of 0 and inf is avoided by clamping first). The gradients are in activation_gradient.h.
#pragma once

#include "isa/semantics/error_function.h"
#include "isa/semantics/exponential.h"
#include "isa/semantics/hyperbolic.h"
#include "isa/semantics/logarithm.h"
#include "isa/semantics/pair.h"
#include "isa/semantics/rounding.h"
#include "isa/semantics/target.h"

namespace trek::semantics {

// From here on, e^-x is below a quarter ulp of 1.
template <Float T>
TREK_FN T saturates() {
  return T(40);
}

// x > 0 ? x : +0.
template <Float T>
TREK_FN T relu(T x) {
  return x <= T(0) ? T(0) : x;
}

// x > 0 ? x : slope x; with slope 0 it is +0 for every x <= 0.
template <Float T>
TREK_FN T leaky_relu(T x, T slope) {
  const T below = slope == T(0) && x <= T(0) ? T(0) : slope * x;
  return x > T(0) ? x : below;
}

// x >= 0 ? x : alpha (e^x - 1), the second factor as a pair; elu(-inf) = -alpha.
template <Float T>
TREK_FN T elu(T x, T alpha) {
  const Pair<T> m = expm1_negative(x > T(0) ? T(0) : x);
  const T below = fma(alpha, m.hi, alpha * m.lo);
  return x >= T(0) ? x : below;
}

// x sigmoid(u) for u = hi + lo with the sign of x: with e = e^-|u| it is x e / (1 + e) below 0 and
// x / (1 + e) from 0 on; the product by 2^k comes last, so nothing underflows early.
template <Float T>
TREK_FN T gated(T x, Pair<T> u) {
  const bool negative = u.hi < T(0);
  const SigmoidParts<T> s = sigmoid_parts(negative ? u.hi : -u.hi, negative ? u.lo : -u.lo);
  const T p_hi = negative ? s.p.hi : T(1);
  const T p_lo = negative ? s.p.lo : T(0);
  const Pair<T> product = multiply(x, Pair<T>{p_hi, p_lo});
  const Pair<T> q = divide(product, s.one_plus);
  return scale(q.hi + q.lo, negative ? s.k : IntOf<T>{0});
}

// x sigmoid(x), x first clamped to exp's range from below; x itself from 40 on and for a zero.
// silu(-inf) = -0.
template <Float T>
TREK_FN T silu(T x) {
  const T moderate = at_most(at_least(x, exp_least<T>()), saturates<T>());
  const T value = gated(moderate, Pair<T>{moderate, T(0)});
  return x > saturates<T>() || x == T(0) ? x : value;
}

// x Phi(x), Phi the normal distribution function: x - |x| (1 - Phi(|x|)), and below 0 the second term alone.
// gelu(-inf) = -0.
template <Float T>
TREK_FN T gelu(T x) {
  const T magnitude = at_most(abs(x), normal_most<T>());
  const NormalTail<T> n = normal_tail(magnitude);
  // By a power of two that keeps small numbers from underflow until the last product, which rounds once.
  constexpr IntOf<T> kAhead = 3 * (Format<T>::kBias + 1) / 4;
  const T product = (magnitude * power_of_two<T>(n.k + kAhead)) * n.ratio;
  const T minuend = x < T(0) ? T(-0.0) : x;
  return fma(fma(product, n.growth, product), -power_of_two<T>(-kAhead), minuend);
}

// x clamped to where gelu_tanh and its gradient have reached their limits.
template <Float T>
TREK_FN T clamp_gelu_tanh(T x) {
  return at_least(at_most(x, T(24)), T(-24));
}

// u = 2 sqrt(2/pi) (x + 0.044715 x^3) = x (A + B x^2) as a pair, A and B as pairs.
template <Float T>
TREK_FN Pair<T> gelu_tanh_argument(T x) {
  const Pair<T> a = {constant<T>(0x1.988454p+0f, 0x1.9884533d43651p+0),
                     constant<T>(-0x1.857936p-25f, -0x1.cbc0d30ebfd15p-54)};
  const Pair<T> b = {constant<T>(0x1.2444f2p-4f, 0x1.2444f2a4d8b4bp-4),
                     constant<T>(0x1.49b16ap-29f, -0x1.6c843a29d1c7p-61)};
  const Pair<T> square = two_product(x, x);
  const Pair<T> bx = multiply(b, square);
  const Pair<T> sum = two_sum(a.hi, bx.hi);
  return multiply(x, Pair<T>{sum.hi, sum.lo + (a.lo + bx.lo)});
}

// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 = x sigmoid(u); x itself above 24 and for a
// zero. gelu_tanh(-inf) = -0.
template <Float T>
TREK_FN T gelu_tanh(T x) {
  const T clamped = clamp_gelu_tanh(x);
  const T value = gated(clamped, gelu_tanh_argument(clamped));
  return x > T(24) || x == T(0) ? x : value;
}

// tanh(softplus x) = 2^k n / d. With e = e^-|x| = 2^k p: below 0, n = p (2 + e) and d = 2 + 2^k n;
// from 0 on, k = 0, n = 1 + 2e and d = n + 2 e^2. All are pairs.
template <Float T>
struct MishParts {
  IntOf<T> k;
  Pair<T> e;
  Pair<T> n;
  Pair<T> d;
};

template <Float T>
TREK_FN MishParts<T> mish_parts(T x) {
  const bool negative = x < T(0);
  const ExpParts<T> parts = exp_parts_within(-abs(x), T(0));
  const Pair<T> p = exp_pair(parts);
  const Pair<T> e = {scale(p.hi, parts.k), scale(p.lo, parts.k)};
  const Pair<T> two_plus = fast_two_sum(T(2), e.hi);
  const Pair<T> below = multiply(p, Pair<T>{two_plus.hi, two_plus.lo + e.lo});
  const Pair<T> one_plus = fast_two_sum(T(1), e.hi + e.hi);
  const Pair<T> above = {one_plus.hi, one_plus.lo + (e.lo + e.lo)};
  const Pair<T> square = multiply(e, e);
  const Pair<T> d_below = fast_two_sum(T(2), scale(below.hi, parts.k));
  const Pair<T> d_above = fast_two_sum(above.hi, square.hi + square.hi);
  const T d_hi = negative ? d_below.hi : d_above.hi;
  const T d_lo = negative ? d_below.lo + scale(below.lo, parts.k)
                          : d_above.lo + (above.lo + (square.lo + square.lo));
  return {negative ? parts.k : IntOf<T>{0},
          e,
          {negative ? below.hi : above.hi, negative ? below.lo : above.lo},
          {d_hi, d_lo}};
}

// x tanh(softplus x): (x n) / d by pairs, summed, times 2^k; x itself above 40 and for a zero.
// mish(-inf) = -0.
template <Float T>
TREK_FN T mish(T x) {
  const T moderate = at_most(at_least(x, exp_least<T>()), saturates<T>());
  const MishParts<T> m = mish_parts(moderate);
  const Pair<T> q = divide(multiply(moderate, m.n), m.d);
  const T value = scale(q.hi + q.lo, m.k);
  return x > saturates<T>() || x == T(0) ? x : value;
}

// max(x, +0) + log(1 + e^-|x|), the logarithm from its pair rounded once.
// softplus(-inf) = +0, softplus(inf) = inf.
template <Float T>
TREK_FN T softplus(T x) {
  const Pair<T> l = log1p_unit(exp_negative(-abs(x)));
  return (x > T(0) ? x : T(0)) + (l.hi + l.lo);
}

// x (x + 3) / 6 in that order; +0 for x <= -3, x for x >= 3.
template <Float T>
TREK_FN T hardswish(T x) {
  const T middle = x * (x + T(3)) / T(6);
  const T upper = x >= T(3) ? x : middle;
  return x <= T(-3) ? T(0) : upper;
}

// min(max(x, lo), hi): a NaN bound wins too.
template <Float T>
TREK_FN T clamp(T x, T lo, T hi) {
  return min(max(x, lo), hi);
}

}  // namespace trek::semantics
