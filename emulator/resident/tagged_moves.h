// Loops of nothing but moves, whose results are in words that say that they are there (tags.h).
//
// A move of a few elements between places all over the memory is over in a moment, and what its readers wait for is its
// counter: 1 000 cycles until the second-level cache has what the block wrote, and as many again until somebody has asked
// for the counter, and then for the elements. In words it is one way there and one back.
//
// A move reads in words what another of the loop gave in this trip, or in the one before: then on the loop's first trip it
// reads, as it lies, what came into the loop. Besides it reads what nothing in the loop writes; and nobody but the processor
// that does so writes where it writes. So in all trips but the first nothing is waited for but words:
//   - On the first trip a task waits for all that the plan has it wait for, and for all of the loop when it was executed
//     before.
//   - What comes behind the loop, for which the plan takes for granted what is not waited for any more, waits for all of it.
//   - The words of kWordTrips trips lie behind each other, and a task waits for those that read what it gave some trips ago
//     (kTripsAhead): they are long through.
#pragma once

#include <span>

#include "emulator/resident/tags.h"

namespace trek::resident {

// Adds the moves to `found`. `nodes` are the descriptors of the plan's nodes.
void find_tagged_moves(const plan::Plan& plan, std::span<const device::Node* const> nodes,
                       TaggedNodes& found);

}  // namespace trek::resident
