// What an instruction costs: the floating-point operations and the bytes of its row in ops.def.
//
// Counts are of the work that the instruction stands for, not of what an engine does: an fma is two
// operations, a function one, an operand is read once and a result written once.
#pragma once

#include "isa/module.h"

namespace trek::isa {

struct Cost {
  uint64_t flops = 0;
  uint64_t bytes = 0;
};

// Of a verified instruction of `function`.
Cost cost(const Module& module, const Function& function, const Instruction& instruction);

}  // namespace trek::isa
