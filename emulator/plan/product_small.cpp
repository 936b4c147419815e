// Small products of 16 bits: device/matrix_small.h.
#include <algorithm>
#include <bit>

#include "emulator/plan/product_tasks.h"

namespace trek::plan {

namespace {

constexpr int64_t kRows = 16;    // of a warp
constexpr int64_t kColumns = 8;  // that are multiplied at a time
constexpr int64_t kDepth = 16;   // k of a step
constexpr int64_t kWarps = 8;
constexpr int64_t kPiece = 16;   // bytes
constexpr int64_t kOfPiece = 8;  // elements

// A tile's operands are on their way at once, in pieces of 16 bytes around each run of neighbours, so what it takes is
// what begins and ends a task, the way of these bytes, and steps of 16 k by warps.
struct Costs {
  double task;
  double piece;     // what it takes to ask for it,
  double in_parts;  // and where not all k come at once
  double step;
  double
      load;  // of shared memory: of a step four for eight lines, or one for all where their runs are whole pieces
  double output;
  int64_t columns;  // of a warp
};
constexpr Costs kInterpreted = {2600, 0.7, 0.7, 100, 0, 1.2, kColumns};
// From an H200 by 40 ways through eight products, each alone in its loop: so with what is between two trips.
constexpr Costs kMade = {2900, 0.58, 1.4, 12, 8, 1.2, 2 * kColumns};
// And where parts are added there: what one node takes that waits for them; a second one hardly any more, since it has
// other parts to wait for; and one behind that, or a second one where these nodes stand on the processor of a part of a
// single tile, so that it has three tasks in the loop (resident/walker.h).
constexpr double kMadeJoin = 3300;
constexpr double kMadeFurtherJoin = 4000;
constexpr double kMadeElement = 0.002;

const Costs& costs_of(const Device& device) { return device.interprets ? kInterpreted : kMade; }

// Of an operand: how many lines a tile has of how many, and whether they begin at whole pieces.
struct Side {
  bool by_line;
  int64_t lines;
  int64_t all;
  int64_t whole_k;

  bool in_pieces() const { return (by_line ? whole_k : all) % kOfPiece == 0; }
  // Of shared memory (device/matrix_small_cut.h): runs are odd numbers of pieces.
  int64_t bytes(int64_t depth) const {
    if (!by_line && lines == all) return 2 * lines * depth;
    const int64_t before = in_pieces() ? 0 : kPiece - 2;
    const int64_t run = parts_of(before + 2 * (by_line ? depth : lines), kPiece) | 1;
    return kPiece * run * (by_line ? lines : depth);
  }
  int64_t loads() const { return in_pieces() ? 1 : lines <= kColumns ? 4 : 8; }
  double pieces(int64_t depth) const {
    const bool is_one_run = !by_line && lines == all;
    const int64_t runs = is_one_run ? 1 : by_line ? lines : depth;
    const int64_t before = in_pieces() ? 0 : kPiece - 2;
    return static_cast<double>(runs * parts_of(2 * lines * depth / runs + before, kPiece));
  }
};

}  // namespace

std::vector<MatrixTiles> small_candidates(const Device& device, const ProductWork& work) {
  const MatrixShape& shape = work.shape;
  const int64_t most = std::max(most_tasks(device), shape.batches);
  std::vector<MatrixTiles> found;
  for (int64_t rows = 16; rows <= kSmallLines && rows < 2 * std::max<int64_t>(shape.m, 16);
       rows += rows < 64 ? 16 : 32)
    for (int64_t columns = 8; columns <= kSmallLines && columns < 2 * std::max<int64_t>(shape.n, 8);
         columns += columns < 32   ? 8
                    : columns < 64 ? 16
                                   : 32) {
      const MatrixTiles tiles = tiles_of(shape, rows, columns);
      if (tiles.count <= most) add_splits(found, tiles, device, work);
    }
  // A product beyond all of these: as few tiles as there may be.
  if (found.empty()) found.push_back(tiles_of(shape, kSmallLines, kSmallLines));
  return found;
}

double task_small(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  const Costs& costs = costs_of(device);
  const MatrixShape& shape = work.shape;
  const int64_t depth = depth_of(work, tiles);
  const Side left = {!shape.ta, std::min(tiles.rows, shape.m), shape.m, shape.whole_k};
  const Side right = {shape.tb, std::min(tiles.columns, shape.n), shape.n, shape.whole_k};
  const auto at_once = static_cast<double>(std::min(tiles.count * tiles.split, work.share));
  const int64_t sums = 4 * std::max(left.lines * right.lines, kWarps * kRows * 2 * kColumns);
  const bool in_parts = left.bytes(depth) + right.bytes(depth) + sums > kSmallBytes;
  const double pieces =
      (left.pieces(depth) + right.pieces(depth)) *
      std::max(in_parts ? costs.in_parts : costs.piece, kPiece * at_once / kMemory);
  const int64_t blocks = parts_of(left.lines, kRows) * parts_of(right.lines, costs.columns);
  const int64_t ways =
      blocks >= kWarps ? 1 : std::bit_floor(static_cast<uint64_t>(kWarps / blocks));
  const int64_t steps = parts_of(blocks * ways, kWarps) * parts_of(parts_of(depth, kDepth), ways);
  const double multiplied =
      (costs.step + costs.load * static_cast<double>(left.loads() + right.loads())) *
      static_cast<double>(steps);
  // Of several parts one is multiplied while the next ones come.
  const bool overlaps = in_parts && !device.interprets;
  return costs.task + (overlaps ? std::max(pieces, multiplied) : pieces + multiplied) +
         costs.output * static_cast<double>(left.lines * right.lines);
}

double join_small(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  if (device.interprets) return join_of(work, tiles, kJoin);
  if (tiles.split == 1) return 0;
  const int64_t further = std::max<int64_t>(0, join_nodes(tiles.split) - (tiles.count > 1 ? 2 : 1));
  const auto elements = static_cast<double>(work.shape.m * work.shape.n * work.shape.batches);
  return kMadeJoin + kMadeFurtherJoin * static_cast<double>(further) +
         kMadeElement * elements * static_cast<double>(tiles.split);
}

}  // namespace trek::plan
