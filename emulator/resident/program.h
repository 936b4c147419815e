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

// How `main` is launched; initialisers always run through.
enum class Launching : uint8_t {
  through,   // one launch from beginning to end
  in_steps,  // one after the other, as a recording (sequence.h)
};

// What load_program() links for.
isa::Result<std::shared_ptr<const plan::Device>> device_of(
    const Machine& machine, const LoadOptions& options, Launching launching = Launching::through);

// Links and uploads a verified module, gives every tensor its first bytes, and runs the
// initialisers. Fails where the device's memory does not suffice, external data is not as it should be,
// or an initialiser traps. `phases` is what preceded it.
isa::Result<std::unique_ptr<Program>> load_program(std::shared_ptr<const Machine> machine,
                                                   const isa::Module& module,
                                                   const LoadOptions& options, Phases phases,
                                                   Moving moving = {},
                                                   Launching launching = Launching::through);

}  // namespace trek::resident
