// Gradients of the unary functions: dy times the derivative, where the derivative f'(x) (or f' as a
// function of the result y) is computed first and the product by dy is the last operation, unless
// a comment says otherwise. NaN in x (or y) gives NaN. At +-inf the derivative is its limit.
#pragma once

#include "isa/semantics/activation.h"
#include "isa/semantics/target.h"
#include "isa/semantics/trigonometric.h"

namespace trek::semantics {

// dy where y > 0, +0 where y <= 0; y is relu's argument or its result.
template <Float T>
TREK_FN T relu_grad(T dy, T y) {
  const T above = is_nan(y) ? y : dy;
  return y <= T(0) ? T(0) : above;
}

// x > 0 ? dy : slope dy.
template <Float T>
TREK_FN T leaky_relu_grad(T dy, T x, T slope) {
  const T below = is_nan(x) ? x : slope * dy;
  return x > T(0) ? dy : below;
}

// x > 0 ? dy : dy (alpha e^x).
template <Float T>
TREK_FN T elu_grad(T dy, T x, T alpha) {
  const T below = dy * (alpha * exp(x > T(0) ? T(0) : x));
  return x > T(0) ? dy : below;
}

// f' = Phi(x) + x phi(x) = fma(x, phi, Phi).
template <Float T>
TREK_FN T gelu_grad(T dy, T x) {
  const T clamped = at_least(at_most(x, normal_most<T>()), -normal_most<T>());
  const NormalTail<T> n = normal_tail(abs(clamped));
  const T tail = scale(fma(n.ratio, n.growth, n.ratio), n.k);
  const T phi = scale(n.density * constant<T>(0x1.988454p-2f, 0x1.9884533d43651p-2), n.k);
  const T distribution = clamped < T(0) ? tail : T(1) - tail;
  return dy * fma(clamped, phi, distribution);
}

// sigmoid(u) and sigmoid(-u) from the quotients of e = e^-|u|.
template <Float T>
struct SigmoidBoth {
  T value;
  T complement;
};

template <Float T>
TREK_FN SigmoidBoth<T> sigmoid_both(Pair<T> u) {
  const bool negative = u.hi < T(0);
  const SigmoidParts<T> s = sigmoid_parts(negative ? u.hi : -u.hi, negative ? u.lo : -u.lo);
  const Pair<T> q = divide(s.p, s.one_plus);
  const T smaller = scale(q.hi + q.lo, s.k);
  const T larger = T(1) - smaller;
  return {negative ? smaller : larger, negative ? larger : smaller};
}

// With s = sigmoid(u), c = sigmoid(-u), u' = A + 6 sqrt(2/pi) 0.044715 x^2:
// f' = s fma(x u', c, 1).
template <Float T>
TREK_FN T gelu_tanh_grad(T dy, T x) {
  const T clamped = clamp_gelu_tanh(x);
  const SigmoidBoth<T> s = sigmoid_both(gelu_tanh_argument(clamped));
  const T slope = fma(clamped * clamped, constant<T>(0x1.b6676cp-3f, 0x1.b6676bf7450fp-3),
                      constant<T>(0x1.988454p+0f, 0x1.9884533d43651p+0));
  return dy * (s.value * fma(clamped * slope, s.complement, T(1)));
}

// f' = s fma(x, c, 1), s = sigmoid(x), c = sigmoid(-x).
template <Float T>
TREK_FN T silu_grad(T dy, T x) {
  const T clamped = at_least(at_most(x, -exp_least<T>()), exp_least<T>());
  const SigmoidBoth<T> s = sigmoid_both(Pair<T>{clamped, T(0)});
  return dy * (s.value * fma(clamped, s.complement, T(1)));
}

// f' = t + x g = fma(x, g, t) with the leading parts e, n, d of mish_parts: t = 2^k (n / d) and,
// below 0, g = 4 e (1 + e) / d^2; from 0 on, g = 4 e^2 (1 + e) / d^2.
template <Float T>
TREK_FN T mish_grad(T dy, T x) {
  const T clamped = at_least(at_most(x, -exp_least<T>()), exp_least<T>());
  const MishParts<T> m = mish_parts(clamped);
  const T t = scale(m.n.hi / m.d.hi, m.k);
  const T e = m.e.hi;
  const T power = clamped < T(0) ? e : e * e;
  const T g = T(4) * power * (T(1) + e) / (m.d.hi * m.d.hi);
  return dy * fma(clamped, g, t);
}

// f' = sigmoid(x).
template <Float T>
TREK_FN T softplus_grad(T dy, T x) {
  return dy * sigmoid(x);
}

// f' = fma(2, x, 3) / 6 in (-3, 3); +0 for x <= -3, dy for x >= 3.
template <Float T>
TREK_FN T hardswish_grad(T dy, T x) {
  const T middle = dy * (fma(T(2), x, T(3)) / T(6));
  const T upper = x >= T(3) ? dy : middle;
  return x <= T(-3) ? T(0) : upper;
}

// dy where lo <= x <= hi, else +0.
template <Float T>
TREK_FN T clamp_grad(T dy, T x, T lo, T hi) {
  const T outside = is_nan(x) ? x : T(0);
  return x >= lo && x <= hi ? dy : outside;
}

// f' = fma(-y, y, 1).
template <Float T>
TREK_FN T tanh_grad(T dy, T y) {
  return dy * fma(-y, y, T(1));
}

// f' = y (1 - y).
template <Float T>
TREK_FN T sigmoid_grad(T dy, T y) {
  return dy * (y * (T(1) - y));
}

// f' = 2/sqrt(pi) e^(-x^2), x^2, the exponential and the constant as pairs; |x| clamped to 11
// (f32), 28 (f64).
template <Float T>
TREK_FN T erf_grad(T dy, T x) {
  const T most = constant<T>(11.0f, 28.0);
  const T z = at_most(abs(x), most);
  const Pair<T> square = two_product(z, z);
  const ExpParts<T> e = exp_parts_within(-square.hi, -square.lo);
  const Pair<T> slope = {constant<T>(0x1.20dd76p+0f, 0x1.20dd750429b6dp+0),
                         constant<T>(-0x1.f7ac92p-25f, 0x1.1ae3a914fed8p-56)};
  const Pair<T> product = multiply(exp_pair(e), slope);
  return dy * scale(product.hi + product.lo, e.k);
}

// f' = y.
template <Float T>
TREK_FN T exp_grad(T dy, T y) {
  return dy * y;
}

// dy / x.
template <Float T>
TREK_FN T log_grad(T dy, T x) {
  return dy / x;
}

// dy / (y + y).
template <Float T>
TREK_FN T sqrt_grad(T dy, T y) {
  return dy / (y + y);
}

// ((-dy/2 y) y) y.
template <Float T>
TREK_FN T rsqrt_grad(T dy, T y) {
  return T(-0.5) * dy * y * y * y;
}

// f' = cos x.
template <Float T>
TREK_FN T sin_grad(T dy, T x) {
  return dy * cos(x);
}

// f' = -sin x.
template <Float T>
TREK_FN T cos_grad(T dy, T x) {
  return dy * -sin(x);
}

// dy for x > 0, -dy for x < 0, +0 for a zero.
template <Float T>
TREK_FN T abs_grad(T dy, T x) {
  const T not_above = x < T(0) ? -dy : (is_nan(x) ? x : T(0));
  return x > T(0) ? dy : not_above;
}

}  // namespace trek::semantics
