// From PTX text to what is executed.
#pragma once

#include <string_view>

#include "tests/ptx/code.h"
#include "tests/ptx/memory.h"

namespace trek::ptx {

// Throws TextError. Global variables are allocated in `memory`.
std::unique_ptr<Module> read_module(std::string_view text, DeviceMemory& memory);

}  // namespace trek::ptx
