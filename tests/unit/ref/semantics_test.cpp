// The meanings that the engine is built from: conversions against the slow and exact ones of isa/,
// integers against wider arithmetic, Philox against its published vectors.
#include <bit>
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "isa/convert.h"
#include "isa/semantics/compare.h"
#include "isa/semantics/convert.h"
#include "isa/semantics/integer.h"
#include "isa/semantics/philox.h"

using namespace trek::semantics;
using trek::isa::DType;

namespace {

template <class T>
void widens_as_isa(DType dtype) {
  const uint32_t count = uint32_t{1} << (8 * sizeof(T));
  for (uint32_t bits = 0; bits < count; ++bits) {
    const double want = trek::isa::bits_to_double(dtype, bits);
    const double got = static_cast<double>(widen(T{static_cast<decltype(T::bits)>(bits)}));
    if (std::isnan(want) ? std::isnan(got)
                         : std::bit_cast<uint64_t>(want) == std::bit_cast<uint64_t>(got))
      continue;
    FAIL("bits " << bits << ": " << got << ", not " << want);
  }
}

// All narrow numbers, the middles between neighbours, and what lies just beside both.
template <class T>
void narrows_as_isa(DType dtype) {
  const uint32_t half = uint32_t{1} << (8 * sizeof(T) - 1);
  const auto check = [&](double value) {
    for (const double x : {value, -value}) {
      const uint64_t want = trek::isa::double_to_bits(dtype, x);
      const uint64_t got = narrow<T>(x).bits;
      const bool both_nan = std::isnan(trek::isa::bits_to_double(dtype, want)) &&
                            std::isnan(trek::isa::bits_to_double(dtype, got));
      if (want != got && !both_nan) FAIL("f64 " << x << ": bits " << got << ", not " << want);
      const auto single = static_cast<float>(x);
      const uint64_t want_single = trek::isa::double_to_bits(dtype, static_cast<double>(single));
      const uint64_t got_single = narrow<T>(single).bits;
      const bool nan = std::isnan(trek::isa::bits_to_double(dtype, want_single)) &&
                       std::isnan(trek::isa::bits_to_double(dtype, got_single));
      if (want_single != got_single && !nan)
        FAIL("f32 " << single << ": bits " << got_single << ", not " << want_single);
    }
  };
  for (uint32_t bits = 0; bits + 1 < half; ++bits) {
    const double x = trek::isa::bits_to_double(dtype, bits);
    const double next = trek::isa::bits_to_double(dtype, bits + 1);
    if (std::isnan(x)) continue;
    const double middle = std::isfinite(next) ? (x + next) / 2 : x * 1.01;
    for (const double y :
         {x, middle, std::nextafter(middle, 0.0), std::nextafter(middle, HUGE_VAL),
          static_cast<double>(std::nextafterf(static_cast<float>(middle), 0.0f)),
          static_cast<double>(std::nextafterf(static_cast<float>(middle), HUGE_VALF))})
      check(y);
  }
  for (const double y : {1e-300, 1e-45, 65519.999, 65520.0, 448.0, 464.0, 464.0001, 480.0, 61440.0,
                         1e38, 3.4e38, 1e300, HUGE_VAL, std::nan("")})
    check(y);
}

}  // namespace

TEST_CASE("narrow floats widen to their exact values") {
  widens_as_isa<F16>(DType::f16);
  widens_as_isa<BF16>(DType::bf16);
  widens_as_isa<F8E4M3>(DType::f8e4m3);
  widens_as_isa<F8E5M2>(DType::f8e5m2);
}

TEST_CASE("narrowing rounds once, to nearest even, from f32 and from f64") {
  narrows_as_isa<F16>(DType::f16);
  narrows_as_isa<BF16>(DType::bf16);
  narrows_as_isa<F8E4M3>(DType::f8e4m3);
  narrows_as_isa<F8E5M2>(DType::f8e5m2);
}

TEST_CASE("a 64-bit integer becomes a narrow float in one rounding") {
  // Half way between two bf16 numbers, and one more: through f32 or f64 it would round to even.
  const int64_t tie = (int64_t{1} << 60) + (int64_t{1} << 52);
  CHECK(widen(convert<BF16>(tie)) == 0x1p60f);
  CHECK(widen(convert<BF16>(tie + 1)) == 0x1.02p60f);
  CHECK(widen(convert<BF16>(-tie - 1)) == -0x1.02p60f);
  CHECK(widen(convert<BF16>(std::numeric_limits<uint64_t>::max())) == 0x1p64f);
  CHECK(convert<float>((int64_t{1} << 53) + (int64_t{1} << 29) + 1) == 0x1.000002p53f);
  CHECK(widen(convert<F16>(int32_t{65519})) == 65504.0f);
  CHECK(std::isinf(widen(convert<F16>(int32_t{65520}))));
}

TEST_CASE("floats become integers truncated and saturated, NaN 0") {
  CHECK(convert<int8_t>(127.9f) == 127);
  CHECK(convert<int8_t>(128.0f) == 127);
  CHECK(convert<int8_t>(-128.9f) == -128);
  CHECK(convert<int8_t>(-1e30f) == -128);
  CHECK(convert<uint8_t>(-0.5f) == 0);
  CHECK(convert<uint8_t>(255.5) == 255);
  CHECK(convert<uint8_t>(1e300) == 255);
  CHECK(convert<int64_t>(0x1p63) == std::numeric_limits<int64_t>::max());
  CHECK(convert<int64_t>(-0x1p63) == std::numeric_limits<int64_t>::min());
  CHECK(convert<uint64_t>(0x1p63) == uint64_t{1} << 63);
  CHECK(convert<uint64_t>(HUGE_VAL) == std::numeric_limits<uint64_t>::max());
  CHECK(convert<int32_t>(std::nanf("")) == 0);
  CHECK(convert<Bool>(std::nanf("")).value == 1);
  CHECK(convert<Bool>(-0.0f).value == 0);
  CHECK(convert<int8_t>(int32_t{0x1FF}) == -1);
}

TEST_CASE("integers wrap, and divide as the table says") {
  CHECK(add<int8_t>(127, 1) == -128);
  CHECK(mul<uint16_t>(65535, 65535) == 1);
  CHECK(mul<int32_t>(std::numeric_limits<int32_t>::min(), -1) ==
        std::numeric_limits<int32_t>::min());
  CHECK(div<int64_t>(std::numeric_limits<int64_t>::min(), -1) ==
        std::numeric_limits<int64_t>::min());
  CHECK(abs<int16_t>(-32768) == -32768);
  for (int x = -128; x < 128; ++x)
    for (int y = -128; y < 128; ++y) {
      const auto a = static_cast<int8_t>(x);
      const auto b = static_cast<int8_t>(y);
      const unsigned count = static_cast<uint8_t>(b);
      if (b != 0) {
        const int floored = static_cast<int>(std::floor(static_cast<double>(x) / y));
        if (div(a, b) != static_cast<int8_t>(x / y)) FAIL(x << " div " << y);
        if (mod(a, b) != static_cast<int8_t>(x - floored * y)) FAIL(x << " mod " << y);
      }
      const int left = count < 8 ? x * (1 << count) : 0;
      const int right = count < 8 ? x >> count : (x < 0 ? -1 : 0);
      if (shift_left(a, b) != static_cast<int8_t>(left)) FAIL(x << " shl " << y);
      if (shift_right(a, b) != right) FAIL(x << " shr " << y);
    }
}

TEST_CASE("keys order floats from -inf to NaN, with -0 before +0") {
  const float inf = HUGE_VALF;
  const float ascending[] = {-inf, -1.0f, -1e-45f, -0.0f, 0.0f, 1e-45f, 1.0f, inf, std::nanf("")};
  for (size_t i = 1; i < std::size(ascending); ++i)
    CHECK(order_key(ascending[i - 1]) < order_key(ascending[i]));
  CHECK(order_key(-std::nanf("1")) == order_key(std::nanf("2")));
  CHECK(order_key(int8_t{-1}) < order_key(int8_t{0}));
  CHECK(least_key(std::nanf("")) > least_key(-inf));
  CHECK(least_key(-inf) > least_key(inf));
  CHECK(least_key(uint32_t{0}) > least_key(std::numeric_limits<uint32_t>::max()));
}

TEST_CASE("philox gives the words that its authors published") {
  // Random123's kat_vectors for philox4x32-10, where the upper half of the counter is 0.
  const RandomWords zero = philox(0, 0);
  CHECK(zero.lane[0] == 0x6627E8D5);
  CHECK(zero.lane[1] == 0xE169C58D);
  CHECK(zero.lane[2] == 0xBC57AC4C);
  CHECK(zero.lane[3] == 0x9B00DBD8);
}
