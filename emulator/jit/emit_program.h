// A node's micro-programs as LLVM functions: the counterpart of the interpreter in emulator/device/program.h.
#pragma once

#include <array>
#include <cstdint>

#include <llvm/IR/Module.h>

#include "emulator/device/node.h"

namespace trek::jit {

// Defines trek_program_N and trek_together_N (device/program_specialised.h) for N = `which` in the module of the
// units, which declares them at most; gives both.
std::array<llvm::Function*, 2> emit_program(llvm::Module& module, const device::Node& node,
                                            uint32_t which);
// Of a streamed node trek_streamed_program_N, N = 2 or 3.
llvm::Function* emit_streamed_program(llvm::Module& module, const device::Node& node,
                                      uint32_t which);
// The same of a row node for trek_row_program_N (device/row_phases.h).
llvm::Function* emit_row_program(llvm::Module& module, const device::Node& node, uint32_t which);

}  // namespace trek::jit
