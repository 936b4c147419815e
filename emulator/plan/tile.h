// Tiling: nodes become tasks, with the boxes of memory that each reads and writes.
//
// A box may be larger than what a task touches, never smaller: dependencies are made from boxes. Boxes of
// one tensor cut by the same rule have the same stride, so that tiles are told apart exactly.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// Fills tasks, boxes, and the task ranges of nodes and regions. Buffers must have their places.
void tile(Plan& plan);

}  // namespace trek::plan
