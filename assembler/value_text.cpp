// Values in the text and in the module: numbers read, values written, elements' bits.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include "assembler/value.h"
#include "isa/convert.h"

namespace trek::assembler {
namespace {

std::string text_of(Wide value) {
  return value < 0 ? fmt::format("{}", static_cast<int64_t>(value))
                   : fmt::format("{}", static_cast<uint64_t>(value));
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

Computed parse_integer(std::string_view digits, int base, std::string_view whole) {
  Wide value = 0;
  bool any = false;
  char before = '_';
  for (char c : digits) {
    if (c == '_' && before != '_') {
      before = c;
      continue;
    }
    const int digit = digit_of(c);
    if (digit >= base) return fmt::format("'{}' is no number", whole.substr(0, 40));
    value = value * base + digit;
    if (value > kMostInteger) return fmt::format("'{}' is more than 2^64 - 1", whole.substr(0, 40));
    any = true;
    before = c;
  }
  if (!any || before == '_') return fmt::format("'{}' is no number", whole.substr(0, 40));
  return Value::of(value);
}

}  // namespace

std::string text_of(const Value& value) {
  switch (value.kind) {
    case Value::Kind::integer:
      return text_of(value.integer);
    case Value::Kind::real: {
      const std::string text = fmt::format("{}", value.real);
      const bool looks_integer = text.find_first_not_of("-0123456789") == std::string::npos;
      return looks_integer ? text + ".0" : text;
    }
    case Value::Kind::boolean:
      return value.integer != 0 ? "true" : "false";
    case Value::Kind::string:
      return std::string(value.text);
  }
  return "";
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '{':
        out += "\\{";
        break;
      default:
        if (byte < 0x20 || byte == 0x7F) {
          out += fmt::format("\\x{:02X}", byte);
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

std::string source_of(const Value& value) {
  std::string text = value.kind == Value::Kind::string ? quoted(value.text) : text_of(value);
  return value.stated == isa::DType::none ? text
                                          : fmt::format("{}({})", isa::name(value.stated), text);
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::integer:
      return "the integer " + text_of(value);
    case Value::Kind::real:
      return "the real " + text_of(value);
    case Value::Kind::boolean:
      return text_of(value);
    case Value::Kind::string:
      return "a string";
  }
  return "";
}

Computed parse_number(std::string_view text) {
  const auto is_prefixed = [&](char letter) {
    return text.size() > 2 && text[0] == '0' && (text[1] | 0x20) == letter;
  };
  const auto wrong = [&] { return fmt::format("'{}' is no number", text.substr(0, 40)); };
  if (is_prefixed('b')) return parse_integer(text.substr(2), 2, text);
  const bool hexadecimal = is_prefixed('x');
  const bool is_real = text.find_first_of(hexadecimal ? ".pP" : ".eE") != std::string_view::npos;
  if (!is_real) return parse_integer(text.substr(hexadecimal ? 2 : 0), hexadecimal ? 16 : 10, text);
  if (hexadecimal && text.find_first_of("pP") == std::string_view::npos) return wrong();
  if (text.back() == '.' || text.find("._") != std::string_view::npos ||
      text.find("_.") != std::string_view::npos)
    return wrong();
  std::string digits(hexadecimal ? text.substr(2) : text);
  std::erase(digits, '_');
  double value = 0;
  const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, format);
  if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return wrong();
  if (error == std::errc::result_out_of_range) {
    // from_chars does not say which way; strtod does, and gives 0 or a subnormal below.
    value = std::strtod((hexadecimal ? "0x" + digits : digits).c_str(), nullptr);
    if (std::isinf(value))
      return fmt::format("'{}' is beyond the largest f64; write inf if that is meant",
                         text.substr(0, 40));
  }
  return Value::of(value);
}

isa::DType natural_type(const Value& value) {
  if (value.stated != isa::DType::none) return value.stated;
  switch (value.kind) {
    case Value::Kind::integer:
      return isa::DType::i64;
    case Value::Kind::real:
      return isa::DType::f32;
    case Value::Kind::boolean:
      return isa::DType::boolean;
    case Value::Kind::string:
      return isa::DType::none;
  }
  return isa::DType::none;
}

Bits to_bits(const Value& value, isa::DType dtype) {
  const auto wrong = [&] {
    return Bits{
        std::nullopt,
        fmt::format("{} where a value of type {} is wanted", describe(value), isa::name(dtype)),
        true};
  };
  const auto outside = [&] {
    return Bits{std::nullopt,
                fmt::format("{} does not fit in {}", describe(value), isa::name(dtype)), false};
  };
  if (value.stated != isa::DType::none && value.stated != dtype)
    return {std::nullopt,
            fmt::format("a value said to be {} where {} is wanted", isa::name(value.stated),
                        isa::name(dtype)),
            true};
  if (value.kind == Value::Kind::string) return wrong();
  if (isa::is_real(dtype)) {
    if (value.kind == Value::Kind::boolean) return wrong();
    const double real = value.as_real();
    const uint64_t bits = isa::double_to_bits(dtype, real);
    const double back = isa::bits_to_double(dtype, bits);
    if (!std::isnan(real) && (std::isnan(back) || std::isinf(back) != std::isinf(real)))
      return outside();
    return {bits, "", false};
  }
  if (value.kind == Value::Kind::real) return wrong();
  if (value.kind == Value::Kind::boolean && dtype != isa::DType::boolean) return wrong();
  const bool is_large = value.integer > std::numeric_limits<int64_t>::max();
  const auto bits = isa::integer_to_bits(dtype, static_cast<int64_t>(value.integer), is_large);
  if (!bits) return outside();
  return {bits, "", false};
}

}  // namespace trek::assembler
