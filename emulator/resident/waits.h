// How the warps of a block wait: for each other by the barriers of slots, and for what other blocks raise. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/resident/barriers.h"
#include "emulator/resident/pipeline.h"
#include "emulator/resident/walker.h"

namespace trek::resident {

// A warp arrives, with all that its lanes did: one of them, after a sync of the warp. racecheck does not see that
// this hands over what the others did, so a build for it lets every lane arrive, which takes longer (README.md).
#ifdef TREK_FOR_RACECHECK
inline constexpr uint32_t kWarpArrivals = 32;
#else
inline constexpr uint32_t kWarpArrivals = 1;
#endif
TREK_RESIDENT void warp_arrive(uint64_t* barrier, uint32_t lane) {
  warp_sync();
  if (lane < kWarpArrivals) barrier_arrive(barrier);
}

TREK_RESIDENT uint64_t from_lane_0(uint64_t value) {
  const auto low = __nvvm_shfl_sync_idx_i32(0xFFFFFFFF, static_cast<int>(value), 0, 31);
  const auto high = __nvvm_shfl_sync_idx_i32(0xFFFFFFFF, static_cast<int>(value >> 32), 0, 31);
  return static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 | static_cast<uint32_t>(low);
}

// What lane 0 has. ptxas then knows that it is the same for all lanes, and keeps no book of those that take
// another branch, which it would keep in local memory.
TREK_RESIDENT uint32_t same_for_all(uint32_t value) {
  return static_cast<uint32_t>(
      __nvvm_shfl_sync_idx_i32(0xFFFFFFFF, static_cast<int>(value), 0, 31));
}

TREK_RESIDENT bool any_of_warp(bool value) { return __nvvm_vote_any_sync(0xFFFFFFFF, value); }

// The phase of a slot's barriers on the n-th visit.
TREK_RESIDENT uint32_t phase(uint32_t n) { return n / kSlots & 1; }

TREK_RESIDENT bool has_reached(uint32_t seen, uint32_t target) {
  return static_cast<int32_t>(seen - target) >= 0;
}
// Says which counter a block waits for, and whether it must leave.
TREK_RESIDENT bool leaves_waiting(const Launch& launch, ProcessorState& state, uint32_t node,
                                  uint64_t moment, uint32_t counter, uint32_t target,
                                  uint32_t seen) {
  state.node = node;
  state.counter = counter;
  state.target = target;
  state.seen = seen;
  state.doing = Doing::waiting;
  return must_leave(launch, moment);
}
// How often one asks for a counter before one looks whether the block must leave.
inline constexpr uint32_t kPatience = 256;

// Whether a counter has reached a target; asks until it has, or this block must leave.
TREK_RESIDENT bool await(const Launch& launch, ProcessorState& state, uint32_t node,
                         uint64_t moment, uint32_t counter, uint32_t target) {
  const uint32_t* at = counter_at(launch, counter);
  for (uint32_t spins = 1;; ++spins) {
    const uint32_t seen = load_acquire(at);
    if (has_reached(seen, target)) return true;
    if (spins % kPatience == 0 &&
        leaves_waiting(launch, state, node, moment, counter, target, seen))
      return false;
  }
}
// The same of a warp, each of whose lanes has a counter, or kNoCounter. They ask together: a lane that went on alone would
// have the others come after it.
TREK_RESIDENT bool await_all(const Launch& launch, ProcessorState& state, uint32_t node,
                             uint64_t moment, uint32_t counter, uint32_t target) {
  bool waits = counter != kNoCounter;
  const uint32_t* at = counter_at(launch, waits ? counter : 0);
  for (uint32_t spins = 1;; ++spins) {
    uint32_t seen = 0;
    if (waits) {
      seen = load_acquire(at);
      waits = !has_reached(seen, target);
    }
    if (!any_of_warp(waits)) return true;
    if (spins % kPatience != 0) continue;
    const bool leaves = waits && leaves_waiting(launch, state, node, moment, counter, target, seen);
    if (any_of_warp(leaves)) return false;
  }
}

// Whether wait `i` of a task is behind its work (tags.h, plan/runs.h), which is so in compiled code, and of Kind::gemv.
#if defined(TREK_SPECIALISED) || defined(TREK_FOR_CHAINS)
#define TREK_HAS_LATE
#endif
TREK_RESIDENT bool is_late([[maybe_unused]] const Record& record, [[maybe_unused]] uint32_t i) {
#ifdef TREK_HAS_LATE
  return i < kMaxLate && (record.late >> i & 1) != 0;
#else
  return false;
#endif
}

#ifdef TREK_HAS_LATE
// Waits for what a task that is being executed has seen by itself (tags.h), so that what it raises stands for that, too.
// False where the block must leave.
TREK_RESIDENT bool await_late(const Launch& launch, ProcessorState& state, const Slot& slot,
                              uint32_t lane) {
  if (slot.record.late == 0) return true;
  const bool waits = lane < slot.due.waits && is_late(slot.record, lane);
  return await_all(launch, state, slot.record.node, slot.due.moment,
                   waits ? slot.due.counter[lane] : kNoCounter, slot.due.target[lane]);
}
#endif

}  // namespace trek::resident

#endif  // __CUDA__
