// Work that can wait is put behind work that others wait for.
//
// Processors go through their tasks in program order. A program has each layer's gradient of weights, sum of biases and
// steps of an optimizer one behind the other, so before a processor multiplies for the next layer it waits for the sums of
// this one, to take a step that nothing in the trip needs. Here a step of an optimizer, and what is worked out for steps
// alone in no more time, goes behind all that follows and does not need it: so products stand one behind the other, and steps
// come when there is nothing else to do. Products stay where they are, but for those of a few columns.
//
// Beside long gradients (for_steps.h) what several processors have a part in stays where it is, since the first gradient would
// wait there; behind the last of these comes first what waits for none of them; and what is only moved and needs nothing of
// the trip comes beside its first product.
//
// Nothing is put behind what it has memory in common with, if one of them writes it; so no bit changes. Nor is what may
// trap put behind anything else that may, so the earliest trap is that of the module. What waits keeps its operands in
// memory meanwhile, so only so much of that may wait at once.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

void put_off(Plan& plan);

}  // namespace trek::plan
