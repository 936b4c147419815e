#include "emulator/ref/execute.h"

namespace trek::ref {

Execute find_execute(Opcode opcode) {
  switch (opcode) {
#define TREK_OP(Id, ...) \
  case Opcode::Id:       \
    return [](Step& step) { return execute(Op<Opcode::Id>{}, step); };
#include "isa/ops.def"
#undef TREK_OP
  }
  return nullptr;
}

}  // namespace trek::ref
