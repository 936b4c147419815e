#include "hostlib/values.h"

#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "isa/convert.h"

namespace trek {
namespace {

using isa::DType;
using isa::DTypeKind;

// A float of 16 or 8 bits in the fewest decimal digits that read back as the same bits.
std::string short_float_text(DType dtype, uint64_t bits, double value) {
  for (int digits = 1; digits < 6; ++digits) {
    const double rounded = std::stod(fmt::format("{:.{}g}", value, digits));
    if (isa::double_to_bits(dtype, rounded) == bits) return fmt::format("{}", rounded);
  }
  return fmt::format("{}", value);
}

std::string real_text(DType dtype, uint64_t bits) {
  if (is_nan(dtype, bits)) return "nan";
  const double value = isa::bits_to_double(dtype, bits);
  if (dtype == DType::f64 || std::isinf(value)) return fmt::format("{}", value);
  if (dtype == DType::f32)
    return fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return short_float_text(dtype, bits, value);
}

int64_t sign_extended(DType dtype, uint64_t bits) {
  const int unused = 64 - 8 * isa::byte_size(dtype);
  return static_cast<int64_t>(bits << unused) >> unused;
}

void append_braced(std::string& text, const isa::Type& type, std::span<const std::byte> bytes,
                   int axis, int64_t& next) {
  if (axis == type.shape.rank()) {
    text += element_text(type.dtype, element_bits(type.dtype, bytes, next++));
    return;
  }
  text += '{';
  for (int64_t i = 0; i < type.shape[axis]; ++i) {
    if (i > 0) text += ", ";
    append_braced(text, type, bytes, axis + 1, next);
  }
  text += '}';
}

}  // namespace

uint64_t element_bits(DType dtype, std::span<const std::byte> bytes, int64_t index) {
  const auto size = static_cast<size_t>(isa::byte_size(dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + static_cast<size_t>(index) * size, size);
  return bits;
}

bool is_nan(DType dtype, uint64_t bits) {
  return isa::is_real(dtype) && std::isnan(isa::bits_to_double(dtype, bits));
}

double element_number(DType dtype, uint64_t bits) {
  if (isa::is_real(dtype)) return isa::bits_to_double(dtype, bits);
  if (isa::kind(dtype) == DTypeKind::sint) return static_cast<double>(sign_extended(dtype, bits));
  return static_cast<double>(bits);
}

std::string element_text(DType dtype, uint64_t bits) {
  switch (isa::kind(dtype)) {
    case DTypeKind::real:
      return real_text(dtype, bits);
    case DTypeKind::sint:
      return fmt::format("{}", sign_extended(dtype, bits));
    case DTypeKind::uint:
      return fmt::format("{}", bits);
    case DTypeKind::boolean:
      return bits != 0 ? "true" : "false";
    case DTypeKind::none:
      break;
  }
  return "";
}

std::string element_hex(DType dtype, uint64_t bits) {
  return fmt::format("{:#0{}x}", bits, 2 + 2 * isa::byte_size(dtype));
}

std::string value_text(const isa::Type& type, std::span<const std::byte> bytes, int64_t limit) {
  int64_t next = 0;
  std::string text;
  if (type.scalar || type.elements() <= limit) {
    append_braced(text, type, bytes, 0, next);
    return text;
  }
  constexpr int64_t kShown = 4;
  text = type.text() + " {";
  for (; next < kShown; ++next)
    text += element_text(type.dtype, element_bits(type.dtype, bytes, next)) + ", ";
  return text + "...}";
}

std::string position_text(const isa::Shape& shape, int64_t index) {
  isa::Shape position = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    position[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return position.text();
}

std::optional<int64_t> first_difference(DType dtype, std::span<const std::byte> a,
                                        std::span<const std::byte> b) {
  const auto count = static_cast<int64_t>(a.size()) / isa::byte_size(dtype);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t left = element_bits(dtype, a, i);
    const uint64_t right = element_bits(dtype, b, i);
    if (left != right && !(is_nan(dtype, left) && is_nan(dtype, right))) return i;
  }
  return std::nullopt;
}

}  // namespace trek
