// Long reductions: a node with few and long lines becomes two, so that more processors have a part in it.
//
// The reduction rule folds a line's tiles of 1024 and then, by the same rule, what the tiles gave (isa/
// semantics/reduce.h). So the first node reduces tiles, which are lines of a reshaped operand, into a
// temporary of the compute type, and the second reduces those: the same bits by two instructions that
// exist. A mean divides and a norm takes the root in the second node's tail; elements narrower than the
// compute type are cast before the first and after the second.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// After lower(), before place().
void split_long_reductions(Plan& plan);

}  // namespace trek::plan
