// The three roles of a block, and the ring of slots between them:
//
//   controller  one warp walks the queue ahead of everybody: it copies a task's record and its node's
//               descriptor into a slot and works out what the task waits for
//   waiter      one warp polls the counters of the slots in turn, so that nobody else does
//   compute     eight warps execute the tasks that are ready, and raise their counters
//
// A slot passes controller -> waiter -> compute -> controller; each hand-over is an mbarrier phase, and
// every role visits the slots in the same order. A barrier of the compute warps ends each task, so what
// one task wrote its successor on the same block reads without a counter.
//
// Leaving early: whoever finds that the block must leave sets `left`. The waiter says so in every slot that
// follows, the compute warps then only pass slots on, the controller sends a halt, and the block ends.
#pragma once

#include "emulator/device/execute.h"
#include "emulator/resident/tasks.h"
#include "emulator/resident/walker.h"

namespace trek::resident {

inline constexpr uint32_t kSlots = 4;  // a power of two
inline constexpr uint32_t kComputeThreads = 256;
inline constexpr uint32_t kThreads = kComputeThreads + 64;
inline constexpr uint32_t kSharedRegions = 128;  // more lie in device memory

// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): they are shared memory and never constructed
struct Slot {
  Record record;
  uint64_t moment;
  uint32_t waits;
  uint32_t skip;             // the block leaves: pass the slot on
  const device::Node* node;  // in `descriptor`, or where it lies if it is longer
  int64_t counters[kMaxCounters];
  uint32_t counter[kMaxWaits];
  uint32_t target[kMaxWaits];
  alignas(16) unsigned char descriptor[sizeof(CountersRead) + device::kNodeBytes];
};

struct Shared {
  Launch launch;
  uint64_t filled[kSlots];
  uint64_t ready[kSlots];
  uint64_t freed[kSlots];
  uint32_t left;
  uint32_t pad;
  uint64_t decisions;  // told so far; processor 0
  device::Fault fault;
  alignas(128) Slot slot[kSlots];
  RegionState regions[kSharedRegions];
};
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

}  // namespace trek::resident
