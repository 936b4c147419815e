// Rows: groups that work on the same rows become one.
//
// A reduction along the last axis gives a number for each row, and what reads that number for every element of the row
// works on the same rows again: a layer norm is two means and a pointwise chain, a softmax written by hand a maximum, a
// sum and two chains, each a pass over memory. Here they become the phases of one node, which reads a row once.
//
// A pointwise value of the rows that only the node reads is part of every program that reads it, and so is worked out
// again; one of steps that take long and several readers is a phase that keeps its elements. What others read of the
// numbers are further results; of elements there is one result, since a row is written once. Elements are floats of at
// most 32 bits, no step may trap, and no program has a value of more than 32 bits (../device/row_phases.h). On a device
// that interprets, rows of few elements stay several nodes.
//
// The group stands where its last step stood, so its other members move down: none of what they read may be written in
// between, and none of what they give may be read.
#pragma once

#include "emulator/plan/fuse.h"
#include "emulator/plan/uses.h"

namespace trek::plan {

void fuse_rows(const isa::Module& module, const Flow& flow, const Uses& uses, const Device& device,
               Fusion& fusion);

}  // namespace trek::plan
