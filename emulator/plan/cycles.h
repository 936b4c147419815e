// What nodes have to do, in cycles of a processor of an H200: guesses, of which only the proportions matter.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

inline constexpr double kCyclesOfTask = 1000;  // that a task takes besides its work

// All tasks of a node as if they were one, and one processor's.
double cycles_of(const Plan& plan, const Node& node);

}  // namespace trek::plan
