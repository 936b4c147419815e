// Groups become nodes: names become views of buffers.
//
// A `reshape`, and a `copy` of a whole tensor, cost nothing where their result may be a view of their
// operand: always where the operand is assigned once, and for module tensors and variables where no write
// falls between the view's definition and its last use. What remains gets buffers; how long each is needed
// is worked out here, where it lies is place.h's.
#pragma once

#include "emulator/plan/fuse.h"

namespace trek::plan {

// Fills the plan's buffers (without offsets), views, regions, nodes and tables.
void lower(const isa::Module& module, const Flow& flow, const Fusion& fusion, Plan& plan);

}  // namespace trek::plan
