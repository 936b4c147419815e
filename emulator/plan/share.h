// What can run at the same time: levels, and how many processors a node's tiles are for.
//
// A node's level is one above the highest of those that it must wait for, by the tensors that both have;
// nodes of one level can run beside each other. They share out the processors by what they have to do, so
// that a node that runs alone has all of them, and gates of a cell a part each. Processors go through their
// nodes in program order, so a node is not counted among those of long ago: it is at most kLevelsBehind
// below the highest level so far. A region begins above everything before it.
//
// All of this is for speed alone: dependencies are found from memory, by depend.h.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// Fills Node::level and Node::share by the tensors alone: for split_products(), and for place(), which keeps apart
// what can run at the same time.
void find_levels(Plan& plan);
// The same now that a register may have to wait for what had its place.
void share(Plan& plan);

}  // namespace trek::plan
