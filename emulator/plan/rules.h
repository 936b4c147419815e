// Which unit executes an instruction, how its work is cut, and what may be fused with it: the linker's
// rules, one per kind of instruction. An instruction of ops.def without a rule does not build.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

struct Rule {
  Unit unit = Unit::control;
  Tiling tiling = Tiling::whole;
  bool chain = false;     // a step of a pointwise program
  bool prologue = false;  // operand 0 may be a pointwise program
  bool tail = false;      // the result may go through a pointwise program
};

Rule rule_of(isa::Opcode opcode);
// Whether an instruction joins the elements of a line to one, by the reduction order: sum, mean, prod, norm2, max, min.
bool is_reduction(isa::Opcode opcode);

}  // namespace trek::plan
