// What the frame does for blocks that are clusters of two (emulator/device/pairs.h): their barriers, waiting for each other,
// and ending together. Device only; nothing where blocks are none.
#pragma once

#ifdef __CUDA__

#include "emulator/resident/barriers.h"
#include "emulator/resident/pipeline.h"
#include "emulator/resident/walker.h"

namespace trek::resident {

// Makes the barriers of a pair, before it meets; one thread.
TREK_RESIDENT void make_pair(Shared& shared) {
  if constexpr (!device::kHasPairs) return;
  for (uint64_t* barrier : {&shared.pair.free, &shared.pair.sent, &shared.pair.begun})
    barrier_init(barrier, 1);
  for (uint64_t& barrier : shared.pair.told) barrier_init(&barrier, 1);
  shared.pair.exchanges = shared.pair.left = 0;
#ifdef TREK_SM90A
  device::tensor::barriers_made();
#endif
}
// Both blocks, by all of their threads: before either is sent anything, and before either ends, since what is sent to a
// block wants its memory. A block that is in no cluster meets nobody.
TREK_RESIDENT void meet_pair() {
#ifdef TREK_SM90A
  // Not `.aligned`: lanes of a warp may have come here by ways of their own.
  if constexpr (device::kHasPairs)
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
#endif
}

// Whether this block has left a task that it shares with another one, which may still send what belongs to that: nothing
// else may use the memory of units. It is known before the block's next task.
TREK_RESIDENT bool pair_has_left(const Shared& shared) {
  return device::kHasPairs && load_volatile(&shared.pair.left) != 0;
}

// Waits for a phase of a barrier at which another block arrives that executes the other task of a pair, task `n` here and of
// the same moment there: if the launch ends before that, it will not come, and what this block's task gives does not
// matter. Says whether it came.
TREK_RESIDENT bool await_pair(Shared& shared, uint32_t n, uint32_t barrier, uint32_t parity) {
  constexpr uint32_t kSoon = 16;
  for (uint32_t spins = 1; !barrier_passed(barrier, parity); ++spins) {
    if (load_volatile(&shared.pair.left) != 0) return false;
    if (spins % kSoon != 0) continue;
    if (!must_leave(shared.launch, shared.slot[n % kSlots].due.moment)) continue;
    store_volatile(&shared.left, 1);  // nor will it come to what is behind this task
    store_volatile(&shared.pair.left, 1);
    return false;
  }
  return true;
}

// Behind the last task. Where a task was left, what the other block has sent may still be under way.
TREK_RESIDENT void part_from_pair(const Shared& shared) {
  constexpr uint64_t kUnderWay = 100'000;  // nanoseconds
  if (pair_has_left(shared))
    for (const uint64_t begin = nanoseconds(); nanoseconds() - begin < kUnderWay;) pause();
  meet_pair();
}

}  // namespace trek::resident

#endif  // __CUDA__
