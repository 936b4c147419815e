#include "tests/accuracy/special_values.h"

#include <limits>
#include <vector>

#include <fmt/format.h>

#include "isa/semantics/activation_gradient.h"
#include "isa/semantics/power.h"
#include "isa/semantics/remainder.h"

namespace trek::accuracy {
namespace {

namespace s = trek::semantics;

template <typename T>
struct Expectation {
  const char* expression;
  T got;
  T want;
};

// The expression is both evaluated and printed when it fails.
#define TREK_EXPECT(EXPRESSION, WANT) \
  Expectation<T> { #EXPRESSION, EXPRESSION, T(WANT) }

template <typename T>
std::vector<Expectation<T>> expectations() {
  using Limits = std::numeric_limits<T>;
  const T inf = Limits::infinity();
  const T nan = Limits::quiet_NaN();
  const T tiny = Limits::denorm_min();
  const T most = Limits::max();
  const T zero = 0;
  const T one = 1;
  return {
      // Rounding and order.
      TREK_EXPECT(s::round(T(0.5)), 0.0),
      TREK_EXPECT(s::round(T(1.5)), 2),
      TREK_EXPECT(s::round(T(2.5)), 2),
      TREK_EXPECT(s::round(T(-0.5)), -0.0),
      TREK_EXPECT(s::ceil(T(-0.5)), -0.0),
      TREK_EXPECT(s::floor(T(-0.5)), -1),
      TREK_EXPECT(s::floor(-zero), -0.0),
      TREK_EXPECT(s::trunc(T(-1.75)), -1),
      TREK_EXPECT(s::floor(-inf), -inf),
      TREK_EXPECT(s::floor(nan), nan),
      TREK_EXPECT(s::max(-zero, zero), 0.0),
      TREK_EXPECT(s::max(zero, -zero), 0.0),
      TREK_EXPECT(s::max(-zero, -zero), -0.0),
      TREK_EXPECT(s::min(zero, -zero), -0.0),
      TREK_EXPECT(s::min(-zero, zero), -0.0),
      TREK_EXPECT(s::max(one, nan), nan),
      TREK_EXPECT(s::max(nan, inf), nan),
      TREK_EXPECT(s::min(-inf, nan), nan),
      TREK_EXPECT(s::sign(-zero), -0.0),
      TREK_EXPECT(s::sign(-tiny), -1),
      TREK_EXPECT(s::sign(nan), nan),
      TREK_EXPECT(s::abs(-inf), inf),
      TREK_EXPECT(s::neg(zero), -0.0),
      // Primitives.
      TREK_EXPECT(s::exp(inf), inf),
      TREK_EXPECT(s::exp(-inf), 0.0),
      TREK_EXPECT(s::exp(-zero), 1),
      TREK_EXPECT(s::exp(nan), nan),
      TREK_EXPECT(s::exp(most), inf),
      TREK_EXPECT(s::log(zero), -inf),
      TREK_EXPECT(s::log(-zero), -inf),
      TREK_EXPECT(s::log(one), 0.0),
      TREK_EXPECT(s::log(inf), inf),
      TREK_EXPECT(s::log(-tiny), nan),
      TREK_EXPECT(s::log(-inf), nan),
      TREK_EXPECT(s::log(nan), nan),
      TREK_EXPECT(s::sqrt(-zero), -0.0),
      TREK_EXPECT(s::sqrt(-one), nan),
      TREK_EXPECT(s::rsqrt(-zero), -inf),
      TREK_EXPECT(s::rsqrt(inf), 0.0),
      TREK_EXPECT(s::rsqrt(-one), nan),
      TREK_EXPECT(s::sin(-zero), -0.0),
      TREK_EXPECT(s::sin(-tiny), -tiny),
      TREK_EXPECT(s::sin(inf), nan),
      TREK_EXPECT(s::cos(-inf), nan),
      TREK_EXPECT(s::cos(zero), 1),
      TREK_EXPECT(s::sin(nan), nan),
      TREK_EXPECT(s::tanh(-zero), -0.0),
      TREK_EXPECT(s::tanh(tiny), tiny),
      TREK_EXPECT(s::tanh(-inf), -1),
      TREK_EXPECT(s::tanh(nan), nan),
      TREK_EXPECT(s::sigmoid(zero), 0.5),
      TREK_EXPECT(s::sigmoid(-inf), 0.0),
      TREK_EXPECT(s::sigmoid(inf), 1),
      TREK_EXPECT(s::sigmoid(nan), nan),
      TREK_EXPECT(s::erf(-zero), -0.0),
      TREK_EXPECT(s::erf(-inf), -1),
      TREK_EXPECT(s::erf(nan), nan),
      // pow: IEEE 754-2019, 9.2.1.
      TREK_EXPECT(s::pow(nan, zero), 1),
      TREK_EXPECT(s::pow(one, nan), 1),
      TREK_EXPECT(s::pow(nan, one), nan),
      TREK_EXPECT(s::pow(T(2), nan), nan),
      TREK_EXPECT(s::pow(-one, inf), 1),
      TREK_EXPECT(s::pow(-one, nan), nan),
      TREK_EXPECT(s::pow(-one, T(3)), -1),
      TREK_EXPECT(s::pow(-one, most), 1),
      TREK_EXPECT(s::pow(T(0.5), -inf), inf),
      TREK_EXPECT(s::pow(T(0.5), inf), 0.0),
      TREK_EXPECT(s::pow(T(-2), inf), inf),
      TREK_EXPECT(s::pow(T(-2), -inf), 0.0),
      TREK_EXPECT(s::pow(zero, -inf), inf),
      TREK_EXPECT(s::pow(-zero, T(-3)), -inf),
      TREK_EXPECT(s::pow(-zero, T(-2)), inf),
      TREK_EXPECT(s::pow(-zero, T(-0.5)), inf),
      TREK_EXPECT(s::pow(-zero, T(3)), -0.0),
      TREK_EXPECT(s::pow(-zero, T(0.5)), 0.0),
      TREK_EXPECT(s::pow(-inf, T(3)), -inf),
      TREK_EXPECT(s::pow(-inf, T(-3)), -0.0),
      TREK_EXPECT(s::pow(-inf, T(0.5)), inf),
      TREK_EXPECT(s::pow(inf, T(-1)), 0.0),
      TREK_EXPECT(s::pow(T(-8), one / 3), nan),
      TREK_EXPECT(s::pow(T(-2), T(3)), -8),
      TREK_EXPECT(s::pow(T(3), T(2)), 9),
      TREK_EXPECT(s::pow(T(10), T(5)), 100000),
      TREK_EXPECT(s::pow(most, most), inf),
      TREK_EXPECT(s::pow(most, -most), 0.0),
      TREK_EXPECT(s::pow(tiny, one), tiny),
      // mod: as Python.
      TREK_EXPECT(s::mod(T(5), T(3)), 2),
      TREK_EXPECT(s::mod(T(-5), T(3)), 1),
      TREK_EXPECT(s::mod(T(5), T(-3)), -1),
      TREK_EXPECT(s::mod(T(-5), T(-3)), -2),
      TREK_EXPECT(s::mod(T(-6), T(3)), 0.0),
      TREK_EXPECT(s::mod(T(6), T(-3)), -0.0),
      TREK_EXPECT(s::mod(T(5), inf), 5),
      TREK_EXPECT(s::mod(T(-5), inf), inf),
      TREK_EXPECT(s::mod(T(5), zero), nan),
      TREK_EXPECT(s::mod(inf, T(3)), nan),
      TREK_EXPECT(s::mod(T(3), nan), nan),
      TREK_EXPECT(s::mod(most, tiny), 0.0),
      TREK_EXPECT(s::mod(-tiny, most), most),
      // Activations at the ends.
      TREK_EXPECT(s::relu(-zero), 0.0),
      TREK_EXPECT(s::relu(-inf), 0.0),
      TREK_EXPECT(s::relu(nan), nan),
      TREK_EXPECT(s::leaky_relu(-inf, zero), 0.0),
      TREK_EXPECT(s::leaky_relu(T(-2), T(0.5)), -1),
      TREK_EXPECT(s::leaky_relu(nan, zero), nan),
      TREK_EXPECT(s::elu(-inf, T(2)), -2),
      TREK_EXPECT(s::elu(-zero, T(2)), -0.0),
      TREK_EXPECT(s::elu(inf, T(2)), inf),
      TREK_EXPECT(s::elu(nan, T(2)), nan),
      TREK_EXPECT(s::gelu(-inf), -0.0),
      TREK_EXPECT(s::gelu(inf), inf),
      TREK_EXPECT(s::gelu(-zero), -0.0),
      TREK_EXPECT(s::gelu(nan), nan),
      TREK_EXPECT(s::gelu_tanh(-inf), -0.0),
      TREK_EXPECT(s::gelu_tanh(inf), inf),
      TREK_EXPECT(s::gelu_tanh(nan), nan),
      TREK_EXPECT(s::silu(-inf), -0.0),
      TREK_EXPECT(s::silu(inf), inf),
      TREK_EXPECT(s::silu(-zero), -0.0),
      TREK_EXPECT(s::silu(nan), nan),
      TREK_EXPECT(s::mish(-inf), -0.0),
      TREK_EXPECT(s::mish(inf), inf),
      TREK_EXPECT(s::mish(nan), nan),
      TREK_EXPECT(s::softplus(-inf), 0.0),
      TREK_EXPECT(s::softplus(inf), inf),
      TREK_EXPECT(s::softplus(nan), nan),
      TREK_EXPECT(s::hardswish(-inf), 0.0),
      TREK_EXPECT(s::hardswish(inf), inf),
      TREK_EXPECT(s::hardswish(nan), nan),
      TREK_EXPECT(s::clamp(nan, zero, one), nan),
      TREK_EXPECT(s::clamp(inf, zero, one), 1),
      TREK_EXPECT(s::clamp(T(-3), zero, one), 0.0),
      // Gradients at the ends.
      TREK_EXPECT(s::relu_grad(T(3), zero), 0.0),
      TREK_EXPECT(s::relu_grad(T(3), tiny), 3),
      TREK_EXPECT(s::relu_grad(inf, -one), 0.0),
      TREK_EXPECT(s::relu_grad(T(3), nan), nan),
      TREK_EXPECT(s::leaky_relu_grad(T(3), zero, T(0.5)), 1.5),
      TREK_EXPECT(s::elu_grad(T(3), -inf, T(2)), 0.0),
      TREK_EXPECT(s::elu_grad(T(3), zero, T(2)), 6),
      TREK_EXPECT(s::gelu_grad(T(3), inf), 3),
      TREK_EXPECT(s::gelu_grad(T(3), -inf), 0.0),
      TREK_EXPECT(s::gelu_grad(T(3), zero), 1.5),
      TREK_EXPECT(s::gelu_tanh_grad(T(3), inf), 3),
      TREK_EXPECT(s::gelu_tanh_grad(T(3), -inf), -0.0),
      TREK_EXPECT(s::silu_grad(T(3), inf), 3),
      TREK_EXPECT(s::silu_grad(T(3), -inf), -0.0),
      TREK_EXPECT(s::mish_grad(T(3), inf), 3),
      TREK_EXPECT(s::mish_grad(T(3), -inf), 0.0),
      TREK_EXPECT(s::softplus_grad(T(3), -inf), 0.0),
      TREK_EXPECT(s::hardswish_grad(T(3), -inf), 0.0),
      TREK_EXPECT(s::hardswish_grad(T(3), T(3)), 3),
      TREK_EXPECT(s::hardswish_grad(T(3), T(-3)), 0.0),
      TREK_EXPECT(s::clamp_grad(T(3), one, zero, one), 3),
      TREK_EXPECT(s::clamp_grad(T(3), T(2), zero, one), 0.0),
      TREK_EXPECT(s::clamp_grad(T(3), nan, zero, one), nan),
      TREK_EXPECT(s::tanh_grad(T(3), one), 0.0),
      TREK_EXPECT(s::sigmoid_grad(T(4), T(0.5)), 1),
      TREK_EXPECT(s::erf_grad(T(3), inf), 0.0),
      TREK_EXPECT(s::exp_grad(T(3), T(2)), 6),
      TREK_EXPECT(s::log_grad(T(3), T(2)), 1.5),
      TREK_EXPECT(s::sqrt_grad(T(3), T(2)), 0.75),
      TREK_EXPECT(s::rsqrt_grad(T(4), T(0.5)), -0.25),
      TREK_EXPECT(s::sin_grad(T(3), zero), 3),
      TREK_EXPECT(s::cos_grad(T(3), zero), -0.0),
      TREK_EXPECT(s::abs_grad(T(3), -one), -3),
      TREK_EXPECT(s::abs_grad(T(3), -zero), 0.0),
      TREK_EXPECT(s::abs_grad(T(3), nan), nan),
      // NaN passes through every gradient with a formula.
      TREK_EXPECT(s::gelu_grad(one, nan), nan),
      TREK_EXPECT(s::gelu_tanh_grad(one, nan), nan),
      TREK_EXPECT(s::silu_grad(one, nan), nan),
      TREK_EXPECT(s::mish_grad(one, nan), nan),
      TREK_EXPECT(s::softplus_grad(one, nan), nan),
      TREK_EXPECT(s::hardswish_grad(one, nan), nan),
      TREK_EXPECT(s::erf_grad(one, nan), nan),
      TREK_EXPECT(s::elu_grad(one, nan, one), nan),
      TREK_EXPECT(s::leaky_relu_grad(one, nan, one), nan),
  };
}

#undef TREK_EXPECT

template <typename T>
int check(const char* type) {
  int failures = 0;
  for (const Expectation<T>& e : expectations<T>()) {
    const bool both_nan = s::is_nan(e.got) && s::is_nan(e.want);
    if (both_nan || s::to_bits(e.got) == s::to_bits(e.want)) continue;
    fmt::print(stderr, "{} {}: {} instead of {}\n", type, e.expression, e.got, e.want);
    ++failures;
  }
  return failures;
}

}  // namespace

int check_special_values() { return check<float>("f32") + check<double>("f64"); }

}  // namespace trek::accuracy
