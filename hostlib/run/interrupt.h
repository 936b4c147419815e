// Ctrl-C and SIGTERM: the first asks the running program to stop after the instruction it is at, so that
// what was asked for can still be saved; the second ends the process at once.
#pragma once

#include <atomic>

namespace trek::run {

// Installs the handlers, once, and gives the flag that the first signal sets.
const std::atomic<bool>& stop_on_signals();

inline constexpr int kExitInterrupted = 130;

}  // namespace trek::run
