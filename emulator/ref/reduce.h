// Reductions as other families use them.
#pragma once

#include "emulator/ref/step.h"

namespace trek::ref {

// Carries a reduction to its end: task.kept results in the lane type in `out`. task.n is at least 1, and
// task.tiles is set here.
Status reduce_to(const Step& step, kernels::ReduceTask task, std::byte* out);

// The reduction of n elements that lie one after the other to one.
kernels::ReduceTask reduce_all(const std::byte* x, DType dtype, DType lane, int64_t n);

}  // namespace trek::ref
