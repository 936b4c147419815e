// Which processor executes which task.
//
// Tile n of a node is on the n-th processor from the node's first on. Nodes that are cut alike begin at the
// same processor, so that chains of equal tiles stay in one queue and need no counter; others begin where
// the last one has ended, so that nodes of one level stand beside each other, and thin products beside what they read. Scalars, `emit`, `next` and
// decisions are the control processor's, which gets tiles only of nodes that have one for every processor.
//
// Beside long gradients (for_steps.h) sums, moves and steps go, tile by tile, to the processor that can begin first, by about
// how long all have taken that was dealt so far.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// Fills Task::processor.
void deal(Plan& plan);

}  // namespace trek::plan
