// Placement: where each buffer lies in the arena.
//
// Module tensors, parameters and scalar registers have places of their own. Tensor registers share the
// rest: two of them may overlap in the arena only if no node needs both. Finding the least arena is
// NP-hard (dynamic storage allocation); the greedy best fit over whole intervals is tried in several
// orders and the smallest arena is kept.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

inline constexpr int64_t kAlignment = 256;

void place(Plan& plan);

}  // namespace trek::plan
