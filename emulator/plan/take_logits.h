// Losses make their logits, and give what the layer before wants.
//
// Where a network ends in a layer of few outputs and a cross-entropy, a trip has three nodes for little work: the layer, the
// loss, and the product of the loss's gradient and the layer's weights, which the layer before goes on from. Each of them is of
// rows that have nothing to do with each other, and waits for the one before. Here they are one node: a task has a few rows,
// makes their logits (Node::factors), their losses and the gradient, and gives what Node::back says.
//
// What must hold: all is f32, the classes are at most a lane's, the layer is a product of the rows and the weights, with a bias or
// none, whose result the loss alone reads; and the product behind it is of the same weights, turned around, with no tail or with a
// `relu.grad` beside the layer's own rows. In between nobody writes what these read. Rows are few for the device's processors:
// more are sooner done by products.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// Of a node that makes its logits, at most: classes, elements of the weights and of a row, and rows of a task.
inline constexpr int64_t kMostClasses = 32;
inline constexpr int64_t kMostWeights = int64_t{16} * 1024;
inline constexpr int64_t kMostRow = 2048;
inline constexpr int64_t kMostLossRows = 2;

// After lower(), before anything counts on the number of nodes.
void take_logits(Plan& plan);

}  // namespace trek::plan
