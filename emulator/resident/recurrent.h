// Loops of recurrent steps: of nothing but several thin products that a program joins, whose columns stay, each of which has
// what the one before gives as its row, and the first what the last of the trip before gave.
//
// Their rows are in words (tags.h), and so a processor's trips need nothing but words: compute warps execute many of them
// without the frame in between (../device/matrix_thin_recurrent.h). A step's own work is then all that stands between a row
// and the next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/device/node.h"
#include "emulator/plan/plan.h"
#include "emulator/resident/places.h"

namespace trek::resident {

struct RecurrentNodes {
  std::vector<bool>
      may;  // per node: it may be a step of such a loop, and all others of the loop may
  // Per node that may, and load of its program: 1 + which of the results of the step before it is, or 0 (device::Load).
  std::vector<std::vector<uint8_t>> carried;
};

// Of what a kernel interprets. On a processor a loop's tasks have the same columns at one place, and differ in addresses alone.
// What the loop writes a step has as its row, or a program has it, as the step before gave it. Whose rows they have is not
// looked at.
RecurrentNodes recurrent_nodes(const plan::Plan& plan, std::span<const device::Node* const> nodes,
                               const Places& places);

}  // namespace trek::resident
