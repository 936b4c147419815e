// Which products are not ordered, and their tiles.
//
// A product by tensor cores is worked on in parts of 128 rows by 64, 128, 192 or 256 columns. A task has as
// many parts as leave every processor about as much to do as single parts would: fewer tasks cost less, and
// the copies of a task run on from part to part.
#include <algorithm>
#include <array>
#include <cmath>

#include "emulator/plan/geometry.h"

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

namespace {

int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

}  // namespace

Product product_of(const Plan& plan, const Node& node) {
  const isa::DType type = node.operand_types[0].dtype;
  const bool half = type == isa::DType::bf16 || type == isa::DType::f16;
  const MatrixShape shape = matrix_shape(node);
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batches == 0) return Product::ordered;
  if ((half || type == isa::DType::f32) && shape.m <= kThinRows && shape.k <= kThinDepth)
    return Product::thin;
  return plan.fast && half ? Product::tensor : Product::ordered;
}

namespace {

// What a product takes with such tiles, in cycles of a processor with 2048 multipliers for 16 bits. What a
// step of 64 k takes for each width of a part, the results of a part, and what begins and ends a task are
// guesses from an H200: the wide parts come near the multipliers' rate, narrow
// ones wait for shared memory.
struct Width {
  int64_t columns;
  double step;
};
constexpr std::array<Width, 4> kWidths = {Width{256, 1060}, {192, 820}, {128, 580}, {64, 360}};
constexpr double kResults = 6;    // of a column of a part
constexpr double kTask = 3500;    // cycles
constexpr double kMemory = 2400;  // bytes from device memory a cycle, all processors together

double estimate(const Device& device, const MatrixTiles& tiles, const MatrixShape& shape,
                double step) {
  const auto steps = static_cast<double>(parts_of(shape.k, 64));
  const auto parts = static_cast<double>(parts_of(tiles.rows, kPartRows) *
                                         parts_of(tiles.columns, tiles.part_columns));
  // Lines of both operands that processors work on at a time: tasks are dealt row by row.
  const int64_t columns = std::min<int64_t>(tiles.across, device.processors);
  const int64_t rows = std::min(tiles.down, parts_of(device.processors, tiles.across));
  const auto bytes = static_cast<double>(128 * (columns * tiles.part_columns + rows * kPartRows));
  const double memory = bytes / kMemory;
  const double part = steps * (std::max(step, memory) + memory / 8) +
                      kResults * static_cast<double>(tiles.part_columns);
  const auto turns = static_cast<double>(parts_of(tiles.count, device.processors));
  return turns * (parts * part + kTask);
}

MatrixTiles tensor_tiles(const Device& device, const MatrixShape& shape) {
  const int64_t most = int64_t{device.processors} * device.tasks_per_processor;
  MatrixTiles best;
  double least = 0;
  for (const Width& width : kWidths) {
    // Without the copy engine parts are square.
    if (!device.copies_tensors && width.columns != kPartRows) continue;
    for (int64_t down = 1; down <= 64; down *= 2)
      for (int64_t across = 1; across <= 64; across *= 2) {
        MatrixTiles tiles;
        tiles.part_columns = width.columns;
        tiles.rows = down * kPartRows;
        tiles.columns = across * width.columns;
        count_tiles(tiles, shape);
        const bool needless =
            (down > 1 && 2 * shape.m <= tiles.rows) || (across > 1 && 2 * shape.n <= tiles.columns);
        if (needless || tiles.count > std::max(most, shape.batches)) continue;
        const double cycles = estimate(device, tiles, shape, width.step);
        if (best.count != 0 && cycles >= least) continue;
        best = tiles;
        least = cycles;
      }
  }
  // A product beyond all of these: one task for each matrix of the batch, or as few as will do.
  while (best.count == 0) {
    best.part_columns = kPartRows;
    best.rows = std::max(best.rows, kPartRows) * 2;
    best.columns = std::max(best.columns, kPartRows) * 2;
    MatrixTiles tiles = best;
    count_tiles(tiles, shape);
    if (tiles.down * tiles.across <= 1 || tiles.count <= most) best = tiles;
  }
  return best;
}

// Columns that give every processor its share, in steps of what a memory transaction brings.
MatrixTiles thin_tiles(const Device& device, const MatrixShape& shape) {
  constexpr int64_t kStep = 8;
  const int64_t most =
      std::max<int64_t>(kStep, kThinSums / (shape.m * parts_of(shape.k, 64)) / kStep * kStep);
  const int64_t share = parts_of(shape.n * shape.batches, device.processors);
  MatrixTiles tiles;
  tiles.rows = shape.m;
  tiles.columns = std::min(most, parts_of(share, kStep) * kStep);
  count_tiles(tiles, shape);
  return tiles;
}

}  // namespace

MatrixTiles matrix_tiles(const Plan& plan, const Node& node) {
  const MatrixShape shape = matrix_shape(node);
  switch (product_of(plan, node)) {
    case Product::ordered:
      break;
    case Product::tensor:
      return tensor_tiles(plan.device, shape);
    case Product::thin:
      return thin_tiles(plan.device, shape);
  }
  return ordered_tiles(plan.device, shape);
}

}  // namespace trek::plan
