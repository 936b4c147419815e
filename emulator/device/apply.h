// One step of a micro-program on one element: elements.def, compiled for f32, f64 and 64-bit integers.
// These are functions that are called: their switches are the largest code of the units, and a step of a
// rare instruction may cost a call.
#pragma once

#include "emulator/device/element.h"
#include "isa/semantics/elements.h"

namespace trek::device {

// What a step reads, in register form; p and q are its numeric attributes.
struct Inputs {
  uint64_t x;
  uint64_t y;
  uint64_t z;
  uint64_t p;
  uint64_t q;
};

namespace apply_detail {

TREK_UNIT uint64_t form(float x) { return bits_of(x); }
TREK_UNIT uint64_t form(double x) { return bits_of(x); }
TREK_UNIT uint64_t form(int64_t x) { return static_cast<uint64_t>(x); }
TREK_UNIT uint64_t form(uint64_t x) { return x; }
TREK_UNIT uint64_t form(semantics::Bool x) { return x.value; }

}  // namespace apply_detail

#define TREK_CASE(Id, expression) \
  case Opcode::Id:                \
    return apply_detail::form(expression);

#define TREK_REAL TREK_CASE
#define TREK_NUMBER TREK_CASE
#define TREK_RELATION TREK_CASE
#define TREK_INTEGER(Id, expression)
#define TREK_BITS(Id, expression)

// Of a float type with at most 32 bits: the result before it is rounded to that type.
TREK_UNIT_CALL uint64_t apply_real32(Opcode opcode, uint32_t x_bits, uint32_t y_bits,
                                     uint32_t z_bits, uint32_t p_bits, uint32_t q_bits) {
  using namespace semantics;  // NOLINT(google-build-using-namespace): what elements.def calls
  const float x = as_float(x_bits);
  const float y = as_float(y_bits);
  const float z = as_float(z_bits);
  const float p = as_float(p_bits);
  const float q = as_float(q_bits);
  switch (opcode) {
#include "isa/semantics/elements.def"
    default:
      return 0;  // no other instruction takes floats
  }
}

TREK_UNIT_CALL uint64_t apply_real64(Opcode opcode, Inputs in) {
  using namespace semantics;  // NOLINT(google-build-using-namespace)
  const double x = as_double(in.x);
  const double y = as_double(in.y);
  const double z = as_double(in.z);
  const double p = as_double(in.p);
  const double q = as_double(in.q);
  switch (opcode) {
#include "isa/semantics/elements.def"
    default:
      return 0;
  }
}

#undef TREK_REAL
#undef TREK_INTEGER
#undef TREK_BITS
#define TREK_REAL(Id, expression)
#define TREK_INTEGER TREK_CASE
#define TREK_BITS TREK_CASE

// Of integers and bool, before the result is wrapped. A divisor is not 0.
template <typename I>
TREK_UNIT_CALL uint64_t apply_integer(Opcode opcode, Inputs in) {
  using namespace semantics;  // NOLINT(google-build-using-namespace)
  const I x = static_cast<I>(in.x);
  const I y = static_cast<I>(in.y);
  const I p = static_cast<I>(in.p);
  const I q = static_cast<I>(in.q);
  switch (opcode) {
#include "isa/semantics/elements.def"
    default:
      return 0;
  }
}

#undef TREK_REAL
#undef TREK_NUMBER
#undef TREK_INTEGER
#undef TREK_BITS
#undef TREK_RELATION
#undef TREK_CASE

// Whether a step with these operands traps.
TREK_UNIT bool divides_by_zero(Opcode opcode, DType from, uint64_t y) {
  return (opcode == Opcode::Div || opcode == Opcode::Mod) && y == 0 && !is_float(from);
}

// The step's result in register form, rounded or wrapped to its type.
TREK_UNIT_CALL uint64_t apply(Opcode opcode, DType from, DType to, Inputs in) {
  if (opcode == Opcode::Copy) return in.x;
  if (opcode == Opcode::Cast) return cast(from, to, in.x);
  if (opcode == Opcode::Where) return in.x != 0 ? in.y : in.z;
  switch (form_of(from)) {
    case Form::real32: {
      const uint64_t bits = apply_real32(opcode, static_cast<uint32_t>(in.x),
                                         static_cast<uint32_t>(in.y), static_cast<uint32_t>(in.z),
                                         static_cast<uint32_t>(in.p), static_cast<uint32_t>(in.q));
      return to == DType::boolean ? bits : bits_of(rounded(to, as_float(bits)));
    }
    case Form::real64:
      if constexpr (kFull) return apply_real64(opcode, in);
      return 0;
    case Form::sint: {
      const uint64_t bits = apply_integer<int64_t>(opcode, in);
      return to == DType::boolean ? bits : wrap(to, bits);
    }
    case Form::uint: {
      const uint64_t bits = apply_integer<uint64_t>(opcode, in);
      return to == DType::boolean ? bits & 1 : wrap(to, bits);
    }
  }
  return 0;
}

}  // namespace trek::device
