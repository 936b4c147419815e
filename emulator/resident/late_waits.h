// What comes of waits that tasks have behind their work (tags.h).
//
// A counter stands for what its task has done and for all that the task waited for, so a task that has seen a row in words
// waits for those that made it before it raises its own: a hop from counter to counter, 1.5 µs or more (H200), behind each
// task. In a chain of tasks that have rows in words these hops are longer than the tasks, and eight slots later the tasks wait
// for them. So where a loop's late waits can be left out, they are: then a counter of such a task stands for less, and who
// waits for it waits for the rest itself.
#pragma once

#include "emulator/resident/tags.h"

namespace trek::resident {

// Leaves out what late waits can be left out, and hands on the others, and what stands for those that are left out, to tasks
// for which the plan takes them for granted.
void settle_late_waits(const plan::Plan& plan, TaggedNodes& found);

}  // namespace trek::resident
