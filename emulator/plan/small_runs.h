// How the operands of a small product (device/matrix_small.h) lie in shared memory: for the cut of its tiles
// (device/matrix_small_cut.cpp), and for what the cost model says of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "emulator/plan/product.h"

namespace trek::plan {

// Runs of an operand of 16 bits: a line's k, or all lines at a k. In bytes, but for counts.
struct SmallRuns {
  int64_t lines;   // of a tile
  int64_t all;     // lines of the operand
  bool by_line;    // a run is a line's k
  bool in_pieces;  // runs begin at multiples of kPiece

  static constexpr int64_t kPiece = 16;

  // All of it is one run: where that is done, runs lie in shared memory as in memory.
  bool are_one() const { return !by_line && lines == all; }
  // That may be in front of a run, of the piece in which it begins.
  int64_t before() const { return in_pieces ? 0 : kPiece - 2; }
  // From a run to the next, an odd number of pieces: so runs beside each other begin in different banks.
  int64_t of_run(int64_t depth) const {
    if (are_one()) return 2 * all;
    return kPiece * (pieces_of(before() + 2 * (by_line ? depth : lines)) | 1);
  }
  int64_t bytes(int64_t depth) const {
    if (are_one()) return kPiece * pieces_of(depth * 2 * all + kPiece - 2);
    return of_run(depth) * (by_line ? lines : depth);
  }

 private:
  static int64_t pieces_of(int64_t bytes) { return (bytes + kPiece - 1) / kPiece; }
};

// Of the sums of a tile, in front of the operands. A tile at an edge has fewer outputs, of which more warps may share the k:
// never of more than a block of 16 rows by 16 columns for each warp.
inline constexpr int64_t small_sums(int64_t rows, int64_t columns) {
  constexpr int64_t kOfWarps = int64_t{8} * 16 * 16;
  constexpr int64_t kLine = 128;
  return (4 * std::max(rows * columns, kOfWarps) + kLine - 1) / kLine * kLine;
}
// What is left for operands.
inline constexpr int64_t small_room(int64_t rows, int64_t columns) {
  return kSmallBytes - small_sums(rows, columns);
}

}  // namespace trek::plan
