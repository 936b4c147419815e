// One element of any type in registers.
//
// Register form, 64 bits: an f64 as its bits; every narrower float as the bits of the f32 that it is
// exactly; an integer extended by its sign or by zeros; a bool as 0 or 1. The narrow form is the lower
// half, for types of at most 4 bytes. So one piece of code serves all types of a Form: two's complement
// addition, product, comparison, division, shift and extremes of a narrow integer are those of a wider
// one, then wrapped (wrap()); the tests hold every type to isa/semantics' own.
#pragma once

#include "emulator/device/node.h"
#include "isa/semantics/convert.h"
#include "isa/semantics/integer.h"

namespace trek::device {

using semantics::BF16;
using semantics::F16;
using semantics::F8E4M3;
using semantics::F8E5M2;

enum class Form : uint8_t { real32, real64, sint, uint };

// Memory is read and written as whatever its node says it is.
template <typename T>
using Aliased __attribute__((may_alias)) = T;

// Sixteen bytes at once.
struct __attribute__((may_alias, aligned(16))) Words {
  uint32_t e[4];
};

namespace element_detail {
// The byte sizes of all types, 4 bits each, and masks of kinds, from types.def.
inline constexpr uint64_t kSizes = 0
#define TREK_DTYPE(id, name, code, bytes, kind) | uint64_t{bytes} << (4 * code)
#include "isa/types.def"
#undef TREK_DTYPE
    ;
enum Kinds : uint32_t { kind_real, kind_sint, kind_uint, kind_boolean };
inline constexpr uint32_t kSigned = 0
#define TREK_DTYPE(id, name, code, bytes, kind) | (kind_##kind == kind_sint ? 1u << code : 0u)
#include "isa/types.def"
#undef TREK_DTYPE
    ;
inline constexpr uint32_t kReal = 0
#define TREK_DTYPE(id, name, code, bytes, kind) | (kind_##kind == kind_real ? 1u << code : 0u)
#include "isa/types.def"
#undef TREK_DTYPE
    ;
}  // namespace element_detail

TREK_UNIT uint32_t size_of(DType type) {
  return static_cast<uint32_t>(element_detail::kSizes >> (4 * static_cast<uint32_t>(type))) & 15;
}
TREK_UNIT bool is_float(DType type) {
  return (element_detail::kReal >> static_cast<uint32_t>(type) & 1) != 0;
}
TREK_UNIT Form form_of(DType type) {
  if (type == DType::f64) return Form::real64;
  if (is_float(type)) return Form::real32;
  const bool is_signed = (element_detail::kSigned >> static_cast<uint32_t>(type) & 1) != 0;
  return is_signed ? Form::sint : Form::uint;
}

TREK_UNIT float as_float(uint32_t bits) { return semantics::from_bits<float>(bits); }
TREK_UNIT float as_float(uint64_t bits) { return as_float(static_cast<uint32_t>(bits)); }
TREK_UNIT double as_double(uint64_t bits) { return semantics::from_bits<double>(bits); }
TREK_UNIT uint32_t bits_of(float x) { return semantics::to_bits(x); }
TREK_UNIT uint64_t bits_of(double x) { return semantics::to_bits(x); }

// Element `index` of memory that holds a T.
template <typename T>
TREK_UNIT T read(const std::byte* data, int64_t index) {
  return reinterpret_cast<const Aliased<T>*>(data)[index];
}
template <typename T>
TREK_UNIT void write(std::byte* data, int64_t index, T value) {
  reinterpret_cast<Aliased<T>*>(data)[index] = value;
}

// A float of a narrow type nearest to x, as a float again.
TREK_UNIT_CALL float rounded_rarely(DType type, float x) {
  return type == DType::f8e4m3 ? semantics::widen(semantics::narrow<F8E4M3>(x))
                               : semantics::widen(semantics::narrow<F8E5M2>(x));
}
TREK_UNIT float rounded(DType type, float x) {
  switch (type) {
    case DType::f16:
      return semantics::widen(semantics::narrow<F16>(x));
    case DType::bf16:
      return semantics::widen(semantics::narrow<BF16>(x));
    case DType::f8e4m3:
    case DType::f8e5m2:
      return rounded_rarely(type, x);
    default:
      return x;
  }
}

// The integer modulo 2^n of its type, in register form.
TREK_UNIT uint64_t wrap(DType type, uint64_t x) {
  const uint32_t spare = 64 - 8 * size_of(type);
  const uint64_t high = x << spare;
  return form_of(type) == Form::sint ? static_cast<uint64_t>(static_cast<int64_t>(high) >> spare)
                                     : high >> spare;
}
TREK_UNIT uint32_t wrap32(DType type, uint32_t x) {
  const uint32_t spare = 32 - 8 * size_of(type);
  const uint32_t high = x << spare;
  return form_of(type) == Form::sint ? static_cast<uint32_t>(static_cast<int32_t>(high) >> spare)
                                     : high >> spare;
}

// Element `index` in the narrow form; the type has at most 4 bytes.
TREK_UNIT_CALL uint32_t load32_rarely(const std::byte* data, DType type, int64_t index) {
  switch (type) {
    case DType::f8e4m3:
      return bits_of(semantics::widen(F8E4M3{read<uint8_t>(data, index)}));
    case DType::f8e5m2:
      return bits_of(semantics::widen(F8E5M2{read<uint8_t>(data, index)}));
    case DType::i8:
      return static_cast<uint32_t>(int32_t{read<int8_t>(data, index)});
    case DType::u8:
    case DType::boolean:
      return read<uint8_t>(data, index);
    case DType::i16:
      return static_cast<uint32_t>(int32_t{read<int16_t>(data, index)});
    case DType::u16:
      return read<uint16_t>(data, index);
    default:
      return read<uint32_t>(data, index);
  }
}
TREK_UNIT uint32_t load32(const std::byte* data, DType type, int64_t index) {
  switch (type) {
    case DType::f32:
      return read<uint32_t>(data, index);
    case DType::f16:
      return bits_of(semantics::widen(F16{read<uint16_t>(data, index)}));
    case DType::bf16:
      return uint32_t{read<uint16_t>(data, index)} << 16;
    default:
      return load32_rarely(data, type, index);
  }
}
// Element `index` in register form.
TREK_UNIT_CALL uint64_t load64(const std::byte* data, DType type, int64_t index) {
  if (size_of(type) == 8) return read<uint64_t>(data, index);
  const uint32_t bits = load32(data, type, index);
  return form_of(type) == Form::sint ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(bits)})
                                     : bits;
}

// Stores what is in the narrow form of `type`; a float is rounded to it.
TREK_UNIT_CALL void store32_rarely(std::byte* data, DType type, int64_t index, uint32_t bits) {
  switch (type) {
    case DType::f8e4m3:
      return write(data, index, semantics::narrow<F8E4M3>(as_float(bits)).bits);
    case DType::f8e5m2:
      return write(data, index, semantics::narrow<F8E5M2>(as_float(bits)).bits);
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return write(data, index, static_cast<uint8_t>(bits));
    case DType::i16:
    case DType::u16:
      return write(data, index, static_cast<uint16_t>(bits));
    default:
      return write(data, index, bits);
  }
}
TREK_UNIT void store32(std::byte* data, DType type, int64_t index, uint32_t bits) {
  switch (type) {
    case DType::f32:
      return write(data, index, bits);
    case DType::f16:
      return write(data, index, semantics::narrow<F16>(as_float(bits)).bits);
    case DType::bf16:
      return write(data, index, semantics::narrow<BF16>(as_float(bits)).bits);
    default:
      return store32_rarely(data, type, index, bits);
  }
}
TREK_UNIT_CALL void store64(std::byte* data, DType type, int64_t index, uint64_t bits) {
  if (size_of(type) == 8)
    write(data, index, bits);
  else
    store32(data, type, index, static_cast<uint32_t>(bits));
}

// What a float is as an integer of `type`: truncated, saturated, NaN 0.
TREK_UNIT uint64_t integer_of(DType type, double x) {
  const uint32_t bits = 8 * size_of(type);
  if (form_of(type) == Form::sint) {
    const int64_t most = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
    const int64_t value = semantics::to_integer<int64_t>(x);
    const int64_t low = -most - 1;
    return static_cast<uint64_t>(value < low ? low : value > most ? most : value);
  }
  const uint64_t most = ~uint64_t{0} >> (64 - bits);
  const uint64_t value = semantics::to_integer<uint64_t>(x);
  return value > most ? most : value;
}

// A number as a narrower float than f64: rounded once.
template <typename T>
TREK_UNIT float float_of(DType type, T x) {
  switch (type) {
    case DType::f16:
      return semantics::widen(semantics::convert<F16>(x));
    case DType::bf16:
      return semantics::widen(semantics::convert<BF16>(x));
    case DType::f8e4m3:
      return semantics::widen(semantics::convert<F8E4M3>(x));
    case DType::f8e5m2:
      return semantics::widen(semantics::convert<F8E5M2>(x));
    default:
      return semantics::convert<float>(x);
  }
}

// `cast` in register form. Between floats of at most 32 bits one is rounded as it is; any other goes through f64, which is
// exact, and is then rounded once.
TREK_UNIT_CALL uint64_t cast(DType from, DType to, uint64_t bits) {
  if (from == to) return bits;
  const Form source = form_of(from);
  const Form target = form_of(to);
  if (source == Form::real32 && target == Form::real32) return bits_of(rounded(to, as_float(bits)));
  if (source == Form::real32 || source == Form::real64) {
    const double x = source == Form::real32 ? static_cast<double>(as_float(bits)) : as_double(bits);
    if (target == Form::real64) return bits_of(x);
    if (target == Form::real32) return bits_of(float_of(to, x));
    if (to == DType::boolean) return x != 0 ? 1 : 0;
    return integer_of(to, x);
  }
  if (to == DType::boolean) return bits != 0 ? 1 : 0;
  if (target == Form::sint || target == Form::uint) return wrap(to, bits);
  if (source == Form::sint) {
    const int64_t x = static_cast<int64_t>(bits);
    return target == Form::real64 ? bits_of(static_cast<double>(x)) : bits_of(float_of(to, x));
  }
  return target == Form::real64 ? bits_of(static_cast<double>(bits)) : bits_of(float_of(to, bits));
}

// The same in the narrow form.
TREK_UNIT_CALL uint32_t cast32_rarely(DType from, DType to, uint32_t bits) {
  const Form source = form_of(from);
  if (to == DType::f32 && source != Form::real32) {
    return source == Form::sint ? bits_of(static_cast<float>(static_cast<int32_t>(bits)))
                                : bits_of(static_cast<float>(bits));
  }
  const uint64_t wide =
      source == Form::sint ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(bits)}) : bits;
  return static_cast<uint32_t>(cast(from, to, wide));
}
TREK_UNIT uint32_t cast32(DType from, DType to, uint32_t bits) {
  if (from == to) return bits;
  if (form_of(from) == Form::real32 && form_of(to) == Form::real32)
    return bits_of(rounded(to, as_float(bits)));
  return cast32_rarely(from, to, bits);
}

}  // namespace trek::device
