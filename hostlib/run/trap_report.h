// How a run that did not reach its end is told to a person: a trap with its place, call trail, operands
// and offending element; a limit or a stop with its place. The form is that of the assembler's
// diagnostics, so that an editor that follows those follows these.
#pragma once

#include <string>

#include "emulator/engine.h"
#include "isa/module.h"

namespace trek::run {

// demo.trek:12:3: trap[index-out-of-range]: index 12 is outside axis 0 of size 10
//    12 |   %g = gather @x, %i
//       |   ^~~~~~~~~~~~~~~~~~
//   in function pick, instruction 0 (gather)
//   called at demo.trek:30:3 in main
//   x      @x f32[10,4]
//   index  %i i64[3], element [2]
std::string trap_text(const isa::Module& module, const Trap& trap);

// "demo.trek:12:3: limit reached: 1000 instructions" and the source line; of a stop likewise.
std::string ending_text(const isa::Module& module, const RunResult& result);

}  // namespace trek::run
