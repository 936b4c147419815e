// Placement: where each buffer lies in the arena.
//
// Module tensors, parameters and scalar registers have places of their own. Tensor registers share the
// rest: two of them may overlap in the arena only if no node needs both. Finding the least arena is
// NP-hard (dynamic storage allocation); the greedy best fit over whole intervals is tried in several
// orders and the smallest arena is kept.
#pragma once

#include <iterator>
#include <map>

#include "emulator/plan/plan.h"

namespace trek::plan {

inline constexpr int64_t kAlignment = 256;

void place(Plan& plan);

// Whose the places of registers are, as one goes through a plan in program order.
class PlacesTaken {
 public:
  explicit PlacesTaken(const Plan& plan) : plan_(plan) {}
  // A register has its place from here on. Calls had(other) for each that had a part of it.
  template <class Had>
  void take(uint32_t buffer, Had had) {
    const Buffer& mine = plan_.buffers[buffer];
    auto at = owners_.lower_bound(mine.offset);
    const auto reaches = [&](const auto& owner) {
      const Buffer& other = plan_.buffers[owner.second];
      return other.offset + other.bytes > mine.offset;
    };
    while (at != owners_.begin() && reaches(*std::prev(at))) --at;
    for (; at != owners_.end() && at->first < mine.offset + mine.bytes; at = owners_.erase(at))
      had(at->second);
    owners_[mine.offset] = buffer;
  }

 private:
  const Plan& plan_;
  std::map<int64_t, uint32_t> owners_;  // by offset
};

}  // namespace trek::plan
