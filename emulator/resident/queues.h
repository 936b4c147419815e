// The tasks of each processor, in program order, and which of them come behind others for certain.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "emulator/resident/tags.h"

namespace trek::resident {

class Queues {
 public:
  explicit Queues(const plan::Plan& plan);

  // Tasks [first, end) of the plan, in a region: that of a task, or the one around a loop that they are.
  struct Span {
    uint32_t first = 0;
    uint32_t end = 0;
    uint32_t region = 0;
  };
  // Adds `wait`, which holds where `span` ends, to the tasks of a processor that come next, up to one that comes for certain:
  // behind `span`, in the next trips of the loops around it before it, and behind these loops. Tasks that `passes` says have
  // it no more than a task that waits for as much already.
  void hand_on(uint32_t processor, Span span, const plan::Wait& wait, TaggedNodes& found,
               const std::function<bool(uint32_t task)>& passes) const;

 private:
  struct Giving;

  const plan::Plan& plan_;
  std::vector<std::vector<uint32_t>> tasks_;  // per processor
};

// Adds a wait to a task that has none for as much; of the plan's those count that are not left out.
void add_wait(const plan::Plan& plan, uint32_t task, const plan::Wait& wait, TaggedNodes& found);

}  // namespace trek::resident
