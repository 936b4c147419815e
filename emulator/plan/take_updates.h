// Thin products put what they give where an `update` would.
//
// The key and the value of a token are products that are then put into a cache, by a node which does nothing else: a
// stage more, on one processor, before the first product that reads the cache. Where a thin product's result is read by
// nothing but an `update` whose place is known, the product's tasks write there (Node::put), and that node is gone.
//
// What must hold: between the product and the `update` nobody reads or writes the tensor, nor does the product read it;
// the product's tail is one for registers (bias, and a step of one operand), since only that way of giving a result
// knows of places (../device/matrix_thin.h).
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// After lower(), before anything counts on the number of nodes.
void take_updates(Plan& plan);

}  // namespace trek::plan
