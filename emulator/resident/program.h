// A module loaded onto a machine: its initialisers and `main` as images in one arena.
#pragma once

#include <memory>
#include <optional>

#include "emulator/engine.h"
#include "emulator/resident/launch.h"
#include "emulator/resident/phases.h"

namespace trek::resident {

// How a program moves to its code, on a machine that interprets and compiles: initialisers are interpreted, `main`
// begins so (launch.h).
struct Moving {
  std::shared_ptr<Background> background;  // what compiles meanwhile
  std::optional<uint64_t> at;              // for tests
};

// What load_program() links for.
isa::Result<std::shared_ptr<const plan::Device>> device_of(const Machine& machine,
                                                           const LoadOptions& options);

// Links and uploads a verified module, gives every tensor its first bytes, and runs the
// initialisers. Fails where the device's memory does not suffice, external data is not as it should be,
// or an initialiser traps. `phases` is what preceded it.
isa::Result<std::unique_ptr<Program>> load_program(std::shared_ptr<const Machine> machine,
                                                   const isa::Module& module,
                                                   const LoadOptions& options, Phases phases,
                                                   Moving moving = {});

}  // namespace trek::resident
