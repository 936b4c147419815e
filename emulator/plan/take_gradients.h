// Steps of optimizers make their gradients themselves.
//
// A layer's gradient of weights is the product of what went in, turned around, and the gradient of what came out. Where that has
// few k, a batch, the product is over in a moment: to write it, to wait for it, and to read it again in the optimizer takes as
// long. So where an optimizer alone reads it, the product is made by the tasks that step the weights with it: a task has a box
// of these (Tiling::boxes), and the gradient never is in memory.
//
// The gradient of a bias is a sum of the same lines, which its step adds for itself in the same way.
//
// What must hold: all is f32, and the product is nothing but its sums, of one segment of the dot order (under fast numerics, too:
// tensor cores would gain less than what is left out); lines have whole pieces of 16 bytes, which the unit brings
// (../device/step_gradient.h); between the product and the step nobody writes what it reads.
#pragma once

#include "emulator/plan/geometry.h"

namespace trek::plan {

// After lower(), before anything counts on the number of nodes.
void take_gradients(Plan& plan);

// How the weights of a step that makes its gradient are cut: boxes for the processors of its share. Of so many columns, and a
// multiple of kStepOutputs.
inline constexpr int64_t kStepColumns[] = {64, 128};
inline constexpr int64_t kStepOutputs = 1024;
// The most k of their gradients.
inline constexpr int64_t kStepDepth = 128;
// Of a task that sums lines its elements, and the most lines.
inline constexpr int64_t kStepSums = 64;
inline constexpr int64_t kStepLines = 256;
BoxSize step_boxes(const Node& node);

}  // namespace trek::plan
