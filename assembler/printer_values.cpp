// Numbers, strings, types and data as text. Every real is written with the fewest digits that give its
// bits again under the rule of the language: read as f64, then rounded once to the element type.
#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "assembler/printer_parts.h"
#include "isa/convert.h"

namespace trek::printer {

using isa::Constant;
using isa::DType;
using isa::DTypeKind;
using isa::Type;

namespace {

constexpr size_t kLongestList = 256;  // elements; more are written in hexadecimal
constexpr size_t kHexBytes = 40;      // on a line

// The text that comes back as these bits, shortest first.
void append_real_digits(std::string& out, DType dtype, uint64_t bits) {
  const double value = isa::bits_to_double(dtype, bits);
  std::array<char, 64> buffer{};
  const auto gives_bits = [&](std::string_view digits) {
    double read = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), read);
    return isa::double_to_bits(dtype, read) == bits;
  };
  const auto written = [&](const char* end) {
    return std::string_view(buffer.data(), static_cast<size_t>(end - buffer.data()));
  };
  if (dtype == DType::f32) {
    const auto digits = written(fmt::format_to(buffer.data(), "{}", static_cast<float>(value)));
    if (gives_bits(digits)) {
      out += digits;
      return;
    }
  } else if (dtype != DType::f64) {
    constexpr int kEnough = 9;
    for (int precision = 1; precision <= kEnough; ++precision) {
      const auto digits = written(fmt::format_to(buffer.data(), "{:.{}g}", value, precision));
      if (!gives_bits(digits)) continue;
      out += digits;
      return;
    }
  }
  out += written(fmt::format_to(buffer.data(), "{}", value));
}

void append_real(std::string& out, DType dtype, uint64_t bits) {
  const double value = isa::bits_to_double(dtype, bits);
  if (value != value) {
    out += "nan";
  } else if (value - value != 0) {
    out += value < 0 ? "-inf" : "inf";
  } else if (value == 0) {
    out += std::signbit(value) ? "-0.0" : "0";  // an integer -0 would lose its sign
  } else {
    append_real_digits(out, dtype, bits);
  }
}

bool reads_as_integer(std::string_view text) {
  return text.find_first_of(".ein") == std::string_view::npos;  // of 1.5, 1e9, inf, nan
}

uint64_t element_bits(DType dtype, const std::byte* from) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, static_cast<size_t>(isa::byte_size(dtype)));
  if (isa::kind(dtype) != DTypeKind::sint) return bits;
  const int unused = 64 - 8 * isa::byte_size(dtype);
  return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
}

// Whether a list gives these bytes again: it has one NaN per type, and no bool but 0 and 1.
bool list_keeps(DType dtype, std::span<const std::byte> bytes) {
  if (isa::is_integer(dtype)) return true;
  const auto size = static_cast<size_t>(isa::byte_size(dtype));
  for (size_t at = 0; at < bytes.size(); at += size) {
    const uint64_t bits = element_bits(dtype, bytes.data() + at);
    if (dtype == DType::boolean) {
      if (bits > 1) return false;
      continue;
    }
    const double value = isa::bits_to_double(dtype, bits);
    if (value != value && bits != isa::double_to_bits(dtype, value)) return false;
  }
  return true;
}

void append_hex(std::string& out, std::span<const std::byte> bytes, int depth) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const bool one_line = bytes.size() <= kHexBytes / 2;
  out += "hex(";
  size_t at = 0;
  do {
    if (!one_line) {
      out += '\n';
      append_indent(out, depth + 1);
    }
    out += '"';
    for (const size_t end = std::min(bytes.size(), at + kHexBytes); at < end; ++at) {
      const auto byte = static_cast<uint8_t>(bytes[at]);
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
    out += '"';
    if (at < bytes.size()) out += ',';
  } while (at < bytes.size());
  out += ')';
}

// A list in one line, with inner braces that follow the shape.
void append_nested(std::string& out, const Type& type, const std::byte*& from, int axis) {
  if (axis == type.shape.rank()) {
    append_element(out, type.dtype, element_bits(type.dtype, from));
    from += isa::byte_size(type.dtype);
    return;
  }
  out += '{';
  for (int64_t i = 0; i < type.shape[axis]; ++i) {
    if (i > 0) out += ", ";
    append_nested(out, type, from, axis + 1);
  }
  out += '}';
}

// A list over several lines: each row of the last axis begins one.
void append_rows(std::string& out, const Type& type, std::span<const std::byte> bytes, int depth) {
  const auto size = static_cast<size_t>(isa::byte_size(type.dtype));
  constexpr int64_t kShortRow = 4;  // shorter ones are not worth a line each
  const int64_t last = type.shape.rank() == 0 ? 1 : type.shape[type.shape.rank() - 1];
  const int64_t row = last < kShortRow ? static_cast<int64_t>(bytes.size()) : last;
  const auto count = static_cast<int64_t>(bytes.size() / size);
  out += '{';
  size_t line = 0;  // where the line at hand begins
  for (int64_t i = 0; i < count; ++i) {
    const size_t before = out.size();
    append_element(out, type.dtype,
                   element_bits(type.dtype, bytes.data() + static_cast<size_t>(i) * size));
    if (i + 1 < count) out += ',';
    if (i % row == 0 || out.size() - line > kLineWidth) {
      const std::string element = out.substr(before);
      out.resize(before);
      if (out.back() == ' ') out.pop_back();
      out += '\n';
      line = out.size();
      append_indent(out, depth + 1);
      out += element;
    }
    if (i + 1 < count) out += ' ';
  }
  out += '\n';
  append_indent(out, depth);
  out += '}';
}

}  // namespace

void append_number(std::string& out, uint64_t value) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.size());
}

void append_integer(std::string& out, int64_t value) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.size());
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
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
        break;  // else a substitution
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
          fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned>(c));
        else
          out += c;
    }
  }
  out += '"';
}

void append_type(std::string& out, const Type& type) {
  out += isa::name(type.dtype);
  if (type.scalar) return;
  out += '[';
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    if (axis > 0) out += ',';
    append_integer(out, type.shape[axis]);
  }
  out += ']';
}

void append_indent(std::string& out, int depth) { out.append(2 * static_cast<size_t>(depth), ' '); }

void append_blank_line(std::string& out) {
  if (!out.ends_with("\n\n")) out += '\n';
}

void append_comment(std::string& out, std::string_view comment) {
  const size_t start = std::min(comment.find_first_not_of(" \t\r"), comment.size());
  comment.remove_prefix(start);
  if (!comment.starts_with(';')) out += "; ";
  const size_t begin = out.size();
  for (char c : comment) {  // a text has no zero byte, and a line ends where it ends
    const bool is_control = static_cast<unsigned char>(c) < ' ' && c != '\t';
    out += is_control ? ' ' : c;
  }
  const size_t last = out.find_last_not_of(" \t\r");
  out.resize(std::max(last + 1, begin));
}

void append_element(std::string& out, DType dtype, uint64_t bits) {
  switch (isa::kind(dtype)) {
    case DTypeKind::real:
      return append_real(out, dtype, bits);
    case DTypeKind::uint:
      return append_number(out, bits);
    case DTypeKind::boolean:
      out += bits != 0 ? "true" : "false";
      return;
    case DTypeKind::sint:
    case DTypeKind::none:
      return append_integer(out, static_cast<int64_t>(bits));
  }
}

void append_immediate(std::string& out, const Constant& constant, DType real) {
  const DType dtype = constant.dtype;
  const bool is_natural = dtype == DType::i64 || dtype == DType::boolean || dtype == real;
  if (!is_natural) {
    out += isa::name(dtype);
    out += '(';
  }
  const size_t begin = out.size();
  append_element(out, dtype, constant.bits);
  if (!is_natural)
    out += ')';
  else if (dtype == real && reads_as_integer(std::string_view(out).substr(begin)))
    out += ".0";
}

void append_uniform_data(std::string& out, const Type& type, std::span<const std::byte> bytes,
                         int depth) {
  const auto size = static_cast<std::ptrdiff_t>(isa::byte_size(type.dtype));
  const bool is_uniform =
      !bytes.empty() && std::equal(bytes.begin() + size, bytes.end(), bytes.begin());
  if (!is_uniform || !list_keeps(type.dtype, bytes)) return append_data(out, type, bytes, depth);
  append_element(out, type.dtype, element_bits(type.dtype, bytes.data()));
}

void append_data(std::string& out, const Type& type, std::span<const std::byte> bytes, int depth) {
  if (type.elements() == 0) {
    out += "{}";
    return;
  }
  if (static_cast<size_t>(type.elements()) > kLongestList || !list_keeps(type.dtype, bytes))
    return append_hex(out, bytes, depth);
  const size_t begin = out.size();
  const size_t line = out.rfind('\n', begin) + 1;  // npos + 1 is 0
  const std::byte* from = bytes.data();
  if (type.shape.rank() == 0) out += '{';
  append_nested(out, type, from, 0);
  if (type.shape.rank() == 0) out += '}';
  if (out.size() - line <= kLineWidth) return;
  out.resize(begin);
  append_rows(out, type, bytes, depth);
}

}  // namespace trek::printer
