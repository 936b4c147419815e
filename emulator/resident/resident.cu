// The persistent kernel: one block a multiprocessor, each executing its processor's queue.
#include "emulator/device/word_moves.h"
#include "emulator/measure/kernels/grid.h"
#include "emulator/resident/called.h"

#ifdef TREK_SPECIALISED
// The code of a plan's nodes (emulator/jit), by the number of a function, which records of tasks have as their weight:
// as device::execute() for a node. In the place of its descriptor there are its addresses.
// The code calls trek_await_inputs() before it reads or writes anything else, and need not sync at its end; of a task of
// Kind::quick it executes `times`. `near` is where the addresses lie that fit into a slot.
extern "C" __attribute__((device)) void trek_execute_node(
    uint32_t function, std::byte* arena, const uint32_t* addresses, const uint32_t* near,
    uint64_t seed, const int64_t* counters, int64_t first, int64_t count,
    trek::device::Fault* fault, uint32_t times);
#endif

namespace trek::resident {
namespace {

using device::Block;

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
#ifdef TREK_SM90A
    if (are_in_words(tasks)) return repeat_together(tasks, trips);
#endif
    const uint32_t trips_bits = __builtin_ctz(kSlots / tasks);
    for (uint32_t left = tasks * trips; left != 0; --left) {
      Slot& slot = next_slot();
      move_on(slot.due, trips_bits, lane_, 32);
      if (lane_ == 0) slot.times = slot.together = 1;
      give_again();
    }
  }
#ifdef TREK_SM90A
  // The same of tasks that wait for words, in the slots of one trip. The walker stands behind them.
  TREK_RESIDENT void repeat_together(uint32_t tasks, uint32_t trips) {
    while (trips != 0) {
      const uint32_t times = trips < device::kTripsTogether ? trips : device::kTripsTogether;
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
  // Whether the next slots have tasks that wait for words, of which compute warps take a few together.
  TREK_RESIDENT bool are_in_words(uint32_t tasks) {
    if (tasks > kMostTogether) return false;
    for (uint32_t n = n_; n < n_ + tasks; ++n) {
      barrier_wait(&shared().freed[n % kSlots], phase(n - kSlots));
      if (shared().slot[n % kSlots].record.kind != Kind::words) return false;
    }
    return true;
  }
#endif
  TREK_RESIDENT void give_again() {
    if (lane_ == 0) next_slot().is_here = 1;
    give();
  }
  // Whether a task concerns nobody but its block, and cannot trap: it waits for nothing, raises nothing, and nothing
  // that it is told is new in another trip. So its trips need no slots of their own.
  TREK_RESIDENT bool is_alone(const Slot& slot) const {
    const bool waits = lane_ < slot.due.waits && slot.due.counter[lane_] != kNoCounter;
    return slot.record.kind == Kind::quick && slot.record.signals == 0 && slot.record.reads == 0 &&
           !any_of_warp(waits);
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

// Has the records and the descriptors of the tasks brought into their slots, 16 bytes a lane.
TREK_RESIDENT void fill_all(Shared& shared, uint32_t lane) {
  constexpr uint32_t kRecordLines = sizeof(Record) / 16;
  for (uint32_t n = 0;; ++n) {
    Slot& slot = shared.slot[n % kSlots];
    barrier_wait(&shared.named[n % kSlots], phase(n));
    const auto* record = reinterpret_cast<const unsigned char*>(slot.source);
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
    if (record == nullptr) return;
  }
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

// Behind a task that may trap: says so, and whether it did.
TREK_RESIDENT bool has_trapped() {
  Shared& shared = pipeline();
  const Slot& slot = shared.slot[Place().number() % kSlots];
  const bool trapped = device::is_fault(slot.fault);
  if (trapped) {
#ifndef TREK_SPECIALISED
    if (is_of_unit(slot.record.kind)) device::describe(block_of_units(shared));
#endif
    if (thread_number() == 0) {
      report_trap(shared.launch, slot.due.moment, slot.record.node, slot.fault);
      store_volatile(&shared.left, 1);
    }
  }
  warp_sync();
  return trapped;
}

// A task of any kind that has none of its own. Everything is worked out anew, before the task and behind it, so
// that nothing is kept meanwhile; and it is in line, as units are called from here, because around a call whose
// callee may return one thread after the other ptxas keeps a barrier of the warp, in local memory where all
// registers are taken. In a compiled program, where nothing is quick here, it is called: else what control() is given would
// take registers from all nodes.
#ifdef TREK_SPECIALISED
TREK_RESIDENT_CALL bool perform_any() {
#else
TREK_RESIDENT bool perform_any() {
#endif
  Shared& shared = pipeline();
  Slot& slot = shared.slot[Place().number() % kSlots];
#ifndef TREK_SPECIALISED
  if (is_of_unit(slot.record.kind))
    device::execute_unit(block_of_units(shared), *slot.node, slot.record.first, slot.record.count,
                         environment_of(shared, slot), &slot.fault);
  else
#endif
    control(block_of_units(shared), shared.launch, slot.record, *slot.node,
            environment_of(shared, slot), &shared.decisions, &slot.fault);
  return has_trapped();
}

#ifdef TREK_SPECIALISED
// A task of a node, whose code waits for the inputs itself. What is wanted behind it is read anew: a register that is kept
// across the calls of all nodes is one that none of them may take, and where ptxas found none left the loops of f32 products
// took 1.47 cycles a multiplication instead of 1.23 (../device/README.md).
TREK_RESIDENT void perform_node(const Shared& shared, Slot& slot) {
  trek_execute_node(slot.record.weight, environment_of(shared, slot).arena,
                    reinterpret_cast<const uint32_t*>(slot.node),
                    reinterpret_cast<const uint32_t*>(slot.descriptor), shared.launch.seed,
                    slot.due.counters, slot.record.first, slot.record.count, &slot.fault,
                    slot.times);
}
#endif

#ifndef TREK_SPECIALISED
TREK_RESIDENT_CALL void perform_thin() {
  Shared& shared = pipeline();
  Slot& slot = shared.slot[same_for_all(Place().number()) % kSlots];
  // Not slot.node: the compiler is to see that it is in shared memory.
  device::execute_thin(block_of_units(shared),
                       *reinterpret_cast<const device::Node*>(slot.descriptor), slot.record.first,
                       environment_of(shared, slot), [] { return is_ready(); });
}
TREK_RESIDENT_CALL void perform_long_thin() {
  Shared& shared = pipeline();
  Slot& slot = shared.slot[same_for_all(Place().number()) % kSlots];
  device::execute_thin(block_of_units(shared), *slot.node, slot.record.first,
                       environment_of(shared, slot), [] { return is_ready(); });
}
// A task whose columns stay in shared memory, and those behind it that have the same ones: device::execute_stays() keeps
// them in registers meanwhile.
class Staying {
 public:
  TREK_RESIDENT Staying() : slot_(slot_of(Place())) {}
  // Not slot.node: as above.
  TREK_RESIDENT const device::Node& node() const {
    return *reinterpret_cast<const device::Node*>(slot_->descriptor);
  }
  TREK_RESIDENT int64_t tile() const { return slot_->record.first; }
  TREK_RESIDENT device::ThinPlace place() const { return {slot_->record.count}; }
  TREK_RESIDENT bool ready() const {
    Shared& shared = pipeline();
    return device::thin_is_ready(block_of_units(shared), node(), environment_of(shared, *slot_),
                                 [] { return is_ready(); });
  }
  TREK_RESIDENT bool next() {
    const device::ThinPlace before = place();
    if (!before.is_followed()) return false;
    has_gone_on_ = true;
    Place().go_on(false);
    block_of_units(pipeline()).sync();
    const Place here;
    slot_ = slot_of(here);
    const uint32_t n = here.number();
    barrier_wait(&pipeline().filled[n % kSlots], phase(n));
    const bool is_same = slot_->record.kind == Kind::stays && place().is_same(before);
    if (same_for_all(is_same ? 1 : 0) == 0) return false;
    has_gone_on_ = false;
    return true;
  }
  // Whether no task is at hand: the last one's end has been said.
  TREK_RESIDENT bool has_gone_on() const { return has_gone_on_; }

 private:
  TREK_RESIDENT static Slot* slot_of(const Place& place) {
    return pipeline().slot + same_for_all(place.number()) % kSlots;
  }
  Slot* slot_;
  bool has_gone_on_ = false;
};
// Whether it has gone on itself.
TREK_RESIDENT_CALL bool perform_stays() {
  Shared& shared = pipeline();
  Staying tasks;
  device::execute_stays(block_of_units(shared), tasks,
                        device::in_device_memory(reinterpret_cast<std::byte*>(shared.launch.arena)));
  return tasks.has_gone_on();
}

// A task of a node that is quick in this way. Not slot.node: as above.
template <device::Quick kQuick, class Turns>
TREK_RESIDENT void perform_quick(const Shared& shared, const Slot& slot, Turns turns) {
  device::execute_quick<kQuick>(block_of_units(shared),
                                *reinterpret_cast<const device::Node*>(slot.descriptor),
                                slot.record.first, slot.record.count, environment_of(shared, slot),
                                turns);
}
// The same of a caller that has kept nothing; of tasks that are ready, or that wait themselves.
template <device::Quick kQuick, class Ready>
TREK_RESIDENT void perform_once(Ready ready) {
  const Shared& shared = pipeline();
  perform_quick<kQuick>(shared, shared.slot[same_for_all(Place().number()) % kSlots],
                        [&](uint32_t turn) { return turn == 0 && ready(); });
}
TREK_RESIDENT_CALL void perform_calls() {
  perform_once<device::Quick::calls>([] { return true; });
}
TREK_RESIDENT_CALL void perform_rows() {
  perform_once<device::Quick::rows>([] { return true; });
}
TREK_RESIDENT_CALL void perform_move() {
  perform_once<device::Quick::move>([] { return is_ready(); });
}
#endif

#ifdef TREK_SM90A
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
#endif

TREK_RESIDENT void compute() {
#if defined(TREK_SM90A) && !defined(TREK_SPECIALISED)
  // Never so: units have memory. ptxas lays out registers of the f32 products' loops by banks only where each of these
  // functions has a second call (emulator/device/README.md).
  if (pipeline().launch.scratch_bytes == 0) device::call_f32_products(block_of_units(pipeline()));
#endif
  for (;;) {
    Shared& shared = pipeline();
    const Place place;
    const uint32_t n = same_for_all(place.number());
    Slot& slot = shared.slot[n % kSlots];
    barrier_wait(&shared.filled[n % kSlots], phase(n));
    const auto kind = static_cast<Kind>(same_for_all(static_cast<uint32_t>(slot.record.kind)));
#ifdef TREK_SPECIALISED
    if (is_of_unit(kind)) {
      if (may_trap(kind)) place.say_may_trap();
      perform_node(shared, slot);
      const Place here;
      here.go_on(here.may_trap() && has_trapped());
    } else {
      const bool ready = is_ready(shared, slot, place);
      if (kind == Kind::halt) return Place().go_on(false);
      const bool trapped = ready && perform_any();
      Place().go_on(trapped);  // read behind it
    }
#else
    bool trapped = false;
    if (kind == Kind::thin) {
      perform_thin();
    } else if (kind == Kind::stays) {
      if (same_for_all(perform_stays() ? 1 : 0) != 0) continue;
    } else if (kind == Kind::long_thin) {
      perform_long_thin();
    } else if (kind == Kind::quick) {
      const uint32_t times = same_for_all(slot.times);
      perform_quick<device::Quick::simple>(shared, slot, [&](uint32_t turn) {
        if (turn == 0) return is_ready(shared, slot, place);
        if (turn == times) return false;
        block_of_units(shared).sync();
        return true;
      });
    } else if (kind == Kind::move) {
      perform_move();
#ifdef TREK_SM90A
    } else if (kind == Kind::words) {
      perform_words();
#endif
    } else if (is_ready(shared, slot, place)) {
      if (kind == Kind::halt) return Place().go_on(false);
      if (kind == Kind::calls) {
        perform_calls();
      } else if (kind == Kind::rows) {
        perform_rows();
#ifdef TREK_SM90A
      } else if (kind == Kind::copied) {
        device::execute_copied(block_of_units(shared), *slot.node, slot.record.first,
                               environment_of(shared, slot));
#endif
      } else {
        trapped = perform_any();
      }
    } else if (kind == Kind::halt) {
      return Place().go_on(false);
    }
    Place().go_on(trapped);
#endif
    // The signaller need not wait until the warps have met.
    block_of_units(pipeline()).sync();
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
  TREK_RESIDENT std::byte* arena() const {
    return device::in_device_memory(reinterpret_cast<std::byte*>(shared_.launch.arena));
  }
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
#ifdef TREK_SM90A
    if (kind == Kind::copied && !trapped && !skips) device::bring_copied(Copied(shared, n));
#endif
#ifdef TREK_SPECIALISED
    if (kind != Kind::halt && !skips) {
      const bool came = await_late(launch, state, slot, lane);
#ifdef TREK_SM90A
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

// Compute warps and the kernel's other four begin with as many registers each; what these can do without, those get.
// A multiplication of f32 takes a cycle more where two of its registers are in one bank, and ptxas finds places for 64
// sums where that is rare only if there are more of them than 168. Warps that execute rows of a wide kernel
// (emulator/jit) have none to take; and those that ask for copies for tensor cores have work for more.
struct Registers {
  uint32_t of_compute;
  uint32_t of_others;
};
inline constexpr uint32_t kRegisters = 65536 / (device::kBlockThreads + kOtherThreads) / 8 * 8;
constexpr bool are_all(Registers r) {
  return device::kBlockThreads * r.of_compute + kOtherThreads * r.of_others ==
         (device::kBlockThreads + kOtherThreads) * kRegisters;
}
inline constexpr Registers kShared = {208, 88};
inline constexpr Registers kInOrder = {216, 72};  // compiled, and all products are by the dot order
static_assert(are_all(kShared) && are_all(kInOrder));
#ifdef TREK_SM90A
TREK_RESIDENT bool has_registers_to_share() {
  return device::block_threads() == device::kBlockThreads;
}
TREK_RESIDENT bool multiplies_in_order() {
  return device::tensor::may(device::tensor::kInOrder) &&
         !device::tensor::may(device::tensor::kByTensorCores);
}
#endif
TREK_RESIDENT void take_registers() {
#ifdef TREK_SM90A
  if (!has_registers_to_share()) return;
  if (multiplies_in_order())
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kInOrder.of_compute));
  else
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kShared.of_compute));
#endif
}
TREK_RESIDENT void give_registers() {
#ifdef TREK_SM90A
  if (!has_registers_to_share()) return;
  if (multiplies_in_order())
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kInOrder.of_others));
  else
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kShared.of_others));
#endif
}

}  // namespace
}  // namespace trek::resident

#if defined(TREK_SPECIALISED) && defined(TREK_SM90A)
// What there is in the place of code of a node in words.
extern "C" __attribute__((device, noinline)) void trek_move_in_words() {
  trek::resident::perform_words();
}
#endif

extern "C" __attribute__((global)) __attribute__((launch_bounds(trek::resident::kThreads, 1))) void
resident(const trek::resident::Launch parameters) {
  using namespace trek::resident;
  Shared& shared = pipeline();
  const Launch& launch = shared.launch;
  const uint32_t thread = __nvvm_read_ptx_sreg_tid_x();
  const uint32_t processor = __nvvm_read_ptx_sreg_ctaid_x();
  const uint32_t computing = trek::device::block_threads();
  if (thread == 0) {
#if defined(TREK_SM90A) && defined(TREK_SPECIALISED)
    check_shared_memory();
#endif
    shared.launch = parameters;
    for (uint32_t s = 0; s < kSlots; ++s) {
      barrier_init(&shared.named[s], kWarpArrivals);
      barrier_init(&shared.filled[s], 32 + kWarpArrivals);  // of each lane what it fetched
      barrier_init(&shared.ready[s], kWarpArrivals);
      barrier_init(&shared.executed[s], computing / 32 * kWarpArrivals);
      barrier_init(&shared.freed[s], kWarpArrivals);
    }
    for (uint32_t& chunk : shared.window.chunk) chunk = ~0u;
    for (Slot& slot : shared.slot) slot.source = nullptr;
    for (uint32_t& place : shared.place) place = 0;
    for (KeptWords& kept : shared.kept_words)
      for (uint32_t& next : kept.next) next = ~0u;
#ifdef TREK_SPECIALISED
    for (uint32_t& bits : shared.packed) bits = 0;
#endif
    trek::device::begin_tasks(block_of_units(shared));
    shared.left = 0;
    shared.ring = {};
#ifdef TREK_SM90A
    for (uint64_t& barrier : shared.ring.begun_tile) barrier_init(&barrier, 1);
#endif
    make_pair(shared);
    shared.decisions = decisions_before(parameters);
    follow_launch_before();
  }
  __syncthreads();
  meet_pair();
  ProcessorState& state = launch.states[processor];
  const uint32_t lane = thread % 32;
  if (thread < computing) {
    take_registers();
    compute();
  } else {
    give_registers();
    if (thread < computing + 32) {
      Controller(launch, shared, processor, lane).run();
    } else if (thread < computing + 64) {
      fill_all(shared, lane);
    } else if (thread < computing + 96) {
      wait_for_all(launch, shared, state, lane);
    } else {
      signal_all(launch, shared, state, lane);
    }
  }
  if constexpr (trek::device::kHasPairs)
    part_from_pair(pipeline());  // in one place: synccheck takes two for threads that have parted
}
