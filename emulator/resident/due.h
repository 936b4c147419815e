// What a task that comes has to wait for, and what it knows of the loops around it: worked out as the walk comes by,
// ahead of everybody who wants it. Of a trip like the one before (Repeats) it is only moved on.
#pragma once

#include "emulator/resident/walker.h"

namespace trek::resident {

// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): they are shared memory and never constructed
struct Due {
  uint64_t moment;
  uint32_t waits;     // of `counter` and `target`
  uint16_t reads;     // of `counters`
  uint16_t is_first;  // trip of the task's loop
  int64_t counters[kMaxReads];
  int64_t steps[kMaxReads];      // of each from one trip of the task's loop to the next
  uint32_t counter[kSlotWaits];  // or kNoCounter
  uint32_t target[kSlotWaits];
  uint32_t counts[kSlotWaits];  // of each from one trip to the next
};
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

// Writes the waits and counters of a record that the walker gave last; lane `lane` of `lanes` takes its part. Of more
// waits than there is room for, `poll(counter, target)` is called with the others.
template <typename Walker, typename Poll>
TREK_RESIDENT void name_due(Due& due, const Walker& walker, const Record& record, uint32_t lane,
                            uint32_t lanes, Poll poll) {
  const uint32_t waits = record.waits;
  for (uint32_t i = lane; i < waits; i += lanes) {
    const Wait wait = walker.wait_of(record, i);
    uint32_t target = 0;
    const bool asks = walker.target(record, wait, target);
    if (i < kSlotWaits) {
      due.counter[i] = asks ? wait.counter : kNoCounter;
      due.target[i] = target;
      due.counts[i] = wait.region == record.loop && wait.first_trip == 0 ? wait.count : 0;
    } else if (asks) {
      poll(wait.counter, target);
    }
  }
  for (uint32_t i = lane; i < record.reads; i += lanes) {
    due.counters[i] = walker.counter(record.read[i]);
    due.steps[i] = record.read[i] == record.loop ? walker.step(record.read[i]) : 0;
  }
  if (lane != 0) return;
  due.waits = waits < kSlotWaits ? waits : kSlotWaits;
  due.reads = record.reads;
  due.is_first = walker.is_first_trip(record) ? 1 : 0;
}

// Counter `i` after so many more trips, modulo 2^64.
TREK_RESIDENT int64_t counter_after(const Due& due, uint32_t i, uint64_t trips) {
  return static_cast<int64_t>(static_cast<uint64_t>(due.counters[i]) +
                              static_cast<uint64_t>(due.steps[i]) * trips);
}

// The same of `1 << trips_bits` trips later.
TREK_RESIDENT void move_on(Due& due, uint32_t trips_bits, uint32_t lane, uint32_t lanes) {
  for (uint32_t i = lane; i < due.waits; i += lanes) due.target[i] += due.counts[i] << trips_bits;
  for (uint32_t i = lane; i < due.reads; i += lanes)
    due.counters[i] = counter_after(due, i, uint64_t{1} << trips_bits);
  if (lane != 0) return;
  due.moment += uint64_t{1} << (24 + trips_bits);
  due.is_first = 0;
}

// The same of `trips` trips before.
TREK_RESIDENT void move_back(Due& due, uint32_t trips, uint32_t lane, uint32_t lanes) {
  for (uint32_t i = lane; i < due.waits; i += lanes) due.target[i] -= due.counts[i] * trips;
  for (uint32_t i = lane; i < due.reads; i += lanes)
    due.counters[i] = counter_after(due, i, -uint64_t{trips});
  if (lane == 0) due.moment -= uint64_t{trips} << 24;
}

}  // namespace trek::resident
