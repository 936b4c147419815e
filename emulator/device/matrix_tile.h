// Where a tile of a product lies. Host and device.
#pragma once

#include "emulator/device/index.h"

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
  // Numbers of tiles have less than 32 bits, and division of more takes long.
  tile.batch = number < tiles ? 0 : static_cast<uint32_t>(number) / static_cast<uint32_t>(tiles);
  const auto within = static_cast<uint32_t>(number - tile.batch * tiles);
  const uint32_t down = within / static_cast<uint32_t>(of.across);
  tile.first_row = down * of.tile_rows;
  tile.first_column = (within - down * of.across) * of.tile_columns;
  tile.end_row = tile.first_row + of.tile_rows < of.m ? tile.first_row + of.tile_rows : of.m;
  tile.end_column =
      tile.first_column + of.tile_columns < of.n ? tile.first_column + of.tile_columns : of.n;
  return tile;
}

// The matrix that it has of an operand, whose batches are mapped so.
TREK_TILE int64_t matrix_of(const Node& node, Map batches, const Tile& tile) {
  return tile.batch == 0 ? 0 : place_of(node, batches, tile.batch);
}

}  // namespace trek::device::tensor
