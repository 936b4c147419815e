// Thin products that are read together become one node.
//
// One row times a matrix takes a few microseconds, most of which go by until what it reads is there and what it
// gives is seen elsewhere. The gates of an LSTM are four such products; what the cell makes of them is read by the
// next step's. So products of one left operand whose results a pointwise program joins, element by element, are one
// node with that program: a tile has the same columns of all right operands, and nothing goes from one processor to
// another within a step. Each product keeps its own bias and tail, which are worked out for all products beside each
// other; then the program reads them as its main values. What has other readers is a result of the node.
//
// What must hold of a node so made: the products are `thin`, of one shape and one batch, and of f32, f16 or bf16;
// the program has steps and operands of these types alone, and constants; nothing may trap; results are written
// element by element, over nothing but what the program reads at the same place.
#pragma once

#include "emulator/plan/fuse.h"

namespace trek::plan {

inline constexpr size_t kMaxGroupResults = 4;

void group_products(const isa::Module& module, const Flow& flow, Fusion& fusion);

}  // namespace trek::plan
