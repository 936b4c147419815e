// Tiles of matrix products.
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

void Tiler::matrix(Node& node) {
  const MatrixShape shape = matrix_shape(node);
  const MatrixTiles& tiles = plan_.tilings[node.tiles];
  for (int64_t i = tiles.first; i < tiles.first + tiles.count; ++i) {
    const MatrixTile tile = matrix_tile(shape, tiles, i);
    const Box part = rectangle(tile.batch * shape.m * shape.n + tile.row * shape.n + tile.column,
                               tile.columns, tile.rows, shape.n);
    start(node, i, 1);
    const auto operand = [&](size_t which, bool by_k, int64_t line, int64_t lines) {
      if (by_k)
        matrix_operand(node.operands[which], node.operand_types[which], shape, tile.batch,
                       shape.first_k, shape.k, line, lines);
      else
        matrix_operand(node.operands[which], node.operand_types[which], shape, tile.batch, line,
                       lines, shape.first_k, shape.k);
    };
    const MatrixTile read = tile_read(shape, tiles, i);
    if (node.phases.empty())
      operand(0, shape.ta, read.row, read.rows);
    else
      read_rows(node, node.prologue,
                matrix_of(node.operand_types[0], shape, tile.batch) * shape.m + tile.row,
                tile.rows);
    for (size_t p = 0; p < products_of(node); ++p) {
      const Factors factors = factors_of(node, p);
      operand(factors.right, !shape.tb, read.column, read.columns);
      if (factors.bias != kNone)
        add(node.operands[factors.bias],
            broadcast_part(node.operand_types[factors.bias], node.main_type.shape, part), false,
            false);
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
}

}  // namespace trek::plan
