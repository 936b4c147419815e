// The warp that walks the queue ahead of everybody, and says in a slot which task comes: see pipeline.h. Device only, and
// resident.cu's alone: in a namespace without a name, because of what has external linkage LLVM makes other code.
#pragma once

#ifdef __CUDA__

#include "emulator/resident/current.h"

namespace trek::resident {
namespace {

// Records of a queue through the window. One thread uses it.
class Queue {
 public:
  TREK_RESIDENT Queue(const Record* first, Window* window) : first_(first), window_(window) {}

  TREK_RESIDENT const Record& at(uint32_t i) {
    const uint32_t chunk = i / kChunk;
    if (chunk != chunk_) {
      // At a back-edge what was wanted ahead may be on its way to the same place, and must not come last.
      fetched();
      want(chunk);
      fetched();
      chunk_ = chunk;
      want(chunk + 1);
    }
    return window_->record[i % (kChunks * kChunk)];
  }

 private:
  TREK_RESIDENT void want(uint32_t chunk) {
    if (window_->chunk[chunk % kChunks] == chunk) return;
    window_->chunk[chunk % kChunks] = chunk;
    auto* to = reinterpret_cast<unsigned char*>(window_->record + size_t{chunk % kChunks} * kChunk);
    const auto* from = reinterpret_cast<const unsigned char*>(first_ + size_t{chunk} * kChunk);
    for (uint32_t i = 0; i < kChunk * sizeof(Record); i += 16) fetch(to + i, from + i);
  }

  const Record* first_;
  Window* window_;
  uint32_t chunk_ = ~0u;
};

class Controller {
 public:
  TREK_RESIDENT Controller(const Launch& launch, Shared& shared, uint32_t processor, uint32_t lane)
      : launch_(launch),
        shared_(shared),
        lane_(lane),
        queue_(launch.records + launch.queues[processor]),
        walker_(launch, processor,
                launch.region_count <= kSharedRegions
                    ? shared.regions
                    : launch.regions + size_t{processor} * launch.region_count,
                Queue(queue_, &shared.window), kSlots),
        processor_(processor) {}

  TREK_RESIDENT void run() {
    if (lane_ == 0) walker_.begin();
    for (;;) {
      // Where the record is in the queue, and what comes before it.
      uint32_t place = kNone;
      uint32_t alike = 0;
      if (lane_ == 0) {
        if (load_volatile(&shared().left) == 0) {
          if (walker_.next() != nullptr) place = walker_.place();
          const Repeats repeats = walker_.repeats();
          alike = repeats.trips << kTaskBits | repeats.tasks;
        }
      }
      place = same_for_all(place);
      alike = same_for_all(alike);
      if (alike >> kTaskBits != 0) repeat(alike & ((1u << kTaskBits) - 1), alike >> kTaskBits);
      Slot& slot = next_slot();
      if (place != kNone)
        name(slot, shared().window.record[place % (kChunks * kChunk)], place);
      else if (lane_ == 0)
        slot.source = nullptr;
      give();
      if (place == kNone) {
        if (lane_ == 0) walker_.say_end();
        return;
      }
    }
  }

 private:
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint32_t kTaskBits = 8;

  // A compiled program has few registers for this warp (Registers): there the address is found anew.
  TREK_RESIDENT Shared& shared() const {
#ifdef TREK_SPECIALISED
    return pipeline();
#else
    return shared_;
#endif
  }
  // The slot that comes, once it is free; and on to the filler with it.
  TREK_RESIDENT Slot& next_slot() {
    if (n_ >= kSlots) barrier_wait(&shared().freed[n_ % kSlots], phase(n_ - kSlots));
    return shared().slot[n_ % kSlots];
  }
  TREK_RESIDENT void give() {
    warp_arrive(&shared().named[n_ % kSlots], lane_);
    ++n_;
  }

  // Trips whose tasks are in the slots already.
  TREK_RESIDENT void repeat(uint32_t tasks, uint32_t trips) {
    if (tasks == 1 && is_alone(next_slot())) {
      if (lane_ == 0) next_slot().times = trips;
      return give_again();
    }
    if (device::kHasWords && are_in_words(tasks)) return repeat_together(tasks, trips);
    const uint32_t trips_bits = __builtin_ctz(kSlots / tasks);
    for (uint32_t left = tasks * trips; left != 0; --left) {
      Slot& slot = next_slot();
      move_on(slot.due, trips_bits, lane_, 32);
      if (lane_ == 0) slot.times = slot.together = 1;
      give_again();
    }
  }
  // The same of tasks that wait for words, in the slots of one trip. The walker stands behind them.
  TREK_RESIDENT void repeat_together(uint32_t tasks, uint32_t trips) {
    // Of moves as many as words of other trips are kept for.
    const bool moves = next_slot().record.kind == Kind::words;
    const uint32_t most = moves ? device::kTripsTogether : trips;
    while (trips != 0) {
      const uint32_t times = trips < most ? trips : most;
      for (uint32_t i = 0; i < tasks; ++i) {
        Slot& slot = next_slot();
        if (lane_ == 0) {
          slot.due.moment = walker_.moment(slot.record);
          slot.times = times;
          slot.together = tasks;
        }
        warp_sync();
        name_due(slot.due, walker_, slot.record, lane_, 32, [](uint32_t, uint32_t) {});
        warp_sync();
        move_back(slot.due, trips, lane_, 32);
        give_again();
      }
      trips -= times;
    }
  }
  // Whether the next slots have tasks that wait for words, of which compute warps take a few together: two moves, which may
  // wait for counters of trips long before, or recurrent steps, which then wait for nothing else.
  TREK_RESIDENT bool are_in_words(uint32_t tasks) {
    if (tasks > kMostTogether) return false;
    for (uint32_t n = n_; n < n_ + tasks; ++n) {
      barrier_wait(&shared().freed[n % kSlots], phase(n - kSlots));
      const Slot& slot = shared().slot[n % kSlots];
      const bool may = slot.record.kind == Kind::recurrent
                           ? !waits(slot)
                           : slot.record.kind == Kind::words && tasks <= kMovesTogether;
      if (!may) return false;
    }
    return true;
  }
  // Whether a task waits for any counter.
  TREK_RESIDENT bool waits(const Slot& slot) const {
    return any_of_warp(lane_ < slot.due.waits && slot.due.counter[lane_] != kNoCounter);
  }
  TREK_RESIDENT void give_again() {
    if (lane_ == 0) next_slot().is_here = 1;
    give();
  }
  // Whether a task concerns nobody but its block, and cannot trap: it waits for nothing, raises nothing, and nothing
  // that it is told is new in another trip. So its trips need no slots of their own.
  TREK_RESIDENT bool is_alone(const Slot& slot) const {
    return slot.record.kind == Kind::quick && slot.record.signals == 0 && slot.record.reads == 0 &&
           !waits(slot);
  }

  // walker_ lives in lane 0, but for the regions: what it has counted, only lane 0 knows. The lanes share what
  // there is to work out.
  TREK_RESIDENT void name(Slot& slot, const Record& record, uint32_t place) {
    uint64_t moment = walker_.moment(record);
    if (record.waits > kSlotWaits) moment = from_lane_0(moment);
    if (lane_ == 0) {
      const unsigned char* from = launch_.descriptors + size_t{16} * record.descriptor;
      const uint32_t lines = record.descriptor_size;
      const bool fits = 16 * lines <= sizeof slot.descriptor;
      const Record* source = queue_ + place;
      slot.is_here = slot.source == source ? 1 : 0;
      slot.times = slot.together = 1;
      slot.source = source;
      slot.descriptors = from;
      slot.lines = fits ? lines : 0;
      slot.leaves = 0;
#ifdef TREK_FOR_CHAINS
      slot.kind = record.kind;
      slot.in_stages = record.count;
#endif
      slot.node = reinterpret_cast<const device::Node*>(fits ? slot.descriptor : from);
      slot.fault = device::kNoFault;
      slot.brought = record.kind == Kind::copied
                         ? launch_.descriptors + size_t{16} * static_cast<uint64_t>(record.count)
                         : nullptr;
      slot.due.moment = moment;
    }
    warp_sync();  // `leaves` is any lane's from here on
    name_due(slot.due, walker_, record, lane_, 32, [&](uint32_t counter, uint32_t target) {
      if (!await(launch_, launch_.states[processor_], record.node, moment, counter, target))
        slot.leaves = 1;  // not `left`: tasks before this one may have to be executed
    });
  }

  const Launch& launch_;
  [[maybe_unused]] Shared& shared_;
  uint32_t lane_;
  const Record* queue_;
  Walker<Queue> walker_;
  uint32_t processor_;
  uint32_t n_ = 0;  // the slot's visit
};

}  // namespace
}  // namespace trek::resident

#endif  // __CUDA__
