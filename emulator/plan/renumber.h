// What a pass that puts several nodes in the place of one must renumber.
#pragma once

#include <span>
#include <vector>

#include "emulator/plan/plan.h"

namespace trek::plan {

// Gives the plan these nodes. `start` is the first of them that an old node became, for every old node and the
// end. Of the plan's buffers the first `buffers` have their lives in old numbers; a buffer lives for all nodes of
// those that it lived for.
void renumber(Plan& plan, std::vector<Node> nodes, std::span<const uint32_t> start, size_t buffers);

}  // namespace trek::plan
