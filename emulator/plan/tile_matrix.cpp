// Tiles of matrix products.
#include "emulator/plan/tiler.h"

namespace trek::plan {

using isa::Type;

// Reads a part of one matrix of a batched operand, which broadcasting may share between batches.
void Tiler::matrix_operand(Operand operand, const Type& type, const MatrixShape& shape,
                           int64_t batch, int64_t row, int64_t rows, int64_t column,
                           int64_t columns) {
  const int rank = type.shape.rank();
  const int64_t height = type.shape[rank - 2];
  const int64_t width = type.shape[rank - 1];
  const isa::Shape& out = plan_.nodes[index_].main_type.shape;
  const isa::Shape batches(out.dims().first(static_cast<size_t>(out.rank() - 2)));
  const isa::Shape mine(type.shape.dims().first(static_cast<size_t>(rank - 2)));
  const int64_t at = shape.batches == 0 ? 0 : broadcast_index(batches, mine, batch);
  add(operand, rectangle(at * height * width + row * width + column, columns, rows, width), false,
      false);
}

void Tiler::matrix(Node& node) {
  const MatrixShape shape = matrix_shape(node);
  const MatrixTiles& tiles = plan_.tilings[node.tiles];
  for (int64_t i = 0; i < tiles.count; ++i) {
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
    operand(0, shape.ta, tile.row, tile.rows);
    operand(1, !shape.tb, tile.column, tile.columns);
    if (node.own_operands > 2 && node.operands[2])
      add(node.operands[2], broadcast_part(node.operand_types[2], node.main_type.shape, part),
          false, false);
    read_scalars(node);
    read_programs(node, part, node.main_type, part);
    add({Operand::Kind::view, node.results[0]}, part, true, false);
  }
}

}  // namespace trek::plan
