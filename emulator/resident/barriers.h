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
// Whether a phase of a barrier has come.
#define TREK_ASK_BARRIER(name, wait)                                       \
  TREK_RESIDENT bool name(uint32_t barrier, uint32_t parity) {             \
    uint32_t passed;                                                       \
    asm volatile("{ .reg .pred p; mbarrier." wait                          \
                 ".parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" \
                 : "=r"(passed)                                            \
                 : "r"(barrier), "r"(parity)                               \
                 : "memory");                                              \
    return passed != 0;                                                    \
  }                                                                        \
  TREK_RESIDENT bool name(uint64_t* barrier, uint32_t parity) {            \
    return name(shared_address(barrier), parity);                          \
  }
TREK_ASK_BARRIER(barrier_has_passed, "test_wait")
// The same for who has to wait: on a Hopper the hardware puts the thread to sleep; elsewhere it asks again, at the expense
// of the other warps.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
TREK_ASK_BARRIER(barrier_passed, "try_wait")
#else
TREK_ASK_BARRIER(barrier_passed, "test_wait")
#endif
#undef TREK_ASK_BARRIER
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
