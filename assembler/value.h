// Values of constant expressions, and the arithmetic on them.
//
// An integer lies in -2^63 ... 2^64 - 1, so that every i64 and every u64 can be written; arithmetic
// that leaves the range fails. A real is an f64; functions are those of isa/semantics, so that a
// constant is the same bits on every machine. A value can carry an element type that the source states
// (`f64(0.1)`).
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "assembler/token.h"
#include "isa/types.h"

namespace trek::assembler {

__extension__ using Wide = __int128;
inline constexpr Wide kLeastInteger = std::numeric_limits<int64_t>::min();
inline constexpr Wide kMostInteger = std::numeric_limits<uint64_t>::max();

struct Value {
  enum class Kind : uint8_t { integer, real, boolean, string };
  Kind kind = Kind::integer;
  isa::DType stated = isa::DType::none;
  Wide integer = 0;  // of an integer; 0 or 1 of a boolean
  double real = 0;
  std::string_view text = {};  // of a string; owned elsewhere

  static Value of(Wide integer) { return {.integer = integer}; }
  static Value of(double real) { return {.kind = Kind::real, .real = real}; }
  static Value of(bool truth) { return {.kind = Kind::boolean, .integer = truth ? 1 : 0}; }
  static Value of(std::string_view text) { return {.kind = Kind::string, .text = text}; }

  bool is_integer() const { return kind == Kind::integer; }
  bool is_number() const { return kind == Kind::integer || kind == Kind::real; }
  double as_real() const { return kind == Kind::real ? real : static_cast<double>(integer); }
};

// "the integer 3", "the real 0.5", for messages.
std::string describe(const Value& value);
// How a substitution writes a value: digits, the shortest real, true, a string's own bytes.
std::string text_of(const Value& value);
// An expression that has this value: strings in quotes, types stated.
std::string source_of(const Value& value);
// A string as it is written between quotes.
std::string quoted(std::string_view text);

// A value, or what is wrong in words.
struct Computed {
  std::optional<Value> value;
  std::string error;
  Computed(Value v) : value(v) {}                       // NOLINT(google-explicit-constructor)
  Computed(std::string why) : error(std::move(why)) {}  // NOLINT(google-explicit-constructor)
};

// A number token's text: decimal, 0x, 0b, decimal and hexadecimal reals.
Computed parse_number(std::string_view text);
Computed apply_unary(TokenKind op, const Value& a);
Computed apply_binary(TokenKind op, const Value& a, const Value& b);
// min max abs floor ceil round sqrt exp log len.
bool is_function(std::string_view name);
Computed apply_function(std::string_view name, std::span<const Value> arguments);

// The type that a value has where nothing else decides: i64, f32, bool, or what it states; none for a
// string.
isa::DType natural_type(const Value& value);
// The bits of a value as an element of `dtype`, or what is wrong in words.
struct Bits {
  std::optional<uint64_t> bits;
  std::string error;
  bool wrong_type = false;  // rather than out of range
};
Bits to_bits(const Value& value, isa::DType dtype);

}  // namespace trek::assembler
