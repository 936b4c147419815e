// A node's micro-programs as LLVM functions: the counterpart of the interpreter in emulator/device/program.h.
#pragma once

#include <cstdint>

#include <llvm/IR/Module.h>

#include "emulator/device/node.h"

namespace trek::jit {

// Defines trek_program_N and trek_together_N (device/program_specialised.h) for N = `which` in a module that
// declares, or does not know yet, the primitives of units.cpp.
void emit_program(llvm::Module& module, const device::Node& node, uint32_t which);

}  // namespace trek::jit
