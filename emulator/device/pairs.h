// Two blocks of a cluster that sum a part of a product together (plan::MatrixTiles::paired): what each has of the other.
// In code that is made for one program, on a Hopper (emulator/jit).
//
// Each block multiplies half of the k for all columns of the part, gives half of these, and sends the other its sums of
// the other half, straight into shared memory. That is written only once its owner has said that it is free, so blocks
// need not begin together; who waits asks now and then whether the other will ever come (trek_await_pair()).
#pragma once

#include <cstdint>

#include "emulator/device/block.h"

namespace trek::device {

// Behind the memory of units, where no unit writes: what the other block arrives at. The frame makes the barriers before
// the first task, and no block ends before the other has.
struct Pair {
  uint64_t free;       // the other block's memory for sums may be written
  uint64_t sent;       // all sums of the other block are here
  uint32_t exchanges;  // so far; both barriers are in that phase
  uint32_t unused;
};
inline constexpr uint32_t kPairAt = kSharedBytes;

#if defined(TREK_SM90A) && defined(TREK_SPECIALISED)
inline constexpr bool kHasPairs = true;
#else
inline constexpr bool kHasPairs = false;
#endif

#ifdef TREK_SM90A

// Waits for a phase of one of these barriers, by the address in shared memory, unless the launch ends before the task: the
// frame's (emulator/resident/resident.cu).
extern "C" TREK_ON_DEVICE void trek_await_pair(uint32_t barrier, uint32_t parity);

namespace tensor {

// An address of this block's shared memory in the other block of the cluster.
TREK_TILE uint32_t in_other_block(uint32_t address) {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  uint32_t other;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(address), "r"(rank ^ 1));
  return other;
}
// By one lane. Without a release, which would wait for all that this thread has stored: what comes before it is reads of
// shared memory that are over.
TREK_TILE void arrive_in_other_block(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Sixteen bytes to the other block, which are a part of what its barrier waits for.
TREK_TILE void send_piece(uint32_t to, uint32_t barrier, const float* from) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
      "[%0], {%2, %3, %4, %5}, [%1];" ::"r"(to),
      "r"(barrier), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3])
      : "memory");
}

}  // namespace tensor

#endif  // TREK_SM90A

}  // namespace trek::device
