// libtrek_jit, which holds LLVM: looked for beside the program when it is first asked for, and then kept.
#pragma once

#include <string>

#include "emulator/jit/compiler.h"
#include "emulator/jit/gpu_compiler.h"

namespace trek::jit {

// The compiler for this machine, or null, and then `why` says what is missing.
const Compiler* compiler(std::string& why);
// The same for GPUs, which need not be there.
const GpuCompiler* gpu_compiler(std::string& why);

}  // namespace trek::jit
