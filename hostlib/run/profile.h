// The profile of a run: where its time went, by instruction and by mnemonic.
#pragma once

#include <string>

#include "emulator/engine.h"
#include "isa/module.h"

namespace trek::run {

// Tables for people: a row per executed instruction, the slowest first, with source line, calls, time,
// share, FLOP/s and bytes/s; then the same by mnemonic; then what instructions do not account for.
std::string profile_text(const isa::Module& module, const Counters& counters);

}  // namespace trek::run
