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

constexpr int64_t kThinWhole = int64_t{20} * 1024;  // bytes of a matrix that is one task

int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

}  // namespace

Product product_of(const Device& device, bool fast, isa::DType type, const MatrixShape& shape) {
  if (device.packs_panels) return Product::ordered;
  const bool half = type == isa::DType::bf16 || type == isa::DType::f16;
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batches == 0) return Product::ordered;
  if ((half || type == isa::DType::f32) && shape.m <= kThinRows && shape.k <= kThinDepth)
    return Product::thin;
  return fast && half ? Product::tensor : Product::ordered;
}

Product product_of(const Plan& plan, const Node& node) {
  return product_of(plan.device, plan.fast, node.operand_types[0].dtype, matrix_shape(node));
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
// A step of a part of 128 columns whose operands the block brings itself, and a node more in a chain.
constexpr double kBroughtStep = 2200;
constexpr double kNode = 6000;

double estimate(int64_t share, const MatrixTiles& tiles, const MatrixShape& shape, double step) {
  const auto steps = static_cast<double>(parts_of(shape.k, 64));
  const auto parts = static_cast<double>(parts_of(tiles.rows, kPartRows) *
                                         parts_of(tiles.columns, tiles.part_columns));
  // Lines of both operands that processors work on at a time: tasks are dealt row by row.
  const int64_t columns = std::min(tiles.across, share);
  const int64_t rows = std::min(tiles.down, parts_of(share, tiles.across));
  const auto bytes = static_cast<double>(128 * (columns * tiles.part_columns + rows * kPartRows));
  const double memory = bytes / kMemory;
  const double part = steps * (std::max(step, memory) + memory / 8) +
                      kResults * static_cast<double>(tiles.part_columns);
  const auto turns = static_cast<double>(parts_of(tiles.count, share));
  return turns * (parts * part + kTask);
}

MatrixTiles tensor_tiles(const Device& device, bool copies, int64_t share,
                         const MatrixShape& shape) {
  const int64_t most = int64_t{device.processors} * device.tasks_per_processor;
  MatrixTiles best;
  double least = 0;
  for (const Width& width : kWidths) {
    // Without the copy engine parts are square.
    if (!copies && width.columns != kPartRows) continue;
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
        const double cycles = estimate(share, tiles, shape, width.step);
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

// Whether the copy engine brings its operands.
bool is_copied(const Device& device, const Node& node) {
  const auto has_pieces = [&](size_t operand) {
    const isa::Shape& shape = node.operand_types[operand].shape;
    return shape[shape.rank() - 1] % kLineElements == 0;
  };
  return device.copies_tensors && has_pieces(0) && has_pieces(1);
}

// Columns that give every processor of the node's share its own, in steps of a copy of 16 bytes and no fewer
// than memory brings at a time, a sector of 32. A matrix of few bytes is one task, because what reads its
// product then stays with it.
MatrixTiles thin_tiles(int64_t share, const MatrixShape& shape, int64_t element) {
  const int64_t step = shape.tb ? 4 : 16 / element;
  const bool small = shape.n * shape.k * element <= kThinWhole;
  const int64_t wanted = small ? shape.n : parts_of(shape.n * shape.batches, share);
  MatrixTiles tiles;
  tiles.rows = shape.m;
  tiles.columns = std::max(2 * step, parts_of(wanted, step) * step);
  count_tiles(tiles, shape);
  return tiles;
}

}  // namespace

MatrixTiles matrix_tiles(const Plan& plan, const Node& node) {
  const MatrixShape shape = matrix_shape(node);
  const int64_t share = node.share;
  switch (product_of(plan, node)) {
    case Product::ordered:
      break;
    case Product::tensor:
      return tensor_tiles(plan.device, is_copied(plan.device, node), share, shape);
    case Product::thin:
      return thin_tiles(share, shape, isa::byte_size(node.operand_types[1].dtype));
  }
  return ordered_tiles(plan.device, share, shape);
}

bool gains_by_padding(const Device& device, const MatrixShape& shape, int64_t elements) {
  if (!device.copies_tensors) return false;
  const auto parts = static_cast<double>(parts_of(shape.m, kPartRows) *
                                         parts_of(shape.n, kPartRows) * shape.batches);
  const double turns = std::ceil(parts / device.processors);
  const double steps = static_cast<double>(parts_of(shape.k, 64));
  const double saved = turns * steps * (kBroughtStep - kWidths[2].step);
  return saved > kNode + 4 * static_cast<double>(elements) / kMemory;
}

}  // namespace trek::plan
