// Products of a large K: a node becomes several, so that more processors have a part in it. And products whose last turn
// of tiles would leave most processors without work: their last rows become a node of smaller tiles (divide_rows()).
//
// Each part of k sums some of the k into a tensor of its own, of f32. A pointwise node adds these in ascending order
// and then does what the product would have done with its sum: scale, bias, tail, conversion, chain. By the dot
// order (isa/semantics/dot.h) the bits are the same where every part but the first is a segment; under fast
// numerics a product by tensor cores may be divided at any block.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// After find_levels(), before place(). The tiles of a part are chosen here, with the split; those that were measured first.
class MeasuredTiles;
void split_products(Plan& plan, const MeasuredTiles* measured);

}  // namespace trek::plan
