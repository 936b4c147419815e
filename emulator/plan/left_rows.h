// Thin products make the rows of their left operand themselves.
//
// A norm of one row is a few thousand cycles on one processor, while all others wait for it, and then for what it gives
// to be seen by them. So where rows that go through phases (fuse_rows.h), or a softmax, are the left operand of thin
// products and nothing else, every task of these takes the rows that it multiplies through the phases itself, all at the
// same time: nothing takes longer than the node did, and its stage is gone. Such a product has the phases, then a
// prologue which gives the elements of operand 0, and what they read behind its other operands.
//
// What must hold: rows have no more than a tile of the reduction order, which a warp has in registers
// (../device/matrix_thin_left.h); nobody but the products reads what the node gives, and they stand in its region;
// nothing that the rows are made of is written from there to the last of the products, nor by these, whose other tasks
// still read it. A device that interprets takes the forms that it has code for (row_form.h).
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// After lower(), before anything counts on the number of nodes.
void take_left_rows(Plan& plan, const Device& device);

}  // namespace trek::plan
