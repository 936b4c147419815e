// From a node of a plan to the descriptor that its unit reads. Host only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/device/node.h"
#include "emulator/plan/plan.h"

namespace trek::device {

struct Described {
  // The record: a Node at its start, to be kept 16-byte aligned wherever it is copied.
  std::vector<std::byte> bytes;
  // Regions of the plan whose loop counters the node reads: Environment::counters[i] is that of the
  // innermost trip of counter_regions[i].
  std::vector<uint32_t> counter_regions;
  // What the node's tasks need in the arena beside its buffers, for all of them at once, 256-byte aligned;
  // its offset is to be written with set_scratch(). 0: nothing.
  int64_t scratch_bytes = 0;
  // Why no unit can execute it, in a sentence; empty: one can.
  std::string refusal;

  const Node& node() const { return *reinterpret_cast<const Node*>(bytes.data()); }
  void set_scratch(int64_t offset) { reinterpret_cast<Node*>(bytes.data())->scratch = offset; }
};

// Describes node `node` of a plan that check_plan() accepts.
Described describe(const plan::Plan& plan, uint32_t node);

}  // namespace trek::device
