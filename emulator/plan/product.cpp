#include "emulator/plan/product.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "emulator/plan/measured.h"

namespace trek::plan {

std::string_view name(Product product) {
  switch (product) {
    case Product::ordered:
      return "ordered";
    case Product::tensor:
      return "tensor";
    case Product::thin:
      return "thin";
  }
  return "?";
}

Product product_of(const Plan& plan, const Node& node) {
  if (plan.device.packs_panels) return Product::ordered;
  const isa::DType type = node.operand_types[0].dtype;
  const bool half = type == isa::DType::bf16 || type == isa::DType::f16;
  const MatrixShape shape = matrix_shape(node);
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batches == 0) return Product::ordered;
  if ((half || type == isa::DType::f32) && shape.m <= kThinRows && shape.k <= kThinDepth)
    return Product::thin;
  return plan.fast && half ? Product::tensor : Product::ordered;
}

ProductWork product_work(const Plan& plan, const Node& node) {
  return {product_of(plan, node), node.operand_types[1].dtype, matrix_shape(node), node.share};
}

namespace {

int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

int64_t most_tasks(const Device& device) {
  return int64_t{device.processors} * device.tasks_per_processor;
}

MatrixTiles tiles_of(const MatrixShape& shape, int64_t rows, int64_t columns) {
  MatrixTiles tiles;
  tiles.rows = rows;
  tiles.columns = columns;
  count_tiles(tiles, shape);
  return tiles;
}

double turns_of(const ProductWork& work, const MatrixTiles& tiles) {
  return static_cast<double>(parts_of(tiles.count, work.share));
}

// ---- ordered -------------------------------------------------------------------------------------

// From a quarter to four times the device's own tile, as large as keep a node's tasks few.
std::vector<MatrixTiles> ordered_candidates(const Device& device, const MatrixShape& shape) {
  std::vector<MatrixTiles> found;
  for (const auto& [rows, columns] :
       {std::pair{0.25, 0.5}, {0.5, 1.0}, {1.0, 1.0}, {2.0, 1.0}, {2.0, 2.0}}) {
    const auto scaled = [](int64_t size, double by) {
      return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(size) * by));
    };
    MatrixTiles tiles =
        tiles_of(shape, scaled(device.matrix_rows, rows), scaled(device.matrix_columns, columns));
    for (bool wider = true; tiles.down * tiles.across > 1 && tiles.count > most_tasks(device);
         wider = !wider) {
      (wider ? tiles.columns : tiles.rows) *= 2;
      count_tiles(tiles, shape);
    }
    found.push_back(tiles);
  }
  return found;
}

// A processor has 128 multipliers and eight warps. A small tile has 4 x 4 outputs a lane, and its lanes wait for
// shared memory half of the time; warps that its outputs do not need take blocks of 64 k.
double estimate_ordered(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  const auto blocks = static_cast<double>(parts_of(work.shape.k, 64));
  const auto outputs = static_cast<double>(tiles.rows * tiles.columns);
  const bool large = tiles.rows * tiles.columns >= 2 * device.matrix_rows * device.matrix_columns;
  const double of_warp = large ? 2048 : 512;  // outputs
  const double jobs = blocks * std::ceil(outputs / of_warp);
  const double issue = 64 * of_warp / 32 * (large ? 1.2 : 2);  // cycles of a job
  return turns_of(work, tiles) * (std::max(jobs / 4, std::ceil(jobs / 8)) * issue + 2500);
}

// ---- ordered, in panels --------------------------------------------------------------------------

constexpr int64_t kPanelColumns = 32;
constexpr int64_t kWorthIt = 1'000'000;  // multiplications worth a task

// One tile for every processor of the share; a product of little work is one task.
std::vector<MatrixTiles> panel_candidates(const ProductWork& work) {
  const MatrixShape& shape = work.shape;
  const int64_t multiplications = shape.m * shape.n * std::max<int64_t>(1, shape.k);
  const int64_t parts = std::min(parts_of(work.share, std::max<int64_t>(1, shape.batches)),
                                 parts_of(std::max<int64_t>(1, multiplications), kWorthIt));
  std::vector<MatrixTiles> found;
  for (int64_t down = 1; down <= parts; ++down) {
    const int64_t columns = parts_of(shape.n, parts_of(parts, down));
    found.push_back(
        tiles_of(shape, std::max<int64_t>(1, parts_of(shape.m, down)),
                 std::max(kPanelColumns, parts_of(columns, kPanelColumns) * kPanelColumns)));
  }
  int64_t most = 0;
  for (const MatrixTiles& tiles : found) most = std::max(most, tiles.count);
  most = std::min(most, parts * shape.batches);
  std::erase_if(found, [&](const MatrixTiles& tiles) { return tiles.count < most; });
  return found;
}

// All work is shared out alike, so what counts is packing: each tile packs its rows and its columns.
double estimate_panels(const ProductWork& work, const MatrixTiles& tiles) {
  return static_cast<double>(tiles.rows + tiles.columns) * static_cast<double>(work.shape.k);
}

// ---- by tensor cores -----------------------------------------------------------------------------

// A product by tensor cores is worked on in parts of 128 rows by 64, 128, 192 or 256 columns. A task has as
// many parts as leave every processor about as much to do as single parts would: fewer tasks cost less, and
// the copies of a task run on from part to part.
//
// What a processor with 2048 multipliers for 16 bits takes: what a step of 64 k takes for each width of a part,
// the results of a part, and what begins and ends a task are guesses from an H200: the wide parts come near the
// multipliers' rate, narrow ones wait for shared memory.
struct Width {
  int64_t columns;
  double step;
};
constexpr std::array<Width, 4> kWidths = {Width{256, 1060}, {192, 820}, {128, 580}, {64, 360}};
constexpr double kResults = 6;      // of a column of a part
constexpr double kTask = 3500;      // cycles
constexpr double kMemory = 2400;    // bytes from device memory a cycle, all processors together
constexpr int64_t kMostParts = 64;  // of a task, in each direction

std::vector<MatrixTiles> tensor_candidates(const Device& device, const MatrixShape& shape) {
  const int64_t most = std::max(most_tasks(device), shape.batches);
  std::vector<MatrixTiles> found;
  for (const Width& width : kWidths) {
    // Without the copy engine parts are square.
    if (!device.copies_tensors && width.columns != kPartRows) continue;
    for (int64_t down = 1; down <= kMostParts; down *= 2)
      for (int64_t across = 1; across <= kMostParts; across *= 2) {
        MatrixTiles tiles = tiles_of(shape, down * kPartRows, across * width.columns);
        tiles.part_columns = width.columns;
        const bool needless =
            (down > 1 && 2 * shape.m <= tiles.rows) || (across > 1 && 2 * shape.n <= tiles.columns);
        if (!needless && tiles.count <= most) found.push_back(tiles);
      }
  }
  // A product beyond all of these: one task for each matrix of the batch, or as few as will do.
  for (int64_t size = 2 * kPartRows; found.empty(); size *= 2) {
    MatrixTiles tiles = tiles_of(shape, size, size);
    tiles.part_columns = kPartRows;
    if (tiles.down * tiles.across <= 1 || tiles.count <= most) found.push_back(tiles);
  }
  return found;
}

double estimate_tensor(const ProductWork& work, const MatrixTiles& tiles) {
  const auto* width = std::find_if(kWidths.begin(), kWidths.end(), [&](const Width& each) {
    return each.columns == tiles.part_columns;
  });
  const auto steps = static_cast<double>(parts_of(work.shape.k, 64));
  const auto parts = static_cast<double>(parts_of(tiles.rows, kPartRows) *
                                         parts_of(tiles.columns, tiles.part_columns));
  // Lines of both operands that processors work on at a time: tasks are dealt row by row.
  const int64_t columns = std::min(tiles.across, work.share);
  const int64_t rows = std::min(tiles.down, parts_of(work.share, tiles.across));
  const auto bytes = static_cast<double>(128 * (columns * tiles.part_columns + rows * kPartRows));
  const double memory = bytes / kMemory;
  const double part = steps * (std::max(width->step, memory) + memory / 8) +
                      kResults * static_cast<double>(tiles.part_columns);
  return turns_of(work, tiles) * (parts * part + kTask);
}

// ---- thin ----------------------------------------------------------------------------------------

constexpr int64_t kThinWhole = int64_t{20} * 1024;  // bytes of a matrix that is one task

// Columns that give every processor of the node's share its own, in steps of a copy of 16 bytes and no fewer
// than memory brings at a time, a sector of 32. A matrix of few bytes is one task, because what reads its
// product then stays with it.
MatrixTiles thin_tiles(const ProductWork& work) {
  const MatrixShape& shape = work.shape;
  const int64_t element = isa::byte_size(work.element);
  const int64_t step = shape.tb ? 4 : 16 / element;
  const bool small = shape.n * shape.k * element <= kThinWhole;
  const int64_t wanted = small ? shape.n : parts_of(shape.n * shape.batches, work.share);
  return tiles_of(shape, shape.m, std::max(2 * step, parts_of(wanted, step) * step));
}

}  // namespace

std::vector<MatrixTiles> candidates(const Device& device, const ProductWork& work) {
  switch (work.product) {
    case Product::ordered:
      break;
    case Product::tensor:
      return tensor_candidates(device, work.shape);
    case Product::thin:
      return {thin_tiles(work)};
  }
  return device.packs_panels ? panel_candidates(work) : ordered_candidates(device, work.shape);
}

double estimate(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  switch (work.product) {
    case Product::ordered:
      break;
    case Product::tensor:
      return estimate_tensor(work, tiles);
    case Product::thin:
      return 0;  // there is but one
  }
  return device.packs_panels ? estimate_panels(work, tiles) : estimate_ordered(device, work, tiles);
}

MatrixTiles choose(const Device& device, const ProductWork& work) {
  MatrixTiles best;
  double least = 0;
  for (const MatrixTiles& tiles : candidates(device, work)) {
    const double cycles = estimate(device, work, tiles);
    if (best.count != 0 && cycles >= least) continue;
    best = tiles;
    least = cycles;
  }
  return best;
}

void choose_tiles(Plan& plan, const MeasuredTiles* measured) {
  for (Node& node : plan.nodes) {
    if (node.tiling != Tiling::matrix) continue;
    std::optional<MatrixTiles> tiles;
    if (measured != nullptr) tiles = measured->find(plan, node);
    node.measured = tiles.has_value();
    if (!tiles) tiles = choose(plan.device, product_work(plan, node));
    node.tiles = static_cast<uint32_t>(plan.tilings.size());
    plan.tilings.push_back(*tiles);
  }
}

}  // namespace trek::plan
