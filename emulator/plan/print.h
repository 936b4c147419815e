// A plan for people: memory, then the program as regions, nodes and tasks; and what was fused.
#pragma once

#include <functional>
#include <string>

#include "emulator/plan/plan.h"

namespace trek::plan {

struct PrintOptions {
  // Where an instruction of the module stands, like "train.trek:14"; "" where that is not known. Without
  // it, places are "function:instruction" by their numbers.
  std::function<std::string(uint32_t function, uint32_t instruction)> place;
  uint32_t listed_tasks = 8;  // a node with more has its first ones listed, and its last
};

std::string print_plan(const Plan& plan, const PrintOptions& options = {});
std::string print_fusion(const Plan& plan);

// What a plan asks of a device, in numbers. An edge is a producer and a wait for it.
struct Statistics {
  uint64_t waits = 0;
  uint64_t first_trip = 0;  // waits that are polled on a first trip only
  uint64_t trip_before = 0;
  uint64_t own =
      0;  // waits all of whose producers are on the waiting processor: 0 of a linked plan
  uint64_t edges_same = 0;    // to the processor that raises
  uint64_t edges_others = 0;  // between two
  uint64_t most_waits = 0;    // of a task
  uint64_t most_signals = 0;
  uint64_t busiest = 0;  // tasks of the processor that has most
  // The longest chain of tasks of which each waits for the one before or stands behind it in a queue, where
  // regions are executed once; and how often the chain goes from one processor to another.
  uint64_t longest = 0;
  uint64_t hops = 0;
};
Statistics statistics(const Plan& plan);

}  // namespace trek::plan
