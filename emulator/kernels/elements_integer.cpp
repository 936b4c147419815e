// The pointwise instructions on integers and bool, and `where`.
#include "emulator/kernels/elements.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

// The expressions of the table are written in it.
using namespace trek::semantics;

#define TREK_REAL(Id, ...)
#define TREK_NUMBER(Id, ...) TREK_ELEMENT_LOOP(Id, T, __VA_ARGS__)
#define TREK_RELATION(Id, ...) TREK_ELEMENT_LOOP(Id, Bool, __VA_ARGS__)
#define TREK_INTEGER(Id, ...) TREK_ELEMENT_LOOP(Id, T, __VA_ARGS__)
#define TREK_BITS(Id, ...) TREK_ELEMENT_LOOP(Id, T, __VA_ARGS__)
#include "isa/semantics/elements.def"
#undef TREK_NUMBER
#undef TREK_RELATION
#undef TREK_INTEGER
#undef TREK_BITS

template <class T>
ElementFunction element_of(Opcode opcode) {
#define TREK_ROW(Id, ...) \
  case Opcode::Id:        \
    return &Id##Loop<T>::run;
#define TREK_NUMBER TREK_ROW
#define TREK_RELATION TREK_ROW
#define TREK_INTEGER TREK_ROW
#define TREK_BITS TREK_ROW
  switch (opcode) {
#include "isa/semantics/elements.def"
    default:
      return nullptr;
  }
#undef TREK_NUMBER
#undef TREK_RELATION
#undef TREK_INTEGER
#undef TREK_BITS
}

ElementFunction element_bool(Opcode opcode) {
#define TREK_NUMBER(Id, ...)
#define TREK_INTEGER(Id, ...)
#define TREK_BITS(Id, ...) \
  case Opcode::Id:         \
    return &Id##Loop<Bool>::run;
#define TREK_RELATION(Id, ...) \
  case Opcode::Id:             \
    return &Id##Loop<uint8_t>::run;
  switch (opcode) {
#include "isa/semantics/elements.def"
    default:
      return nullptr;
  }
}

// The bits of y where x is true, else those of z.
template <class T>
void where_loop(void* r, const void* x, const void* y, const void* z, const void*, int64_t n) {
  const auto* c = static_cast<const Bool*>(x);
  TREK_VECTORISE
  for (int64_t i = 0; i < n; ++i) {
    const T yes = static_cast<const T*>(y)[i];
    const T no = static_cast<const T*>(z)[i];
    static_cast<T*>(r)[i] = c[i].value != 0 ? yes : no;
  }
}

}  // namespace

ElementFunction element_integer(Opcode opcode, DType lane) {
  switch (lane) {
    case DType::i8:
      return element_of<int8_t>(opcode);
    case DType::i16:
      return element_of<int16_t>(opcode);
    case DType::i32:
      return element_of<int32_t>(opcode);
    case DType::i64:
      return element_of<int64_t>(opcode);
    case DType::u8:
      return element_of<uint8_t>(opcode);
    case DType::u16:
      return element_of<uint16_t>(opcode);
    case DType::u32:
      return element_of<uint32_t>(opcode);
    case DType::u64:
      return element_of<uint64_t>(opcode);
    case DType::boolean:
      return element_bool(opcode);
    default:
      return nullptr;
  }
}

ElementFunction element_where(DType lane) {
  switch (bytes_of(lane)) {
    case 1:
      return &where_loop<uint8_t>;
    case 2:
      return &where_loop<uint16_t>;
    case 4:
      return &where_loop<uint32_t>;
    default:
      return &where_loop<uint64_t>;
  }
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
