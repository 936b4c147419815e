// The tasks that only processor 0 has: decisions, and the exchange with the host. Called by all threads
// of its block, like a unit.
#pragma once

#include "emulator/device/execute.h"
#include "emulator/resident/mailbox.h"
#include "emulator/resident/primitives.h"
#include "isa/result.h"

namespace trek::resident {

// Copies bytes with all threads of the block; 16 at a time where both sides are aligned.
TREK_RESIDENT void copy_bytes(const device::Block& block, unsigned char* to,
                              const unsigned char* from, uint64_t bytes) {
  struct alignas(16) Word {
    uint64_t low;
    uint64_t high;
  };
  const bool aligned = ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) &
                        (sizeof(Word) - 1)) == 0;
  const uint64_t words = aligned ? bytes / sizeof(Word) : 0;
  for (uint64_t i = block.thread; i < words; i += block.threads)
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  for (uint64_t i = words * sizeof(Word) + block.thread; i < bytes; i += block.threads)
    to[i] = from[i];
}

// Whether processor 0 has to give up waiting for its host.
TREK_RESIDENT bool host_gave_up(const Launch& launch) {
  return load_acquire_system(&launch.mailbox->abort) != 0 ||
         load_relaxed(&launch.control->aborted) != 0;
}

// Writes `bytes` of a message at ring position `head`, when the host has made room for them.
TREK_RESIDENT void put(const device::Block& block, const Launch& launch, uint64_t head,
                       const unsigned char* from, uint64_t bytes) {
  Mailbox& mailbox = *launch.mailbox;
  if (block.thread == 0) {
    const uint64_t needed = head + bytes - (head + bytes < kEmitBytes ? head + bytes : kEmitBytes);
    if (load_acquire_system(&mailbox.emit_tail) < needed) {
      store_relaxed_system(&mailbox.waits_for_host, 1);
      while (load_acquire_system(&mailbox.emit_tail) < needed && !host_gave_up(launch)) pause();
      store_relaxed_system(&mailbox.waits_for_host, 0);
    }
  }
  block.sync();
  const uint64_t at = head % kEmitBytes;
  const uint64_t before_end = kEmitBytes - at < bytes ? kEmitBytes - at : bytes;
  copy_bytes(block, launch.emit_ring + at, from, before_end);
  copy_bytes(block, launch.emit_ring, from + before_end, bytes - before_end);
  block.sync();
  // The barrier orders everybody's bytes before this thread's release, which carries them to the host.
  if (block.thread == 0) store_release_system(&mailbox.emit_head, (head + bytes + 15) / 16 * 16);
}

// An operand of a node of kind `engine` that is an i64 or a bool.
TREK_RESIDENT int64_t integer_operand(const device::Node& node, uint32_t index,
                                      const device::Environment& environment) {
  const device::Operand& operand = node.operand(index);
  int64_t place = operand.offset;
  auto type = static_cast<isa::DType>(operand.dtype);
  if (operand.scalar != device::kNoScalar) {
    const device::Scalar& scalar = node.scalar(operand.scalar);
    if (scalar.kind == device::Scalar::constant) return scalar.value;
    if (scalar.kind == device::Scalar::counter) return environment.counters[scalar.value];
    place = scalar.value;
    type = static_cast<isa::DType>(scalar.from);
  }
  const std::byte* at = environment.arena + place;
  return type == isa::DType::boolean ? static_cast<int64_t>(*reinterpret_cast<const uint8_t*>(at))
                                     : *reinterpret_cast<const int64_t*>(at);
}

// `first` is where the tensor lies in the arena, `count` its bytes.
TREK_RESIDENT void emit(const device::Block& block, const Launch& launch, const Record& record,
                        const device::Node& node, const device::Environment& environment) {
  uint64_t head = launch.control->emitted;
  const unsigned char* from = launch.arena + record.first;
  // What is not in the arena passes through shared memory: the header, and a scalar that is a constant or
  // a loop's counter.
  auto* header = reinterpret_cast<EmitHeader*>(block.shared);
  auto* scalar = reinterpret_cast<int64_t*>(block.shared + sizeof(EmitHeader));
  if (block.thread == 0) {
    *header = {static_cast<uint64_t>(record.count), record.node, 0};
    if (record.first == kNotInMemory) *scalar = integer_operand(node, 0, environment);
  }
  block.sync();
  if (record.first == kNotInMemory) from = reinterpret_cast<const unsigned char*>(scalar);
  put(block, launch, head, reinterpret_cast<const unsigned char*>(header), sizeof(EmitHeader));
  head += sizeof(EmitHeader);
  for (uint64_t done = 0; done < header->bytes;) {
    const uint64_t piece = header->bytes - done < kEmitChunk ? header->bytes - done : kEmitChunk;
    put(block, launch, head, from + done, piece);
    done += piece;
    head += (piece + 15) / 16 * 16;
  }
  block.sync();
  if (block.thread == 0) launch.control->emitted = head;
}

// `first` is where the block goes, `count` its bytes, `flag` where it says whether there was one, `weight`
// the number of the stream.
TREK_RESIDENT void next(const device::Block& block, const Launch& launch, const Record& record) {
  const uint32_t stream = record.weight;
  StreamBox& box = launch.streams[stream];
  auto* given = reinterpret_cast<uint64_t*>(block.shared);
  const uint64_t number = launch.stream_taken[stream];
  block.sync();
  if (block.thread == 0) {
    bool ended = load_acquire_system(&box.end) <= number;
    if (!ended && load_acquire_system(&box.filled) <= number) {
      store_relaxed_system(&launch.mailbox->waits_for_host, 1);
      while (load_acquire_system(&box.filled) <= number && !ended && !host_gave_up(launch)) {
        ended = load_acquire_system(&box.end) <= number;
        pause();
      }
      store_relaxed_system(&launch.mailbox->waits_for_host, 0);
    }
    *given = ended ? 0 : 1;
    if (!ended) launch.stream_taken[stream] = number + 1;
  }
  block.sync();
  const bool more = *given != 0;
  const auto bytes = static_cast<uint64_t>(record.count);
  unsigned char* to = launch.arena + record.first;
  if (more) {
    const uint64_t place = launch.stream_at[stream] + number % 2 * ((bytes + 15) / 16 * 16);
    copy_bytes(block, to, launch.stream_blocks + place, bytes);
  } else {
    for (uint64_t i = block.thread; i < bytes; i += block.threads) to[i] = 0;
  }
  block.sync();
  if (block.thread != 0) return;
  launch.arena[record.flag] = more ? 1 : 0;
  if (more) store_release_system(&box.taken, number + 1);
}

// The trips of counter = from, from + step, ... while counter < until, or > for a negative step.
TREK_RESIDENT uint64_t trips_of(int64_t from, int64_t until, int64_t step) {
  const auto low = static_cast<uint64_t>(step > 0 ? from : until);
  const auto high = static_cast<uint64_t>(step > 0 ? until : from);
  if (step > 0 ? from >= until : from <= until) return 0;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : ~static_cast<uint64_t>(step) + 1;
  return (high - low - 1) / stride + 1;
}

// Makes sure that every processor has read what the next kLogStride / 4 entries are written over. They
// say how far they have read every kLogStride entries, so none of them waits for us meanwhile.
TREK_RESIDENT void make_room(const Launch& launch, uint64_t number) {
  const uint64_t last = number + kLogStride / 4;
  for (uint32_t p = 0; p < launch.processors; ++p)
    while (load_acquire(launch.log_read + size_t{16} * p) + kLogEntries < last &&
           load_relaxed(&launch.control->aborted) == 0)
      pause();
}

// Executes a loop, a test or an if, and appends the decision to the log; one thread of processor 0.
// `number` counts decisions from 1.
TREK_RESIDENT void decide(const Launch& launch, const device::Node& node,
                          const device::Environment& environment, uint64_t number,
                          device::Fault& fault) {
  int64_t from = 0;
  int64_t step = 0;
  uint64_t trips = 0;
  if (static_cast<isa::Opcode>(node.opcode) == isa::Opcode::Loop) {
    from = integer_operand(node, 0, environment);
    step = integer_operand(node, 2, environment);
    if (step == 0) {
      fault = {static_cast<uint32_t>(isa::TrapCode::InvalidArgument), -1, 0, 0};
      return;
    }
    trips = trips_of(from, integer_operand(node, 1, environment), step);
  } else {
    trips = integer_operand(node, 0, environment) != 0 ? 1 : 0;
  }
  if (number % (kLogStride / 4) == 0) make_room(launch, number);
  Decision& entry = launch.log[(number - 1) % kLogEntries];
  entry.from = from;
  entry.step = step;
  entry.trips = trips;
  store_release(&entry.number, number);
}

// The first fault in program order, of the lowest element, stays. One thread calls it.
TREK_RESIDENT void report_trap(const Launch& launch, uint64_t moment, uint32_t node,
                               const device::Fault& fault) {
  TrapRecord& trap = launch.control->trap;
  while (!try_lock(&trap.lock)) pause();
  const uint64_t known = load_relaxed(&trap.urgency);
  if (~moment > known || (~moment == known && fault.element < trap.element)) {
    trap.element = fault.element;
    trap.value = fault.value;
    trap.extra = fault.extra;
    trap.code = fault.code;
    trap.node = node;
    store_relaxed(&trap.urgency, ~moment);
  }
  unlock(&trap.lock);
}

TREK_RESIDENT uint32_t* counter_at(const Launch& launch, uint32_t counter) {
  return launch.counters + size_t{counter} * kCounterStride;
}

// Adds a node's tasks, the first of which began at `began`, to the profile, which there must be.
TREK_RESIDENT void count_tasks(const Launch& launch, uint32_t node, uint64_t began,
                               uint32_t tasks) {
  uint64_t* row = launch.profile + size_t{2} * node;
  add_relaxed(row, nanoseconds() - began);
  add_relaxed(row + 1, tasks);
}

// What only processor 0 executes; as device::execute(): all threads of the block, `fault` clear before, a sync at
// the end. `decisions` counts them.
TREK_RESIDENT_CALL void control(const device::Block& block, const Launch& launch,
                                const Record& record, const device::Node& node,
                                const device::Environment& environment, uint64_t* decisions,
                                device::Fault* fault) {
  switch (record.kind) {
    case Kind::decide:
      if (block.thread == 0) decide(launch, node, environment, ++*decisions, *fault);
      break;
    case Kind::emit:
      emit(block, launch, record, node, environment);
      break;
    default:
      next(block, launch, record);
      break;
  }
  block.sync();
}

}  // namespace trek::resident
