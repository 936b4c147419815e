// The true value of each function as a formula over any number type N: double, long double or Real.
// A formula avoids cancellation, so that N's own precision is nearly the precision of the result,
// and gives the limits at +-inf that the ISA defines.
#pragma once

#include <cmath>
#include <type_traits>

#include "tests/accuracy/real.h"

namespace trek::accuracy::reference {

// C's functions for the built-in types, beside those that argument-dependent lookup finds for Real.
using std::ceil;
using std::copysign;
using std::cos;
using std::erf;
using std::erfc;
using std::exp;
using std::expm1;
using std::fabs;
using std::floor;
using std::fmod;
using std::isinf;
using std::isnan;
using std::log;
using std::log1p;
using std::pow;
using std::signbit;
using std::sin;
using std::sqrt;
using std::tanh;
using std::trunc;
inline double roundeven(double x) { return __builtin_roundeven(x); }
inline long double roundeven(long double x) { return __builtin_roundevenl(x); }

template <typename N>
N pi() {
  if constexpr (std::is_same_v<N, Real>) {
    Real value;
    mpfr_const_pi(value.get(), MPFR_RNDN);
    return value;
  } else {
    return static_cast<N>(3.14159265358979323846264338327950288L);
  }
}

// Constants as literals cannot be: Real wants 320 bits. Computed once per thread and type.
template <typename N>
const N& root_half() {  // sqrt(1/2)
  static thread_local const N value = sqrt(N(0.5));
  return value;
}
template <typename N>
const N& normal_peak() {  // 1/sqrt(2 pi)
  static thread_local const N value = N(1) / sqrt(N(2) * pi<N>());
  return value;
}
template <typename N>
const N& cubic() {  // 0.044715
  static thread_local const N value = N(44715) / N(1000000);
  return value;
}

template <typename N>
N rsqrt(const N& x) {
  return N(1) / sqrt(x);
}

template <typename N>
N sigmoid(const N& x) {
  if (x < N(0)) {
    const N e = exp(x);
    return e / (N(1) + e);
  }
  return N(1) / (N(1) + exp(-x));
}

// The limits of x f(x) for a gate f that reaches 0 and 1: x beyond which no format sees a change.
template <typename N>
bool gate_closed(const N& x) {
  return x < N(-10000);
}
template <typename N>
bool gate_open(const N& x) {
  return x > N(10000);
}

template <typename N>
N silu(const N& x) {
  if (gate_closed(x)) return N(-0.0);
  if (gate_open(x)) return x;
  return x < N(0) ? x * exp(x) / (N(1) + exp(x)) : x / (N(1) + exp(-x));
}

// e^(-x^2/2). x has 53 bits, its square 106: squaring the upper half exactly keeps the rounding of
// the square, which a large exponent would magnify, out of the exponential.
template <typename N>
N bell(const N& x) {
  if constexpr (std::is_same_v<N, Real>) {
    return exp(-x * x / N(2));
  } else {
    const N near = fabs(x) > N(1000) ? N(1000) : x;  // no format holds e^(-500000)
    const auto upper = static_cast<N>(static_cast<float>(near));
    const N lower = near - upper;
    return exp(-upper * upper / 2) * exp(-lower * (upper + near) / 2);
  }
}

// Phi(x), the normal distribution function. The rounding of the argument of erfc is magnified like
// that of the square above, so the built-in types correct it to first order.
template <typename N>
N normal(const N& x) {
  const N z = -x * root_half<N>();
  if constexpr (std::is_same_v<N, Real>) {
    return erfc(z) / N(2);
  } else {
    static thread_local const N rest = static_cast<N>(
        to_long_double(root_half<Real>() - Real::from(static_cast<long double>(root_half<N>()))));
    const N missing = std::fma(-x, root_half<N>(), -z) - x * rest;
    return erfc(z) / 2 - bell(x) / sqrt(pi<N>()) * missing;
  }
}

template <typename N>
N gelu(const N& x) {
  if (gate_closed(x)) return N(-0.0);
  if (gate_open(x)) return x;
  return x * normal(x);
}

template <typename N>
N gelu_tanh_argument(const N& x) {
  return N(4) * normal_peak<N>() * x * (N(1) + cubic<N>() * x * x);
}

// e^u of it. The rounding of u is magnified by u, so long double computes u in twice its precision.
template <typename N>
N gelu_tanh_exp(const N& x) {
  if constexpr (std::is_same_v<N, long double>) {
    __extension__ using Quad = __float128;
    const auto quad = [](const Real& value) {
      const long double upper = to_long_double(value);
      return static_cast<Quad>(upper) +
             static_cast<Quad>(to_long_double(value - Real::from(upper)));
    };
    static thread_local const Quad a = quad(Real(4) * normal_peak<Real>());
    static thread_local const Quad b = quad(Real(4) * normal_peak<Real>() * cubic<Real>());
    const auto wide = static_cast<Quad>(x);
    const Quad u = wide * (a + b * wide * wide);
    const auto upper = static_cast<long double>(u);
    return exp(upper) * (1 + static_cast<long double>(u - static_cast<Quad>(upper)));
  } else {
    return exp(gelu_tanh_argument(x));
  }
}

template <typename N>
N gelu_tanh(const N& x) {
  if (gate_closed(x)) return N(-0.0);
  if (gate_open(x)) return x;
  if (x < N(0)) {
    const N e = gelu_tanh_exp(x);
    return x * e / (N(1) + e);
  }
  return x / (N(1) + gelu_tanh_exp(N(-x)));
}

// tanh(softplus x) and 1 minus its square.
template <typename N>
N mish_gate(const N& x) {
  const N w = exp(x > N(0) ? -x : x);
  if (x > N(0)) return (N(1) + N(2) * w) / (N(1) + N(2) * w * (N(1) + w));
  return w * (w + N(2)) / (w * (w + N(2)) + N(2));
}

template <typename N>
N mish(const N& x) {
  if (gate_closed(x)) return N(-0.0);
  if (gate_open(x)) return x;
  return x * mish_gate(x);
}

template <typename N>
N softplus(const N& x) {
  return (x > N(0) ? x : N(0)) + log1p(exp(-fabs(x)));
}

template <typename N>
N elu(const N& x) {
  return x > N(0) ? x : expm1(x);
}

template <typename N>
N hardswish(const N& x) {
  if (x <= N(-3)) return N(0);
  return x >= N(3) ? x : x * (x + N(3)) / N(6);
}

template <typename N>
N sign(const N& x) {
  if (isnan(x) || x == N(0)) return x;
  return x > N(0) ? N(1) : N(-1);
}

template <typename N>
N relu(const N& x) {
  return x <= N(0) ? N(0) : x;
}

template <typename N>
N gelu_derivative(const N& x) {
  if (gate_closed(x)) return N(-0.0);
  if (gate_open(x)) return N(1);
  return normal(x) + x * normal_peak<N>() * bell(x);
}

template <typename N>
N gelu_tanh_derivative(const N& x) {
  if (gate_closed(x)) return N(-0.0);
  if (gate_open(x)) return N(1);
  const N u = gelu_tanh_argument(x);
  const N slope = N(4) * normal_peak<N>() * (N(1) + N(3) * cubic<N>() * x * x);
  return sigmoid(u) * (N(1) + x * slope * sigmoid(N(-u)));
}

template <typename N>
N silu_derivative(const N& x) {
  if (gate_closed(x)) return N(-0.0);
  if (gate_open(x)) return N(1);
  return sigmoid(x) * (N(1) + x * sigmoid(N(-x)));
}

template <typename N>
N mish_derivative(const N& x) {
  if (gate_closed(x)) return N(-0.0);
  if (gate_open(x)) return N(1);
  const N t = mish_gate(x);
  const N e = exp(-fabs(x));
  const N d = x < N(0) ? e * (e + N(2)) + N(2) : N(1) + N(2) * e * (N(1) + e);
  const N g = N(4) * (x < N(0) ? e : e * e) * (N(1) + e) / (d * d);
  return t + x * g;
}

template <typename N>
N erf_derivative(const N& x) {
  return N(2) / sqrt(pi<N>()) * bell(x) * bell(x);
}

template <typename N>
N elu_derivative(const N& x) {
  return x > N(0) ? N(1) : exp(x);
}

template <typename N>
N hardswish_derivative(const N& x) {
  if (x <= N(-3)) return N(0);
  return x >= N(3) ? N(1) : (N(2) * x + N(3)) / N(6);
}

// The floored modulo: exact, then one rounding to N.
template <typename N>
N mod(const N& x, const N& y) {
  const N r = fmod(x, y);
  if (r == N(0)) return copysign(N(0), y);
  return (r < N(0)) != (y < N(0)) ? r + y : r;
}

}  // namespace trek::accuracy::reference
