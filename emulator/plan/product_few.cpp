// Products of f32 of a few columns, or of a few k: device/matrix_narrow.h and device/matrix_shallow.h.
#include <algorithm>
#include <cmath>

#include "emulator/plan/product_tasks.h"

namespace trek::plan {

namespace {

constexpr int64_t kFour = 4;  // elements of a piece of 16 bytes
constexpr int64_t kBlock = 64;
constexpr int64_t kThreads = 256;
constexpr double kTask = 2600;   // what begins and ends one
constexpr double kPiece = 0.35;  // what it takes to ask for it
constexpr double kPieceBytes = 16;
constexpr double kOutput = 1.2;  // and to add, or to write, a four of outputs or one sum
constexpr int64_t kSector = 8;   // elements that memory brings at a time

bool in_fours(int64_t elements) { return elements % kFour == 0; }

// Rows of a tile: few enough for all of a share to have one, and multiples of a piece where they are neighbours.
std::vector<int64_t> rows_of_tiles(const ProductWork& work, int64_t least, int64_t most) {
  const int64_t share = std::max<int64_t>(1, work.share / std::max<int64_t>(1, work.shape.batches));
  std::vector<int64_t> found;
  for (int64_t turns = 1; turns <= 4; ++turns)
    for (const int64_t fewer : {1, 2, 4, 8}) {
      const int64_t tiles = std::max<int64_t>(1, turns * share / fewer);
      const int64_t rows = parts_of(parts_of(work.shape.m, tiles), least) * least;
      if (rows <= most && std::ranges::find(found, rows) == found.end()) found.push_back(rows);
    }
  for (int64_t rows = least; rows <= most; rows *= 2)
    if (std::ranges::find(found, rows) == found.end()) found.push_back(rows);
  return found;
}
bool may_have(const Device& device, const MatrixShape& shape, const MatrixTiles& tiles) {
  return tiles.count <= std::max(most_tasks(device), shape.batches);
}
// Of these the ones that a node may have so many of; or the largest.
std::vector<MatrixTiles> tiles_of_rows(const Device& device, const ProductWork& work,
                                       const std::vector<int64_t>& all, int64_t columns) {
  std::vector<MatrixTiles> found;
  for (const int64_t rows : all) {
    const MatrixTiles tiles = tiles_of(work.shape, rows, columns);
    if (may_have(device, work.shape, tiles)) found.push_back(tiles);
  }
  if (found.empty()) found.push_back(tiles_of(work.shape, std::ranges::max(all), columns));
  for (MatrixTiles& tiles : found) tiles.split = work.most_split;
  return found;
}

int64_t k_of(const MatrixShape& shape) { return std::min(shape.k, kNarrowDepth); }

// Rows of a narrow tile: multiples of so many, and so many at most, whose sums have room; the same for all parts of a k.
int64_t least_rows(const MatrixShape& shape) { return shape.ta ? kFour : 1; }
int64_t most_rows(const MatrixShape& shape) {
  constexpr int64_t kMost = 256;
  const int64_t sums = shape.n * parts_of(std::min(shape.whole_k, kNarrowDepth), kBlock);
  const int64_t least = least_rows(shape);
  return std::clamp<int64_t>(kNarrowSums / sums / least * least, least, kMost);
}

// Operands come at once, as fast as the second-level cache gives them to all.
double copies_of(const ProductWork& work, const MatrixTiles& tiles, double bytes) {
  const auto at_once = static_cast<double>(std::min(tiles.count * tiles.split, work.share));
  return bytes * std::max(kPiece / kPieceBytes, at_once / (2 * kMemory));
}

}  // namespace

bool is_narrow(const Device& device, const MatrixShape& shape) {
  return shape.n <= kNarrowColumns && shape.k <= kNarrowDepth && in_fours(shape.k) &&
         in_fours(shape.whole_k) && (!shape.ta || in_fours(shape.m)) &&
         may_have(device, shape, tiles_of(shape, most_rows(shape), shape.n));
}

bool is_shallow(const Device& device, const MatrixShape& shape) {
  constexpr int64_t kColumns = 32;
  return shape.whole_k <= kShallowDepth && in_fours(shape.n) && shape.n >= kColumns &&
         may_have(device, shape, tiles_of(shape, kShallowRows, kShallowColumns));
}

std::vector<MatrixTiles> narrow_candidates(const Device& device, const ProductWork& work) {
  const std::vector<int64_t> rows =
      rows_of_tiles(work, least_rows(work.shape), most_rows(work.shape));
  return tiles_of_rows(device, work, rows, work.shape.n);
}

std::vector<MatrixTiles> shallow_candidates(const Device& device, const ProductWork& work) {
  const int64_t columns = std::min(work.shape.n, kShallowColumns);
  return tiles_of_rows(device, work, rows_of_tiles(work, 1, kShallowRows), columns);
}

double task_narrow(const ProductWork& work, const MatrixTiles& tiles) {
  const auto k = static_cast<double>(k_of(work.shape));
  const auto n = static_cast<double>(work.shape.n);
  const int64_t rows = std::min(tiles.rows, work.shape.m);
  const int64_t brought = work.shape.ta ? parts_of(rows, kSector) * kSector : rows;
  const auto blocks = static_cast<double>(parts_of(k_of(work.shape), kBlock));
  const double bytes = 4 * k * (static_cast<double>(brought) + n);
  // A thread has a line's block with all columns, and four schedulers have a warp each.
  const double products =
      std::max(std::ceil(static_cast<double>(rows) * blocks / (kThreads / 2)), 1.0) * kBlock * n *
      1.6;
  return kTask + copies_of(work, tiles, bytes) + products +
         std::ceil(static_cast<double>(rows) * n / kThreads) * (200 + 6 * blocks) * kOutput;
}

double task_shallow(const ProductWork& work, const MatrixTiles& tiles) {
  const int64_t columns = std::min(tiles.columns, work.shape.n);
  const int64_t apart = std::max<int64_t>(1, kThreads / parts_of(columns, kFour));
  const auto turns = static_cast<double>(parts_of(tiles.rows, apart));
  const auto outputs = static_cast<double>(std::min(tiles.rows, work.shape.m) * columns);
  const auto k = static_cast<double>(work.shape.k);
  // The result, and as much that its tail reads.
  return kTask + 100 * k + turns * (8 * k + 100) + copies_of(work, tiles, 8 * outputs);
}

}  // namespace trek::plan
