// What executes each instruction: one function per row of isa/ops.def. A row without one does not link.
#pragma once

#include "emulator/ref/step.h"

namespace trek::ref {

// Stands for an instruction, so that its function is an overload.
template <Opcode kOpcode>
struct Op {};

#define TREK_OP(Id, ...) Status execute(Op<Opcode::Id>, Step& step);
#include "isa/ops.def"
#undef TREK_OP

using Execute = Status (*)(Step& step);
// The function of an opcode.
Execute find_execute(Opcode opcode);

}  // namespace trek::ref
