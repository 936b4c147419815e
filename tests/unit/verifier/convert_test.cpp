// Conversions between elements and numbers, against what the formats say.
#include "isa/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <catch2/catch.hpp>

#include "isa/module.h"

using namespace trek::isa;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("every 16- and 8-bit float survives the way to double and back") {
  for (DType dtype : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    const uint64_t count = uint64_t{1} << (8 * byte_size(dtype));
    for (uint64_t bits = 0; bits < count; ++bits) {
      const double value = bits_to_double(dtype, bits);
      if (std::isnan(value)) continue;
      CAPTURE(std::string(name(dtype)), bits, value);
      REQUIRE(double_to_bits(dtype, value) == bits);
    }
  }
}

TEST_CASE("f32 rounds as the hardware does") {
  uint64_t state = 12345;
  for (int i = 0; i < 1'000'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double value = std::bit_cast<double>(state);
    if (i % 2 == 0)
      value = std::ldexp(1 + std::ldexp(static_cast<double>(state >> 12), -52),
                         static_cast<int>(state % 300) - 150);
    if (std::isnan(value)) continue;
    CAPTURE(value);
    REQUIRE(double_to_bits(DType::f32, value) ==
            std::bit_cast<uint32_t>(static_cast<float>(value)));
  }
}

TEST_CASE("known values of the small formats") {
  CHECK(double_to_bits(DType::f16, 1) == 0x3C00);
  CHECK(double_to_bits(DType::f16, 65504) == 0x7BFF);
  CHECK(double_to_bits(DType::f16, 65520) == 0x7C00);  // half way to the next: to even, infinity
  CHECK(double_to_bits(DType::f16, 65519) == 0x7BFF);
  CHECK(double_to_bits(DType::f16, std::ldexp(1, -24)) == 1);
  CHECK(double_to_bits(DType::f16, std::ldexp(1, -25)) == 0);  // half way to zero: to even
  CHECK(double_to_bits(DType::f16, -0.0) == 0x8000);
  CHECK(double_to_bits(DType::bf16, 1.00390625) == 0x3F80);  // half way: to even
  CHECK(double_to_bits(DType::f8e4m3, 448) == 0x7E);
  CHECK(double_to_bits(DType::f8e4m3, 464) == 0x7E);  // half way to 480, which is the NaN: to even
  CHECK(double_to_bits(DType::f8e4m3, 465) == 0x7F);
  CHECK(double_to_bits(DType::f8e4m3, -kInf) == 0xFF);
  CHECK(double_to_bits(DType::f8e5m2, kInf) == 0x7C);
  CHECK(double_to_bits(DType::f8e5m2, std::nan("")) == 0x7E);
  CHECK(double_to_bits(DType::f64, -std::nan("")) == 0x7FF8000000000000u);
  CHECK(bits_to_double(DType::f8e5m2, 0xFC) == -kInf);
  CHECK(std::isnan(bits_to_double(DType::f8e4m3, 0x7F)));
  CHECK(std::isnan(bits_to_double(DType::f16, 0x7C01)));
}

TEST_CASE("integers fit or do not") {
  CHECK(integer_to_bits(DType::u8, 255) == 255u);
  CHECK_FALSE(integer_to_bits(DType::u8, 256));
  CHECK_FALSE(integer_to_bits(DType::u8, -1));
  CHECK(integer_to_bits(DType::i8, -128) == static_cast<uint64_t>(-128));
  CHECK_FALSE(integer_to_bits(DType::i8, 128));
  CHECK(integer_to_bits(DType::i64, std::numeric_limits<int64_t>::min()));
  CHECK(integer_to_bits(DType::u64, -1, true) == ~uint64_t{0});
  CHECK_FALSE(integer_to_bits(DType::u64, -1));
  CHECK_FALSE(integer_to_bits(DType::i64, -1, true));
  CHECK(integer_to_bits(DType::boolean, 1) == 1u);
  CHECK_FALSE(integer_to_bits(DType::boolean, 2));
  CHECK(constant_integer({DType::i8, static_cast<uint64_t>(-5)}) == -5);
  CHECK(constant_real({DType::f16, 0x3C00}) == 1);
}

TEST_CASE("types have names, sizes, compute and scalar types") {
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(dtype_from_name(name(dtype)) == dtype);
    CHECK(byte_size(dtype) > 0);
    CHECK(is_scalar_type(scalar_type(dtype)));
  }
  CHECK_FALSE(dtype_from_name("f33"));
  CHECK_FALSE(dtype_from_name("none"));
  CHECK(compute_type(DType::bf16) == DType::f32);
  CHECK(scalar_type(DType::u8) == DType::i64);
  CHECK((DTypeSet{DType::f32, DType::f64, DType::i8}.text() == "f64, f32 or i8"));
  CHECK(Type::tensor(DType::f32, {2, 3}).text() == "f32[2,3]");
  CHECK(Type::tensor(DType::f32, {}).text() == "f32[]");
  CHECK(Type::make_scalar(DType::i64).text() == "i64");
}

TEST_CASE("shapes refuse what does not fit, also behind a zero") {
  CHECK((Shape{2, 3, 4}.checked_elements() == 24));
  CHECK((Shape{0, 5}.checked_elements() == 0));
  CHECK(Shape{}.checked_elements() == 1);
  CHECK_FALSE((Shape{int64_t{1} << 40, int64_t{1} << 40}.checked_elements()));
  CHECK_FALSE((Shape{0, int64_t{1} << 40, int64_t{1} << 40}.checked_elements()));
  CHECK_FALSE((Shape{-1}.checked_elements()));
}
