// Which thin products keep their weights in shared memory over the trips of a loop, and where: see
// ../device/matrix_thin_stays.h for what is gained.
//
// What must hold: on a processor no other columns come to a place, of all its tasks, so that a place that has something
// has the right thing; and no thin product works in memory that has places, so that they need not tell of it. All tasks
// of a node have places or none, because code is made for a node.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/device/node.h"
#include "emulator/plan/plan.h"

namespace trek::resident {

struct Places {
  std::vector<bool> stays;     // per node
  std::vector<int64_t> count;  // per task: device::ThinPlace::count; 0: none
};

// `nodes` are the descriptors of the plan's nodes; those that are null have no places. Loops are taken in program order,
// all of one that can or none of it.
Places places_of(const plan::Plan& plan, std::span<const device::Node* const> nodes);

}  // namespace trek::resident
