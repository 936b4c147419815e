// A part of a tile of the f32 product of 64 or 128 rows and 64 columns, whose operands the copy engine brings
// (matrix_ring_90a.h). Compiled for sm_90a alone; K is a multiple of 8.
//
// Two or four warps below one another have all outputs; they are a group, and the groups take blocks of 64 k by turns.
// A segment's sums are in shared memory, where each group adds its block behind the group before it: the warp with the
// same outputs says when it has. So blocks are added in ascending order, and after the first ones, which end at
// the same time, nobody waits for another group.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_f32_result.h"
#include "emulator/device/matrix_f32_slots_90a.h"

namespace trek::device::matrix_f32 {

namespace turns_90a {

using namespace slots_90a;  // NOLINT(google-build-using-namespace)

inline constexpr uint32_t kPitch = kTurnsLines * 4;  // from one k to the next, [k][lines]
inline constexpr uint32_t kWarps = kBlockThreads / 32;
inline constexpr uint32_t kMostRows = kLargeLines;
static_assert(kTurnsLines == kWarpColumns && kBlock == 2 * kDepth);

// Sums of a warp: 16 fours of each lane. A lane's four is of a row of its patch, v is (row, half of the row).
inline constexpr uint32_t kFour = 32 * 16;  // bytes from one of a lane's fours to the next
inline constexpr uint32_t kWarpSums = 16 * kFour;
inline constexpr uint32_t kMostSums = kMostRows * kTurnsLines * 4;
// Behind the ring are the sums, behind these totals where there are several segments; and not where results lie of which
// a program makes the node's.
static_assert(2 * 2 * Ring90::slot_bytes(kTurnsLines, kMostRows) + 2 * kMostSums <= Ring90::kRoom &&
              2 * 4 * Ring90::slot_bytes(kTurnsLines, 64) + kMostSums <= Ring90::kRoom);
static_assert(shared_at::kValues + kMostSums <=
              Ring90::kBehind + 2 * 2 * Ring90::slot_bytes(kTurnsLines, kMostRows));
TREK_TILE uint32_t sums_at(uint32_t shared, const Cut& cut) {
  return Ring90::begin(shared) +
         tensor::turns_slots(cut) * Ring90::slot_bytes(kTurnsLines, 1u << cut.row_bits);
}

// The named barriers by which a warp of one group waits for the one of the group before that has the same outputs.
inline constexpr uint32_t kTurnBarrier = 3;  // the first; behind those of units and of the ring
TREK_TILE void await_turn(uint32_t warp) {
  asm volatile("bar.sync %0, 64;" ::"r"(kTurnBarrier + warp) : "memory");
}
TREK_TILE void give_turn(uint32_t warp) {
  asm volatile("bar.arrive %0, 64;" ::"r"(kTurnBarrier + warp) : "memory");
}

// A number that all lanes of a warp have. ptxas then knows that they do: no branch on it parts them.
TREK_TILE uint32_t of_warp(uint32_t number) {
  return static_cast<uint32_t>(
      __nvvm_shfl_sync_idx_i32(0xFFFFFFFF, static_cast<int>(number), 0, 31));
}

TREK_TILE void clear_sums(uint32_t sums) {
#pragma unroll
  for (uint32_t v = 0; v < 16; ++v) store_four(sums + v * kFour, kNothing);
}

// Adds block `block` of `blocks` to its segment; and at the end of a segment the segment to the totals, which are
// `totals` bytes behind the sums.
TREK_TILE void add_block(uint32_t sums, uint32_t totals, Patch& sum, uint32_t block,
                         uint32_t blocks) {
  // Addresses are worked out here: for all fours they would take registers from the loop around.
  hide(sums);
  auto* const fours = (InShared<Float4>*)(uintptr_t{sums});
#pragma unroll
  for (uint32_t v = 0; v < 16; ++v) {
    float* const four = &sum[v / 2][v % 2 * 4];
    fours[v * kFour / 16] += Float4{four[0], four[1], four[2], four[3]};
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) four[e] = 0;
  }
  const bool last = block + 1 == blocks;
  if (blocks <= kMostGroups || (block % kMostGroups != kMostGroups - 1 && !last)) return;
  TREK_ROLLED
  for (uint32_t at = sums; at != sums + kWarpSums; at += kFour) {
    Float4 total = load_four_now(at);
    if (block >= kMostGroups) total = load_four_now(at + totals) + total;
    store_four(at + totals, total);
    store_four(at, last ? total : kNothing);
  }
}

// Adds the products of kStep k to a patch, those from place `k_slot` of the slot on. Elements of the first of them
// are in x and y, which at the end are those of the next step. leave() is called when all of what was read of
// the slot before has been multiplied; move_on() when the rest of this step is in registers: it makes `k_slot` and the
// lines those of the next step.
template <bool kLeftByLine, bool kRightByLine, class Left, class Right, class Leave, class MoveOn>
TREK_TILE void multiply_step(const Left& left, const Right& right, Elements<kLeftByLine>& x,
                             Elements<kRightByLine>& y, Patch& sum, const uint32_t& k_slot,
                             Leave leave, MoveOn move_on) {
#pragma unroll
  for (uint32_t k = 0; k < kStep; ++k) {
    if (k == 1) leave();
    if (k == kStep - 1) move_on();
    const uint32_t ahead = k == kStep - 1 ? k_slot : k_slot + k + 1;
    if constexpr (!kLeftByLine) {
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) x.of[(k + 1) % 2 * 2 + h] = left.load_lines(ahead, h);
    }
    if constexpr (!kRightByLine) {
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) y.of[(k + 1) % 2 * 2 + h] = right.load_lines(ahead, h);
    }
    // To and fro, so that each multiplication shares an operand with the one before. An operand by line is the
    // outer one: what has been multiplied for the last time makes place for what is next.
#pragma unroll
    for (uint32_t outer = 0; outer < 8; ++outer) {
      constexpr bool kByRows = kLeftByLine || !kRightByLine;
#pragma unroll
      for (uint32_t n = 0; n < 8; ++n) {
        const uint32_t inner = outer % 2 == 0 ? n : 7 - n;
        const uint32_t i = kByRows ? outer : inner;
        const uint32_t j = kByRows ? inner : outer;
        sum[i][j] = semantics::fma(x.get(i, k), y.get(j, k), sum[i][j]);
      }
      if (k % 4 != 3) continue;
      if constexpr (kLeftByLine)
        x.of[outer] = left.load_k(ahead / 4, outer);
      else if constexpr (kRightByLine)
        y.of[outer] = right.load_k(ahead / 4, outer);
    }
    if constexpr (kLeftByLine && kRightByLine) {
      if (k % 4 == 3) {
#pragma unroll
        for (uint32_t j = 0; j < 8; ++j) y.of[j] = right.load_k(ahead / 4, j);
      }
    }
  }
}

// Multiplies the part at kPart, number `number` of its tile, to the sums behind the ring, where they are once all
// threads have met.
template <bool kLeftByLine, bool kRightByLine>
TREK_UNIT_CALL void multiply(Task task, uint32_t number) {
  const Cut& cut = kept_cut(task);
  const uint32_t thread = task.thread();
  const uint32_t lane = thread % 32;
  const uint32_t warp = of_warp(thread / 32);
  const uint32_t groups = cut.groups;
  const uint32_t rows = 1u << cut.row_bits;
  const uint32_t of_group = kWarps / groups;  // warps
  const uint32_t down = warp & (of_group - 1);
  const uint32_t group = warp / of_group;
  const uint32_t k_end = part_of(task).k;
  const uint32_t blocks = (k_end + kBlock - 1) / kBlock;
  if (group >= blocks) return;
  const uint32_t slot_bytes = Ring90::slot_bytes(kTurnsLines, rows);
  const uint32_t slots_bits = 32 - __builtin_clz(groups);  // 2 x groups are 1 << slots_bits
  // The part's first slot, counted from the tile's first.
  const uint32_t first_step = of_warp(number) * ((k_end + kDepth - 1) / kDepth);
  const uint32_t shared = tensor::memory_of(task);
  const uint32_t sums = sums_at(shared, cut) + down * kWarpSums + lane * 16;
  if (group == 0) clear_sums(sums);

  uint32_t slot = 0;  // at hand, and the one before
  uint32_t before = 0;
  const auto to_slot = [&](uint32_t k) TREK_TILE_LAMBDA {
    const uint32_t step = first_step + slot_at(k, k_end, kBlock, groups);
    before = slot;
    slot = step & (2 * groups - 1);
    tensor::barrier_wait(Ring90::full(shared, slot), step >> slots_bits & 1);
  };
  uint32_t from = group * kBlock;
  to_slot(from);
  const uint32_t panel = Ring90::begin(shared) + slot * slot_bytes;
  // Lines that are neighbours come 64 at a time.
  const uint32_t row = down * kWarpRows;
  Lines<kLeftByLine, kDown, kPitch> left(
      panel + (kLeftByLine ? 0 : row / kTurnsLines * kDepth * kPitch),
      kLeftByLine ? row : row % kTurnsLines, lane_down(lane));
  Lines<kRightByLine, kAcross, kPitch> right(panel + rows * tensor::kRowBytes, 0,
                                             lane_across(lane));
  Patch sum;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i)
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j) sum[i][j] = 0;
  Elements<kLeftByLine> x;
  Elements<kRightByLine> y;
  x.begin(left, 0);
  y.begin(right, 0);

  const uint32_t others = (groups - 1) * kBlock;  // k of a round
  uint32_t k_slot = 0;
  bool leaves = false;  // a slot
#pragma unroll 1
  while (from < k_end) {
    const uint32_t k = from;
    const bool ends = k % kBlock == kBlock - kStep || k + kStep >= k_end;
    from += kStep + (ends ? others : 0);
    const auto leave = [&]() TREK_TILE_LAMBDA {
      if (!leaves) return;
      leaves = false;
      asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
      if (lane == 0) tensor::barrier_arrive(Ring90::empty(shared, before));
    };
    const auto move_on = [&]() TREK_TILE_LAMBDA {
      k_slot = (k_slot + kStep) % kDepth;
      if (k_slot != 0 || from >= k_end) return;
      to_slot(from);
      const uint32_t by = (slot - before) * slot_bytes;
      left.at += by;
      right.at += by;
      leaves = true;
    };
    multiply_step(left, right, x, y, sum, k_slot, leave, move_on);
    if (!ends) continue;
    if (k >= kBlock) await_turn(warp);
    const uint32_t block = k / kBlock;
    add_block(sums, rows * kTurnsLines * 4, sum, block, blocks);
    if (block + 1 < blocks) give_turn((warp + of_group) & (kWarps - 1));
  }
  // Who brings writes to the last slot only when the part has been given.
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
  if (lane == 0) tensor::barrier_arrive(Ring90::empty(shared, slot));
}

// Gives the sums that multiply() leaves: to the result, or where it has a tail that is not plain, to kValues:
// [rows][columns].
TREK_UNIT_CALL void give_sums(Task task) {
  constexpr uint32_t kAtOnce =
      4;  // fours of a thread whose tails' operands are on their way together
  const Part& part = part_of(task);
  const Cut& cut = kept_cut(task);
  const bool left_by_line = cut.left.by_line != 0;
  const bool right_by_line = cut.right.by_line != 0;
  const bool is_plain = cut.plain != 0;
  const uint32_t sums = sums_at(tensor::memory_of(task), cut);
  // Four f of the part is four v of lane l of warp w: f = (w x 16 + v) x 32 + l.
  const uint32_t fours = kTurnsLines / 4 << cut.row_bits;
  TREK_ROLLED
  for (uint32_t first = 0; first < fours; first += kAtOnce * kBlockThreads) {
    uint32_t thread = task.thread();
    hide(thread);
    const auto row_of = [&](uint32_t f) TREK_TILE_LAMBDA {
      return f / (16 * 32) * kWarpRows +
             line_of(left_by_line, kDown, lane_down(f % 32), f / 64 % 8);
    };
    const auto column_of = [&](uint32_t f) TREK_TILE_LAMBDA {
      return line_of(right_by_line, kAcross, lane_across(f % 32), f / 32 % 2 * 4);
    };
    const auto outputs_of = [&](uint32_t f) TREK_TILE_LAMBDA {
      return Outputs{part.row + row_of(f), part.column + column_of(f), right_by_line ? kAcross : 1,
                     part.column + part.columns};
    };
    const auto exists = [&](uint32_t f) TREK_TILE_LAMBDA {
      return row_of(f) < part.rows && column_of(f) < part.columns;
    };
    Float4 beside[kAtOnce][kCutTails];
#pragma unroll
    for (uint32_t n = 0; n < kAtOnce; ++n) {
      const uint32_t f = first + n * kBlockThreads + thread;
#pragma unroll
      for (uint32_t s = 0; s < kCutTails; ++s) beside[n][s] = 0;
      if (is_plain && exists(f)) load_beside(task, outputs_of(f), beside[n]);
    }
    if (first == 0) task.sync();  // with what stands beside on its way
#pragma unroll
    for (uint32_t n = 0; n < kAtOnce; ++n) {
      const uint32_t f = first + n * kBlockThreads + thread;
      if (!exists(f)) continue;
      const Float4 total = load_four(sums + f * 16);
      if (is_plain) {
        give_four(task, outputs_of(f), beside[n], total);
        continue;
      }
      const uint32_t apart = right_by_line ? kAcross : 1;
      float* to = task.shared<float>(shared_at::kValues) + row_of(f) * part.columns;
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e)
        if (column_of(f) + e * apart < part.columns) to[column_of(f) + e * apart] = total[e];
    }
  }
}

}  // namespace turns_90a

// Multiplies part `number` of a tile, which is at kPart, and gives it as give_sums() says.
TREK_TILE void multiply_turns_90a(const Task& task, uint32_t number) {
  const Cut& cut = kept_cut(task);
  if (cut.left.by_line != 0 && cut.right.by_line != 0)
    turns_90a::multiply<true, true>(task, number);
  else if (cut.left.by_line != 0)
    turns_90a::multiply<true, false>(task, number);
  else if (cut.right.by_line != 0)
    turns_90a::multiply<false, true>(task, number);
  else
    turns_90a::multiply<false, false>(task, number);
  turns_90a::give_sums(task);
}

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
