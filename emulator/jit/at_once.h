// What the engine auto begins with on a computer: code that needs no compiling, for the nodes of which the interpreter
// would be a hundred times slower. Products are multiplied by the kernels that compiled code calls (products.h); what
// follows their sums is interpreted, as all other nodes are.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "emulator/resident/host_code.h"

namespace trek::jit {

// `image` must outlive it.
std::shared_ptr<const resident::HostCode> code_at_once(const resident::Image& image, size_t nodes);

}  // namespace trek::jit
