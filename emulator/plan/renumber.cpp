#include "emulator/plan/renumber.h"

#include <utility>

namespace trek::plan {

void renumber(Plan& plan, std::vector<Node> nodes, std::span<const uint32_t> start,
              size_t buffers) {
  plan.nodes = std::move(nodes);
  for (size_t b = 0; b < buffers; ++b) {
    Buffer& buffer = plan.buffers[b];
    if (buffer.kind != BufferKind::tensor_register) continue;
    buffer.first = start[buffer.first];
    buffer.last = start[buffer.last + 1] - 1;
  }
  for (Region& region : plan.regions) {
    region.first_node = start[region.first_node];
    region.end_node = start[region.end_node];
    if (region.decision != kNone) region.decision = start[region.decision];
  }
}

}  // namespace trek::plan
