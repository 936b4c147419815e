// What executes each instruction: one function per row of isa/ops.def. A row without one does not link.
#pragma once

#include "emulator/ref/step.h"

namespace trek::ref {

#define TREK_OP(Id, ...) Status execute_##Id(Step& step);
#include "isa/ops.def"
#undef TREK_OP

using Execute = Status (*)(Step& step);
// The function of an opcode.
Execute find_execute(isa::Opcode opcode);

}  // namespace trek::ref
