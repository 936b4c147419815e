// f16, bf16 and tf32 as a device rounds them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace trek::ptx {

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
inline uint16_t to_bf16(float value) {
  if (value != value) return 0x7FFF;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

inline float from_f16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const uint32_t rest = bits & 0x7FFF;
  if (rest >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000 | (rest & 1023) << 13);
  if (rest >= 0x400) return std::bit_cast<float>(sign | ((rest << 13) + (112U << 23)));
  const float value = static_cast<float>(rest) * 0x1p-24F;  // subnormal
  return sign != 0 ? -value : value;
}
// To the nearest, of two the even one.
inline uint16_t to_f16(float value) {
  if (value != value) return 0x7FFF;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (size >= 65520.0F) return static_cast<uint16_t>(sign | 0x7C00);
  int exponent = 0;
  std::frexp(size, &exponent);  // size < 2^exponent
  if (exponent < -13) exponent = -13;
  const float units = std::nearbyint(std::ldexp(size, 11 - exponent));  // of the last place
  const float rounded = std::ldexp(units, exponent - 11);
  if (rounded < 0x1p-14F) return static_cast<uint16_t>(sign | static_cast<int>(units));
  std::frexp(rounded, &exponent);
  const int fraction = static_cast<int>(std::ldexp(rounded, 11 - exponent)) - 1024;
  return static_cast<uint16_t>(sign | (exponent + 14) << 10 | fraction);
}

// To the nearest of 11 bits, of two the one farther from 0.
inline uint32_t to_tf32(float value) {
  if (value != value) return 0x7FFFFFFF;
  return (std::bit_cast<uint32_t>(value) + 0x1000) & 0xFFFFE000;
}

}  // namespace trek::ptx
