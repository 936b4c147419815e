// Small products of 16 bits: device/matrix_small.h.
#include <algorithm>
#include <bit>

#include "emulator/plan/product_tasks.h"
#include "emulator/plan/small_runs.h"

namespace trek::plan {

namespace {

constexpr int64_t kRows = 16;    // of a warp
constexpr int64_t kColumns = 8;  // that are multiplied at a time
constexpr int64_t kDepth = 16;   // k of a step
constexpr int64_t kWarps = 8;
constexpr int64_t kOfPiece = 8;  // elements

// A tile's operands are on their way at once, in pieces of 16 bytes around each run of neighbours, so what it takes is
// what begins and ends a task, the way of these bytes, and steps of 16 k by warps.
struct Costs {
  double task;
  double piece;     // what it takes to ask for it,
  double in_parts;  // and where not all k come at once
  double step;
  double load;  // of shared memory, of a step
  double output;
  int64_t columns;  // of a warp
};
constexpr Costs kInterpreted = {.task = 2600,
                                .piece = 0.7,
                                .in_parts = 0.7,
                                .step = 100,
                                .load = 0,
                                .output = 1.2,
                                .columns = kColumns};
// From an H200 by 40 ways through eight products, each alone in its loop: so with what is between two trips.
constexpr Costs kMade = {.task = 2900,
                         .piece = 0.58,
                         .in_parts = 1.4,
                         .step = 12,
                         .load = 8,
                         .output = 1.2,
                         .columns = 2 * kColumns};
// And where parts are added there: what one node takes that waits for them; a second one hardly any more, since it has
// other parts to wait for; and one behind that, or a second one where these nodes stand on the processor of a part of a
// single tile, so that it has three tasks in the loop (resident/walker.h).
constexpr double kMadeJoin = 3300;
constexpr double kMadeFurtherJoin = 4000;
constexpr double kMadeElement = 0.002;

const Costs& costs_of(const Device& device) { return device.interprets ? kInterpreted : kMade; }

SmallRuns runs_of(bool by_line, int64_t lines, int64_t all, int64_t whole_k) {
  return {std::min(lines, all), all, by_line, (by_line ? whole_k : all) % kOfPiece == 0};
}
// Loads of a step: four for eight lines, or one for all where runs are whole pieces.
int64_t loads_of(const SmallRuns& runs) {
  return runs.in_pieces ? 1 : runs.lines <= kColumns ? 4 : 8;
}
// Pieces that are asked for.
double pieces_of(const SmallRuns& runs, int64_t depth) {
  const int64_t count = runs.are_one() ? 1 : runs.by_line ? runs.lines : depth;
  const int64_t bytes = 2 * runs.lines * depth / count + runs.before();
  return static_cast<double>(count * parts_of(bytes, SmallRuns::kPiece));
}

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
  const SmallRuns left = runs_of(!shape.ta, tiles.rows, shape.m, shape.whole_k);
  const SmallRuns right = runs_of(shape.tb, tiles.columns, shape.n, shape.whole_k);
  const auto at_once = static_cast<double>(std::min(tiles.count * tiles.split, work.share));
  const int64_t brought = parts_of(depth, kDepth) * kDepth;
  const bool in_parts =
      left.bytes(brought) + right.bytes(brought) > small_room(left.lines, right.lines);
  const double pieces =
      (pieces_of(left, depth) + pieces_of(right, depth)) *
      std::max(in_parts ? costs.in_parts : costs.piece, SmallRuns::kPiece * at_once / kMemory);
  const int64_t blocks = parts_of(left.lines, kRows) * parts_of(right.lines, costs.columns);
  const int64_t ways =
      blocks >= kWarps ? 1 : std::bit_floor(static_cast<uint64_t>(kWarps / blocks));
  const int64_t steps = parts_of(blocks * ways, kWarps) * parts_of(parts_of(depth, kDepth), ways);
  const double multiplied =
      (costs.step + costs.load * static_cast<double>(loads_of(left) + loads_of(right))) *
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
