// Tiles of matrix products.
#include <optional>

#include "emulator/plan/runs.h"
#include "emulator/plan/tiler.h"
#include "emulator/plan/window.h"

namespace trek::plan {

using isa::Type;

// The matrix of a batched operand that batch `batch` reads, which broadcasting may share between batches.
int64_t Tiler::matrix_of(const Type& type, const MatrixShape& shape, int64_t batch) const {
  const isa::Shape& out = plan_.nodes[index_].main_type.shape;
  const isa::Shape batches(out.dims().first(static_cast<size_t>(out.rank() - 2)));
  const isa::Shape mine(type.shape.dims().first(static_cast<size_t>(type.shape.rank() - 2)));
  return shape.batches == 0 ? 0 : broadcast_index(batches, mine, batch);
}

// Reads a part of one.
void Tiler::matrix_operand(Operand operand, const Type& type, const MatrixShape& shape,
                           int64_t batch, int64_t row, int64_t rows, int64_t column,
                           int64_t columns) {
  const int rank = type.shape.rank();
  const int64_t height = type.shape[rank - 2];
  const int64_t width = type.shape[rank - 1];
  const int64_t at = matrix_of(type, shape, batch);
  add(operand, rectangle(at * height * width + row * width + column, columns, rows, width), false,
      false);
}

// Reads what a tile multiplies of an operand: its rows of the left one, its columns of any other, at places of k.
void Tiler::factor(const Node& node, size_t which, const MatrixShape& shape, const MatrixTile& tile,
                   Depth depth) {
  const bool left = which == 0;
  const bool by_k = left ? shape.ta : !shape.tb;  // a line of memory has one place of k
  const Depth lines = left ? Depth{tile.row, tile.rows} : Depth{tile.column, tile.columns};
  const Depth& rows = by_k ? depth : lines;
  const Depth& columns = by_k ? lines : depth;
  matrix_operand(node.operands[which], node.operand_types[which], shape, tile.batch, rows.first,
                 rows.count, columns.first, columns.count);
}

// Of a product whose tiles' k are cut into runs: the sums of the tiles that runs begin.
void Tiler::begun_tiles(Node& node) {
  const MatrixShape shape = matrix_shape(node);
  const MatrixTiles& tiles = plan_.tilings[node.tiles];
  const Runs runs(shape, tiles);
  for (int64_t run = 0; run < tiles.runs; ++run) {
    const int64_t tile = runs.tile_begun(run);
    if (tile == kNone) continue;
    start(node, run, 1);
    const MatrixTile of = matrix_tile(shape, tiles, tile);
    factor(node, 0, shape, of, runs.begun(run));
    factor(node, 1, shape, of, runs.begun(run));
    const int64_t line = line_of_run(shape, tiles);
    add({Operand::Kind::view, node.results[0]}, range(run * line, line), true, false);
  }
}

// Tile `i`, of which the task has all k, or what the last run has of it.
void Tiler::tile_of_matrix(Node& node, const MatrixShape& shape, const Runs* runs, int64_t i) {
  const MatrixTiles& tiles = plan_.tilings[node.tiles];
  const MatrixTile tile = matrix_tile(shape, tiles, i);
  const Box part = rectangle(tile.batch * shape.m * shape.n + tile.row * shape.n + tile.column,
                             tile.columns, tile.rows, shape.n);
  start(node, i, 1);
  const Depth depth = runs != nullptr ? runs->ended(i) : Depth{shape.first_k, shape.k};
  const MatrixTile read = tile_read(shape, tiles, i);
  if (node.phases.empty())
    factor(node, 0, shape, read, depth);
  else
    read_rows(node, node.prologue,
              matrix_of(node.operand_types[0], shape, tile.batch) * shape.m + tile.row, tile.rows);
  for (size_t p = 0; p < products_of(node); ++p) {
    const Factors factors = factors_of(node, p);
    factor(node, factors.right, shape, read, depth);
    if (factors.bias != kNone)
      add(node.operands[factors.bias],
          broadcast_part(node.operand_types[factors.bias], node.main_type.shape, part), false,
          false);
  }
  if (runs != nullptr) {
    const int64_t line = line_of_run(shape, tiles);
    for (int64_t run = runs->first_run(i); run < runs->last_run(i); run += runs->together())
      add(node.operands[node.begun], range(run * line, line), false, false);
  }
  read_scalars(node);
  read_program(node, node.chain, plan_.views[node.results[0]].type.shape, part);
  for (uint32_t result : node.results) {
    Box to = part;
    if (node.put)
      to = box_of(plan_.views[result].type.shape,
                  put_window(*node.put, window_of(node.put->shape, part)));
    add({Operand::Kind::view, result}, to, true, node.put.has_value());
  }
}

// Of an ordered product in runs those tiles come last that have been begun, since their tasks wait for that before all.
void Tiler::matrix(Node& node) {
  if (node.of_runs == OfRuns::begun) return begun_tiles(node);
  const MatrixShape shape = matrix_shape(node);
  const MatrixTiles& tiles = plan_.tilings[node.tiles];
  std::optional<Runs> runs;
  if (node.of_runs == OfRuns::ended) runs.emplace(shape, tiles);
  const bool begun_last = runs && is_ordered(tiles);
  const auto add_tiles = [&](bool begun) {
    for (int64_t i = tiles.first; i < tiles.first + tiles.count; ++i)
      if ((begun_last && runs->first_run(i) != runs->last_run(i)) == begun)
        tile_of_matrix(node, shape, runs ? &*runs : nullptr, i);
  };
  add_tiles(false);
  if (begun_last) add_tiles(true);
}

}  // namespace trek::plan
