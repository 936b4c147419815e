// What the reference engine says of a trap, said of one that a device reports.
#pragma once

#include <string>

#include "emulator/plan/plan.h"
#include "emulator/resident/image.h"

namespace trek::resident {

// `detail` of a trap of a node, from what the device found: see device::Fault.
std::string trap_words(const plan::Plan& plan, const TrapRecord& trap);

}  // namespace trek::resident
