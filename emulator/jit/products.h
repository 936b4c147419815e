// What generated code calls for matrix products.
#pragma once

#include <string>
#include <vector>

#include "emulator/jit/compiler.h"

namespace trek::jit {

// Whether this machine runs kernels of emulator/kernels, or why not.
bool has_kernels(std::string& why);
// The functions of emulator/device/matrix_panels.h.
std::vector<Outside> product_functions();

}  // namespace trek::jit
