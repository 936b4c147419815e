// That a Divisor's quotients are those of a division, to the bit, wherever it may be used, and that exp_near() gives
// what exp_negative() does.
#include "emulator/device/divisor.h"

#include <cmath>
#include <random>

#include <catch2/catch.hpp>

#include "emulator/device/exp_near.h"

namespace trek::device {
namespace {

// Whether x / v and what comes out of it by `again` are the same both ways.
bool same(float x, float v, float again) {
  const float share = Divisor(v).divide(x);
  return share == x / v && Divisor(again).divide(share) == x / v / again;
}

}  // namespace

TEST_CASE("quotients by a divisor are those of a division") {
  std::mt19937 random(20261122);
  std::uniform_real_distribution<float> mantissa(1, 2);
  std::uniform_int_distribution<int> exponent(0, 19);
  std::uniform_int_distribution<int> lower(-80, 0);
  int differ = 0;
  for (int i = 0; i < 2000000; ++i) {
    const float v = std::ldexp(mantissa(random), exponent(random));
    const float again = std::ldexp(mantissa(random), exponent(random));
    const float x = std::ldexp(mantissa(random), lower(random));
    differ += same(x, v, again) ? 0 : 1;
  }
  CHECK(differ == 0);
}

TEST_CASE("of either sign, and by small divisors, too") {
  std::mt19937 random(20261129);
  std::uniform_real_distribution<float> mantissa(1, 2);
  std::uniform_int_distribution<int> exponent(-20, -1);
  std::uniform_int_distribution<int> any(-80, 59);
  int differ = 0;
  for (int i = 0; i < 2000000; ++i) {
    const float v = std::ldexp(mantissa(random), exponent(random));
    const float x = std::ldexp(i % 2 == 0 ? mantissa(random) : -mantissa(random), any(random));
    differ += Divisor(v).divide(x) == x / v ? 0 : 1;
  }
  CHECK(differ == 0);
}

TEST_CASE("and at the ends of mantissas and exponents") {
  const float last = std::nextafter(2.0f, 1.0f);
  const float second = std::nextafter(1.0f, 2.0f);
  const float mantissas[] = {
      1.0f, second, 1.5f, std::nextafter(1.5f, 2.0f), last, std::nextafter(last, 1.0f)};
  for (const float of_v : mantissas)
    for (const float of_x : mantissas)
      for (const int up : {0, 13, 19})
        for (const int down : {0, -1, -24, -60, -79, -80}) {
          const float v = std::ldexp(of_v, up);
          const float x = std::ldexp(of_x, down);
          CAPTURE(x, v);
          CHECK(Divisor::is_good(v));
          CHECK(same(x, v, v));
        }
  CHECK(same(0, 3, 7));
  CHECK_FALSE(std::signbit(Divisor(3.0f).divide(0)));
  CHECK(Divisor::is_power(16384.0f));
  CHECK_FALSE(Divisor::is_power(second));
  CHECK(1.7f * Divisor(16384.0f).reciprocal() == 1.7f / 16384.0f);
  CHECK_FALSE(Divisor::is_good(std::nanf("")));
  CHECK_FALSE(Divisor::is_good(INFINITY));
}

TEST_CASE("exponentials of numbers that are near 0 are those of any") {
  int differ = 0;
  for (uint32_t bits = bits_of(-0.0f); as_float(bits) >= kNear; bits += 97) {
    const float x = as_float(bits);
    differ += bits_of(exp_near(x)) == bits_of(semantics::exp_negative(x)) ? 0 : 1;
  }
  CHECK(differ == 0);
  CHECK(bits_of(exp_near(kNear)) == bits_of(semantics::exp_negative(kNear)));
  CHECK(exp_near(kNear) >= Divisor::kLeast);
}

}  // namespace trek::device
