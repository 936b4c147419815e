// A place in a module as a person knows it: function, source line, the instruction as it was written.
//
// Traps, limits, profiles and traces all speak of places. Source lines come from the module's debug
// sections; where they are not there, function and instruction number stand in, and the instruction is
// spelt from its row and the names of its operands.
#pragma once

#include <string>
#include <string_view>

#include "emulator/engine.h"
#include "isa/module.h"

namespace trek {

const isa::Function& function_at(const isa::Module& module, const Place& place);
const isa::Instruction& instruction_at(const isa::Module& module, const Place& place);
// "main", or "the initialisers".
std::string function_text(const isa::Module& module, const Place& place);

// Line 0 where it is not known.
isa::Location location_at(const isa::Module& module, const Place& place);
// "demo.trek:31:10", or "function main, instruction 12 (matmul)".
std::string location_text(const isa::Module& module, const Place& place);
// The whole line of the source, without its end; empty where it is not known.
std::string_view source_line(const isa::Module& module, const Place& place);

// What a Ref of `function` (as in Place) names: "@w1", "%hidden", "$i", "0.5", "main"; registers
// without a name by their number.
std::string ref_text(const isa::Module& module, uint32_t function, isa::Ref ref);
// "%a, %b = mnemonic %x, @w": results and operands, without attributes.
std::string instruction_text(const isa::Module& module, const Place& place);
// A line without the blanks around it and without its comment.
std::string_view statement_of(std::string_view line);
// As written in the source; as instruction_text() where the source is not known, is that of a macro with
// arguments to be filled in, or does not show the instruction (a `yield` or `return` that was left out).
std::string written_text(const isa::Module& module, const Place& place);

}  // namespace trek
