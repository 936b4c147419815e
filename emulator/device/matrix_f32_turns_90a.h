// A part of a tile of the f32 product of 64 or 128 rows and 64 columns, or of 64 rows and 96, whose operands the copy engine
// brings (matrix_ring_90a.h). Compiled for sm_90a alone; K is a multiple of 8.
//
// Two or four warps below one another have all outputs; they are a group, and the groups take blocks of 64 k by turns.
// A segment's sums are in shared memory, where each group adds its block behind the group before it: the warp with the
// same outputs says when it has. So blocks are added in ascending order, and after the first ones, which end at
// the same time, nobody waits for another group.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_f32_give_90a.h"

namespace trek::device::matrix_f32 {

namespace turns_90a {

using namespace slots_90a;  // NOLINT(google-build-using-namespace)

inline constexpr uint32_t kPitch = kTurnsLines * 4;  // from one k to the next, [k][lines]
inline constexpr uint32_t kWarps = kBlockThreads / 32;
inline constexpr uint32_t kMostRows = kLargeLines;
static_assert(kTurnsLines == kWarpColumns && kBlock == 2 * kDepth);

// What a lane has where a part has so many columns: its patch, the right operand's lines, and what is there of these.
template <bool kRightByLine, uint32_t kPartColumns>
struct PatchOf {
  using Sums = Patch;
  using Right = Lines<kRightByLine, kAcross, kPitch>;
  using Elements = slots_90a::Elements<kRightByLine>;
  static constexpr uint32_t kColumns = 8;
  static constexpr uint32_t kWarpSums = slots_90a::kWarpSums;
};
template <>
struct PatchOf<false, kWideColumns> : wide_90a::PatchOf {};

inline constexpr uint32_t kMostSums = kMostRows * kTurnsLines * 4;
// Behind the ring are the sums, behind these totals where there are several segments; and not where results lie of which
// a program makes the node's.
static_assert(2 * 2 * Ring90::slot_bytes(kTurnsLines, kMostRows) + 2 * kMostSums <= Ring90::kRoom &&
              2 * 4 * Ring90::slot_bytes(kTurnsLines, 64) + kMostSums <= Ring90::kRoom);
static_assert(shared_at::kValues + kMostSums <=
              Ring90::kBehind + 2 * 2 * Ring90::slot_bytes(kTurnsLines, kMostRows));
static_assert(2 * 4 * Ring90::slot_bytes(kWideColumns, 64) + 64 * kWideColumns * 4 <=
                  Ring90::kRoom &&
              kMostSums >= 64 * kWideColumns * 4);
TREK_TILE uint32_t sums_at(uint32_t shared, const Cut& cut) {
  const uint32_t columns = is_wide(cut) ? kWideColumns : kTurnsLines;
  return Ring90::begin(shared) +
         tensor::turns_slots(cut) * Ring90::slot_bytes(columns, 1u << cut.row_bits);
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

// Multiplies the part at kPart, whose first slot is `first_step`, counted as Brought::first_step is, to the sums behind the
// ring, where they are once all threads have met.
template <bool kLeftByLine, bool kRightByLine, uint32_t kColumns = kTurnsLines>
TREK_UNIT_CALL void multiply(Task task, uint32_t first_step) {
  using Of = PatchOf<kRightByLine, kColumns>;
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
  const uint32_t slot_bytes = Ring90::slot_bytes(kColumns, rows);
  const uint32_t slots_bits = 32 - __builtin_clz(groups);  // 2 x groups are 1 << slots_bits
  first_step = of_warp(first_step);
  const uint32_t shared = tensor::memory_of(task);
  const uint32_t sums = sums_at(shared, cut) + down * Of::kWarpSums + lane * 16;
  if (group == 0) clear_sums<Of::kColumns>(sums);

  // Of the left operand lines that are neighbours come 64 at a time.
  const uint32_t row = down * kWarpRows;
  const uint32_t panel =
      Ring90::begin(shared) + (kLeftByLine ? 0 : row / kTurnsLines * kDepth * kPitch);
  typename Of::Sums sum;
  clear_patch(sum);
  Elements<kLeftByLine> x;
  typename Of::Elements y;
  uint32_t from = group * kBlock;
#pragma unroll 1
  while (from < k_end) {
    const uint32_t step = first_step + slot_at(from, k_end, kBlock, groups);
    const uint32_t slot = step & (2 * groups - 1);
    const uint32_t depth = k_end - from < kDepth ? k_end - from : kDepth;
    from += depth;
    Lines<kLeftByLine, kDown, kPitch> left(panel + slot * slot_bytes,
                                           kLeftByLine ? row : row % kTurnsLines, lane_down(lane));
    typename Of::Right right(Ring90::begin(shared) + slot * slot_bytes + rows * tensor::kRowBytes,
                             0, lane_across(lane));
    tensor::barrier_wait(Ring90::full(shared, slot), step >> slots_bits & 1);
    x.begin(left);
    y.begin(right);
    // Nothing but multiplications and loads, or ptxas moves sums from register to register.
#pragma unroll 1
    for (uint32_t k = 0; k < depth; k += kStep) multiply_step(left, right, x, y, sum, k);
    leave(shared, slot, lane);
    if (from % kBlock != 0 && from < k_end) continue;
    const uint32_t block = (from - 1) / kBlock;
    const bool is_last = block + 1 == blocks;
    const bool ends_segment =
        blocks > kMostGroups && (block % kMostGroups == kMostGroups - 1 || is_last);
    if (block != 0) await_turn(warp);
    add_block(sums, sum);
    if (ends_segment)
      add_segment<Of::kColumns>(sums, sums + rows * kColumns * 4, block < kMostGroups, is_last);
    if (!is_last) give_turn((warp + of_group) & (kWarps - 1));
    from += (groups - 1) * kBlock;  // of the others
  }
}

}  // namespace turns_90a

// Multiplies the part at kPart, whose first slot is `step`, and gives it as give_sums() says.
TREK_TILE void multiply_turns_90a(const Task& task, uint32_t step) {
  const Cut& cut = kept_cut(task);
  if (is_wide(cut))
    turns_90a::multiply<false, false, kWideColumns>(task, step);
  else if (cut.left.by_line != 0 && cut.right.by_line != 0)
    turns_90a::multiply<true, true>(task, step);
  else if (cut.left.by_line != 0)
    turns_90a::multiply<true, false>(task, step);
  else if (cut.right.by_line != 0)
    turns_90a::multiply<false, true>(task, step);
  else
    turns_90a::multiply<false, false>(task, step);
  const uint32_t sums = turns_90a::sums_at(tensor::memory_of(task), cut);
  const uint32_t warps = (1u << cut.row_bits) / turns_90a::kWarpRows;
  if (is_wide(cut))
    give_sums<wide_90a::kStrips>(task, sums, warps, 0);
  else
    give_sums<2>(task, sums, warps, 0);
}

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
