// Where a tile of a product lies. Host and device.
#pragma once

#include "emulator/device/node.h"

namespace trek::device::tensor {

// A tile of a node, in rows and columns of one matrix of the batch.
struct Tile {
  int64_t batch;
  int64_t first_row;
  int64_t first_column;
  int64_t end_row;
  int64_t end_column;
};
TREK_TILE Tile tile_of(const Matrix& of, int64_t number) {
  const int64_t tiles = of.down * of.across;  // of a matrix
  Tile tile;
  tile.batch = number < tiles ? 0 : number / tiles;
  const int64_t within = number - tile.batch * tiles;
  tile.first_row = within / of.across * of.tile_rows;
  tile.first_column = within % of.across * of.tile_columns;
  tile.end_row = tile.first_row + of.tile_rows < of.m ? tile.first_row + of.tile_rows : of.m;
  tile.end_column =
      tile.first_column + of.tile_columns < of.n ? tile.first_column + of.tile_columns : of.n;
  return tile;
}

// The product that tensor cores multiply in parts of kPartRows rows: of a transposed one its operands have changed sides,
// and its result is the transpose of the node's. Its tiles are numbered as the node's are.
TREK_TILE Matrix multiplied(const Matrix& of) {
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

}  // namespace trek::device::tensor
