#include "tests/accuracy/functions.h"

#include "isa/semantics/activation_gradient.h"
#include "isa/semantics/power.h"
#include "isa/semantics/remainder.h"
#include "tests/accuracy/reference.h"

namespace trek::accuracy {
namespace {

// A row for f(x), measured with `MEANING`, an expression of x and z in the type T, against `TRUTH`,
// an expression of x and z in any number type N.
// clang-format off
#define TREK_ROW(NAME, MEANING, TRUTH, ...)                             \
  Function<T> {                                                         \
    NAME,                                                               \
    [](const T* xs, const T* zs, T* ys, std::size_t count) {            \
      for (std::size_t i = 0; i < count; ++i) {                         \
        const T x = xs[i];                                              \
        [[maybe_unused]] const T z = zs[i];                             \
        ys[i] = MEANING;                                                \
      }                                                                 \
    },                                                                  \
    [](const T* xs, const T* zs, Wider<T>* ys, std::size_t count) {     \
      using N [[maybe_unused]] = Wider<T>;                              \
      for (std::size_t i = 0; i < count; ++i) {                         \
        const N x = static_cast<N>(xs[i]);                              \
        [[maybe_unused]] const N z = static_cast<N>(zs[i]);             \
        ys[i] = TRUTH;                                                  \
      }                                                                 \
    },                                                                  \
    [](const Real& x, [[maybe_unused]] const Real& z) -> Real {         \
      using N [[maybe_unused]] = Real;                                  \
      return TRUTH;                                                     \
    },                                                                  \
    __VA_ARGS__                                                         \
  }
// clang-format on

template <typename T>
std::vector<Function<T>> make() {
  namespace s = trek::semantics;
  using namespace reference;
  const Trend none = Trend::kNone;
  const Trend rising = Trend::kRising;
  const Trend falling = Trend::kFalling;
  const Second unary = Second::kNone;
  return {
      TREK_ROW("floor", s::floor(x), floor(x), 0, 0, rising, unary, -3, 53, {}),
      TREK_ROW("ceil", s::ceil(x), ceil(x), 0, 0, rising, unary, -3, 53, {}),
      TREK_ROW("round", s::round(x), roundeven(x), 0, 0, rising, unary, -3, 53, {}),
      TREK_ROW("trunc", s::trunc(x), trunc(x), 0, 0, rising, unary, -3, 53, {}),
      TREK_ROW("sign", s::sign(x), sign<N>(x), 0, 0, rising, unary, -3, 3, {}),
      TREK_ROW("sqrt", s::sqrt(x), sqrt(x), 0.5, 0, rising, unary, -3, 3, {}),
      TREK_ROW("rsqrt", s::rsqrt(x), rsqrt<N>(x), 1.5, 0, falling, unary, -3, 3, {}),
      TREK_ROW("exp", s::exp(x), exp(x), 1, 0, rising, unary, -30, 9, {88.72, -103.9, 709.78}),
      TREK_ROW("log", s::log(x), log(x), 1, 0, rising, unary, -3, 3, {0.7071067811865475, 1}),
      TREK_ROW("sin", s::sin(x), sin(x), 1, 0, none, unary, -15, 20, {131072}),
      TREK_ROW("cos", s::cos(x), cos(x), 1, 0, none, unary, -15, 20, {131072}),
      TREK_ROW("tanh", s::tanh(x), tanh(x), 1, 0, rising, unary, -15, 5, {9.01, 19.06}),
      TREK_ROW("sigmoid", s::sigmoid(x), sigmoid<N>(x), 1, 0, rising, unary, -15, 9, {}),
      TREK_ROW("erf", s::erf(x), erf(x), 1, 0, rising, unary, -15, 2, {0.875, 3.92, 5.92}),
      TREK_ROW("relu", s::relu(x), relu<N>(x), 0, 0, rising, unary, -3, 3, {}),
      TREK_ROW("elu", s::elu(x, T(1)), elu<N>(x), 1, 0, none, unary, -15, 5, {}),
      TREK_ROW("gelu", s::gelu(x), gelu<N>(x), 4, 0, none, unary, -15, 5, {}),
      TREK_ROW("gelu_tanh", s::gelu_tanh(x), gelu_tanh<N>(x), 1, 0, none, unary, -15, 4, {24}),
      TREK_ROW("silu", s::silu(x), silu<N>(x), 1, 0, none, unary, -15, 9, {40}),
      TREK_ROW("mish", s::mish(x), mish<N>(x), 1, 0, none, unary, -15, 9, {40}),
      TREK_ROW("softplus", s::softplus(x), softplus<N>(x), 2, 0, none, unary, -15, 9, {}),
      TREK_ROW("hardswish", s::hardswish(x), hardswish<N>(x), 2, 0, none, unary, -3, 2, {3, -3}),
      TREK_ROW("elu.grad", s::elu_grad(T(1), x, T(1)), elu_derivative<N>(x), 1, 0, none, unary, -15,
               9, {}),
      TREK_ROW("gelu.grad", s::gelu_grad(T(1), x), gelu_derivative<N>(x), 2, 1, none, unary, -15, 5,
               {}),
      TREK_ROW("gelu_tanh.grad", s::gelu_tanh_grad(T(1), x), gelu_tanh_derivative<N>(x), 2, 1, none,
               unary, -15, 4, {24}),
      TREK_ROW("silu.grad", s::silu_grad(T(1), x), silu_derivative<N>(x), 2, 1, none, unary, -15, 9,
               {}),
      TREK_ROW("mish.grad", s::mish_grad(T(1), x), mish_derivative<N>(x), 2, 1, none, unary, -15, 9,
               {}),
      TREK_ROW("softplus.grad", s::softplus_grad(T(1), x), sigmoid<N>(x), 1, 0, none, unary, -15, 9,
               {}),
      TREK_ROW("hardswish.grad", s::hardswish_grad(T(1), x), hardswish_derivative<N>(x), 1.5, 0,
               none, unary, -3, 2, {3, -3, -1.5}),
      TREK_ROW("erf.grad", s::erf_grad(T(1), x), erf_derivative<N>(x), 1, 0, none, unary, -15, 5,
               {}),
      TREK_ROW("pow", s::pow(x, z), pow(x, z), 1, 0, none, Second::kPower, -8, 8, {1, -1}),
      TREK_ROW("mod", s::mod(x, z), mod<N>(x, z), 0.5, 0, none, Second::kDivisor, -20, 20, {}),
  };
}

#undef TREK_ROW

}  // namespace

template <>
const std::vector<Function<float>>& functions<float>() {
  static const std::vector<Function<float>> rows = make<float>();
  return rows;
}

template <>
const std::vector<Function<double>>& functions<double>() {
  static const std::vector<Function<double>> rows = make<double>();
  return rows;
}

}  // namespace trek::accuracy
