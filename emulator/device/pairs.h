// Two blocks of a cluster that work on tiles of a product together (plan::Pairing): what each has of the other. In code
// that is made for one program, on a Hopper (emulator/jit).
//
// By depth, each block multiplies half of the k for all columns of a part, gives half of these, and sends the other its
// sums of the other half, straight into shared memory. By columns, each brings half of the columns that both multiply, to
// both. A block's memory is written only once it has said that it is free, so blocks need not begin together; who waits
// asks now and then whether the other will ever come. If not, the launch ends, and nothing more goes to the other block.
//
// Tiles by columns want rings that are in the same slot. Behind the last copies of one the blocks tell each other whether
// they go on from there with the next; only where both do they, and else both begin anew, with the first slot, once the
// other has its ring. What is said of a tile is heard where the next one begins, which may be when the other block is
// through with a tile of few steps: so it may be two tiles ahead, and words and their barriers are two.
#pragma once

#include <cstdint>

#include "emulator/device/block.h"
#include "emulator/device/ring.h"
#include "emulator/device/tensor_core.h"

namespace trek::device {

// Behind the memory of units, where no unit writes: what the other block arrives at. The frame makes the barriers before
// the first task, and no block ends before the other has.
struct Pair {
  // The other block's memory may be written with sums, in the slot of its ring that `free_slot` names; and all of its sums
  // are here.
  uint64_t free;
  uint64_t sent;
  // The other block has said whether its ring goes on, in `goes_on`; and has begun a ring.
  uint64_t told[tensor::kPairWords];
  uint64_t begun;
  uint32_t exchanges;  // so far: which phases the first two are in
  uint32_t free_slot;
  uint32_t left;  // the other block will not come
  uint32_t goes_on[tensor::kPairWords];
};
inline constexpr uint32_t kPairAt = kSharedBytes;

#if defined(TREK_SM90A) && defined(TREK_SPECIALISED)
inline constexpr bool kHasPairs = true;
#else
inline constexpr bool kHasPairs = false;
#endif

#ifdef TREK_SM90A

// Waits for a phase of a barrier at which the other block arrives, by the address in shared memory, and says whether that
// has come; not so if the launch ends before the task. By compute warps: the frame's (emulator/resident/called.h).
extern "C" TREK_ON_DEVICE bool trek_await_pair(uint32_t barrier, uint32_t parity);

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
// A word to the other block, which is what its barrier waits for (kWordBytes, and one arrival of its own), for who waits by
// other_has_passed(). An arrival that releases the word would wait until the device has all that this thread wrote, some
// 1 000 cycles.
inline constexpr uint32_t kWordBytes = 4;
TREK_TILE void tell_other_block(uint32_t word, uint32_t value, uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(word),
      "r"(value), "r"(barrier)
      : "memory");
}
// Whether the other block has come to a phase of a barrier, with what it told before.
TREK_TILE bool other_has_passed(uint32_t barrier, uint32_t parity) {
  uint32_t passed;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; "
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed != 0;
}
// Sixteen bytes to the other block, which are a part of what its barrier waits for.
TREK_TILE void send_piece(uint32_t to, uint32_t barrier, const float* from) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
      "[%0], {%2, %3, %4, %5}, [%1];" ::"r"(to),
      "r"(barrier), "f"(from[0]), "f"(from[1]), "f"(from[2]), "f"(from[3])
      : "memory");
}

// copy_box() to the same place of both blocks, and to the barrier of each.
TREK_TILE void copy_box_to_both(uint32_t to, const TensorMap* map, uint32_t barrier, uint32_t x,
                                uint32_t y, uint32_t z) {
  constexpr uint16_t kBoth = 3;
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(kBoth)
      : "memory");
}

}  // namespace tensor

#endif  // TREK_SM90A

}  // namespace trek::device
