// The pointwise instructions in f32.
#include "emulator/kernels/elements.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

// The expressions of the table are written in it.
using namespace trek::semantics;

#define TREK_REAL(Id, ...) TREK_ELEMENT_LOOP(Id, T, __VA_ARGS__)
#define TREK_NUMBER(Id, ...) TREK_ELEMENT_LOOP(Id, T, __VA_ARGS__)
#define TREK_RELATION(Id, ...) TREK_ELEMENT_LOOP(Id, Bool, __VA_ARGS__)
#define TREK_INTEGER(Id, ...)
#define TREK_BITS(Id, ...)
#include "isa/semantics/elements.def"
#undef TREK_REAL
#undef TREK_NUMBER
#undef TREK_RELATION

}  // namespace

ElementFunction element_f32(Opcode opcode) {
#define TREK_ROW(Id, ...) \
  case Opcode::Id:        \
    return &Id##Loop<float>::run;
#define TREK_REAL TREK_ROW
#define TREK_NUMBER TREK_ROW
#define TREK_RELATION TREK_ROW
  switch (opcode) {
#include "isa/semantics/elements.def"
    default:
      return nullptr;
  }
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
