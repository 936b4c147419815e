// The f32 matrix product on a device, by the dot order, at the speed of its multipliers.
//
// What limits it: a scheduler gives out one instruction a cycle, so whatever is no multiplication costs one,
// and a multiplication one more where two of its registers are in one bank. Shared memory gives 16 bytes to
// each lane of a warp in two and a half cycles where lanes 2n and 2n + 1 or lanes n and n ^ 2 want the same
// ones, else in four, so a patch of 8 x 8 outputs, with 64 bytes for 64 multiplications, leaves it half idle.
// A thread has 168 registers where other warps are on the multiprocessor, and one that is spilled goes to the
// second-level cache, since shared memory has taken the first. And a branch, or a load that is waited for,
// costs thirty cycles, as much as thirty multiplications.
//
// A tile is worked on in parts, in one of several ways (matrix_cut.h): a large part, 128 x 128, by all lanes
// together, each with an 8 x 8 patch of the outputs (matrix_f32_large.h, on Hopper matrix_f32_large_90a.h); one of
// 16 x 32 by warps, each with blocks of k of its own, which it brings itself (matrix_f32_warps.h); any
// other by groups of lanes, each with a block of k (matrix_f32_groups.h, on Hopper, where there are enough
// outputs for a group of warps, matrix_f32_turns_90a.h); and where a device interprets, one of a few k by all lanes, each with
// four columns (matrix_f32_shallow.h). Sums become results in matrix_f32_result.h.
//
// Operands come to panels in shared memory by copies that nobody waits for, of "lines": rows of the left one,
// columns of the right one. Lines outside of the operands stand in outputs that nobody takes. Places behind the
// last k are +0 on the right and -0 on the left, whose product -0 changes no sum.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_f32_groups.h"
#include "emulator/device/matrix_f32_large.h"
#include "emulator/device/matrix_f32_large_90a.h"
#include "emulator/device/matrix_f32_result.h"
#include "emulator/device/matrix_f32_shallow.h"
#include "emulator/device/matrix_f32_turns_90a.h"
#include "emulator/device/matrix_f32_warps.h"

namespace trek::device {

namespace matrix_f32 {

// Writes part `number` of a tile to kPart; by one thread.
TREK_TILE void describe_part(const Task& task, int64_t tile, uint32_t number) {
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const std::byte* a = task.memory(node.operand(0));
  const std::byte* b = task.memory(node.operand(1));
  int64_t down = tile * of.cut.across_magic >> of.cut.across_shift;
  int64_t column = (tile - down * of.across) * of.tile_columns;
  int64_t batch_row = 0;
  if (down >= of.down) {
    const int64_t batch = divided_slowly(down, of.down);
    down -= batch * of.down;
    batch_row = batch * of.m;
    a += place_of(node, of.a_batch, batch) * of.a_matrix * 4;
    b += place_of(node, of.b_batch, batch) * of.b_matrix * 4;
  }
  int64_t row = down * of.tile_rows;
  int64_t rows = of.m - row < of.tile_rows ? of.m - row : of.tile_rows;
  int64_t columns = of.n - column < of.tile_columns ? of.n - column : of.tile_columns;
  const uint32_t most_rows = part_rows(of.cut);
  const uint32_t most_columns = part_columns(of.cut);
  uint32_t across = 1;
  Part& part = *task.shared<Part>(kPart);
  part.parts = 1;
  if (!is_wide(of.cut)) {  // which is a tile
    across = static_cast<uint32_t>((columns + most_columns - 1) >> of.cut.column_bits);
    part.parts = across * static_cast<uint32_t>((rows + most_rows - 1) >> of.cut.row_bits);
  }
  if (number != 0) {
    const uint32_t part_down = number / across * most_rows;
    const uint32_t part_across = number % across * most_columns;
    row += part_down;
    rows -= part_down;
    column += part_across;
    columns -= part_across;
  }
  part.rows = rows < most_rows ? static_cast<uint32_t>(rows) : most_rows;
  part.columns = columns < most_columns ? static_cast<uint32_t>(columns) : most_columns;
  part.left = {a + row * of.a_row * 4, part.rows};
  part.right = {b + column * of.b_column * 4, part.columns};
  part.k = static_cast<uint32_t>(of.k);
  part.row = batch_row + row;
  part.column = column;
}

// Copies the node's cut to kCut, 16 bytes a thread.
TREK_TILE void keep_cut([[maybe_unused]] const Task& task, [[maybe_unused]] uint32_t thread) {
#ifndef TREK_SPECIALISED
  static_assert(sizeof(Cut) % 16 == 0 && kCut % 16 == 0);
  if (thread < sizeof(Cut) / 16)
    task.shared<Float4>(kCut)[thread] =
        reinterpret_cast<const Float4*>(&task.node().matrix.cut)[thread];
#endif
}

// Multiplies the part at kPart by warps, whichever way its operands lie.
TREK_TILE void multiply_by_warps(const Task& task) {
  const bool left_by_line = kept_cut(task).left.by_line != 0;
  const bool right_by_line = kept_cut(task).right.by_line != 0;
  if (left_by_line && right_by_line)
    multiply_warps<true, true>(task);
  else if (left_by_line)
    multiply_warps<true, false>(task);
  else if (right_by_line)
    multiply_warps<false, true>(task);
  else
    multiply_warps<false, false>(task);
}

// A part of a product without k, to kValues.
TREK_TILE void clear_part(const Task& task) {
  for (uint32_t i = task.thread(); i < part_of(task).rows * part_of(task).columns;
       i += kBlockThreads)
    task.shared<float>(shared_at::kValues)[i] = 0;
}

}  // namespace matrix_f32

// The tile of number `tile` of a node that suits.
TREK_UNIT_CALL void multiply_tile_f32(Task task, int64_t tile) {
  using namespace matrix_f32;  // NOLINT(google-build-using-namespace)
  for (uint32_t number = 0;; ++number) {
    if (task.thread() == 0) describe_part(task, tile, number);
    if (task.thread() >= 32) keep_cut(task, task.thread() - 32);
    task.sync();
    if (!kSpecialised && number == 0 && waits_interpreted(task.node()) && !await_inputs()) return;
    // What multiplies is functions of their own without calls: all registers are theirs.
    const uint32_t patch = part_of(task).k == 0 ? 0 : kept_cut(task).patch;
    if (patch == kLargePatch)
      multiply_large(task);
    else if (patch == 8)
      multiply_groups<8>(task);
    else if (patch == 4)
      multiply_groups<4>(task);
    else if (patch == kWarpsPatch)
      multiply_by_warps(task);
    else if (patch == kShallowPatch)
      multiply_shallow(task);
    else
      clear_part(task);
    task.sync();
    const uint32_t parts = part_of(task).parts;
    if (patch == kLargePatch || patch == 0 || kept_cut(task).plain == 0) {
      deliver_part(task);
      task.sync();
    }
    if (number + 1 >= parts) break;
    task.sync();  // before the next part is described
  }
}

#ifdef TREK_SM90A
#ifndef TREK_SPECIALISED
// A call of each function that multiplies what another warp has brought, for ptxas to see (emulator/resident/resident.cu):
// first of those that want the most registers.
TREK_TILE void call_f32_products(const Block& block) {
  const Task task(block);
  matrix_f32::large_90a::multiply<true, true>(task, 2, 0);
  matrix_f32::large_90a::multiply<false, false>(task, 2, 0);
  matrix_f32::large_90a::multiply<false, true>(task, 2, 0);
  matrix_f32::large_90a::multiply<true, false>(task, 2, 0);
  matrix_f32::turns_90a::multiply<matrix_f32::turns_90a::Square<true, true>>(task, 0);
  matrix_f32::turns_90a::multiply<matrix_f32::turns_90a::Square<false, false>>(task, 0);
  matrix_f32::turns_90a::multiply<matrix_f32::turns_90a::Square<false, true>>(task, 0);
  matrix_f32::turns_90a::multiply<matrix_f32::turns_90a::Square<true, false>>(task, 0);
}
#endif

// The same of parts whose operands another warp has brought (tensor::bring_tile()): the next part's come while one is
// given, and the next task's, unless a program makes its elements in the ring's memory.
TREK_UNIT_CALL void multiply_tile_f32_90a(Task task, int64_t tile) {
  using namespace matrix_f32;  // NOLINT(google-build-using-namespace)
  const tensor::Bringing& bringing = tensor::kept_bringing(task);
  if (tensor::part_of_runs(task) == OfRuns::begun)
    tile = 0;  // any: of its part the k are wanted alone
  for (uint32_t number = 0;; ++number) {
    if (task.thread() == 0) describe_part(task, tile, number);
    if (task.thread() >= 32) keep_cut(task, task.thread() - 32);
    task.sync();
    // What is asked of a part is read anew behind the products, for which all registers are.
    const uint32_t step = bringing.asked.first_step + number * bringing.what.steps;
    if (tensor::takes_turns(kept_cut(task)))
      multiply_turns_90a(task, step);
    else
      multiply_large_90a(task, step);
    const uint32_t parts = part_of(task).parts;
    const bool is_given = kept_cut(task).plain != 0;
    task.sync();
    if (!is_given) {
      deliver_part(task);
      task.sync();  // programs have their slots where the next part is described
      tensor::say_given();
    }
    if (number + 1 >= parts) break;
  }
}
#endif

}  // namespace trek::device

#endif  // __CUDA__
