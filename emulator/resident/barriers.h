// Barriers in shared memory, by which the roles of a block hand slots to each other, and copies that arrive at
// them, as PTX. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/copies.h"
#include "emulator/resident/primitives.h"

namespace trek::resident {

using device::shared_address;

// A barrier of so many arrivals a phase.
TREK_RESIDENT void barrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}
TREK_RESIDENT void barrier_arrive(uint64_t* barrier) {
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(barrier))
      : "memory");
}
// On a Hopper the hardware puts a thread that has to wait to sleep; elsewhere it asks again, at the expense of the
// other warps.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TREK_WAIT "try_wait"
#else
#define TREK_WAIT "test_wait"
#endif
TREK_RESIDENT bool barrier_passed(uint32_t barrier, uint32_t parity) {
  uint32_t passed;
  asm volatile("{ .reg .pred p; mbarrier." TREK_WAIT
               ".parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(passed)
               : "r"(barrier), "r"(parity)
               : "memory");
  return passed != 0;
}
TREK_RESIDENT bool barrier_passed(uint64_t* barrier, uint32_t parity) {
  return barrier_passed(shared_address(barrier), parity);
}
// The same at once: the other may take its time until the phase comes.
TREK_RESIDENT bool barrier_has_passed(uint64_t* barrier, uint32_t parity) {
  uint32_t passed;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(passed)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return passed != 0;
}
TREK_RESIDENT void barrier_wait(uint64_t* barrier, uint32_t parity) {
  while (!barrier_passed(barrier, parity)) {
  }
}
TREK_RESIDENT void warp_sync() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// Sixteen bytes that never change, behind the back of the threads: see fetched() and arrive_fetched().
TREK_RESIDENT void fetch(void* to, const void* from) {
  device::copy_ahead<16>(shared_address(to), from);
}
// Waits for everything that this thread has fetched.
TREK_RESIDENT void fetched() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Arrives when everything that this thread has fetched is there.
TREK_RESIDENT void arrive_fetched(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

#undef TREK_WAIT

// Words that other warps of the block write at any time.
TREK_RESIDENT uint32_t load_volatile(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(shared_address(p)) : "memory");
  return v;
}
TREK_RESIDENT void store_volatile(uint32_t* p, uint32_t v) {
  asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(shared_address(p)), "r"(v) : "memory");
}

}  // namespace trek::resident

#endif  // __CUDA__
