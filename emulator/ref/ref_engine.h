// The reference engine: executes a module on the CPU, instruction by instruction.
#pragma once

#include <memory>

#include "emulator/engine.h"

namespace trek {

// Whether the reference engine runs on this machine, and with which instructions, or what it lacks.
EngineStatus ref_engine_status();

// Its load() fails with one problem where ref_engine_status() says that it is not available.
std::unique_ptr<Engine> make_ref_engine();

}  // namespace trek
