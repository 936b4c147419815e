// Splitting: steps that one node would execute badly become several of existing instructions, with the
// same bits. What cannot be said in instructions stays one step.
//
//   - `update`, `scatter` and `scatter.add` become a copy, which fusion mostly takes away, and the same
//     instruction in place: tasks then touch only what is addressed.
//   - A loss of many rows gives the losses of its rows; their sum or mean is a reduction of its own. The
//     step keeps its `reduction`, which its gradient needs: result 0 has an element per row all the same.
//   - Operands of a large product by tensor cores whose lines are no multiples of 16 bytes are padded with zeros,
//     so that a copy engine can bring them: `pad`, and the same product of longer lines. Its sizes are those of
//     its result, and k the smaller of its operands' (geometry.h, matrix_shape()).
//   - Operands of a large product of tf32 whose k are not neighbours are turned around, where that pays, and those of one
//     of f32 by the dot order whose k are: `permute`, and the same product with the other flag.
//   - `clip_norm` becomes sums of squares, their sum and root, the factor, and a product for each tensor.
#pragma once

#include "emulator/plan/flow.h"

namespace trek::plan {

// `fast`: as in Plan.
void split(const isa::Module& module, const Device& device, bool fast, Flow& flow);

}  // namespace trek::plan
