// Executes tiles of nodes: the one way into the units.
#pragma once

#include "emulator/device/block.h"
#include "emulator/device/node.h"

namespace trek::device {

// Executes the tile [first, first + count) of a node, in the terms of plan::Task. All threads of the block
// enter together, with equal arguments; memory that other blocks wrote must be visible to them, and *fault,
// which the block shares, is kNoFault. On return all threads have passed a sync, *fault says whether the
// task trapped (some threads may still be reading it), and the block's shared memory is free. Memory is not
// defined after a trap.
TREK_UNIT void execute(const Block& block, const Node& node, int64_t first, int64_t count,
                       const Environment& environment, Fault* fault);

// execute() of a task of a node that is quick, which cannot trap.
TREK_UNIT void execute_quick(const Block& block, const Node& node, int64_t first, int64_t count,
                             const Environment& environment);

}  // namespace trek::device

#include "emulator/device/dispatch.h"
