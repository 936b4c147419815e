// That the code of exp and gelu, which leaves out operations (isa/semantics/README.md), gives the bits of their
// definitions, which stand here as they are written there: f32, every 1999th of all numbers.
#include <cmath>
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

float defined_gelu(float x) {
  const float y = abs(x) > 16 ? 16 : abs(x);
  const Pair<float> h = two_product(-0.5f * y, y);
  const float s = fma(h.hi, 0x1.715476p+0f, 0x1.8p23f);
  const float kf = s - 0x1.8p23f;
  const float r = fma(-kf, 0x1.62e43p-1f, h.hi) + fma(-kf, -0x1.05c61p-29f, h.lo);
  const float q = horner(r, 0x1p-1f, 0x1.555556p-3f, 0x1.5554aep-5f, 0x1.111046p-7f,
                         0x1.6d9658p-10f, 0x1.a1b7f6p-13f);
  const Pair<float> d = two_sum(y, 3.5f);
  const float i = 1.0f / d.hi;
  const float c = fma(-i, d.lo, fma(-i, d.hi, 1.0f));
  const float t = fma(-7.0f * i, c, fma(-7.0f, i, 1.0f));
  const float n =
      horner(t, 0x1.7d241ap-1f, -0x1.21914ep-1f, 0x1.42fecap-2f, -0x1.db5a78p-4f, 0x1.1d3018p-6f,
             0x1.a9862cp-8f, -0x1.a04262p-9f, -0x1.03788ap-11f, 0x1.bb29aep-12f, 0x1.d1f5aep-14f);
  const float a = std::ldexp(y, static_cast<int>(kf) + 96) * (n * i);
  return fma(fma(a, fma(r, fma(r, q, 1.0f), c), a), -0x1p-96f, x < 0 ? -0.0f : x);
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
