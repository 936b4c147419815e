// What stands beside the sums of several thin products, and what these give, where it lies in larger tensors.
//
// A step of a recurrent network reads its row of what the inputs contribute, and puts its hidden state into a row of the
// output: slices and updates, nodes of one task each that every step waits for, or that wait for it. Where a loop's counter
// alone says which row it is, products that a program joins (group_products.h) read it where it lies and put theirs where it
// goes (View::slice), and these nodes are gone.
//
// What must hold:
//   - The elements are neighbours, and in no trip outside of the tensor, so that nothing traps; nor those of another trip.
//   - The products have one row. Of a slice they are the only reader, of a whole row; and nothing writes the tensor between
//     the slice and them. Between them and the `update` nobody reads or writes the tensor that it puts their result into,
//     nor that result.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// After lower(), before anything counts on the number of nodes.
void take_slices(Plan& plan);

}  // namespace trek::plan
