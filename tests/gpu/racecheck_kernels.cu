// What racecheck of compute-sanitizer says of code whose races are known: see racecheck_probe.cpp.
//
// handover_*: a warp writes a slot of shared memory, another reads it, and mbarriers are all that keeps them
// apart, as in emulator/resident/resident.cu. Those called `..._without_...` lack what orders them.
// softmax, softmax_without_sync: the unit of emulator/device, and the same text without its own barriers.
#ifdef TREK_WITHOUT_SYNC
#include "emulator/device/reduce_order.h"
// Every sync of the unit's own becomes a call that does nothing; those of what it includes stay.
#define sync() thread()
#include "emulator/device/softmax.h"
#undef sync
#define TREK_SOFTMAX softmax_without_sync
#else
#include "emulator/device/softmax.h"
#include "emulator/resident/barriers.h"
#define TREK_SOFTMAX softmax_with_sync
#endif

// Lines [0, lines) of a node, as execute() runs it.
extern "C" __attribute__((global)) __attribute__((launch_bounds(256, 1))) void TREK_SOFTMAX(
    const trek::device::Node* node, std::byte* arena, int64_t lines) {
  using namespace trek::device;
  extern __attribute__((shared)) std::byte shared[];
  __attribute__((shared)) static Fault fault;
  const Block block{static_cast<uint32_t>(__nvvm_read_ptx_sreg_tid_x()), kBlockThreads, shared,
                    kSharedBytes};
  const Task task(block);
  if (task.thread() == 0) {
    fault = kNoFault;
    *task.shared<Context>(shared_at::kContext) = {node, arena, 0, &fault};
  }
  block.sync();
  softmax<float>(task, 0, lines);
}

#ifndef TREK_WITHOUT_SYNC
namespace {

using namespace trek::resident;  // NOLINT(google-build-using-namespace)

constexpr uint32_t kRounds = 6;
constexpr uint32_t kPlaces = 2;  // slots, so that each is written again after it was read

// copies: cp.async of half the lanes, which arrive by themselves; waited_copies: each lane waits for its own, and
// arrives then.
enum class Writing { stores, copies, both, waited_copies };
enum class Arriving {
  lane_0,
  all_lanes
};  // of stores and of readers: one for the warp, after a sync of it, or all
enum class Waiting { test, attempt, not_at_all };
enum class Reading { directly, through_a_relay, through_a_relay_and_directly };

#define TREK_INLINE __attribute__((device)) inline __attribute__((always_inline))

TREK_INLINE void copy(uint32_t* to, const uint32_t* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from)
               : "memory");
}

template <Waiting waiting>
TREK_INLINE void wait(uint64_t* barrier, uint32_t parity) {
  if constexpr (waiting == Waiting::attempt) return barrier_wait(barrier, parity);
  if constexpr (waiting == Waiting::not_at_all) return;
  for (uint32_t passed = 0; passed == 0;)
    asm volatile(
        "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(passed)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
}

struct Places {
  uint64_t filled[kPlaces];
  uint64_t passed_on[kPlaces];
  uint64_t freed[kPlaces];
  uint32_t stored[kPlaces][32];
  uint32_t copied[kPlaces][32];
};

template <Arriving arriving>
TREK_INLINE void arrive_as(uint64_t* barrier, uint32_t lane) {
  if constexpr (arriving == Arriving::lane_0) warp_sync();
  if (arriving == Arriving::all_lanes || lane == 0) barrier_arrive(barrier);
}

// Warp 0 writes, warp 1 passes on where there is a relay, warps 2 and 3 read what another lane wrote. `from` has 32
// words a round, `sums` one for each reading thread.
template <Writing writing, Arriving arriving, Waiting waiting, Reading reading>
TREK_INLINE void hand_over(const uint32_t* from, uint32_t* sums) {
  __attribute__((shared)) static Places places;
  const uint32_t thread = __nvvm_read_ptx_sreg_tid_x();
  const uint32_t lane = thread % 32;
  const uint32_t warp = thread / 32;
  constexpr bool stores = writing == Writing::stores || writing == Writing::both;
  constexpr bool copies = writing != Writing::stores;
  constexpr bool copies_arrive = copies && writing != Writing::waited_copies;
  constexpr bool threads_arrive = writing != Writing::copies;
  constexpr uint32_t warp_arrivals = arriving == Arriving::lane_0 ? 1 : 32;
  if (thread == 0) {
    for (uint32_t p = 0; p < kPlaces; ++p) {
      barrier_init(&places.filled[p],
                   (copies_arrive ? 32 : 0) + (threads_arrive ? warp_arrivals : 0));
      barrier_init(&places.passed_on[p], warp_arrivals);
      barrier_init(&places.freed[p], 2 * warp_arrivals);
    }
  }
  __syncthreads();
  uint32_t sum = 0;
  // Who does not wait must not run ahead either, or the writer would miss a phase of `freed`.
  constexpr uint32_t rounds = waiting == Waiting::not_at_all ? kPlaces : kRounds;
  for (uint32_t n = 0; n < rounds; ++n) {
    const uint32_t p = n % kPlaces;
    const uint32_t parity = n / kPlaces % 2;
    if (warp == 0) {
      if (n >= kPlaces) wait<Waiting::test>(&places.freed[p], parity ^ 1);
      if constexpr (copies)
        if (lane < 16) copy(&places.copied[p][lane], from + 32 * n + lane);
      if constexpr (stores) places.stored[p][lane] = 32 * n + lane;
      if constexpr (writing == Writing::waited_copies) fetched();
      if constexpr (copies_arrive) {
        warp_sync();
        arrive_fetched(&places.filled[p]);
      }
      if constexpr (threads_arrive) arrive_as<arriving>(&places.filled[p], lane);
    } else if (warp == 1) {
      if constexpr (reading != Reading::directly) {
        wait<waiting>(&places.filled[p], parity);
        arrive_as<arriving>(&places.passed_on[p], lane);
      }
    } else {
      if constexpr (reading != Reading::through_a_relay) wait<waiting>(&places.filled[p], parity);
      if constexpr (reading != Reading::directly) wait<waiting>(&places.passed_on[p], parity);
      const uint32_t other = (lane + 5) % 32;
      if constexpr (stores) sum += places.stored[p][other];
      if constexpr (copies) sum += places.copied[p][other % 16];
      arrive_as<arriving>(&places.freed[p], lane);
    }
  }
  if (warp >= 2) sums[thread - 64] = sum;
}

}  // namespace

#define TREK_HANDOVER(NAME, ...)                                                                  \
  extern "C" __attribute__((global)) __attribute__((launch_bounds(128, 1))) void handover_##NAME( \
      const uint32_t* from, uint32_t* sums) {                                                     \
    hand_over<__VA_ARGS__>(from, sums);                                                           \
  }
#include "tests/gpu/racecheck_handovers.def"
#endif
