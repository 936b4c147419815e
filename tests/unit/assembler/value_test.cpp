#include "assembler/value.h"

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

using namespace trek::assembler;
using trek::isa::DType;

namespace {

Wide integer(std::string_view text) {
  const Computed number = parse_number(text);
  REQUIRE(number.value);
  REQUIRE(number.value->is_integer());
  return number.value->integer;
}

double real(std::string_view text) {
  const Computed number = parse_number(text);
  REQUIRE(number.value);
  REQUIRE(number.value->kind == Value::Kind::real);
  return number.value->real;
}

Computed binary(Wide a, TokenKind op, Wide b) {
  return apply_binary(op, Value::of(a), Value::of(b));
}

}  // namespace

TEST_CASE("numbers are read in every base") {
  CHECK(integer("0") == 0);
  CHECK(integer("1_000_000") == 1000000);
  CHECK(integer("0xFf") == 255);
  CHECK(integer("0b101") == 5);
  CHECK(integer("18446744073709551615") == Wide{UINT64_MAX});
  CHECK(real("0.1") == 0.1);
  CHECK(real("1e3") == 1000.0);
  CHECK(real("0x1.8p-3") == 0.1875);
  CHECK(real("1e-400") == 0.0);
  CHECK(real("4.9e-324") == std::numeric_limits<double>::denorm_min());
}

TEST_CASE("what is no number, or too large, is refused") {
  for (const char* text : {"0x", "0xG", "0b2", "1a", "1.2.3", "1__0", "1_", "1.", "1e", "0x1.8",
                           "1._5", "18446744073709551616", "1e999"}) {
    INFO(text);
    CHECK_FALSE(parse_number(text).value);
  }
}

TEST_CASE("integer arithmetic is exact or fails") {
  CHECK(binary(7, TokenKind::slash, 2).value->real == 3.5);
  CHECK(binary(8, TokenKind::slash, 2).value->integer == 4);
  CHECK(binary(1, TokenKind::slash, 0).value->real == std::numeric_limits<double>::infinity());
  CHECK(binary(-7, TokenKind::slash_slash, 2).value->integer == -4);
  CHECK(binary(-7, TokenKind::percent, 2).value->integer == 1);
  CHECK(binary(7, TokenKind::percent, -2).value->integer == -1);
  CHECK(binary(2, TokenKind::star_star, 63).value->integer == Wide{1} << 63);
  CHECK(binary(2, TokenKind::star_star, -1).value->real == 0.5);
  CHECK(binary(-8, TokenKind::shift_right, 1).value->integer == -4);
  CHECK(binary(-8, TokenKind::shift_right, 1000).value->integer == -1);
  CHECK(binary(0, TokenKind::shift_left, 1000).value->integer == 0);
  CHECK_FALSE(binary(1, TokenKind::shift_left, 64).value);
  CHECK_FALSE(binary(1, TokenKind::shift_left, -1).value);
  CHECK_FALSE(binary(1, TokenKind::slash_slash, 0).value);
  CHECK_FALSE(binary(1, TokenKind::percent, 0).value);
  CHECK_FALSE(binary(2, TokenKind::star_star, 64).value);
  CHECK_FALSE(binary(3, TokenKind::star_star, Wide{1} << 60).value);
  CHECK_FALSE(binary(Wide{UINT64_MAX}, TokenKind::star, Wide{UINT64_MAX}).value);
  CHECK_FALSE(binary(Wide{UINT64_MAX}, TokenKind::plus, 1).value);
  CHECK_FALSE(binary(INT64_MIN, TokenKind::minus, 1).value);
  CHECK(binary(1, TokenKind::star_star, Wide{1} << 62).value->integer == 1);
}

TEST_CASE("comparisons order numbers of both kinds, strings, and no NaN") {
  const Value nan = Value::of(std::nan(""));
  CHECK(apply_binary(TokenKind::less, Value::of(Wide{1}), Value::of(1.5)).value->integer == 1);
  CHECK(apply_binary(TokenKind::equal, nan, nan).value->integer == 0);
  CHECK(apply_binary(TokenKind::not_equal, nan, nan).value->integer == 1);
  CHECK(apply_binary(TokenKind::greater_equal, nan, nan).value->integer == 0);
  CHECK(apply_binary(TokenKind::less, Value::of(std::string_view("a")),
                     Value::of(std::string_view("b")))
            .value->integer == 1);
  CHECK_FALSE(
      apply_binary(TokenKind::equal, Value::of(std::string_view("a")), Value::of(Wide{1})).value);
}

TEST_CASE("an operation on operands of the wrong kind is refused") {
  CHECK_FALSE(apply_binary(TokenKind::plus, Value::of(true), Value::of(true)).value);
  CHECK_FALSE(apply_binary(TokenKind::ampersand, Value::of(1.5), Value::of(Wide{1})).value);
  CHECK_FALSE(apply_binary(TokenKind::plus, Value::of(std::string_view("a")),
                           Value::of(std::string_view("b")))
                  .value);
  CHECK_FALSE(apply_unary(TokenKind::minus, Value::of(true)).value);
  CHECK_FALSE(apply_unary(TokenKind::bang, Value::of(Wide{0})).value);
  CHECK_FALSE(apply_unary(TokenKind::tilde, Value::of(Wide{UINT64_MAX})).value);
}

TEST_CASE("a value takes a type only if that can hold it") {
  CHECK(to_bits(Value::of(Wide{255}), DType::u8).bits == 255u);
  CHECK_FALSE(to_bits(Value::of(Wide{256}), DType::u8).bits);
  CHECK_FALSE(to_bits(Value::of(Wide{-1}), DType::u64).bits);
  CHECK(to_bits(Value::of(Wide{UINT64_MAX}), DType::u64).bits == UINT64_MAX);
  CHECK_FALSE(to_bits(Value::of(Wide{UINT64_MAX}), DType::i64).bits);
  CHECK(to_bits(Value::of(Wide{1}), DType::boolean).bits == 1u);
  CHECK_FALSE(to_bits(Value::of(Wide{2}), DType::boolean).bits);
  CHECK_FALSE(to_bits(Value::of(2.0), DType::i32).bits);
  CHECK_FALSE(to_bits(Value::of(true), DType::f32).bits);
  CHECK(to_bits(Value::of(0.1), DType::f32).bits == 0x3DCCCCCDu);
  CHECK_FALSE(to_bits(Value::of(1e39), DType::f32).bits);
  CHECK(to_bits(Value::of(std::numeric_limits<double>::infinity()), DType::f16).bits == 0x7C00u);
  CHECK_FALSE(to_bits(Value::of(std::numeric_limits<double>::infinity()), DType::f8e4m3).bits);
  CHECK_FALSE(to_bits(Value::of(1000.0), DType::f8e4m3).bits);
  Value stated = Value::of(1.0);
  stated.stated = DType::f64;
  CHECK(to_bits(stated, DType::f64).bits);
  CHECK(to_bits(stated, DType::f32).wrong_type);
}

TEST_CASE("a value's source text gives the value again") {
  CHECK(source_of(Value::of(1.0)) == "1.0");
  CHECK(source_of(Value::of(1e300)) == "1e+300");
  CHECK(source_of(Value::of(Wide{INT64_MIN})) == "-9223372036854775808");
  CHECK(source_of(Value::of(false)) == "false");
  CHECK(source_of(Value::of(std::string_view("a\"\\{\n\x01"))) == R"("a\"\\\{\n\x01")");
  Value stated = Value::of(0.5);
  stated.stated = DType::f16;
  CHECK(source_of(stated) == "f16(0.5)");
}
