#include "emulator/device/brought.h"

#include <algorithm>
#include <optional>

#include "emulator/device/describe.h"
#include "emulator/device/index.h"
#include "emulator/device/matrix_tile.h"
#include "emulator/device/matrix_turns.h"
#include "emulator/device/ring.h"
#include "emulator/plan/runs.h"

namespace trek::device::tensor {

namespace {

// How parts are multiplied.
enum class Way { tensor_cores, turns, large };
Way way_of(const Matrix& of) {
  if (static_cast<Product>(of.product) == Product::tensor) return Way::tensor_cores;
  return takes_turns(of.cut) ? Way::turns : Way::large;
}

Extent extent_of(const Operand& at) {
  constexpr int64_t kUnit = 256;
  const int64_t end = at.offset + at.elements * size_of(static_cast<DType>(at.dtype));
  return {static_cast<uint32_t>(at.offset / kUnit),
          static_cast<uint32_t>((end + kUnit - 1) / kUnit)};
}

// Of parts, how large they are, and of the ring: how many slots, and who reads each.
void set_parts(const Matrix& of, Way way, Brought& to) {
  constexpr uint32_t kWarps = kBlockThreads / 32;
  const bool is_tensor = way == Way::tensor_cores;
  to.ends = is_tensor ? of.tail_steps == Matrix::kNoTail : of.cut.plain == 0;
  to.rows = kPartRows;
  switch (way) {
    case Way::tensor_cores:
      to.columns = of.part_columns;
      to.readers = 2;  // warpgroups
      break;
    case Way::turns:
      to.rows = matrix_f32::part_rows(of.cut);
      to.columns = matrix_f32::part_columns(of.cut);
      to.slots = turns_slots(of.cut);
      to.readers = kWarps / of.cut.groups;
      break;
    case Way::large:
      to.columns = kPartRows;
      to.slots = large_slots(of.k);
      to.readers = kWarps;
      break;
  }
}

// All of k, in steps, of which groups of warps may take turns.
void set_depth(const Node& node, Way way, Brought& to) {
  const Matrix& of = node.matrix;
  to.k = static_cast<uint32_t>(of.k);
  to.depth =
      row_elements(static_cast<uint32_t>(size_of(static_cast<DType>(node.operand(0).dtype))));
  to.block = way == Way::turns ? matrix_f32::kBlock : to.depth;
  to.round = way == Way::turns ? of.cut.groups * to.block : SlotOrder::kOneRound;
  to.steps = (to.k + to.depth - 1) / to.depth;
}

// Lines of a slot for the right operand.
uint32_t lines_of(const Brought& brought) {
  return Ring90::lines(brought.columns, brought.b_by_line, brought.right_lines);
}

// Of lines that are neighbours a copy brings 128 bytes for tensor cores, for the dot order those of a part's columns.
void set_copies(const Matrix& of, Way way, Brought& to) {
  const auto at_once = [&](bool left) {
    if (way == Way::turns) return lines_at_once(of.cut, left);
    return way == Way::tensor_cores ? to.depth : to.columns;
  };
  to.a_by_line = of.a_k == 1;
  to.b_by_line = of.b_k == 1;
  to.left_lines = to.a_by_line ? lines_brought(of.m, to.rows) : at_once(true);
  to.brings_halves = brings_halves(of);
  to.right_lines = to.b_by_line
                       ? lines_brought(of.n, to.brings_halves ? to.columns / 2 : to.columns)
                       : at_once(false);
  if (way == Way::tensor_cores) to.slots = Ring90::slots(lines_of(to));
}

// What all tiles of a node have alike, where nothing is shared.
Brought alike(const Node& node, const Matrix& of, Way way) {
  Brought to{};
  set_parts(of, way, to);
  set_depth(node, way, to);
  set_copies(of, way, to);
  return to;
}

// Of a tile whose k two blocks share: the columns of both, and the half of the steps that is this block's.
void share_depth(const Matrix& of, const Tile& tile, Brought& to) {
  const auto width = static_cast<uint32_t>(of.tile_columns);
  const uint32_t all = to.steps;
  const uint32_t first = (all + 1) / 2;
  to.shares_depth = true;
  to.half = static_cast<uint32_t>(tile.first_column / of.tile_columns % 2);
  to.first_column -= to.half * width;
  to.end_column = static_cast<uint32_t>(std::min<int64_t>(to.first_column + 2 * width, of.n));
  to.steps = to.half == 0 ? first : all - first;
  if (to.half == 0)
    to.k = first * to.depth;
  else
    to.first_k = first * to.depth;
}

// Of one of two tiles above each other, whose blocks bring half of the columns each, to both: where the other one exists,
// and has as many parts.
void share_columns(const Matrix& of, const Tile& tile, Brought& to) {
  const auto parts_from = [&](int64_t row) {
    return (std::min(of.m - row, of.tile_rows) + kPartRows - 1) / kPartRows;
  };
  to.half = static_cast<uint32_t>(tile.first_row / of.tile_rows % 2);
  const int64_t other = tile.first_row + (to.half != 0 ? -of.tile_rows : of.tile_rows);
  to.shares_columns = other < of.m && parts_from(other) == parts_from(tile.first_row);
  if (to.shares_columns) to.readers *= 2;
}

// The cuts of a product in runs, as the node has it.
plan::Runs runs_of(const Matrix& of) {
  plan::MatrixShape shape;
  shape.m = of.m;
  shape.n = of.n;
  shape.k = shape.whole_k = of.k;
  plan::MatrixTiles tiles;
  tiles.across = of.across;
  tiles.first = of.runs.first_row * of.across;
  tiles.count = of.down * of.across - tiles.first;
  tiles.part_columns = of.part_columns;
  tiles.runs = of.runs.count;
  tiles.split = of.runs.split;
  tiles.segment = of.runs.segment;
  if (of.runs.together == 2) tiles.pairing = plan::Pairing::columns;
  tiles.transposed = of.transposed != 0;
  return {shape, tiles};
}

OfRuns part_of_runs(const Matrix& of) { return static_cast<OfRuns>(of.runs.part); }

// Of one whose k a run has a part of: which, and what there is of other runs. By the dot order nothing is added: the one
// run there is before has come when the task begins.
void take_run(const plan::Runs& runs, Way way, bool begins, int64_t number, Brought& to) {
  const plan::Depth depth = begins ? runs.begun(number) : runs.ended(number);
  const bool adds = way == Way::tensor_cores && !begins;
  to.first_k = static_cast<uint32_t>(depth.first);
  to.k = static_cast<uint32_t>(depth.first + depth.count);
  to.steps = (to.k - to.first_k + to.depth - 1) / to.depth;
  to.first_run = static_cast<uint32_t>(begins ? number : runs.first_run(number));
  to.end_run = adds ? static_cast<uint32_t>(runs.last_run(number)) : to.first_run;
}

// Where a tile lies in the product that is multiplied.
Tile tile_multiplied(const Matrix& of, int64_t number) {
  const Tile tile = tile_of(of, number);
  if (of.transposed == 0) return tile;
  return {tile.batch, tile.first_column, tile.first_row, tile.end_column, tile.end_row};
}

}  // namespace

Matrix multiplied(const Matrix& of) {
  if (of.transposed == 0) return of;
  Matrix to = of;
  to.m = of.n;
  to.n = of.m;
  to.tile_rows = of.tile_columns;
  to.tile_columns = of.tile_rows;
  to.a_row = of.b_column;
  to.a_k = of.b_k;
  to.a_matrix = of.b_matrix;
  to.a_batch = of.b_batch;
  to.b_column = of.a_row;
  to.b_k = of.a_k;
  to.b_matrix = of.a_matrix;
  to.b_batch = of.a_batch;
  return to;
}

bool brings_halves(const Matrix& of) {
  return static_cast<Product>(of.product) == Product::tensor &&
         (static_cast<Pairing>(of.pairing) == Pairing::columns ||
          (of.b_k == 1 && of.part_columns > kTensorMapLines));
}

uint32_t ring_uses(const Node& node) {
  const Matrix of = multiplied(node.matrix);
  const auto pairing = static_cast<Pairing>(of.pairing);
  const Brought all = alike(node, of, way_of(of));
  uint32_t uses = is_asked_by_line(all) ? kAskedByLine : kAskedBySlot;
  const auto note = [&](bool does, RingUse use) { uses |= does ? use : 0U; };
  note(all.brings_halves, kHalvesBrought);
  note(pairing == Pairing::columns, kColumnsShared);
  note(pairing == Pairing::depth, kDepthShared);
  note(all.ends, kEnded);
  note(way_of(of) == Way::tensor_cores && part_of_runs(of) == OfRuns::ended, kBegunAdded);
  note(of.meets != 0, kMet);
  uses |= way_of(of) == Way::tensor_cores ? kByTensorCores : kInOrder;
  return uses;
}

Brought brought_of(const Node& node, int64_t number) {
  const Matrix of = multiplied(node.matrix);
  const OfRuns part = part_of_runs(node.matrix);
  const bool begins = part == OfRuns::begun;
  std::optional<plan::Runs> runs;
  if (part != OfRuns::none) runs.emplace(runs_of(node.matrix));
  const Tile tile = tile_multiplied(node.matrix, begins ? runs->tile_begun(number) : number);
  const Way way = way_of(of);
  Brought to = alike(node, of, way);
  to.maps = static_cast<uint64_t>(node.scratch);
  to.batch = static_cast<uint32_t>(tile.batch);
  to.left_matrix = static_cast<uint32_t>(place_here(node, of.a_batch, tile.batch));
  to.right_matrix = static_cast<uint32_t>(place_here(node, of.b_batch, tile.batch));
  to.first_row = static_cast<uint32_t>(tile.first_row);
  to.first_column = static_cast<uint32_t>(tile.first_column);
  to.end_row = static_cast<uint32_t>(tile.end_row);
  to.end_column = static_cast<uint32_t>(tile.end_column);
  to.joint = {Joint::kAlone, of.operands_stay, extent_of(node.operand(0)),
              extent_of(node.operand(1)), extent_of(node.result(0))};
  const auto pairing = static_cast<Pairing>(of.pairing);
  if (pairing == Pairing::depth) share_depth(of, tile, to);
  if (pairing == Pairing::columns) share_columns(of, tile, to);
  if (runs) take_run(*runs, way, begins, number, to);
  if (of.meets != 0) to.meeting = static_cast<uint16_t>(of.down * of.across);
  const uint32_t width = to.end_column - to.first_column;
  to.across = to.shares_depth ? 1 : (width + to.columns - 1) / to.columns;
  const bool is_torn = to.brings_halves && !to.shares_columns;
  if (!to.ends && !is_torn && way != Way::turns)
    to.joint.form =
        static_cast<uint32_t>(pairing) << 28 | lines_of(to) << 16 | to.readers << 8 | to.slots;
  return to;
}

// Blocks that have drifted apart get some 45 bytes a cycle each, and products take four cycles for a column of a slot.
bool gains_by_meeting(const Node& node) {
  constexpr uint32_t kMostColumns = 96;  // of a part
  constexpr int64_t kLeastBytes = int64_t{576} << 10;
  if (way_of(node.matrix) != Way::tensor_cores || node.matrix.part_columns > kMostColumns)
    return false;
  const Brought tile = brought_of(node, 0);
  const uint32_t down = (tile.end_row - tile.first_row + tile.rows - 1) / tile.rows;
  const uint32_t lines = (tile.a_by_line ? tile.left_lines : tile.rows) + tile.columns;
  return int64_t{down} * tile.across * tile.steps * lines * kRowBytes >= kLeastBytes;
}

}  // namespace trek::device::tensor
