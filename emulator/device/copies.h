// Copies from memory to shared memory that take no registers while they are on their way (cp.async), in groups.
// On a host a copy has arrived when it is made.
#pragma once

#include "emulator/device/block.h"

namespace trek::device {

#ifdef __CUDA__
// 16 bytes, past the first-level cache, or 8 or 4; both addresses are aligned for them.
template <uint32_t kBytes>
TREK_TILE void copy_ahead(uint32_t to, const void* from) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
                 : "memory");
}
#endif
// One that goes through the first-level cache: of 16 bytes, or of 4.
template <uint32_t kBytes>
TREK_TILE void copy_near(void* to, const void* from) {
#ifdef __CUDA__
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from),
               "n"(kBytes)
               : "memory");
#else
  __builtin_memcpy(to, from, kBytes);
#endif
}
// Ends a group of copies.
TREK_TILE void commit_copies() {
#ifdef __CUDA__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Until all but the last `pending` groups of copies of this thread have arrived; at most four are left.
TREK_TILE void wait_for_copies(uint32_t pending) {
#ifdef __CUDA__
  if (pending == 0)
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  else if (pending == 1)
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  else if (pending == 2)
    asm volatile("cp.async.wait_group 2;" ::: "memory");
  else if (pending == 3)
    asm volatile("cp.async.wait_group 3;" ::: "memory");
  else
    asm volatile("cp.async.wait_group 4;" ::: "memory");
#else
  static_cast<void>(pending);
#endif
}

}  // namespace trek::device
