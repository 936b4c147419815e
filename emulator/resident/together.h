// How compute warps execute tasks in words, several trips of them together. Device only, and
// resident.cu's alone: in a namespace without a name, because of what has external linkage LLVM makes other code.
#pragma once

#ifdef __CUDA__

#include "emulator/device/execute.h"
#include "emulator/device/word_moves.h"
#include "emulator/resident/current.h"

namespace trek::resident {
namespace {

// Waits until the inputs of the tasks in `tasks` slots from this one on are there that do not come in words, and says whether
// these are to be executed.
TREK_RESIDENT bool are_ready(Shared& shared, uint32_t tasks) {
  const Place place;
  const uint32_t n = same_for_all(place.number());
  bool ready = is_ready(shared, shared.slot[n % kSlots], place);
  for (uint32_t i = 1; i < tasks; ++i) {
    barrier_wait(&shared.filled[(n + i) % kSlots], phase(n + i));
    barrier_wait(&shared.ready[(n + i) % kSlots], phase(n + i));
    ready = same_for_all(ready && shared.slot[(n + i) % kSlots].skip == 0 ? 1 : 0) != 0;
  }
  return ready;
}
// Of a profile: each of these tasks has had the same part of the time.
TREK_RESIDENT void share_out_time(Shared& shared, uint32_t tasks) {
  if (shared.launch.profile == nullptr || thread_number() != 0) return;
  const uint32_t n = Place().number();
  const uint64_t now = nanoseconds();
  const uint64_t each = (now - shared.slot[n % kSlots].began) / tasks;
  for (uint32_t i = 0; i < tasks; ++i) shared.slot[(n + i) % kSlots].began = now - each;
}

// Moves in words, of kTasks slots from this one on, for all their trips. Nothing but words is waited for in between, so
// warps do not meet. The last of these slots is the caller's to go on from.
template <uint32_t kTasks>
TREK_RESIDENT void move_together(Shared& shared) {
  const uint32_t n = same_for_all(Place().number());
  const auto slot_of = [&](uint32_t i) -> Slot& { return shared.slot[(n + i) % kSlots]; };
  const uint32_t trips = same_for_all(slot_of(0).times);
  if (are_ready(shared, kTasks)) {
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
    share_out_time(shared, kTasks);
  }
  for (uint32_t i = 1; i < kTasks; ++i) Place().go_on(false);
}
static_assert(kMovesTogether == 2);
static_assert(kWordsOfTask <= device::quick_detail::kMovesAtOnce * device::kBlockThreads);
[[maybe_unused]] TREK_RESIDENT_CALL void perform_words() {
  Shared& shared = pipeline();
  const uint32_t together =
      same_for_all(shared.slot[same_for_all(Place().number()) % kSlots].together);
  if (together == 2)
    move_together<2>(shared);
  else
    move_together<1>(shared);
}

#if defined(TREK_SM90A) && !defined(TREK_SPECIALISED) && !defined(TREK_FOR_CHAINS)
// Recurrent steps, of as many slots from this one on as are told together, for all their trips, and those behind them that
// have the same columns.
class Recurrent {
 public:
  TREK_RESIDENT Recurrent() { come(); }
  // Not slot.node: the compiler is to see that it is in shared memory.
  TREK_RESIDENT const device::Node& node(uint32_t i) const {
    return *reinterpret_cast<const device::Node*>(slot(i).descriptor);
  }
  TREK_RESIDENT int64_t tile() const { return slot(0).record.first; }
  TREK_RESIDENT device::ThinPlace place() const { return {slot(0).record.count}; }
  TREK_RESIDENT uint32_t together() const { return together_; }
  TREK_RESIDENT uint32_t trips() const { return same_for_all(slot(0).times); }
  TREK_RESIDENT device::thin::RecurrentStep step(uint32_t i, uint32_t trip) const {
    const Slot& at = slot(i);
    const device::Node& of = node(i);
    const uint32_t scalar = of.matrix.thin.group.counter;
    int64_t counter = 0;
    if (scalar != 0)
      counter = counter_after(at.due, static_cast<uint32_t>(of.scalar(scalar - 1).value), trip);
    return {of, static_cast<uint32_t>(at.due.moment >> 24) + trip, counter, at.due.is_first != 0,
            i == 0 && trip == 0};
  }
  TREK_RESIDENT bool ready() const { return are_ready(pipeline(), together_); }
  // Of the same loop: tasks of another may have the same columns, but other tails or steps.
  TREK_RESIDENT bool next() {
    share_out_time(pipeline(), together_);
    const uint16_t loop = slot(0).record.loop;
    for (uint32_t i = 0; i < together_; ++i) Place().go_on(false);
    block_of_units(pipeline()).sync();
    const uint32_t n = Place().number();
    barrier_wait(&pipeline().filled[n % kSlots], phase(n));
    come();
    const Record& record = slot(0).record;
    return same_for_all(record.kind == Kind::recurrent && record.loop == loop ? 1 : 0) != 0;
  }

 private:
  TREK_RESIDENT void come() {
    n_ = same_for_all(Place().number());
    together_ = same_for_all(slot(0).together);
  }
  TREK_RESIDENT const Slot& slot(uint32_t i) const { return pipeline().slot[(n_ + i) % kSlots]; }

  uint32_t n_;
  uint32_t together_;
};
// Goes on to what comes behind them.
TREK_RESIDENT_CALL void perform_recurrent() {
  Shared& shared = pipeline();
  Recurrent tasks;
  device::execute_recurrent(block_of_units(shared), tasks, arena_of(shared));
}
#endif

}  // namespace
}  // namespace trek::resident

#endif  // __CUDA__
