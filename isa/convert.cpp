#include "isa/convert.h"

#include <bit>
#include <cmath>
#include <limits>

namespace trek::isa {
namespace {

// A small binary float format: the sign bit, then exponent, then mantissa bits.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // f8e4m3 spends its top exponent on finite numbers and one NaN
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {8, 23, true};
    case DType::f16:
      return {5, 10, true};
    case DType::bf16:
      return {8, 7, true};
    case DType::f8e4m3:
      return {4, 3, false};
    case DType::f8e5m2:
      return {5, 2, true};
    default:
      return {11, 52, true};
  }
}

uint64_t nan_bits(const Format& f) {
  const uint64_t top = (uint64_t{1} << f.exponent_bits) - 1;
  const uint64_t mantissa =
      f.has_infinity ? uint64_t{1} << (f.mantissa_bits - 1) : (uint64_t{1} << f.mantissa_bits) - 1;
  return top << f.mantissa_bits | mantissa;
}

}  // namespace

double bits_to_double(DType dtype, uint64_t bits) {
  if (dtype == DType::f64) return std::bit_cast<double>(bits);
  if (dtype == DType::f32)
    return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const Format f = format_of(dtype);
  const uint64_t mantissa = bits & ((uint64_t{1} << f.mantissa_bits) - 1);
  const int top = (1 << f.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> f.mantissa_bits) & top;
  const bool negative = (bits >> (f.exponent_bits + f.mantissa_bits) & 1) != 0;
  double magnitude = 0;
  if (exponent == top && f.has_infinity) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (!f.has_infinity && (bits & 0x7F) == 0x7F) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<double>(mantissa), 1 - f.bias() - f.mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<double>(mantissa | uint64_t{1} << f.mantissa_bits),
                           exponent - f.bias() - f.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

uint64_t double_to_bits(DType dtype, double value) {
  if (dtype == DType::f64)
    return std::isnan(value) ? 0x7FF8000000000000u : std::bit_cast<uint64_t>(value);
  const Format f = format_of(dtype);
  if (std::isnan(value)) return nan_bits(f);
  const uint64_t sign =
      std::signbit(value) ? uint64_t{1} << (f.exponent_bits + f.mantissa_bits) : 0;
  const double magnitude = std::fabs(value);
  const uint64_t top = (uint64_t{1} << f.exponent_bits) - 1;
  const uint64_t infinity = f.has_infinity ? top << f.mantissa_bits : nan_bits(f);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | infinity;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = m × 2^exponent, 0.5 <= m < 1
  // The exponent of the unit in the last place: of the number's own binade, or of the subnormals.
  const int least = 1 - f.bias() - f.mantissa_bits;
  const int unit = std::max(exponent - 1 - f.mantissa_bits, least);
  const double scaled =
      std::ldexp(magnitude, -unit);  // exact: a power of two, and far from overflow
  auto count = static_cast<uint64_t>(scaled);
  const double rest = scaled - static_cast<double>(count);
  if (rest > 0.5 || (rest == 0.5 && (count & 1) != 0)) ++count;
  // count < 2^(mantissa_bits + 1) or exactly that after rounding up; adding it to the biased exponent
  // of its unit carries into the exponent field as it should.
  const uint64_t biased =
      count >> f.mantissa_bits == 0 ? 0 : static_cast<uint64_t>(unit - least + 1);
  const uint64_t bits =
      biased == 0 ? count
                  : (biased << f.mantissa_bits) + (count - (uint64_t{1} << f.mantissa_bits));
  return sign | (bits >= infinity ? infinity : bits);
}

std::optional<uint64_t> integer_to_bits(DType dtype, int64_t value, bool is_unsigned) {
  if (dtype == DType::boolean) {
    if (value != 0 && value != 1) return std::nullopt;
    return static_cast<uint64_t>(value);
  }
  const int width = 8 * byte_size(dtype);
  const auto bits = static_cast<uint64_t>(value);
  if (kind(dtype) == DTypeKind::uint) {
    if (!is_unsigned && value < 0) return std::nullopt;
    if (width < 64 && bits >> width != 0) return std::nullopt;
    return bits;
  }
  if (is_unsigned && value < 0) return std::nullopt;
  const int64_t limit =
      width == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (width - 1)) - 1;
  if (value > limit || value < -limit - 1) return std::nullopt;
  return bits;
}

}  // namespace trek::isa
