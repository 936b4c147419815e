// Which kernels this machine runs.
#pragma once

#include <string>

#include "emulator/kernels/kernels.h"

namespace trek::kernels {

// The best level that this build has and this machine can run, or the one that the environment variable
// TREK_REF_ISA names ("avx2", "avx512": for tests). Null where there is none; `why` then says in one line
// what is missing. All levels give the same bits.
const Kernels* choose_kernels(std::string& why);

}  // namespace trek::kernels
