// That the code of exp and gelu, which leaves out operations (isa/semantics/README.md), gives the bits of their
// definitions, which stand here as they are written there: f32, every 1999th of all numbers.
#include <cstdint>

#include <catch2/catch.hpp>

#include "isa/semantics/activation.h"

namespace trek::semantics {
namespace {

struct Parts {
  std::int32_t k;
  float r;
  float tail;
};
Parts defined_parts(float hi, float lo) {
  const float below = hi > 100 ? 100 : hi;
  const float x = below < -130 ? -130 : below;
  const float s = fma(x, 0x1.715476p+0f, 0x1.8p23f);
  const float kf = s - 0x1.8p23f;
  const Pair<float> r = two_sum(fma(-kf, 0x1.62e43p-1f, x), fma(-kf, -0x1.05c61p-29f, lo));
  const float q = horner(r.hi, 0x1p-1f, 0x1.555556p-3f, 0x1.5554aep-5f, 0x1.111046p-7f,
                         0x1.6d9658p-10f, 0x1.a1b7f6p-13f);
  const auto k = static_cast<std::int32_t>(to_bits(s) - to_bits(0x1.8p23f));
  return {k, r.hi, fma(r.hi * r.hi, q, fma(r.lo, r.hi, r.lo))};
}

float defined_exp(float x) {
  const Parts e = defined_parts(x, 0);
  const Pair<float> one = fast_two_sum(1.0f, e.r);
  return scale(one.hi + (one.lo + e.tail), e.k);
}

Pair<float> defined_scaled_erfc(Pair<float> z) {
  const Pair<float> d = two_sum(z.hi, 2.0f);
  const float i = 1.0f / d.hi;
  const float e = fma(-i, d.lo + z.lo, fma(-i, d.hi, 1.0f));
  const float t = fma(-4.0f * i, e, fma(-4.0f, i, 1.0f));
  const float p =
      horner(t, 0x1.058672p+0f, -0x1.5fd38ep-1f, 0x1.1e2dc6p-2f, -0x1.2a7bb2p-5f, -0x1.604d5ep-6f,
             0x1.a5bcf8p-8f, 0x1.8ed752p-9f, -0x1.7cd26ap-11f, -0x1.156d4ep-11f, -0x1.88991cp-15f);
  const Pair<float> q = two_product(p, i);
  return {q.hi, fma(q.hi, e, q.lo)};
}

float defined_gelu(float x) {
  const float below_most = x > 16 ? 16 : x;
  const float c = below_most < -16 ? -16 : below_most;
  const Pair<float> square = two_product(c, c);
  const Parts e = defined_parts(-0.5f * square.hi, -0.5f * square.lo);
  const Pair<float> one = fast_two_sum(1.0f, e.r);
  const Pair<float> density = fast_two_sum(one.hi, one.lo + e.tail);
  const Pair<float> root_half = {0x1.6a09e6p-1f, 0x1.9fcef4p-27f};
  const Pair<float> z = multiply(Pair<float>{abs(c), 0}, root_half);
  const Pair<float> product = multiply(density, defined_scaled_erfc(z));
  const Pair<float> tail = {0.5f * product.hi, 0.5f * product.lo};
  if (x < 0) return scale(fma(c, tail.hi, c * tail.lo), e.k);
  return x == 0 ? x : fma(-c, scale(tail.hi + tail.lo, e.k), x);
}

bool same(float a, float b) { return to_bits(a) == to_bits(b) || (is_nan(a) && is_nan(b)); }

}  // namespace

TEST_CASE("exp and gelu are what their definitions say") {
  constexpr std::uint64_t kStride = 1999;
  int differ = 0;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += kStride) {
    const auto x = from_bits<float>(static_cast<std::uint32_t>(bits));
    const bool all = same(exp(x), defined_exp(x)) && same(gelu(x), defined_gelu(x)) &&
                     (x > 0 || same(exp_negative(x), defined_exp(x)));
    differ += all ? 0 : 1;
  }
  CHECK(differ == 0);
}

TEST_CASE("so they are of zeros") {
  CHECK(same(gelu(0.0f), 0.0f));
  CHECK(same(gelu(-0.0f), -0.0f));
  CHECK(same(exp_negative(-0.0f), 1.0f));
}

}  // namespace trek::semantics
