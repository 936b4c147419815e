// The kernel of all units as PTX text, for tests that launch it: kernel_probe.cu says its parameters.
#pragma once

#include <string_view>

namespace trek::device {

// Empty where the build has no device code.
std::string_view probe_ptx();       // the full build
std::string_view probe_core_ptx();  // the core

}  // namespace trek::device
