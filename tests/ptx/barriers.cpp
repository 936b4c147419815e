// What lanes, warps and copies wait for each other with, and what lanes tell each other.
#include "tests/ptx/handlers.h"

namespace trek::ptx {
namespace {

// ---- lanes of a warp -----------------------------------------------------------------------------

void warp_sync(Warp& warp, const Instruction& i, uint32_t lanes) {
  warp.gather(warp.words(i.operands[0])[std::countr_zero(lanes)], lanes);
}

enum class Shuffle { butterfly, down, up, index };

// shfl.sync d|p, a, b, c, members: c holds where segments end, and how lanes' numbers divide.
template <Shuffle kWhich>
void shuffle(Warp& warp, const Instruction& i, uint32_t lanes) {
  if (!warp.gather(warp.words(i.operands[5])[std::countr_zero(lanes)], lanes)) return;
  uint32_t* d = warp.words(i.operands[0]);
  const uint32_t* a = warp.words(i.operands[2]);
  const uint32_t* b = warp.words(i.operands[3]);
  const uint32_t* c = warp.words(i.operands[4]);
  uint32_t from_others[kLanes];
  uint32_t in_range = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    const uint32_t segment = c[lane] >> 8 & 31;
    const uint32_t clamp = c[lane] & 31;
    const uint32_t by = b[lane] & 31;
    const uint32_t last = (lane & segment) | (clamp & ~segment);
    uint32_t from = lane;
    bool is_there = true;
    if (kWhich == Shuffle::up) {
      is_there = static_cast<int>(lane) - static_cast<int>(by) >= static_cast<int>(last);
      from = lane - by;
    } else {
      if (kWhich == Shuffle::down) from = lane + by;
      if (kWhich == Shuffle::butterfly) from = lane ^ by;
      if (kWhich == Shuffle::index) from = (lane & segment) | (by & ~segment);
      is_there = from <= last;
    }
    if (!is_there) from = lane;
    if ((lanes >> from & 1) == 0)
      warp.fail("what a lane gets by shfl is of one that takes no part", static_cast<int>(lane));
    from_others[lane] = a[from];
    in_range |= uint32_t{is_there} << lane;
  });
  for_lanes(lanes, [&](uint32_t lane) { d[lane] = from_others[lane]; });
  warp.set_predicate(i.operands[1], lanes, in_range);
}

enum class Vote { any, all, ballot };

template <Vote kWhich>
void vote(Warp& warp, const Instruction& i, uint32_t lanes) {
  if (!warp.gather(warp.words(i.operands[2])[std::countr_zero(lanes)], lanes)) return;
  uint32_t votes = warp.predicate(i.operands[1]);
  if (i.value != 0) votes = ~votes;
  votes &= lanes;
  if constexpr (kWhich == Vote::ballot) {
    uint32_t* d = warp.words(i.operands[0]);
    for_lanes(lanes, [&](uint32_t lane) { d[lane] = votes; });
  } else {
    const bool is = kWhich == Vote::any ? votes != 0 : votes == lanes;
    warp.set_predicate(i.operands[0], lanes, is ? kAllLanes : 0);
  }
}

// elect.sync lane|p, members: p holds in one lane of them.
void elect(Warp& warp, const Instruction& i, uint32_t lanes) {
  if (!warp.gather(warp.words(i.operands[2])[std::countr_zero(lanes)], lanes)) return;
  const auto first = static_cast<uint32_t>(std::countr_zero(lanes));
  if (i.operands[0] != kNoOperand) {
    uint32_t* d = warp.words(i.operands[0]);
    for_lanes(lanes, [&](uint32_t lane) { d[lane] = first; });
  }
  warp.set_predicate(i.operands[1], lanes, 1U << first);
}

// ---- warps of a block ----------------------------------------------------------------------------

// bar.sync number{, threads}; bar.arrive number, threads
template <bool kWaits>
void barrier(Warp& warp, const Instruction& i, uint32_t lanes) {
  const auto any = static_cast<uint32_t>(std::countr_zero(lanes));
  if (!warp.gather(kAllLanes, lanes)) return;
  const uint32_t number = warp.words(i.operands[0])[any];
  Block& block = warp.block();
  const uint32_t threads =
      i.count > 1 ? warp.words(i.operands[1])[any] : block.grid().shape().block.all();
  if (number >= kNamedBarriers)
    warp.fail("there are 16 barriers, not one of number " + std::to_string(number));
  if (threads % kLanes != 0) warp.fail("a barrier of a part of a warp");
  if (kWaits)
    warp.wait_at_barrier(number, lanes);
  else if (warp.races() != nullptr)
    warp.races()->arrive_at_block_barrier(number, warp.thread(0), lanes);
  block.arrive(number, threads, kLanes);
}

// ---- mbarriers -----------------------------------------------------------------------------------

// As it lies in shared memory. What it looks like on a device is the device's own affair.
struct Mbarrier {
  uint16_t expected;
  uint16_t pending;
  uint16_t mark_and_phase;
  int16_t to_come;  // bytes, in units of 4; less than none: they came before they were expected
};
static_assert(sizeof(Mbarrier) == 8);
constexpr uint16_t kMark = 0x5AB0;
// All that comes is words: of copies sixteen bytes at least.
constexpr uint32_t kByteUnit = 4;

Mbarrier read_barrier(Warp& warp, uint64_t at, uint32_t lane) {
  Mbarrier barrier;
  std::memcpy(&barrier, warp.memory(Space::shared, at, 8, lane), 8);
  if ((barrier.mark_and_phase & 0xFFF0) != kMark)
    warp.fail("no mbarrier has been made at " + std::to_string(at), static_cast<int>(lane));
  return barrier;
}
void write_barrier(Warp& warp, uint64_t at, Mbarrier barrier, uint32_t lane) {
  if (barrier.pending == 0 && barrier.to_come == 0) {
    if (warp.races() != nullptr) warp.races()->end_phase(static_cast<uint32_t>(at));
    barrier.mark_and_phase ^= 1;
    barrier.pending = barrier.expected;
  }
  std::memcpy(warp.memory(Space::shared, at, 8, lane), &barrier, 8);
}
void take_arrival(Warp& warp, uint64_t at, uint32_t bytes, uint32_t lane) {
  Mbarrier barrier = read_barrier(warp, at, lane);
  if (barrier.pending == 0)
    warp.fail("more arrivals than the mbarrier waits for", static_cast<int>(lane));
  if (bytes % kByteUnit != 0) warp.fail("bytes that are no words", static_cast<int>(lane));
  barrier.to_come = static_cast<int16_t>(barrier.to_come + bytes / kByteUnit);
  --barrier.pending;
  write_barrier(warp, at, barrier, lane);
}
void arrive_once(Warp& warp, uint64_t at, uint32_t bytes, uint32_t lane, bool with_copies = false) {
  if (warp.races() != nullptr)
    warp.races()->arrive(static_cast<uint32_t>(at), warp.thread(lane), with_copies);
  take_arrival(warp, at, bytes, lane);
}

void mbarrier_init(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses at = addresses(warp, i, 0);
  const uint32_t* arrivals = warp.words(i.operands[1]);
  for_lanes(lanes, [&](uint32_t lane) {
    const auto count = static_cast<uint16_t>(arrivals[lane]);
    const Mbarrier barrier = {count, count, kMark, 0};
    std::memcpy(warp.memory(Space::shared, at[lane], 8, lane), &barrier, 8);
  });
}
void mbarrier_end(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses at = addresses(warp, i, 0);
  for_lanes(lanes, [&](uint32_t lane) {
    read_barrier(warp, at[lane], lane);
    std::memset(warp.memory(Space::shared, at[lane], 8, lane), 0xFF, 8);
  });
}
void mbarrier_arrive(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses at = addresses(warp, i, 1);
  if (i.operands[0] != kNoOperand) {
    uint64_t* state = warp.longs(i.operands[0]);
    for_lanes(lanes, [&](uint32_t lane) {
      state[lane] = read_barrier(warp, at[lane], lane).mark_and_phase;
    });
  }
  for_lanes(lanes, [&](uint32_t lane) { arrive_once(warp, at[lane], 0, lane); });
}
void mbarrier_expect(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses at = addresses(warp, i, 1);
  const uint32_t* bytes = warp.words(i.operands[2]);
  for_lanes(lanes, [&](uint32_t lane) { arrive_once(warp, at[lane], bytes[lane], lane); });
}
// Whether the phase of a parity is over: then the barrier is in one of the other.
void mbarrier_test(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses at = addresses(warp, i, 1);
  const uint32_t* parity = warp.words(i.operands[2]);
  uint32_t passed = 0;
  uint64_t seen_at = UINT64_MAX;  // most often all lanes look at one
  uint32_t phase = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    if (at[lane] != seen_at) phase = read_barrier(warp, at[lane], lane).mark_and_phase & 1;
    seen_at = at[lane];
    const bool is_over = phase != (parity[lane] & 1);
    passed |= uint32_t{is_over} << lane;
    if (is_over && warp.races() != nullptr)
      warp.races()->pass(static_cast<uint32_t>(at[lane]), warp.thread(lane));
  });
  warp.set_predicate(i.operands[0], lanes, passed);
  if (passed != lanes) warp.yield(true);
}
void mbarrier_arrive_copies(Warp& warp, const Instruction& i, uint32_t lanes) {
  const Addresses at = addresses(warp, i, 0);
  for_lanes(lanes, [&](uint32_t lane) { warp.let_copies_arrive(lane); });
  for_lanes(lanes, [&](uint32_t lane) { arrive_once(warp, at[lane], 0, lane, true); });
}

// ---- time, and what needs nothing here --------------------------------------------------------------

void sleep(Warp& warp, const Instruction& /*i*/, uint32_t /*lanes*/) { warp.yield(true); }
void nothing(Warp& /*warp*/, const Instruction& /*i*/, uint32_t /*lanes*/) {}

template <uint32_t (*kOf)(Warp&, uint32_t)>
void special(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint32_t* d = warp.words(i.operands[0]);
  for_lanes(lanes, [&](uint32_t lane) { d[lane] = kOf(warp, lane); });
}
uint32_t thread_of(Warp& warp, uint32_t lane) { return warp.number() * kLanes + lane; }
const LaunchShape& shape_of(Warp& warp) { return warp.block().grid().shape(); }
uint32_t thread_x(Warp& warp, uint32_t lane) {
  return thread_of(warp, lane) % shape_of(warp).block.x;
}
uint32_t thread_y(Warp& warp, uint32_t lane) {
  return thread_of(warp, lane) / shape_of(warp).block.x % shape_of(warp).block.y;
}
uint32_t threads_x(Warp& warp, uint32_t /*lane*/) { return shape_of(warp).block.x; }
uint32_t threads_y(Warp& warp, uint32_t /*lane*/) { return shape_of(warp).block.y; }
uint32_t block_x(Warp& warp, uint32_t /*lane*/) {
  return warp.block().number() % shape_of(warp).grid.x;
}
uint32_t block_y(Warp& warp, uint32_t /*lane*/) {
  return warp.block().number() / shape_of(warp).grid.x % shape_of(warp).grid.y;
}
uint32_t blocks_x(Warp& warp, uint32_t /*lane*/) { return shape_of(warp).grid.x; }
uint32_t blocks_y(Warp& warp, uint32_t /*lane*/) { return shape_of(warp).grid.y; }
uint32_t lane_number(Warp& /*warp*/, uint32_t lane) { return lane; }
uint32_t warp_number(Warp& warp, uint32_t /*lane*/) { return warp.number(); }
uint32_t processor(Warp& warp, uint32_t /*lane*/) {
  return warp.block().number() % shape_of(warp).resident_blocks;
}
uint32_t clock_word(Warp& warp, uint32_t /*lane*/) {
  return static_cast<uint32_t>(warp.block().grid().instructions);
}
void clock_long(Warp& warp, const Instruction& i, uint32_t lanes) {
  uint64_t* d = warp.longs(i.operands[0]);
  for_lanes(lanes, [&](uint32_t lane) { d[lane] = warp.block().grid().instructions; });
}

}  // namespace

void complete_bytes(Warp& warp, uint32_t at, uint32_t bytes) {
  if (warp.races() != nullptr) warp.races()->finish_box(at);
  if (read_barrier(warp, at, 0).to_come < static_cast<int32_t>(bytes / kByteUnit))
    warp.fail("more bytes than the mbarrier waits for");
  complete_bytes_from_outside(warp, at, bytes);
}
void complete_bytes_from_outside(Warp& warp, uint32_t at, uint32_t bytes) {
  Mbarrier barrier = read_barrier(warp, at, 0);
  barrier.to_come = static_cast<int16_t>(barrier.to_come - static_cast<int32_t>(bytes / kByteUnit));
  write_barrier(warp, at, barrier, 0);
}
void arrive_from_outside(Warp& warp, uint32_t at) { take_arrival(warp, at, 0, 0); }

void add_barriers(Handlers& h) {
  h["bar.warp.sync"] = warp_sync;
  h["shfl.sync.bfly.b32"] = shuffle<Shuffle::butterfly>;
  h["shfl.sync.down.b32"] = shuffle<Shuffle::down>;
  h["shfl.sync.up.b32"] = shuffle<Shuffle::up>;
  h["shfl.sync.idx.b32"] = shuffle<Shuffle::index>;
  h["vote.sync.any.pred"] = vote<Vote::any>;
  h["vote.sync.all.pred"] = vote<Vote::all>;
  h["vote.sync.ballot.b32"] = vote<Vote::ballot>;
  h["elect.sync"] = elect;
  h["bar.sync"] = barrier<true>;
  h["bar.arrive"] = barrier<false>;
  h["mbarrier.init.shared.b64"] = mbarrier_init;
  h["mbarrier.inval.shared.b64"] = mbarrier_end;
  h["mbarrier.arrive.shared.b64"] = mbarrier_arrive;
  h["mbarrier.arrive.expect_tx.shared.b64"] = mbarrier_expect;
  h["mbarrier.test_wait.parity.shared.b64"] = mbarrier_test;
  h["mbarrier.try_wait.parity.shared.b64"] = mbarrier_test;
  h["cp.async.mbarrier.arrive.noinc.shared.b64"] = mbarrier_arrive_copies;
  h["nanosleep.u32"] = sleep;
  for (const char* name : {"fence.mbarrier_init.release.cluster", "fence.proxy.async.global",
                           "fence.proxy.async.shared", "fence.proxy.async", "fence.acq_rel.gpu",
                           "fence.acq_rel.cta", "fence.sc.gpu", "membar.gl", "membar.sys",
                           "membar.cta", "griddepcontrol.launch_dependents", "griddepcontrol.wait",
                           "setmaxnreg.inc.sync.aligned.u32", "setmaxnreg.dec.sync.aligned.u32"})
    h[name] = nothing;
}

void add_special_registers(Handlers& h) {
  h["%tid.x"] = special<thread_x>;
  h["%tid.y"] = special<thread_y>;
  h["%ntid.x"] = special<threads_x>;
  h["%ntid.y"] = special<threads_y>;
  h["%ctaid.x"] = special<block_x>;
  h["%ctaid.y"] = special<block_y>;
  h["%nctaid.x"] = special<blocks_x>;
  h["%nctaid.y"] = special<blocks_y>;
  h["%laneid"] = special<lane_number>;
  h["%warpid"] = special<warp_number>;
  h["%smid"] = special<processor>;
  h["%clock"] = special<clock_word>;
  h["%clock64"] = clock_long;
  h["%globaltimer"] = clock_long;
}

}  // namespace trek::ptx
