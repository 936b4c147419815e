// Page-locked host memory between a running launch and its host. Each word has one writer.
//
//   emitted values   a ring of bytes: messages of a header and the tensor's bytes, padded to 16. The
//                    device writes bytes, then `emit_head`; the host reads, then writes `emit_tail`. A
//                    message may be longer than the ring: both go on piece by piece.
//   input streams    two blocks a stream, filled in turn ahead of the program; block n is in place
//                    n % 2 once `filled` > n, and free again once `taken` > n.
//   stop             the host asks; the giver answers at a back-edge by giving no more credit. A launch that
//                    stopped so can be gone on with by another (Launch::walks).
//   abort            the watchdog asks; everyone leaves where they are.
#pragma once

#include <cstdint>

#include "emulator/resident/image.h"

namespace trek::resident {

inline constexpr uint64_t kEmitBytes = 1u << 20;
inline constexpr uint64_t kEmitChunk = 1u << 16;
inline constexpr uint32_t kNoBlock = 0xFFFFFFFFu;

struct EmitHeader {
  uint64_t bytes = 0;  // of the tensor
  uint32_t node = 0;
  uint32_t pad = 0;
};
static_assert(sizeof(EmitHeader) == 16);

struct alignas(128) StreamBox {
  uint64_t filled;  // host: blocks put in place
  uint64_t end;     // host: the number of the block that is none; all ones while there are more
  alignas(64) uint64_t taken;  // device
};

struct LoopProgress {
  uint64_t done;
  uint64_t trips;
};

struct Mailbox {
  // The host writes these.
  alignas(128) uint64_t
      stop;  // not 0: take no more than stop - 1 back-edges, or the fewest that can still be
  uint64_t abort;
  uint64_t emit_tail;
  // The device writes these.
  alignas(128) uint64_t emit_head;
  uint64_t waits_for_host;  // 1 while processor 0 waits for room or a block
  alignas(128) LoopProgress progress[2];
  alignas(128) Ending ending;  // written last
  uint32_t end_node;           // the loop where a limit or a stop took effect
  uint64_t instructions;       // executed, as back-edges count them
  uint64_t back_edges;         // met: of a launch that stopped, the last was not taken
};

// What the kernel is given: addresses of the device.
struct Launch {
  const Record* records;
  const uint32_t* queues;  // where each processor's begins
  const Wait* waits;
  const unsigned char* descriptors;
  unsigned char* arena;
  uint32_t* counters;
  Decision* log;
  uint64_t* log_read;  // per processor, kLogPad words apart: entries read
  Control* control;
  RegionState*
      regions;  // per processor, where they do not fit shared memory, or where there are walks
  Walk* walks;  // per processor, where it stopped and goes on; or null: it need not be known
  ProcessorState* states;
  Mailbox* mailbox;
  unsigned char* emit_ring;  // kEmitBytes
  StreamBox* streams;        // by the stream's number
  unsigned char* stream_blocks;
  const uint64_t*
      stream_at;  // per stream: its two blocks, from stream_blocks; each stream_bytes apart
  uint64_t* stream_taken;  // per stream: blocks taken, of the device's own memory
  uint64_t* profile;       // per node: nanoseconds and tasks; or null
  uint64_t seed;
  uint64_t limit;  // instructions; 0: none
  uint32_t processors;
  uint32_t region_count;
  uint32_t scratch_bytes;  // of shared memory, for units
  uint32_t giver;          // the processor that gives credit
};

inline constexpr uint32_t kCounterStride = 32;  // words between counters: a cache line each

}  // namespace trek::resident
