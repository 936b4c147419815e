// What code for a node is made of: the units of emulator/device and the primitives that its programs call,
// compiled to LLVM bitcode at build time (CMakeLists.txt) and linked into every module that the JIT makes.
// Everything that is constant about a node (its descriptor) is a constant there, so that most of this falls away.
#include "emulator/device/dispatch.h"

#define TREK_ENTRY(name)                                                                         \
  extern "C" TREK_ON_DEVICE void trek_unit_##name(                                               \
      const trek::device::Node* node, std::byte* arena, const uint32_t* addresses,               \
      std::byte* shared, uint64_t seed, const uint64_t* scalars, [[maybe_unused]] int64_t first, \
      [[maybe_unused]] int64_t count, trek::device::Fault* fault)

// The entry for a kind: execute() without the others.
#define TREK_KIND(name)                                                                           \
  TREK_ENTRY(name) {                                                                              \
    if (node->kind != static_cast<uint8_t>(trek::device::Kind::name)) __builtin_unreachable();    \
    trek::device::execute<trek::device::Kind::name>(*node, {node, arena, seed, fault, addresses}, \
                                                    shared, scalars, first, count);               \
  }
#include "emulator/jit/kinds.def"
#undef TREK_KIND

#ifdef TREK_SM90A
// Those for parts of products by tensor cores whose operands have tensor maps: their columns, or rows where they are
// transposed, are known, too.
#define TREK_PARTS(columns)                                                                    \
  TREK_ENTRY(parts_##columns) {                                                                \
    trek::device::execute_parts<columns, false>({node, arena, seed, fault, addresses}, shared, \
                                                scalars);                                      \
  }                                                                                            \
  TREK_ENTRY(transposed_##columns) {                                                           \
    trek::device::execute_parts<columns, true>({node, arena, seed, fault, addresses}, shared,  \
                                               scalars);                                       \
  }
#include "emulator/jit/parts.def"
#undef TREK_PARTS
#endif
#undef TREK_ENTRY

extern "C" {

// Scalar i of a node, in register form.
TREK_ON_DEVICE uint64_t trek_scalar(const trek::device::Scalar* scalar, std::byte* arena,
                                    const uint32_t* addresses, const int64_t* counters) {
  using namespace trek::device;  // NOLINT(google-build-using-namespace)
  if (scalar->kind == Scalar::constant) return static_cast<uint64_t>(scalar->value);
  if (scalar->kind == Scalar::listed)
    return addresses[scalar->value] | uint64_t{addresses[scalar->value + 1]} << 32;
  if (scalar->kind == Scalar::counter) return changing_scalar(*scalar, arena, counters);
  const auto from = static_cast<DType>(scalar->from);
  return cast(from, static_cast<DType>(scalar->to),
              load64(address_of(arena, addresses, scalar->value), from, 0));
}

// Element `index` of a tensor, in register form.
TREK_ON_DEVICE uint64_t trek_load(const std::byte* at, uint8_t dtype, int64_t index) {
  return trek::device::load64(at, static_cast<trek::device::DType>(dtype), index);
}

// A step, in register form; `element` is where it traps.
TREK_ON_DEVICE uint64_t trek_step(uint16_t opcode, uint8_t from, uint8_t to, uint64_t x, uint64_t y,
                                  uint64_t z, uint64_t p, uint64_t q, int64_t element,
                                  int64_t* fault) {
  using namespace trek::device;  // NOLINT(google-build-using-namespace)
  const auto type = static_cast<DType>(from);
  if (divides_by_zero(static_cast<Opcode>(opcode), type, y)) {
    lower_to(fault, element);
    return 0;
  }
  return apply(static_cast<Opcode>(opcode), type, static_cast<DType>(to), {x, y, z, p, q});
}

}  // extern "C"
