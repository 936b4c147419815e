#include "emulator/device/brought.h"

#include <algorithm>

#include "emulator/device/index.h"
#include "emulator/device/matrix_turns.h"
#include "emulator/device/ring.h"

namespace trek::device::tensor {

namespace {

// A tile of a product, and the others beside it.
class Tile {
 public:
  Tile(const Matrix& of, int64_t number) : of_(of) {
    const int64_t tiles = of.down * of.across;  // of a matrix
    batch = number / tiles;
    row = number % tiles / of.across * of.tile_rows;
    column = number % of.across * of.tile_columns;
  }
  int64_t end_row() const { return std::min(row + of_.tile_rows, of_.m); }
  int64_t end_column() const { return std::min(column + of_.tile_columns, of_.n); }
  uint32_t half_of_rows() const { return static_cast<uint32_t>(row / of_.tile_rows % 2); }
  uint32_t half_of_columns() const { return static_cast<uint32_t>(column / of_.tile_columns % 2); }
  // Whether the right operand's columns are brought by two blocks: where the tile that would be the other's exists, and
  // has as many parts.
  bool shares_columns() const {
    const int64_t other = half_of_rows() != 0 ? row - of_.tile_rows : row + of_.tile_rows;
    return other < of_.m && parts_down(other) == parts_down(row);
  }

  int64_t batch = 0;
  int64_t row = 0;
  int64_t column = 0;

 private:
  int64_t parts_down(int64_t first) const {
    return (std::min(of_.m - first, of_.tile_rows) + kPartRows - 1) / kPartRows;
  }
  const Matrix& of_;
};

Extent extent_of(const Operand& at) {
  constexpr int64_t kUnit = 256;
  const int64_t end = at.offset + at.elements * size_of(static_cast<DType>(at.dtype));
  return {static_cast<uint32_t>(at.offset / kUnit),
          static_cast<uint32_t>((end + kUnit - 1) / kUnit)};
}

// Of parts, how large they are, and of the ring: how many slots, and who reads each.
void set_parts(const Matrix& of, Brought& to) {
  const auto warps = kBlockThreads / 32;
  to.rows = kPartRows;
  if (static_cast<Product>(of.product) == Product::tensor) {
    to.columns = of.part_columns;
    to.slots = Ring90::slots(to.columns);
    to.readers = 2;  // warpgroups
    to.ends = of.tail_steps == Matrix::kNoTail;
    return;
  }
  to.ends = of.cut.plain == 0;
  if (takes_turns(of.cut)) {
    to.rows = 1u << of.cut.row_bits;
    to.columns = matrix_f32::kTurnsLines;
    to.slots = turns_slots(of.cut);
    to.readers = warps / of.cut.groups;
  } else {
    to.columns = kPartRows;
    to.slots = large_slots(of.k);
    to.readers = warps;
  }
}

// All of k, in steps, of which groups of warps may take turns.
void set_depth(const Node& node, Brought& to) {
  const Matrix& of = node.matrix;
  const bool by_turns = static_cast<Product>(of.product) != Product::tensor && takes_turns(of.cut);
  to.k = static_cast<uint32_t>(of.k);
  to.depth =
      row_elements(static_cast<uint32_t>(size_of(static_cast<DType>(node.operand(0).dtype))));
  to.block = by_turns ? matrix_f32::kBlock : to.depth;
  to.round = by_turns ? of.cut.groups * to.block : SlotOrder::kOneRound;
  to.steps = (to.k + to.depth - 1) / to.depth;
}

void set_copies(const Matrix& of, Brought& to) {
  const uint32_t at_once = static_cast<Product>(of.product) == Product::tensor ? to.depth
                           : takes_turns(of.cut) ? matrix_f32::kTurnsLines
                                                 : kPartRows;
  to.a_by_line = of.a_k == 1;
  to.b_by_line = of.b_k == 1;
  to.left_lines = to.a_by_line ? lines_brought(of.m, to.rows) : at_once;
  to.right_lines = to.b_by_line ? lines_brought(of.n, to.columns) : at_once;
}

// Of a tile whose k two blocks share: the columns of both, and the half of the steps that is this block's.
void share_depth(const Matrix& of, const Tile& tile, Brought& to) {
  const auto width = static_cast<uint32_t>(of.tile_columns);
  const uint32_t all = to.steps;
  const uint32_t first = (all + 1) / 2;
  to.shares_depth = true;
  to.half = tile.half_of_columns();
  to.first_column -= to.half * width;
  to.end_column = static_cast<uint32_t>(std::min<int64_t>(to.first_column + 2 * width, of.n));
  to.steps = to.half == 0 ? first : all - first;
  to.steps_of_other = all - to.steps;
  if (to.half == 0)
    to.k = first * to.depth;
  else
    to.first_k = first * to.depth;
}

// Of one of two tiles above each other, whose blocks bring half of the columns each, to both.
void share_columns(const Tile& tile, Brought& to) {
  to.brings_halves = true;
  to.half = tile.half_of_rows();
  to.shares_columns = tile.shares_columns();
  if (to.b_by_line) to.right_lines /= 2;
  if (to.shares_columns) to.readers *= 2;
}

}  // namespace

Brought brought_of(const Node& node, int64_t number) {
  const Matrix& of = node.matrix;
  const Tile tile(of, number);
  Brought to{};
  to.maps = static_cast<uint64_t>(node.scratch);
  to.batch = static_cast<uint32_t>(tile.batch);
  to.left_matrix = static_cast<uint32_t>(place_here(node, of.a_batch, tile.batch));
  to.right_matrix = static_cast<uint32_t>(place_here(node, of.b_batch, tile.batch));
  to.first_row = static_cast<uint32_t>(tile.row);
  to.first_column = static_cast<uint32_t>(tile.column);
  to.end_row = static_cast<uint32_t>(tile.end_row());
  to.end_column = static_cast<uint32_t>(tile.end_column());
  to.joint = {Joint::kAlone, of.operands_stay, extent_of(node.operand(0)),
              extent_of(node.operand(1)), extent_of(node.result(0))};
  set_parts(of, to);
  set_depth(node, to);
  set_copies(of, to);
  const auto pairing = static_cast<Pairing>(of.pairing);
  if (pairing == Pairing::depth) share_depth(of, tile, to);
  if (pairing == Pairing::columns) share_columns(tile, to);
  const uint32_t width = to.end_column - to.first_column;
  to.across = to.shares_depth ? 1 : (width + to.columns - 1) / to.columns;
  if (!to.ends && pairing == Pairing::none && to.round == SlotOrder::kOneRound)
    to.joint.form = to.columns << 16 | to.readers << 8 | to.slots;
  return to;
}

}  // namespace trek::device::tensor
