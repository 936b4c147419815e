// How compute warps execute tasks in words, several trips of them together. Device only, and
// resident.cu's alone: in a namespace without a name, because of what has external linkage LLVM makes other code.
#pragma once

#ifdef __CUDA__

#include "emulator/device/word_moves.h"
#include "emulator/resident/current.h"

namespace trek::resident {
namespace {

// Tasks in words, of kTasks slots from this one on, for all their trips. Nothing but words is waited for in between, so
// warps do not meet. The last of these slots is the caller's to go on from.
template <uint32_t kTasks>
TREK_RESIDENT void move_together(Shared& shared) {
  const Place place;
  const uint32_t n = same_for_all(place.number());
  const auto slot_of = [&](uint32_t i) -> Slot& { return shared.slot[(n + i) % kSlots]; };
  const uint32_t trips = same_for_all(slot_of(0).times);
  bool ready = is_ready(shared, slot_of(0), place);
  for (uint32_t i = 1; i < kTasks; ++i) {
    barrier_wait(&shared.filled[(n + i) % kSlots], phase(n + i));
    barrier_wait(&shared.ready[(n + i) % kSlots], phase(n + i));
    ready = same_for_all(ready && slot_of(i).skip == 0 ? 1 : 0) != 0;
  }
  if (ready) {
    device::WordMove moves[kTasks];
    KeptWords& kept = shared.kept_words[thread_number() / 32];
    TREK_UNROLLED
    for (uint32_t i = 0; i < kTasks; ++i) {
      const Slot& slot = slot_of(i);
      const uint32_t number = (n + i) % device::kPlacesKept;
      const bool is_there = kept.next[number] == n + i && kept.first[number] == slot.record.first &&
                            kept.node[number] == slot.record.node;
      moves[i].begin(block_of_units(shared),
                     *reinterpret_cast<const device::Node*>(slot.descriptor), slot.record.first,
                     static_cast<uint32_t>(slot.record.count), environment_of(shared, slot).arena,
                     slot.due.is_first != 0, {number, is_there});
      // Between here and a task in that slot there are moves alone, unless that begins a loop.
      warp_sync();
      if (thread_number() % 32 == 0) {
        kept.next[number] = slot.due.is_first != 0 ? ~0u : n + i + device::kPlacesKept;
        kept.node[number] = slot.record.node;
        kept.first[number] = slot.record.first;
      }
    }
    const auto first = static_cast<uint32_t>(slot_of(0).due.moment >> 24);
    const auto leaves = [&] {
      if (!must_leave(shared.launch, slot_of(0).due.moment)) return false;
      store_volatile(&shared.left, 1);
      return true;
    };
    TREK_ROLLED
    for (uint32_t trip = first; trip != first + trips; ++trip) {
      TREK_UNROLLED
      for (uint32_t i = 0; i < kTasks; ++i) moves[i].go(trip, leaves);
    }
    if (shared.launch.profile != nullptr && thread_number() == 0) {
      const uint64_t now = nanoseconds();
      const uint64_t each = (now - slot_of(0).began) / kTasks;
      for (uint32_t i = 0; i < kTasks; ++i) slot_of(i).began = now - each;
    }
  }
  for (uint32_t i = 1; i < kTasks; ++i) Place().go_on(false);
}
static_assert(kMostTogether == 2);
static_assert(kWordsOfTask <= device::quick_detail::kMovesAtOnce * device::kBlockThreads);
TREK_RESIDENT_CALL void perform_words() {
  Shared& shared = pipeline();
  const uint32_t together =
      same_for_all(shared.slot[same_for_all(Place().number()) % kSlots].together);
  if (together == 2)
    move_together<2>(shared);
  else
    move_together<1>(shared);
}

}  // namespace
}  // namespace trek::resident

#endif  // __CUDA__
