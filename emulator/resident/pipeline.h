// The five roles of a block, and the ring of slots between them:
//
//   controller  one warp walks the queue ahead of everybody: it says in a slot which task comes, and what
//               that waits for; in a loop whose tasks come to the same slots again, only what is new in a trip
//   filler      one warp starts the copies of the task's record and of its node's descriptor into the slot, where
//               they are not there from a trip before
//   waiter      one warp polls the counters of the slots in turn, so that nobody else does
//   compute     eight warps or more execute the tasks that are ready, one after the other
//   signaller   one warp raises the counters of what has been executed, so that the next task need not
//               wait until the memory of the device has everything the last one wrote; during a product
//               whose operands are copied it asks for the copies
//
// A slot passes controller -> filler -> waiter -> compute -> signaller -> controller; each hand-over is an mbarrier
// phase, and every role visits the slots in the same order. Behind each task the compute warps meet, so what one
// task wrote its successor on the same block reads without a counter. A warp says that it is through before that: the
// signaller, to which all have said so, has seen what they wrote, and its release carries that on.
//
// Leaving early: whoever finds that the block must leave sets `left`. The waiter says so in every slot that
// follows, the compute warps then only pass slots on, the controller sends a halt, and the block ends.
#pragma once

#include "emulator/device/execute.h"
#include "emulator/device/gemv.h"
#include "emulator/device/pairs.h"
#include "emulator/device/ring.h"
#include "emulator/device/word_places.h"
#include "emulator/resident/due.h"
#include "emulator/resident/tasks.h"

namespace trek::resident {

inline constexpr uint32_t kSlots = 8;          // a power of two
inline constexpr uint32_t kMostTogether = 4;   // Slot::together
inline constexpr uint32_t kMovesTogether = 2;  // the same, of Kind::words
inline constexpr uint32_t kMostComputeWarps = device::kMostBlockThreads / 32;
inline constexpr uint32_t kOtherThreads = 4 * 32;
// Of a kernel that is made for a program the JIT says how many (device::block_threads()); none may be compiled with fewer
// in mind.
#ifdef TREK_SPECIALISED
inline constexpr uint32_t kThreads = device::kMostBlockThreads + kOtherThreads;
#else
inline constexpr uint32_t kThreads = device::kBlockThreads + kOtherThreads;
#endif
inline constexpr uint32_t kSharedRegions = 128;  // more lie in device memory
inline constexpr uint32_t kMostPacked = 1024;    // tasks of a processor whose columns are packed

// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): they are shared memory and never constructed
struct Slot {
  Record record;
  const Record* source;              // where the record comes from; null: the walk is over
  const unsigned char* descriptors;  // and the descriptor
  uint32_t lines;                    // of 16 bytes of the descriptor that are to come
  uint32_t is_here;                  // record and descriptor came for the task before in this slot
  // That the task is executed: 1, but of Kind::quick, and of Kind::words and Kind::recurrent, whose tasks of so many slots
  // from the first on are executed in turn then, each in as many trips.
  uint32_t times;
  uint32_t together;
#if defined(TREK_FOR_CHAINS) || !defined(__CUDA__)
  Kind kind;           // of the record, which is known before that is here
  uint32_t are_there;  // of Kind::gemv: its columns come in stages as they are to lie there,
  int64_t in_stages;   // and its record's count
#endif
  uint64_t began;            // of a profile, in ns
  uint32_t leaves;           // the controller found that the block must leave at this task
  uint32_t skip;             // the block leaves: pass the slot on
  const device::Node* node;  // in `descriptor`, or where it lies if it is longer
  device::Fault fault;
  Due due;
  const unsigned char* brought;  // where `bringing` comes from; null but for Kind::copied
  device::tensor::Bringing bringing;
  alignas(16) unsigned char descriptor[device::kNodeBytes];
};

// A window on a processor's queue: chunks of records, the next of which is fetched while one is walked. A
// loop that fits the window is fetched once.
inline constexpr uint32_t kChunk = 8;
inline constexpr uint32_t kChunks = 4;
static_assert(2 * kChunk <= kRecordsBehind);
struct Window {
  Record record[kChunks * kChunk];
  uint32_t chunk[kChunks];  // which of the queue's lies here
};

// Of a compute warp: in which slot a task of Kind::words may come next whose places it has kept, and of what it is.
struct KeptWords {
  uint32_t next[device::kPlacesKept];
  uint32_t node[device::kPlacesKept];
  int64_t first[device::kPlacesKept];
};

struct Shared {
  device::Pair pair;  // at device::kPairAt
  device::tensor::RingState ring;
  device::tensor::BoxBarriers boxes;
#if defined(TREK_FOR_CHAINS) || !defined(__CUDA__)
  device::GemvRing gemv;
#endif
  Launch launch;
  uint64_t named[kSlots];
  uint64_t filled[kSlots];
  uint64_t ready[kSlots];
  uint64_t executed[kSlots];
  uint64_t freed[kSlots];
  uint32_t left;
  uint32_t place[kMostComputeWarps];  // of each compute warp: see current.h
  KeptWords kept_words[kMostComputeWarps];
  uint64_t decisions;  // told so far; processor 0
  alignas(128) Slot slot[kSlots];
  alignas(128) Window window;
  RegionState regions[kSharedRegions];
#if defined(TREK_SPECIALISED) || defined(TREK_FOR_CHAINS) || !defined(__CUDA__)
  // Of tasks a bit each: device/matrix_thin_packed.h, device/gemv.h.
  uint32_t packed[kMostPacked / 32];
#endif
};
static_assert(offsetof(Shared, pair) == 0);
static_assert(device::kSharedBytes + offsetof(Shared, ring) == device::tensor::Ring90::kStateAt);
static_assert(device::kSharedBytes + offsetof(Shared, boxes) == device::tensor::Ring90::kBoxesAt);
#if defined(TREK_FOR_CHAINS) || !defined(__CUDA__)
static_assert(device::kSharedBytes + offsetof(Shared, gemv) == device::tensor::Ring90::kGemvAt);
#endif
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

}  // namespace trek::resident
