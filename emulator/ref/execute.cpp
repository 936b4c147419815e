#include "emulator/ref/execute.h"

namespace trek::ref {

Execute find_execute(isa::Opcode opcode) {
  switch (opcode) {
#define TREK_OP(Id, ...) \
  case isa::Opcode::Id:  \
    return &execute_##Id;
#include "isa/ops.def"
#undef TREK_OP
  }
  return nullptr;
}

}  // namespace trek::ref
