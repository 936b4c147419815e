// One element of a pointwise instruction: elements.def compiled for every type it names.
#include "emulator/plan/evaluate.h"
#include "isa/semantics/elements.h"

namespace trek::plan {

using isa::DType;
using isa::Opcode;
using semantics::Bool;

uint64_t cast_bits(DType from, DType to, uint64_t bits) {
  if (from == to) return bits;
  return with_type(from, [&](auto source) {
    return with_type(to, [&](auto target) {
      return pack(semantics::convert<decltype(target)>(unpack<decltype(source)>(bits)));
    });
  });
}

DType number_type(DType from) { return isa::is_real(from) ? isa::compute_type(from) : from; }

namespace {

uint64_t packed(DType, Bool value) { return value.value; }
template <typename C>
uint64_t packed(DType to, C value) {
  return with_type(to, [&](auto tag) { return pack(semantics::convert<decltype(tag)>(value)); });
}

#define TREK_REAL(Id, expression)
#define TREK_NUMBER(Id, expression)
#define TREK_INTEGER(Id, expression)
#define TREK_BITS(Id, expression)
#define TREK_RELATION(Id, expression)
#define TREK_CASE(Id, expression) \
  case Opcode::Id:                \
    return packed(to, expression);

template <typename C>
uint64_t apply_real(Opcode opcode, DType from, DType to, const PointwiseInput& in) {
  using namespace semantics;  // what elements.def calls
  const C x = value_as<C>(from, in.x);
  const C y = value_as<C>(from, in.y);
  const C z = value_as<C>(from, in.z);
  const C p = unpack<C>(in.p);
  const C q = unpack<C>(in.q);
  switch (opcode) {
#undef TREK_REAL
#undef TREK_NUMBER
#undef TREK_RELATION
#define TREK_REAL TREK_CASE
#define TREK_NUMBER TREK_CASE
#define TREK_RELATION TREK_CASE
#include "isa/semantics/elements.def"
    default:
      std::abort();  // the verifier lets no such type through
  }
}

template <semantics::Integer C>
uint64_t apply_integer(Opcode opcode, DType to, const PointwiseInput& in) {
  using namespace semantics;
  const C x = unpack<C>(in.x);
  const C y = unpack<C>(in.y);
  const C p = unpack<C>(in.p);
  const C q = unpack<C>(in.q);
  switch (opcode) {
#undef TREK_REAL
#undef TREK_INTEGER
#undef TREK_BITS
#define TREK_REAL(Id, expression)
#define TREK_INTEGER TREK_CASE
#define TREK_BITS TREK_CASE
#include "isa/semantics/elements.def"
    default:
      std::abort();
  }
}

uint64_t apply_bool(Opcode opcode, DType to, const PointwiseInput& in) {
  using namespace semantics;
  const Bool x = unpack<Bool>(in.x);
  const Bool y = unpack<Bool>(in.y);
  switch (opcode) {
    case Opcode::Eq:
      return eq(x, y).value;
    case Opcode::Ne:
      return ne(x, y).value;
#undef TREK_NUMBER
#undef TREK_INTEGER
#undef TREK_RELATION
#define TREK_NUMBER(Id, expression)
#define TREK_INTEGER(Id, expression)
#define TREK_RELATION(Id, expression)
#include "isa/semantics/elements.def"
    default:
      std::abort();
  }
}

}  // namespace

bool divides_by_zero(Opcode opcode, DType from, const PointwiseInput& in) {
  return (opcode == Opcode::Div || opcode == Opcode::Mod) && !isa::is_real(from) && in.y == 0;
}

uint64_t apply(Opcode opcode, DType from, DType to, const PointwiseInput& in) {
  if (opcode == Opcode::Copy) return in.x;
  if (opcode == Opcode::Cast) return cast_bits(from, to, in.x);
  if (opcode == Opcode::Where) return in.x != 0 ? in.y : in.z;
  if (from == DType::f64) return apply_real<double>(opcode, from, to, in);
  if (isa::is_real(from)) return apply_real<float>(opcode, from, to, in);
  if (from == DType::boolean) return apply_bool(opcode, to, in);
  return with_type(from, [&](auto tag) -> uint64_t {
    if constexpr (semantics::kIsInteger<decltype(tag)>)
      return apply_integer<decltype(tag)>(opcode, to, in);
    std::abort();
  });
}

}  // namespace trek::plan
