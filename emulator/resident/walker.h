// How a processor goes through its queue: which task is next, in which trip of which loop, and what that
// task has to wait for. Every processor walks the same regions by the same decisions, so all of them
// agree on epochs, on the instructions executed so far and on the back-edge at which a run stops; what
// must be told is told through the decision log of processor 0 and the credit of one that gives it.
//
// What must hold:
//   - Regions are counted when they are entered, whether the processor has a task in them or not.
//   - `moment()` grows in program order and is the same on every processor: trips begun so far in the
//     upper 40 bits, the node in the lower 24. Between two trips that begin, nodes only ascend: a loop
//     that is left is followed by later nodes.
//   - A processor that finds itself behind a trap in program order leaves; one that is before it goes on,
//     since it may find an earlier one, and what it waits for is before the trap too.
//   - Leaving early (`aborted`) is always allowed after the watchdog asked.
//   - Where all stopped at a back-edge, everything before it has been executed and nothing behind it has begun, so a
//     walk is where it stopped, its counts and its regions; another launch may go on with it.
//
// Trips of a loop that holds nothing but tasks differ in their numbers alone. A caller that keeps its last tasks (due.h)
// may be given several such trips at once (Repeats), between the back-edges where anything is decided.
//
// On the device one thread walks; on a host each processor's thread does.
#pragma once

#include "emulator/resident/mailbox.h"
#include "emulator/resident/primitives.h"

namespace trek::resident {

// Whether a processor at `moment` should leave: somebody asked, or a trap precedes it.
TREK_RESIDENT bool must_leave(const Launch& launch, uint64_t moment) {
  return load_relaxed(&launch.control->aborted) != 0 ||
         load_relaxed(&launch.control->trap.urgency) > ~moment;
}

// How many decisions the launches told with whose walks this one goes on.
TREK_RESIDENT uint64_t decisions_before(const Launch& launch) {
  return launch.walks == nullptr ? 0 : launch.walks[0].decisions;
}

// Trips that were gone by before the record that next() gave: `tasks` in each, which the caller still keeps.
struct Repeats {
  uint32_t tasks = 0;
  uint32_t trips = 0;
};

// `Records` gives records of the processor's queue: at(i), good until the next call. On a device all of the
// walker's own state must be in registers, or each step of it takes microseconds: nothing takes its address.
template <typename Records>
class Walker {
 public:
  // A caller that keeps so many tasks, a power of two, asks for repeats() before each record; one that keeps none
  // is given every task.
  TREK_RESIDENT Walker(const Launch& launch, uint32_t processor, RegionState* regions,
                       Records records, uint32_t kept = 0)
      : launch_(launch), regions_(regions), records_(records), processor_(processor), kept_(kept) {}
  // Must have been called, by one thread, before anything else is.
  TREK_RESIDENT void begin() {
    if (launch_.walks != nullptr && launch_.walks[processor_].begun != 0) return go_on();
    for (uint32_t r = 0; r < launch_.region_count; ++r) regions_[r] = RegionState{};
    regions_[0].epoch = 1;
  }

  // The next record that is a task (of any kind), or null at the end of the walk: see say_end().
  TREK_RESIDENT const Record* next();
  // What comes before what next() said last.
  TREK_RESIDENT Repeats repeats() const { return repeats_; }
  // Writes where the walk ended, and tells the host how; every processor does.
  TREK_RESIDENT void say_end() const {
    if (ending_ == Ending::stopped && launch_.walks != nullptr) keep();
    if (processor_ != 0) return;
    Mailbox& mailbox = *launch_.mailbox;
    mailbox.end_node = end_node_;
    mailbox.instructions = instructions_;
    mailbox.back_edges = back_edges_;
    mailbox.ending = ending_;
  }
  // The number in the queue of the record that next() gave.
  TREK_RESIDENT uint32_t place() const { return at_ - 1; }
  TREK_RESIDENT uint64_t moment(const Record& record) const { return begun_ << 24 | record.node; }

  // Wait i of a record.
  TREK_RESIDENT const Wait& wait_of(const Record& record, uint32_t i) const {
    return i < kInlineWaits ? record.wait[i] : launch_.waits[record.more_waits + i - kInlineWaits];
  }
  // What `wait` asks of its counter now; false where it asks nothing.
  TREK_RESIDENT bool target(const Record& record, const Wait& wait, uint32_t& value) const {
    if (wait.first_trip != 0 && record.loop != kNoRegion && !is_first_trip(record)) return false;
    const uint32_t epoch = regions_[wait.region].epoch;
    if (epoch <= wait.delta) return false;
    value = wait.count * (epoch - wait.delta);
    return true;
  }
  // Whether this is the first trip of the loop around a task, if there is one.
  TREK_RESIDENT bool is_first_trip(const Record& record) const {
    return record.loop != kNoRegion && regions_[record.loop].trip == 0;
  }
  // The value of a loop's counter in this trip.
  TREK_RESIDENT int64_t counter(uint32_t region) const {
    const RegionState& r = regions_[region];
    return static_cast<int64_t>(static_cast<uint64_t>(r.from) +
                                r.trip * static_cast<uint64_t>(r.step));
  }
  TREK_RESIDENT int64_t step(uint32_t region) const { return regions_[region].step; }

 private:
  TREK_RESIDENT bool read_decision(const Record& record);
  TREK_RESIDENT void decided(uint16_t region, const Decision& entry) {
    if (region == kNoRegion) return;
    regions_[region].from = entry.from;
    regions_[region].step = entry.step;
    regions_[region].trips = entry.trips;
  }
  TREK_RESIDENT void enter(const Record& record);
  TREK_RESIDENT bool leave(const Record& record);
  TREK_RESIDENT bool may_go_on(const Record& record);
  TREK_RESIDENT void go_round(const Record& record);
  TREK_RESIDENT void go_by(const Record& record);
  TREK_RESIDENT void go_on();
  TREK_RESIDENT void keep() const;
  TREK_RESIDENT bool end(Ending ending, uint32_t node) {
    ending_ = ending;
    end_node_ = node;
    return false;
  }
  TREK_RESIDENT void show_progress(const Record& record) const;
  TREK_RESIDENT void give_credit();

  // How often one looks, in back-edges, whether the block must leave; and the giver, where trips are short.
  static constexpr uint64_t kLook = 16;

  const Launch& launch_;
  RegionState* regions_;
  Records records_;
  uint32_t processor_;
  uint32_t kept_;
  uint32_t at_ = 0;
  uint32_t body_ = ~0u;   // the first record of the loop whose back-edge was taken last
  uint32_t given_ = 0;    // tasks, since then
  uint32_t in_line_ = 0;  // tasks of trips of that loop that held nothing else, until this one
  Repeats repeats_;
  uint64_t begun_ = 1;         // trips
  uint64_t decisions_ = 0;     // read
  uint64_t back_edges_ = 0;    // met
  uint64_t instructions_ = 0;  // of the trips that began
  uint64_t credit_ = 0;
  uint64_t last_look_ = 0;  // of the giver at the clock, in ns
  uint64_t looked_ = 0;     // the back-edge where that was
  uint64_t look_ = 0;       // the one where it looks again
  Ending ending_ = Ending::running;
  uint32_t end_node_ = 0;
};

template <typename Records>
TREK_RESIDENT const Record* Walker<Records>::next() {
  repeats_ = {};
  for (;;) {
    const Record& record = records_.at(at_);
    switch (record.kind) {
      case Kind::decision:
        if (!read_decision(record)) return nullptr;
        ++at_;
        break;
      case Kind::enter:
        enter(record);
        break;
      case Kind::leave:
        if (!leave(record)) return nullptr;
        break;
      case Kind::halt:
        instructions_ += record.weight;
        end(Ending::done, 0);
        return nullptr;
      default:
        ++at_;
        ++given_;
        if (record.waits > kSlotWaits) body_ = ~0u;  // not all of them are kept
        return &record;
    }
  }
}

// Decisions are read in program order, so the log needs no address but its end.
template <typename Records>
TREK_RESIDENT bool Walker<Records>::read_decision(const Record& record) {
  const Decision& entry = launch_.log[decisions_ % kLogEntries];
  ++decisions_;
  for (uint32_t spins = 0; load_acquire(&entry.number) < decisions_; ++spins) {
    // Behind the deciding node: it may have trapped itself.
    if (spins % 64 == 63 && must_leave(launch_, moment(record) + 1))
      return end(Ending::aborted, record.node);
    pause();
  }
  decided(record.region, entry);
  decided(record.other, entry);
  // Processor 0 does not write over what somebody has still to read.
  if (decisions_ % kLogStride == 0)
    store_release(launch_.log_read + size_t{16} * processor_, decisions_);
  return true;
}

template <typename Records>
TREK_RESIDENT void Walker<Records>::enter(const Record& record) {
  RegionState& region = regions_[record.region];
  if (record.jump.is_static != 0) {
    region.from = record.first;
    region.step = record.count;
    region.trips = record.jump.trips;
  }
  const bool enters = record.entering == Entering::always ||
                      (region.trips > 0) == (record.entering == Entering::counted);
  if (!enters) {
    at_ = record.jump.to;
    return;
  }
  region.trip = 0;
  ++region.epoch;
  ++begun_;
  instructions_ += record.weight;
  ++at_;
}

template <typename Records>
TREK_RESIDENT bool Walker<Records>::leave(const Record& record) {
  const bool endless = record.entering == Entering::always;
  const RegionState& region = regions_[record.region];
  if (kept_ != 0) go_by(record);
  if (!endless && region.trip + 1 >= region.trips) {
    if (processor_ == launch_.giver) show_progress(record);
    look_ = 0;
    ++at_;
    return true;
  }
  if (!may_go_on(record)) return false;
  go_round(record);
  return true;
}

// Tells the host how many trips of the loop are done whose end `record` is.
template <typename Records>
TREK_RESIDENT void Walker<Records>::show_progress(const Record& record) const {
  if (record.level < 0) return;
  const RegionState& region = regions_[record.region];
  LoopProgress& progress = launch_.mailbox->progress[record.level];
  store_relaxed_system(&progress.trips, record.entering == Entering::always ? 0 : region.trips);
  store_relaxed_system(&progress.done, region.trip + 1);
}

// At the end of a loop: goes by trips that are like those before, up to where a limit, a stop, a trap or the host may
// have to be looked at.
template <typename Records>
TREK_RESIDENT void Walker<Records>::go_by(const Record& record) {
  const uint32_t tasks = at_ - record.jump.to;
  const bool nothing_else = body_ == record.jump.to && given_ == tasks;
  in_line_ = nothing_else ? in_line_ + tasks : 0;
  if (!nothing_else || (tasks != 0 && (in_line_ < kept_ || kept_ % tasks != 0))) return;
  RegionState& region = regions_[record.region];
  uint64_t trips = kLook - 1 - back_edges_ % kLook;
  const auto at_most = [&](uint64_t n, uint64_t but) {
    const uint64_t most = n > but ? n - but : 0;
    trips = most < trips ? most : trips;
  };
  // Of trips with tasks one more must follow, with the credit for it: they are executed when next() returns, and what it
  // would wait for behind the loop, or for credit, may wait for them.
  const uint64_t follows = tasks != 0 ? 1 : 0;
  if (record.entering != Entering::always) at_most(region.trips, region.trip + 1 + follows);
  at_most(credit_ >> 1, back_edges_ + follows);
  if (processor_ == launch_.giver) at_most(look_, back_edges_ + 1);
  if (launch_.limit != 0 && instructions_ + kLook * record.weight >= launch_.limit) return;
  region.trip += trips;
  region.epoch += static_cast<uint32_t>(trips);
  begun_ += trips;
  back_edges_ += trips;
  instructions_ += trips * record.weight;
  if (tasks != 0) repeats_ = {tasks, static_cast<uint32_t>(trips)};
}

// The next trip of the loop whose end `record` is.
template <typename Records>
TREK_RESIDENT void Walker<Records>::go_round(const Record& record) {
  RegionState& region = regions_[record.region];
  ++region.trip;
  ++region.epoch;
  ++begun_;
  instructions_ += record.weight;
  at_ = record.jump.to;
  body_ = at_;
  given_ = 0;
}

template <typename Records>
TREK_RESIDENT void Walker<Records>::keep() const {
  RegionState* to = launch_.regions + size_t{processor_} * launch_.region_count;
  for (uint32_t r = 0; to != regions_ && r < launch_.region_count; ++r) to[r] = regions_[r];
  launch_.walks[processor_] = {begun_, decisions_, back_edges_, instructions_, at_};
}

// Takes the back-edge that the launch before stopped at.
template <typename Records>
TREK_RESIDENT void Walker<Records>::go_on() {
  const RegionState* from = launch_.regions + size_t{processor_} * launch_.region_count;
  for (uint32_t r = 0; from != regions_ && r < launch_.region_count; ++r) regions_[r] = from[r];
  const Walk& walk = launch_.walks[processor_];
  begun_ = walk.begun;
  decisions_ = walk.decisions;
  back_edges_ = walk.back_edges;
  instructions_ = walk.instructions;
  go_round(records_.at(walk.at));
}

// A back-edge: where limits and stops take effect, at the same one on every processor.
template <typename Records>
TREK_RESIDENT bool Walker<Records>::may_go_on(const Record& record) {
  ++back_edges_;
  const uint64_t next_trip = (begun_ + 1) << 24;  // what is behind everything of this trip
  const bool limited = launch_.limit != 0 && instructions_ >= launch_.limit;
  if (processor_ == launch_.giver &&
      (limited || back_edges_ >= look_ || back_edges_ > credit_ >> 1)) {
    show_progress(record);
    give_credit();
  }
  if (limited) return end(Ending::limit, record.node);
  for (uint32_t spins = 0; back_edges_ > credit_ >> 1; ++spins) {
    if ((credit_ & 1) != 0) return end(Ending::stopped, record.node);
    credit_ = load_relaxed(&launch_.control->credit);
    if (spins % 64 == 63) {
      if (must_leave(launch_, next_trip)) return end(Ending::aborted, record.node);
      pause();
    }
  }
  if (back_edges_ % kLook == 0 && must_leave(launch_, next_trip))
    return end(Ending::aborted, record.node);
  return true;
}

// Credit runs some 64 back-edges ahead where trips are short, and two where one takes a millisecond, so
// that nobody waits for it and a stop is obeyed soon. The giver is one that has tasks in the loops (Image::giver): who
// has none would be through them, and have given all credit, before anything is executed. A clock, the host's memory and
// a release take longer than a short trip's task, so it looks at every sixteenth back-edge of such trips, and at the
// first behind a loop's end.
template <typename Records>
TREK_RESIDENT void Walker<Records>::give_credit() {
  constexpr uint64_t kSlow = 1'000'000;
  const uint64_t now = nanoseconds();
  const uint64_t took = now - last_look_;
  const uint64_t edges = back_edges_ - looked_;
  last_look_ = now;
  looked_ = back_edges_;
  look_ = took * kLook <= kSlow * edges ? (back_edges_ / kLook + 1) * kLook : back_edges_ + 1;
  if ((credit_ & 1) != 0) return;
  const uint64_t ahead = took > kSlow * edges ? 2 : 64;
  const uint64_t given = credit_ >> 1;
  if (back_edges_ + ahead / 2 <= given) return;
  const uint64_t stop = load_acquire_system(&launch_.mailbox->stop);
  uint64_t until = back_edges_ + ahead;
  const bool ends = stop != 0 && stop - 1 <= until;
  if (ends) until = stop - 1;
  credit_ = (until > given ? until : given) << 1 | (ends ? 1 : 0);
  store_release(&launch_.control->credit, credit_);
}

}  // namespace trek::resident
