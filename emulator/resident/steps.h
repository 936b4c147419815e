// A plan in steps: the same tasks on the same processors, but one launch after the other in the place of one that
// runs through, so that no task waits for another. What is measured beside the persistent kernel, as a CUDA graph
// (tests/bench), and shows what hand-overs within a launch are worth.
//
// A step has the tasks of one node, or of neighbours of one level, which are independent of each other. Loops with
// static trips are unrolled. A loop of the root whose trips are decided has its steps once; who launches them reads
// what was decided, and puts the counter of each trip where the steps' records look for it, in the decision log.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/resident/encode.h"

namespace trek::resident {

inline constexpr uint64_t kMaxUnrolled = uint64_t{1} << 21;  // records

struct Step {
  uint32_t queue = 0;       // in Image::queues: of its first processor
  uint32_t processors = 0;  // that have tasks
};

// Steps that are launched together: once, or once a trip of a loop.
struct Passage {
  uint32_t first = 0;
  uint32_t end = 0;
  uint32_t decides = plan::kNone;  // the step that decides how often; none: once
  bool reads_counter = false;
  uint64_t instructions = 0;  // of the module, each time
};

struct Steps {
  Image image;  // the queues of a step are neighbours
  std::vector<Step> steps;
  std::vector<Passage> passages;  // in program order
};

// `image` is encode(plan)'s. Refuses, by name, what only a launch that runs through can do: emitting, streams,
// branches, and trips that are decided within a loop.
isa::Result<Steps> unroll(const plan::Plan& plan, const Image& image);

}  // namespace trek::resident
