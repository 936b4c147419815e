// The warps beside the controller's and those that compute: filler, waiter, signaller (pipeline.h). Device only, and
// resident.cu's alone: in a namespace without a name, because of what has external linkage LLVM makes other code.
#pragma once

#ifdef __CUDA__

#include "emulator/resident/current.h"
#include "emulator/resident/gemv_task.h"

namespace trek::resident {
namespace {

// Has the records and the descriptors of the tasks brought into their slots, 16 bytes a lane.
TREK_RESIDENT void fill_all(Shared& shared, uint32_t lane) {
  constexpr uint32_t kRecordLines = sizeof(Record) / 16;
  Bringing columns;
  for (uint32_t n = 0;; ++n) {
    Slot& slot = shared.slot[n % kSlots];
    barrier_wait(&shared.named[n % kSlots], phase(n));
    const auto* record = reinterpret_cast<const unsigned char*>(slot.source);
    columns.look_at(slot);
    if (record != nullptr && slot.is_here == 0) {
      const uint32_t lines = kRecordLines + slot.lines;
      const unsigned char* descriptors = slot.descriptors;
      auto* to = reinterpret_cast<unsigned char*>(&slot.record);
      for (uint32_t i = lane; i < lines; i += 32) {
        const bool of_record = i < kRecordLines;
        const uint32_t line = of_record ? i : i - kRecordLines;
        fetch((of_record ? to : slot.descriptor) + size_t{16} * line,
              (of_record ? record : descriptors) + size_t{16} * line);
      }
      constexpr uint32_t kBroughtLines = sizeof slot.bringing.what / 16;
      if (slot.brought != nullptr && lane < kBroughtLines)
        fetch(reinterpret_cast<unsigned char*>(&slot.bringing.what) + size_t{16} * lane,
              slot.brought + size_t{16} * lane);
    } else if (record == nullptr && lane == 0) {
      slot.record.kind = Kind::halt;
    }
    arrive_fetched(&shared.filled[n % kSlots]);
    warp_arrive(&shared.filled[n % kSlots], lane);
    if (record == nullptr) break;
    columns.bring(shared, n);
  }
  columns.end();
}

// Polls the waits of every slot; the lanes take one each. What can be said of a task is said before, so that nothing but
// the hand-over is behind the counter that came last.
static_assert(kSlotWaits <= 32);
TREK_RESIDENT void wait_for_all(const Launch& launch, Shared& shared, ProcessorState& state,
                                uint32_t lane) {
  [[maybe_unused]] uint32_t tiles = 0;  // whose operands are brought
  for (uint32_t n = 0;; ++n) {
    Slot& slot = shared.slot[n % kSlots];
    barrier_wait(&shared.filled[n % kSlots], phase(n));
    const bool halt = slot.record.kind == Kind::halt;
    const uint32_t node = slot.record.node;
    const bool waits = !halt && lane < slot.due.waits && !is_late(slot.record, lane);
    const uint32_t counter = waits ? slot.due.counter[lane] : kNoCounter;
    if (lane == 0) {
      if (!halt && slot.leaves != 0) store_volatile(&shared.left, 1);
      slot.skip = load_volatile(&shared.left);
    }
#ifdef TREK_SM90A
    if (lane == 0 && slot.record.kind == Kind::copied) slot.bringing.asked = {0, 0, 0, tiles++};
#endif
    if (!await_all(launch, state, node, slot.due.moment, counter, slot.due.target[lane]) &&
        lane == 0) {
      store_volatile(&shared.left, 1);
      slot.skip = 1;
    }
    warp_arrive(&shared.ready[n % kSlots], lane);
    if (lane == 0) {
      state.node = node;
      state.doing = halt ? Doing::finished : Doing::executing;
    }
    if (halt) return;
  }
}

#ifdef TREK_SM90A
// What is brought for task number `n`, which is Kind::copied and not skipped, and for the one behind it where that is one
// of the kind, too, and ready.
class Copied {
 public:
  TREK_RESIDENT Copied(Shared& shared, uint32_t n) : shared_(shared), n_(n) {}
  TREK_RESIDENT device::tensor::Bringing& here() const {
    return shared_.slot[n_ % kSlots].bringing;
  }
  TREK_RESIDENT std::byte* arena() const { return arena_of(shared_); }
  TREK_RESIDENT device::tensor::Bringing& behind() const {
    return shared_.slot[(n_ + 1) % kSlots].bringing;
  }
  // By one lane.
  TREK_RESIDENT bool is_followed() const {
    const uint32_t next = n_ + 1;
    if (!barrier_has_passed(&shared_.ready[next % kSlots], phase(next))) return false;
    const Slot& slot = shared_.slot[next % kSlots];
    return slot.record.kind == Kind::copied && slot.skip == 0;
  }
#ifdef TREK_SPECIALISED
  // Waits for a phase of a barrier at which the other block of a pair arrives.
  TREK_RESIDENT bool await(uint32_t barrier, uint32_t parity) const {
    return await_pair(shared_, n_, barrier, parity);
  }
  // Waits for what the block wants behind its products; by a warp, whose lanes' numbers are read anew: kept from task to task
  // they would be in memory while copies are asked for.
  TREK_RESIDENT void await_late() const {
    uint32_t lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    resident::await_late(shared_.launch, shared_.launch.states[__nvvm_read_ptx_sreg_ctaid_x()],
                         shared_.slot[n_ % kSlots], lane);
  }
#endif

 private:
  Shared& shared_;
  uint32_t n_;
};
#endif

// Tells the others what has been executed. What compute warps wrote before they arrived is what this
// warp's release carries: causality holds through the barrier. While a product whose operands are copied is
// executed, there is nothing to tell, and this warp asks for the copies.
TREK_RESIDENT void signal_all(const Launch& launch, Shared& shared, ProcessorState& state,
                              uint32_t lane) {
  bool trapped = false;
  uint64_t retired = 0;
  for (uint32_t n = 0;; ++n) {
    Slot& slot = shared.slot[n % kSlots];
    // What there is to tell is known as soon as the task is; compute warps skip what comes behind a trap, too.
    barrier_wait(&shared.ready[n % kSlots], phase(n));
    const Kind kind = slot.record.kind;
    bool skips = slot.skip != 0 || pair_has_left(shared);
    const bool signals = lane < slot.record.signals;
    const uint32_t times = slot.times;
    uint32_t* counter = counter_at(launch, signals ? slot.record.signal[lane] : 0);
#if defined(TREK_SM90A) && !defined(TREK_FOR_CHAINS)
    if (kind == Kind::copied && !trapped && !skips) device::bring_copied(Copied(shared, n));
#endif
#ifdef TREK_HAS_LATE
    if (kind != Kind::halt && !skips) {
      const bool came = await_late(launch, state, slot, lane);
#if defined(TREK_SM90A) && defined(TREK_SPECIALISED)
      if (kind == Kind::copied && !trapped) device::say_late_came(slot.bringing.what);
#endif
      if (!came) {
        if (lane == 0) store_volatile(&shared.left, 1);
        skips = true;
      }
    }
#endif
    barrier_wait(&shared.executed[n % kSlots], phase(n));
    if (kind == Kind::halt) return;
    if (!trapped && !skips) {
      trapped = may_trap(kind) && device::is_fault(slot.fault);
      if (!trapped && signals) add_release(counter, times);
      if (lane == 0 && launch.profile != nullptr)
        count_tasks(launch, slot.record.node, slot.began, times);
    }
    retired += times;
    if (lane == 0) store_relaxed(&state.retired, retired);
    warp_arrive(&shared.freed[n % kSlots], lane);
  }
}

}  // namespace
}  // namespace trek::resident

#endif  // __CUDA__
