// A module loaded into the reference engine.
#pragma once

#include <memory>

#include "emulator/engine.h"
#include "emulator/kernels/kernels.h"

namespace trek::ref {

// Gives every tensor its first bytes. Fails where memory does not suffice or external data is not as
// it should be.
isa::Result<std::unique_ptr<Program>> load_program(const isa::Module& module,
                                                   const kernels::Kernels& kernels,
                                                   const LoadOptions& options);

}  // namespace trek::ref
