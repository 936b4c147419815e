// The image: a plan as the GPU-resident emulator reads it. Host and device share this file.
//
// Every processor has a queue of records of 128 bytes: its tasks, and between them the regions of the
// plan, which every processor walks alike, so that all of them know without asking which trip they are
// in. A task's record holds its tile, its waits and its signals; what its node does is a descriptor
// (emulator/device/node.h) in a pool of their own. Queues, waits and descriptors never change, so they
// may be fetched long before they are needed.
#pragma once

#include <cstdint>

namespace trek::resident {

// A task begins once counter >= count * (epoch of the producers' region - delta); see plan.h.
struct Wait {
  uint32_t counter = 0;
  uint32_t count = 0;
  uint16_t region = 0;     // of the producers
  uint8_t delta = 0;       // 1: the trip before
  uint8_t first_trip = 0;  // 1: only on the first trip of Record::loop
};
static_assert(sizeof(Wait) == 12);

enum class Kind : uint8_t {
  task,   // a tile of a node, and by what way its unit is reached:
  quick,  // the same, of a node that is quick (device/quick.h)
  calls,  // the same, of few elements of one that is quick but for steps that are called
  rows,   // the same, of short rows that are reduced (device/quick_rows.h)
  move,   // the same, of a move between known places (device/quick_move.h)
  thin,  // the same, of a thin product, some of whose copies are asked for before the task's inputs are there
  long_thin,  // the same, whose descriptor has no room in a slot: several that are joined, or that make their rows
  in_order,  // the same, of another product of f32 by the dot order (device::is_in_order()), which finds its tile before
  early,  // the same, of a step or a loss that makes what it reads (device::is_early()), which may trap
  words,  // the same, of a quick move with words, at most kWordsOfTask elements (device/word_moves.h)
  stays,  // the same, whose weights stay in shared memory, where `count` says (device::ThinPlace)
  recurrent,  // the same, of a recurrent step (recurrent.h)
  gemv,  // the same, of a product of one row that is told by a device::Gemv, which lies in front of the node's descriptor;
         // at `count` as device::gemv::Count
  copied,  // the same, of a product whose operands have tensor maps; at `count` in Launch::descriptors, in units of 16
           // bytes, lies what is brought for it (device::tensor::Brought)
  decide,  // processor 0: works out trips, and tells all processors
  emit,    // processor 0: a tensor to the host
  next,    // processor 0: a block of a stream from the host
  decision,  // everyone: reads what `decide` told, for `region` and `other`
  enter,     // everyone: enters `region`, or goes `to` behind it
  leave,     // everyone: goes `to` the next trip of `region`, or on
  halt,
};

// Whether a record is a tile that a unit executes.
constexpr bool is_of_unit(Kind kind) { return kind <= Kind::copied; }
// Whether a task of a kind may trap.
constexpr bool may_trap(Kind kind) {
  return kind == Kind::task || kind == Kind::early || !is_of_unit(kind);
}

enum class Entering : uint8_t {
  counted,    // loop, then, rest: entered where the decision has trips
  otherwise,  // entered where it has none
  always,     // repeat
};

inline constexpr int64_t kMostCalls = 512;     // elements of a task of kind `calls`
inline constexpr int64_t kWordsOfTask = 1024;  // and of one of kind `words`
inline constexpr uint32_t kInlineWaits = 4;
inline constexpr uint32_t kMaxSignals = 4;
inline constexpr uint32_t kMaxLate = 16;  // waits, the first, that may be late
inline constexpr uint32_t kMaxWaits = UINT16_MAX;
inline constexpr uint32_t kSlotWaits =
    32;  // that a slot has room for; the controller polls the others
inline constexpr uint16_t kNoRegion = UINT16_MAX;
inline constexpr uint32_t kNoCounter = UINT32_MAX;
inline constexpr uint32_t kMaxRegions = kNoRegion;
inline constexpr uint32_t kMaxNodes = 1u << 24;
inline constexpr uint32_t kMaxReads = 8;     // counters of loops that one task reads
inline constexpr int64_t kNotInMemory = -1;  // Record::first of an emit: a scalar of the descriptor

struct alignas(128) Record {
  struct Jump {
    uint32_t to;         // a record of the queue
    uint32_t is_static;  // of an enter: the trips are known
    uint64_t trips;      // of an `enter` that is_static
  };
  Kind kind = Kind::halt;
  uint8_t signals = 0;  // counters to raise
  uint8_t reads = 0;    // of a task: how many of `read` there are
  Entering entering = Entering::counted;
  uint32_t node = 0;             // in program order; of enter and leave the region's first
  uint32_t descriptor = 0;       // a device::Node in Launch::descriptors, in units of 16 bytes
  uint16_t descriptor_size = 0;  // in units of 16 bytes
  uint16_t waits =
      0;  // in all: the first four here, the others in Launch::waits from more_waits on
  uint16_t region = kNoRegion;
  union {
    uint16_t other = kNoRegion;
    uint16_t late;  // of a task of compiled code: which of its waits are behind its work (tags.h)
  };
  uint16_t loop = kNoRegion;  // the innermost loop around a task
  int16_t level = -1;         // of a leave: 0 or 1 where the host shows this loop's progress
  int64_t first = 0;          // of a task its tile; of an `enter` that is_static the loop's start
  int64_t count = 0;          // and the loop's step
  union {
    Jump jump = {};
    uint16_t read[kMaxReads];  // regions whose counters the task reads
    int64_t flag;              // of a next: where it says whether there was a block
  };
  uint32_t more_waits = 0;  // in Launch::waits
  uint32_t weight = 0;      // of enter, leave and halt: instructions of a trip; of next the stream;
                            // of a task its code, in a kernel made for the image (gpu_compiler.h)
  Wait wait[kInlineWaits];
  uint32_t signal[kMaxSignals] = {};
};
static_assert(sizeof(Record) == 128);

// Records behind the last, which a processor may fetch and does not look at.
inline constexpr uint32_t kRecordsBehind = 16;

// What a processor knows of a region while it walks.
struct RegionState {
  int64_t from = 0;
  int64_t step = 0;
  uint64_t trips = 0;  // of the decision that holds
  uint64_t trip = 0;   // this one's number
  uint32_t epoch = 0;  // trips begun since the launch, modulo 2^32
  uint32_t pad = 0;
};

// Where a processor stopped at a back-edge, and what it had counted there: enough for another launch to go on, as if it
// had not stopped. Regions are beside it (Launch::regions).
struct alignas(64) Walk {
  uint64_t begun = 0;  // trips; 0: the launch begins at the beginning
  uint64_t decisions = 0;
  uint64_t back_edges = 0;  // met, this one among them
  uint64_t instructions = 0;
  uint32_t at = 0;  // the record in the queue
};

// An entry of the decision log, a ring: what processor 0 decided, read by every processor in turn.
struct Decision {
  int64_t from = 0;
  int64_t step = 0;
  uint64_t trips = 0;
  uint64_t number = 0;  // from 1; written last
};
inline constexpr uint64_t kLogEntries = 1024;
inline constexpr uint64_t kLogStride = 256;  // how often a processor says how far it has read

// The first fault in program order.
struct TrapRecord {
  uint64_t urgency =
      0;  // ~moment (see walker.h), so that 0 is none and the earliest is the greatest
  int64_t element = 0;
  int64_t value = 0;
  int64_t extra = 0;
  uint32_t code = 0;
  uint32_t node = 0;
  uint32_t lock = 0;
  uint32_t pad = 0;
};

// How a launch ended, said by processor 0.
enum class Ending : uint32_t { running, done, limit, stopped, trapped, aborted };

// What a processor is doing, for the watchdog's dump: written often, read by nobody on the device.
enum class Doing : uint32_t { starting, waiting, executing, finished };
struct alignas(64) ProcessorState {
  uint64_t retired = 0;  // tasks
  Doing doing = Doing::starting;
  uint32_t node = 0;
  uint32_t counter = 0;  // waiting for it
  uint32_t target = 0;
  uint32_t seen = 0;
};

// Device memory that a launch starts with, all zero.
struct Control {
  TrapRecord trap;
  alignas(128) uint64_t credit = 0;   // back-edges that may be taken; the lowest bit: and no more
  alignas(128) uint64_t aborted = 0;  // not 0: leave as soon as may be
  alignas(128) uint64_t emitted = 0;  // bytes put into the ring so far
};

}  // namespace trek::resident
