// Data that a module refers to by file: found beside the module, read, and held to the recorded hash,
// so that a module never runs on other bytes than it was assembled with.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "isa/module.h"
#include "isa/result.h"

namespace trek {

// The bytes of an external tensor, one of module.tensors; a relative path starts at `folder`. Problems are those of the data
// readers, and data-hash.
isa::Result<std::vector<std::byte>> read_external(const isa::Module& module,
                                                  const isa::TensorDecl& decl,
                                                  const std::filesystem::path& folder);

}  // namespace trek
