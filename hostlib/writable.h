// Whether a file will be writable, asked before a long run instead of after it.
#pragma once

#include <filesystem>

#include "isa/result.h"

namespace trek {

// No problem where `path` is a file that can be replaced, can be created, or is a device or pipe that
// can be opened; leaves no trace.
isa::Problems check_writable(const std::filesystem::path& path);

}  // namespace trek
