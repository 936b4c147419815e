// One element of any type as 64 bits, for an interpreter that puts clarity before speed: the bytes of the
// element, zero-extended.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "isa/semantics/convert.h"
#include "isa/types.h"

namespace trek::plan {

template <typename T>
T unpack(uint64_t bits) {
  T value{};
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <typename T>
uint64_t pack(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

// Calls f with a value of the C++ type that stores `dtype`, as a tag.
template <typename F>
auto with_type(isa::DType dtype, F&& f) {
  using isa::DType;
  switch (dtype) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::f16:
      return f(semantics::F16{});
    case DType::bf16:
      return f(semantics::BF16{});
    case DType::f8e4m3:
      return f(semantics::F8E4M3{});
    case DType::f8e5m2:
      return f(semantics::F8E5M2{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::u16:
      return f(std::uint16_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::u64:
      return f(std::uint64_t{});
    case DType::boolean:
      return f(semantics::Bool{});
    case DType::none:
      break;
  }
  std::abort();  // a verified module has no such element
}

// The same for the types that real arithmetic takes.
template <typename F>
auto with_real(isa::DType dtype, F&& f) {
  using isa::DType;
  if (dtype == DType::f64) return f(double{});
  if (dtype == DType::f32) return f(float{});
  if (dtype == DType::f16) return f(semantics::F16{});
  if (dtype == DType::bf16) return f(semantics::BF16{});
  std::abort();  // a verified module computes with these only
}

// An element of type `dtype` as a C, by the rules of `cast`.
template <typename C>
C value_as(isa::DType dtype, uint64_t bits) {
  return with_type(dtype,
                   [&](auto tag) { return semantics::convert<C>(unpack<decltype(tag)>(bits)); });
}

uint64_t cast_bits(isa::DType from, isa::DType to, uint64_t bits);

}  // namespace trek::plan
