// Where a compute warp is: the block's memory, its task, and whether the task may begin. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/resident/pairs.h"
#include "emulator/resident/waits.h"

namespace trek::resident {

#if defined(TREK_SM90A) && defined(TREK_SPECIALISED)
// Where shared memory of a block begins that is in no cluster, behind what the system has of it; check_shared_memory().
inline constexpr uint32_t kSharedBegins = 1024;
// Whether the program's blocks are clusters.
TREK_RESIDENT bool are_in_pairs() {
  return device::tensor::may(device::tensor::kColumnsShared) ||
         device::tensor::may(device::tensor::kDepthShared);
}
TREK_RESIDENT void check_shared_memory() {
  if (!are_in_pairs() && shared_address(device::memory_of_units) != kSharedBegins)
    asm volatile("trap;");
}
#endif

// The block's shared memory: what units work in, and the pipeline's. The address is hidden from the compiler, or
// it works out everything that does not change before the loop of the compute warps, where there are not
// registers for it across calls, and keeps it in memory. So does ptxas on Hopper with the address itself, which has the
// block's number in its cluster; but not with a number, which it is in blocks that are in none.
TREK_RESIDENT Shared& pipeline() {
  uint32_t address = shared_address(device::memory_of_units) + device::kSharedBytes;
#if defined(TREK_SM90A) && defined(TREK_SPECIALISED)
  if (!are_in_pairs())
    asm volatile("mov.u32 %0, %1;" : "=r"(address) : "n"(kSharedBegins + device::kSharedBytes));
#endif
  asm volatile("" : "+r"(address));
  return *(Shared*)(__attribute__((address_space(3))) Shared*)(uintptr_t{address});
}
// This thread's number, for the same reason read anew.
TREK_RESIDENT uint32_t thread_number() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
TREK_RESIDENT device::Block block_of_units(const Shared& shared) {
  return {thread_number(), device::block_threads(), device::memory_of_units,
          shared.launch.scratch_bytes};
}

TREK_RESIDENT std::byte* arena_of(const Shared& shared) {
  return device::in_device_memory(reinterpret_cast<std::byte*>(shared.launch.arena));
}
TREK_RESIDENT device::Environment environment_of(const Shared& shared, const Slot& slot) {
  return {arena_of(shared), shared.launch.seed, slot.due.counters};
}

// Where a warp of the compute warps is: twice the number of its task, and 1 where one has trapped; and in a compiled
// program kMayTrap while this one may, which is asked behind it. It is in shared
// memory, and read anew where it is wanted: accumulators of products take all registers, and what the loop kept in one
// would go through local memory, even in tasks that have no accumulators.
class Place {
 public:
  TREK_RESIDENT Place()
      : at_(pipeline().place + thread_number() / 32), place_(load_volatile(at_)) {}
  TREK_RESIDENT uint32_t number() const { return (place_ & ~kMayTrap) >> 1; }
  TREK_RESIDENT bool trapped() const { return (place_ & 1) != 0; }
#ifdef TREK_SPECIALISED
  TREK_RESIDENT bool may_trap() const { return (place_ & kMayTrap) != 0; }
  TREK_RESIDENT void say_may_trap() const {
    if (thread_number() % 32 == 0) store_volatile(at_, place_ | kMayTrap);
    warp_sync();
  }
#endif
  // All lanes are through with this task and its slot. The block has to meet before the next one.
  TREK_RESIDENT void go_on(bool trapped) const {
    warp_sync();
    const uint32_t lane = thread_number() % 32;
    if (lane < kWarpArrivals) barrier_arrive(&pipeline().executed[number() % kSlots]);
    if (lane == 0) store_volatile(at_, ((place_ & ~kMayTrap) + 2) | (trapped ? 1 : 0));
  }

 private:
#ifdef TREK_SPECIALISED
  static constexpr uint32_t kMayTrap = 1u << 31;
#else
  static constexpr uint32_t kMayTrap = 0;
#endif
  uint32_t* at_;
  uint32_t place_;
};

// Waits until the inputs of this warp's task are there, and says whether it is to be executed: all threads must be told
// the same, or they would wait for each other in a unit, so not by shared.left.
TREK_RESIDENT bool is_ready(Shared& shared, Slot& slot, const Place& place) {
  const bool says = shared.launch.profile != nullptr && thread_number() == 0;
  const uint32_t n = place.number();
  barrier_wait(&shared.ready[n % kSlots], phase(n));
  const bool passes = slot.skip != 0 || place.trapped() || pair_has_left(shared);
  if (same_for_all(passes ? 1 : 0) != 0) return false;
  if (says) slot.began = nanoseconds();
  return true;
}
// The same of a caller that has kept nothing.
TREK_RESIDENT bool is_ready() {
  Shared& shared = pipeline();
  const Place place;
  return is_ready(shared, shared.slot[same_for_all(place.number()) % kSlots], place);
}

}  // namespace trek::resident

#endif  // __CUDA__
