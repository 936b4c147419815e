// Dependencies: which task waits for which, and the counters by which they say so.
//
// Two tasks depend on each other where their boxes share bytes and one of them writes: reads after writes,
// and also reuse, where a buffer is written again or its place has been given to another. Dependencies are
// of memory, not of values, so placement needs no proof of its own.
//
// Program order decides who waits. Within a trip, the later task waits for the earlier one. Where both are
// in a loop, the earlier one also waits for the later one's trip before. A dependence that a queue's order
// or another wait implies already is left out: known[t] says how far each processor has certainly come
// when t begins. Something is implied only if it happens whenever t does, so what is learnt inside a
// branch or a loop is forgotten at its end.
//
// What a task reads may so be there for certain before it waits for anything itself: what nothing in its loop writes, what it
// has written itself in the trip before, and what a task before on its processor has waited for. On the loop's first trip
// that may be otherwise. Node::standing says of which operands it is so, for all tasks of a node in a loop with none in it: a
// unit can have these on their way while it waits for the others.
#pragma once

#include "emulator/plan/plan.h"

namespace trek::plan {

// Fills waits, signals and counters, and Node::standing.
void depend(Plan& plan);

}  // namespace trek::plan
