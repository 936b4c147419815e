// A module loaded onto a GPU: its initialisers and `main` as images in one arena.
#pragma once

#include <memory>

#include "emulator/engine.h"
#include "emulator/resident/launch.h"
#include "emulator/resident/phases.h"

namespace trek::resident {

// Links and uploads a verified module, gives every tensor its first bytes, and runs the
// initialisers. Fails where the device's memory does not suffice, external data is not as it should be,
// or an initialiser traps. `phases` is what preceded it.
isa::Result<std::unique_ptr<Program>> load_program(std::shared_ptr<const Machine> machine,
                                                   const isa::Module& module,
                                                   const LoadOptions& options, Phases phases);

}  // namespace trek::resident
