#include "hostlib/values.h"

#include <cmath>
#include <limits>

#include "hostlib/digest.h"
#include "isa/convert.h"
#include "tests/unit/hostlib/scratch.h"

using namespace trek;
using isa::DType;
using isa::Type;

TEST_CASE("every 16-bit and 8-bit float is written so that it reads back as the same bits") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2}) {
    const uint64_t count = uint64_t{1} << (8 * isa::byte_size(dtype));
    for (uint64_t bits = 0; bits < count; ++bits) {
      const std::string text = element_text(dtype, bits);
      if (is_nan(dtype, bits)) {
        REQUIRE(text == "nan");
      } else {
        CAPTURE(isa::name(dtype), bits, text);
        REQUIRE(isa::double_to_bits(dtype, std::stod(text)) == bits);
      }
    }
  }
}

TEST_CASE("numbers are written in the fewest digits of their own type") {
  CHECK(element_text(DType::f32, isa::double_to_bits(DType::f32, 0.1)) == "0.1");
  CHECK(element_text(DType::f64, isa::double_to_bits(DType::f64, 0.1)) == "0.1");
  CHECK(element_text(DType::f16, isa::double_to_bits(DType::f16, 0.1)) == "0.1");
  CHECK(element_text(DType::bf16, isa::double_to_bits(DType::bf16, 0.1)) == "0.1");
  CHECK(element_text(DType::f32, isa::double_to_bits(DType::f32, -HUGE_VAL)) == "-inf");
  CHECK(element_text(DType::f32, 0x80000000) == "-0");
  CHECK(element_text(DType::i8, 0xFF) == "-1");
  CHECK(element_text(DType::u8, 0xFF) == "255");
  CHECK(element_text(DType::i64, uint64_t{1} << 63) == "-9223372036854775808");
  CHECK(element_text(DType::u64, UINT64_MAX) == "18446744073709551615");
  CHECK(element_text(DType::boolean, 1) == "true");
}

TEST_CASE("bits are written with as many digits as the type has") {
  CHECK(element_hex(DType::f32, 0x3F800000) == "0x3f800000");
  CHECK(element_hex(DType::u8, 1) == "0x01");
  CHECK(element_hex(DType::i64, 1) == "0x0000000000000001");
}

TEST_CASE("small tensors are written whole, larger ones by their beginning") {
  const auto bytes = bytes_of<int32_t>({1, -2, 3, 4, 5, 6});
  CHECK(value_text(Type::tensor(DType::i32, {2, 3}), bytes) == "{{1, -2, 3}, {4, 5, 6}}");
  CHECK(value_text(Type::tensor(DType::i32, {2, 3}), bytes, 5) == "i32[2,3] {1, -2, 3, 4, ...}");
  CHECK(value_text(Type::tensor(DType::i32, {}), bytes_of<int32_t>({7})) == "7");
  CHECK(value_text(Type::make_scalar(DType::i64), bytes_of<int64_t>({-7})) == "-7");
  CHECK(value_text(Type::tensor(DType::i32, {2, 0}), {}) == "{{}, {}}");
}

TEST_CASE("a row-major index is found on its axes") {
  CHECK(position_text({2, 3, 4}, 0) == "[0,0,0]");
  CHECK(position_text({2, 3, 4}, 23) == "[1,2,3]");
  CHECK(position_text({2, 3, 4}, 13) == "[1,0,1]");
  CHECK(position_text({}, 0) == "[]");
}

TEST_CASE("tensors are compared by bits, with all NaNs equal") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto a = bytes_of<float>({1, nan, 0});
  const auto b = bytes_of<float>({1, -nan, -0.0F});
  CHECK(first_difference(DType::f32, a, b) == 2);
  CHECK_FALSE(first_difference(DType::f32, a, a).has_value());
  CHECK(first_difference(DType::u32, a, b) == 1);
}

TEST_CASE("a digest is XXH3-128 of the bytes") {
  CHECK(digest_of_bytes({}).text() == "99aa06d3014798d86001c324468d497f");
  const auto bytes = bytes_of<uint8_t>({1, 2, 3});
  CHECK(digest(DType::u8, bytes) == digest_of_bytes(bytes));
}

TEST_CASE(
    "a digest makes all NaNs one, whatever their place in the tensor, and keeps the sign of zero") {
  std::vector<uint32_t> a(100'000, 0x3F800000);
  std::vector<uint32_t> b = a;
  for (const size_t at : {size_t{0}, size_t{16383}, size_t{16384}, size_t{99'999}}) {
    a[at] = 0x7FC00000;
    b[at] = 0xFFA12345;
  }
  CHECK(digest(DType::f32, bytes_of(a)) == digest(DType::f32, bytes_of(b)));
  CHECK_FALSE(digest(DType::u32, bytes_of(a)) == digest(DType::u32, bytes_of(b)));
  CHECK_FALSE(digest(DType::f32, bytes_of<float>({0.0F})) ==
              digest(DType::f32, bytes_of<float>({-0.0F})));
}
