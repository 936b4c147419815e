// The JIT on this computer's processors: plans compiled by LLVM.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "emulator/engine.h"

namespace trek {

EngineStatus jit_engine_status();
// Null where the library with LLVM is not to be had, and then `why` says so.
std::unique_ptr<Engine> make_jit_engine(std::string& why);

// `auto`: begins by interpreting, as the engine resident does, and goes on at a back-edge with what `jit` has compiled
// meanwhile.
EngineStatus auto_engine_status();
// Null where `jit` is not to be had, or $TREK_AUTO_AT is not a number.
std::unique_ptr<Engine> make_auto_engine(std::string& why);

// `jit-graph`, on a GPU alone: a launch for each node, as the engine resident-graph (emulator/resident) has it.
EngineStatus jit_graph_engine_status();
std::unique_ptr<Engine> make_jit_graph_engine(std::string& why);

namespace jit {

enum class Form : uint8_t { ir, assembly, ptx, sass };

// The code that a load makes for this computer, ir or assembly, as text, with `place` before each function: what the program says at an
// instruction, in lines.
isa::Result<std::string> print_code(
    const isa::Module& module, const LoadOptions& options, Form form,
    const std::function<std::string(uint32_t function, uint32_t instruction)>& place);

}  // namespace jit
}  // namespace trek
