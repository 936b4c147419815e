// A large part of a tile of the f32 product, 128 x 128, whose operands the copy engine brings (matrix_ring_90a.h).
// Compiled for sm_90a alone; K is a multiple of 8.
//
// Nobody copies, and nobody waits for the block within a part: warps go from slot to slot by the slots' barriers. As in
// matrix_f32_large.h a lane has a patch of 8 x 8 outputs, its block's sums in registers; its segment's are there, too, where
// code is made for one product, and in shared memory elsewhere.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_f32_give_90a.h"

namespace trek::device::matrix_f32 {

namespace large_90a {

using namespace slots_90a;  // NOLINT(google-build-using-namespace)

inline constexpr uint32_t kPanel = kLargeLines * kDepth * 4;  // of one operand in a slot
inline constexpr uint32_t kPitch = kLargeLines * 4;           // from one k to the next, [k][lines]
static_assert(2 * kPanel == Ring90::slot_bytes(kLargeLines) && kDepth * 4 == tensor::kRowBytes);
// Behind the ring: sums of segments, and totals where there are several; and what is given not where results lie of which
// a program makes the node's.
static_assert(kCut + sizeof(Cut) <= Ring90::kBehind);
static_assert(4 * 2 * kPanel + kSums <= Ring90::kRoom &&
              2 * 2 * kPanel + 2 * kSums <= Ring90::kRoom);
static_assert(shared_at::kValues + kSums <= Ring90::kBehind + 4 * 2 * kPanel &&
              shared_at::kValues + kSums <= Ring90::kBehind + 2 * 2 * kPanel + kSums);
TREK_TILE uint32_t sums_at(uint32_t shared, uint32_t slots) {
  return Ring90::begin(shared) + slots * 2 * kPanel;
}

// Of a product whose tiles' k are cut into runs (plan/runs.h): where a thread has its sums of segments of what run `run` has
// begun, in the run's line; behind all of these are the totals, where there are several segments.
inline constexpr uint32_t kPieces = kWarpSums / kFour;       // fours of a lane
inline constexpr uint32_t kTotals = kSums / sizeof(Float4);  // behind the sums, in fours
TREK_TILE Float4* sums_of_run(const Task& task, const Operand& lines, uint32_t run) {
  const uint64_t line = task.node().matrix.k > kSegment ? 2 * kSums : kSums;
  return reinterpret_cast<Float4*>(task.memory(lines) + run * line +
                                   task.thread() / 32 * kWarpSums) +
         task.thread() % 32;
}
// Puts the sums of all k before `end` there.
TREK_TILE void put_begun(const Task& task, uint32_t sums, uint32_t end) {
  Float4* to = sums_of_run(task, task.node().result(0), tensor::kept_brought(task).first_run);
#pragma unroll
  for (uint32_t v = 0; v < kPieces; ++v) to[32 * v] = load_four(sums + v * kFour);
  if (end < kSegment) return;
#pragma unroll
  for (uint32_t v = 0; v < kPieces; ++v) to[kTotals + 32 * v] = load_four(sums + kSums + v * kFour);
}
// And takes those of all k before `first` from there, all loads before any store.
TREK_TILE void take_begun(const Task& task, uint32_t sums, uint32_t first) {
  const Node& node = task.node();
  const Float4* from =
      sums_of_run(task, node.operand(node.matrix.runs.begun), tensor::kept_brought(task).first_run);
  const auto take = [](const Float4* these, uint32_t to) TREK_TILE_LAMBDA {
    Float4 four[kPieces];
#pragma unroll
    for (uint32_t v = 0; v < kPieces; ++v) four[v] = these[32 * v];
#pragma unroll
    for (uint32_t v = 0; v < kPieces; ++v) store_four(to + v * kFour, four[v]);
  };
  take(from, sums);
  if (first >= kSegment) take(from + kTotals, sums + kSums);
}

// A lane's sums of a segment: in registers, or in shared memory at the place where they are left, 16 fours, kFour apart.
template <bool kInRegisters>
struct Segment;
template <>
struct Segment<false> {
  TREK_TILE_MEMBER void begin(uint32_t sums, bool is_empty) {
    if (is_empty) clear_sums<8, 8>(sums);
  }
  TREK_TILE_MEMBER void add(uint32_t sums, Patch& block) { add_block(sums, block); }
  TREK_TILE_MEMBER void leave(uint32_t) {}
};
template <>
struct Segment<true> {
  Patch of;

  // With those that are there, or with none.
  TREK_TILE_MEMBER void begin(uint32_t sums, bool is_empty) {
    clear_patch(of);
    if (is_empty) return;
#pragma unroll
    for (uint32_t v = 0; v < kPieces; ++v) {
      const Float4 four = load_four(sums + v * kFour);
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) of[v / 2][v % 2 * 4 + e] = four[e];
    }
  }
  TREK_TILE_MEMBER void add(uint32_t, Patch& block) {
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i)
#pragma unroll
      for (uint32_t j = 0; j < 8; ++j) of[i][j] += block[i][j];
    clear_patch(block);
  }
  // Behind this it is the next one.
  TREK_TILE_MEMBER void leave(uint32_t sums) {
#pragma unroll
    for (uint32_t v = 0; v < kPieces; ++v) store_four(sums + v * kFour, four_of(of, v));
    clear_patch(of);
  }
};

// The parity of the phase of a slot's barriers in which it has step `step`; `slots` is 2 or 4.
TREK_TILE uint32_t parity_of(uint32_t step, uint32_t slots) { return step >> slots / 2 & 1; }

// Multiplies the part at kPart of a product of so many slots a ring, or those of its k that a run has; `step` is the first of
// its slots, counted as Brought::first_step is. To the sums behind the ring, where they are once all threads have met; behind
// these where there are several segments.
template <bool kLeftByLine, bool kRightByLine>
TREK_UNIT_CALL void multiply(Task task, uint32_t slots, uint32_t step) {
  const uint32_t thread = task.thread();
  // 4 x 2 warps have the part.
  const uint32_t lane = thread % 32;
  const uint32_t lane_down = matrix_f32::lane_down(lane);
  const uint32_t lane_across = matrix_f32::lane_across(lane);
  const uint32_t down = thread / 64 * kWarpRows;
  const uint32_t across = thread / 32 % 2 * kWarpColumns;
  const uint32_t shared = tensor::memory_of(task);
  const uint32_t ring = Ring90::begin(shared);
  const uint32_t sums = sums_at(shared, slots) + thread / 32 * kWarpSums + lane * 16;
  const uint32_t k_all = part_of(task).k;
  const bool is_cut = tensor::part_of_runs(task) != OfRuns::none;
  const uint32_t first = is_cut ? tensor::kept_brought(task).first_k : 0;
  const uint32_t k_end = is_cut ? tensor::kept_brought(task).k : k_all;
  uint32_t slot = step & (slots - 1);
  const uint32_t first_slot = ring + slot * 2 * kPanel;
  Lines<kLeftByLine, kDown, kPitch> left(first_slot, down, lane_down);
  Lines<kRightByLine, kAcross, kPitch> right(first_slot + kPanel, across, lane_across);

  // An operand by line wants 32 registers for what is multiplied, and leaves ptxas no choice of banks.
  constexpr bool kInRegisters = kSpecialised && !kLeftByLine && !kRightByLine;
  Patch sum;
  Segment<kInRegisters> segment;
  if (first != 0) take_begun(task, sums, first);
  segment.begin(sums, first == 0);
  clear_patch(sum);

  Elements<kLeftByLine> x{};
  Elements<kRightByLine> y{};
  tensor::barrier_wait(Ring90::full(shared, slot), parity_of(step, slots));

  const auto multiply_one = [&](uint32_t k, uint32_t ahead) TREK_TILE_LAMBDA {
    load_lines_ahead(left, right, x, y, k, ahead);
    multiply_k(left, right, x, y, sum, k, ahead);
  };
  // A turn begins with the last k of the step before, of zeros at first, and ends with the loads of its own last k: so what
  // there is to do between slots lies behind the loop, and a turn jumps back and, by ptxas's order, over the end of a block.
  // Behind a jump the next instructions are not there yet.
  uint32_t from = first;
  uint32_t k_slot = 0;
  uint32_t depth = k_end - from < kDepth ? k_end - from : kDepth;  // of the slot
  bool ends = false;                                               // a block, with the step before
#pragma unroll 1
  while (true) {
    multiply_one(kStep - 1, k_slot);
    if (ends) [[unlikely]] {
      segment.add(sums, sum);
      const bool last = from >= k_all;
      if (k_all > kSegment && (from % kSegment == 0 || last)) {
        segment.leave(sums);
        add_segment<8, 8>(sums, sums + kSums, from <= kSegment, last);
      }
      if (from >= k_end) break;
      ends = false;
    }
#pragma unroll
    for (uint32_t k = 0; k < kStep - 1; ++k) multiply_one(k, k_slot + k + 1);
    k_slot += kStep;
    if (k_slot != depth) [[likely]]
      continue;
    k_slot = 0;
    from += depth;
    ends = from % kBlock == 0 || from >= k_end;
    if (from >= k_end) continue;
    slots_90a::leave(shared, slot, lane);
    depth = k_end - from < kDepth ? k_end - from : kDepth;
    ++step;
    const uint32_t next = step & (slots - 1);
    const uint32_t by = (next - slot) * 2 * kPanel;
    slot = next;
    left.at += by;
    right.at += by;
    tensor::barrier_wait(Ring90::full(shared, slot), parity_of(step, slots));
  }
  // Who brings writes to the last slot while the part is given.
  slots_90a::leave(shared, slot, lane);
  segment.leave(sums);
  if (tensor::part_of_runs(task) == OfRuns::begun) put_begun(task, sums, k_end);
}

}  // namespace large_90a

// Multiplies the part at kPart, whose first slot is `step`, and gives it as give_sums() says, or leaves what a run has begun.
TREK_TILE void multiply_large_90a(const Task& task, uint32_t step) {
  const Cut& cut = kept_cut(task);
  const uint32_t slots = tensor::large_slots(part_of(task).k);
  if (cut.left.by_line != 0 && cut.right.by_line != 0)
    large_90a::multiply<true, true>(task, slots, step);
  else if (cut.left.by_line != 0)
    large_90a::multiply<true, false>(task, slots, step);
  else if (cut.right.by_line != 0)
    large_90a::multiply<false, true>(task, slots, step);
  else
    large_90a::multiply<false, false>(task, slots, step);
  if (tensor::part_of_runs(task) == OfRuns::begun) return;
  const uint32_t k = part_of(task).k;  // read anew
  give_sums<8, 8>(task,
                  large_90a::sums_at(tensor::memory_of(task), tensor::large_slots(k)) +
                      (k > kSegment ? kSums : 0),
                  kBlockThreads / 32, 1);
}

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
