// A part of a tile of the f32 product of 64 or 128 rows and 64 columns, or a wide one (matrix_cut.h), whose operands the copy
// engine brings (matrix_ring_90a.h). Compiled for sm_90a alone; K is a multiple of 8.
//
// Two or four warps have all outputs, below one another or, of a flat part, beside each other; they are a group, and the
// groups take blocks of 64 k by turns.
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

// How a part is shared out: a lane's patch, what it has of the operands and where that lies, and a group's warps beside each
// other. Of a square one, of patches of 8 x 8, operands may be by line, and neighbouring lines of the left one come 64 at a
// time.
template <bool kLeftByLine, bool kRightByLine>
struct Square {
  static constexpr uint32_t kRows = 8;
  static constexpr uint32_t kColumns = 8;
  static constexpr uint32_t kPartColumns = kTurnsLines;
  static constexpr uint32_t kBeside = 1;
  using Left = Lines<kLeftByLine, kDown, kPitch>;
  using Right = Lines<kRightByLine, kAcross, kPitch>;
  using X = Elements<kLeftByLine>;
  using Y = Elements<kRightByLine>;
  // Where in the left operand's place of a slot a row's copy begins, and how many rows that is behind.
  TREK_ON_DEVICE static constexpr uint32_t copy_at(uint32_t row) {
    return kLeftByLine ? 0 : row / kTurnsLines * kDepth * kPitch;
  }
  TREK_ON_DEVICE static constexpr uint32_t in_copy(uint32_t row) {
    return kLeftByLine ? row : row % kTurnsLines;
  }
};
template <class Part, uint32_t kPatchRows, uint32_t kPatchColumns, uint32_t kWarpsBeside>
struct Wide {
  static constexpr uint32_t kRows = kPatchRows;
  static constexpr uint32_t kColumns = kPatchColumns;
  static constexpr uint32_t kPartColumns = Part::kColumns;
  static constexpr uint32_t kBeside = kWarpsBeside;
  using Left = wide_90a::Lines<kRows, kDown, Part::kRows>;
  using Right = wide_90a::Lines<kColumns, kAcross, Part::kColumns>;
  using X = wide_90a::Elements<kRows>;
  using Y = wide_90a::Elements<kColumns>;
  TREK_ON_DEVICE static constexpr uint32_t copy_at(uint32_t) { return 0; }
  TREK_ON_DEVICE static constexpr uint32_t in_copy(uint32_t row) { return row; }
  static_assert(kColumns * kAcross * kBeside == Part::kColumns &&
                kRows * kDown * 2 == Part::kRows * kBeside);
};
using Long = Wide<LongPart, 8, 12, 1>;
using Tall = Wide<TallPart, 10, 8, 1>;
using Flat = Wide<FlatPart, 10, 8, 2>;

inline constexpr uint32_t kMostSums = kMostRows * kTurnsLines * 4;
// Behind the ring are the sums, behind these totals where there are several segments; and not where results lie of which
// a program makes the node's.
static_assert(2 * 2 * Ring90::slot_bytes(kTurnsLines, kMostRows) + 2 * kMostSums <= Ring90::kRoom &&
              2 * 4 * Ring90::slot_bytes(kTurnsLines, 64) + kMostSums <= Ring90::kRoom);
static_assert(shared_at::kValues + kMostSums <=
              Ring90::kBehind + 2 * 2 * Ring90::slot_bytes(kTurnsLines, kMostRows));
template <class Part>
inline constexpr bool kFits = 2 * kWideGroups * Ring90::slot_bytes(Part::kColumns, Part::kRows) +
                                      Part::kRows * Part::kColumns * 4 <=
                                  Ring90::kRoom &&
                              Part::kRows * Part::kColumns * 4 <= kMostSums;
static_assert(kFits<LongPart> && kFits<TallPart> && kFits<FlatPart>);
TREK_TILE uint32_t sums_at(uint32_t shared, const Cut& cut) {
  const uint32_t columns = is_wide(cut) ? part_columns(cut) : kTurnsLines;
  return Ring90::begin(shared) +
         tensor::turns_slots(cut) * Ring90::slot_bytes(columns, part_rows(cut));
}

// The named barriers by which a warp of one group waits for the one of the group before that has the same outputs.
inline constexpr uint32_t kTurnBarrier = 3;  // the first; behind those of units and of the ring
TREK_TILE void await_turn(uint32_t warp) {
  asm volatile("bar.sync %0, 64;" ::"r"(kTurnBarrier + warp) : "memory");
}
TREK_TILE void give_turn(uint32_t warp) {
  asm volatile("bar.arrive %0, 64;" ::"r"(kTurnBarrier + warp) : "memory");
}

// Multiplies the part at kPart, whose first slot is `first_step`, counted as Brought::first_step is, to the sums behind the
// ring, where they are once all threads have met.
template <class Of>
TREK_UNIT_CALL void multiply(Task task, uint32_t first_step) {
  constexpr uint32_t kOfWarp = kSumsOfWarp<Of::kRows, Of::kColumns>;
  const Cut& cut = kept_cut(task);
  const uint32_t thread = task.thread();
  const uint32_t lane = thread % 32;
  const uint32_t warp = tensor::of_warp(thread / 32);
  const uint32_t groups = cut.groups;
  const uint32_t rows = part_rows(cut);
  const uint32_t of_group = kWarps / groups;  // warps
  const uint32_t member = warp & (of_group - 1);
  const uint32_t down = member / Of::kBeside;
  const uint32_t across = member % Of::kBeside;
  const uint32_t group = warp / of_group;
  const uint32_t k_end = part_of(task).k;
  const uint32_t blocks = (k_end + kBlock - 1) / kBlock;
  if (group >= blocks) return;
  const uint32_t slot_bytes = Ring90::slot_bytes(Of::kPartColumns, rows);
  const uint32_t slots_bits = 32 - __builtin_clz(groups);  // 2 x groups are 1 << slots_bits
  first_step = tensor::of_warp(first_step);
  const uint32_t shared = tensor::memory_of(task);
  const uint32_t sums = sums_at(shared, cut) + member * kOfWarp + lane * 16;
  if (group == 0) clear_sums<Of::kRows, Of::kColumns>(sums);

  const uint32_t row = down * (Of::kRows * kDown);
  const uint32_t column = across * (Of::kColumns * kAcross);
  const uint32_t panel = Ring90::begin(shared) + Of::copy_at(row);
  float sum[Of::kRows][Of::kColumns];
  clear_patch(sum);
  typename Of::X x;
  typename Of::Y y;
  uint32_t from = group * kBlock;
#pragma unroll 1
  while (from < k_end) {
    const uint32_t step = first_step + slot_at(from, k_end, kBlock, groups);
    const uint32_t slot = step & (2 * groups - 1);
    const uint32_t depth = k_end - from < kDepth ? k_end - from : kDepth;
    from += depth;
    typename Of::Left left(panel + slot * slot_bytes, Of::in_copy(row), lane_down(lane));
    typename Of::Right right(Ring90::begin(shared) + slot * slot_bytes + rows * tensor::kRowBytes,
                             column, lane_across(lane));
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
      add_segment<Of::kRows, Of::kColumns>(sums, sums + of_group * kOfWarp, block < kMostGroups,
                                           is_last);
    if (!is_last) give_turn((warp + of_group) & (kWarps - 1));
    from += (groups - 1) * kBlock;  // of the others
  }
}

}  // namespace turns_90a

// Multiplies the part at kPart, whose first slot is `step`, and gives it as give_sums() says.
TREK_TILE void multiply_turns_90a(const Task& task, uint32_t step) {
  using namespace turns_90a;  // NOLINT(google-build-using-namespace)
  const Cut& cut = kept_cut(task);
  const uint32_t sums = sums_at(tensor::memory_of(task), cut);
  const auto wide = [&]<class Of>(Of) TREK_TILE_LAMBDA {
    multiply<Of>(task, step);
    give_sums<Of::kRows, Of::kColumns>(task, sums, kWarps / kWideGroups, Of::kBeside - 1);
  };
  if (is<LongPart>(cut)) return wide(Long());
  if (is<TallPart>(cut)) return wide(Tall());
  if (is<FlatPart>(cut)) return wide(Flat());
  if (cut.left.by_line != 0 && cut.right.by_line != 0)
    multiply<Square<true, true>>(task, step);
  else if (cut.left.by_line != 0)
    multiply<Square<true, false>>(task, step);
  else if (cut.right.by_line != 0)
    multiply<Square<false, true>>(task, step);
  else
    multiply<Square<false, false>>(task, step);
  give_sums<8, 8>(task, sums, part_rows(cut) / kWarpRows, 0);
}

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
