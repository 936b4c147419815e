#include "emulator/plan/product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "emulator/plan/measured.h"
#include "emulator/plan/node_uses.h"
#include "emulator/plan/product_tasks.h"
#include "emulator/plan/runs.h"

namespace trek::plan {

std::string_view name(Product product) {
  switch (product) {
    case Product::ordered:
      return "ordered";
    case Product::tensor:
      return "tensor";
    case Product::thin:
      return "thin";
    case Product::small:
      return "small";
    case Product::narrow:
      return "narrow";
    case Product::shallow:
      return "shallow";
  }
  return "?";
}

namespace {

constexpr int64_t kBlock = 64;  // of the dot order: isa/semantics/dot.h
constexpr int64_t kSegment = kOrderedSegment;
constexpr int64_t kMostSplit = 32;
// Wide parts of an ordered product, which are tiles: device/matrix_cut.h.
struct WidePart {
  int64_t rows;
  int64_t columns;
};
constexpr WidePart kWideParts[] = {{64, 96}, {80, 64}, {40, 128}};

// Whether parts of a product's k may end at any block, not only where a segment does.
bool is_by_blocks(Product product) {
  return product == Product::tensor || product == Product::small;
}

// Columns that are copied at once.
int64_t thin_step(const MatrixShape& shape, int64_t element) { return shape.tb ? 4 : 16 / element; }

// Whether the parts of an ordered product are of 128 x 128, to which a copy engine may bring its operands (device/matrix_f32_large_90a.h).
bool is_in_large_parts(const Device& device, const ProductWork& work) {
  constexpr int64_t kMostLine = int64_t{1} << 22;  // device/matrix_cut.h
  const MatrixShape& shape = work.shape;
  return work.product == Product::ordered && work.element == isa::DType::f32 &&
         2 * device.matrix_rows == kPartRows && 2 * device.matrix_columns == kPartRows &&
         shape.whole_k % kOrderedDepth == 0 &&
         std::max({shape.m, shape.n, shape.whole_k}) < kMostLine;
}

}  // namespace

int64_t group_columns(const MatrixShape& shape, int64_t products, int64_t element) {
  const int64_t step = thin_step(shape, element);
  const auto places = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(products)));
  const int64_t by_outputs = kGroupOutputs / (places * shape.m);
  const int64_t by_bytes = kGroupBytes / (products * shape.k * element);
  return std::min(by_outputs, by_bytes) / step * step;
}

Product product_of(const Device& device, bool fast, isa::DType type, const MatrixShape& shape) {
  if (device.packs_panels) return Product::ordered;
  const bool half = type == isa::DType::bf16 || type == isa::DType::f16;
  if (shape.m == 0 || shape.n == 0 || shape.k == 0 || shape.batches == 0) return Product::ordered;
  if (!half && type != isa::DType::f32) return Product::ordered;
  // The unit of thin products brings lines of odd lengths element by element, which the one of small ones need not.
  const bool odd = (shape.tb ? shape.whole_k : shape.n) % line_elements(type) != 0;
  const bool one_by_one = fast && half && odd;
  if (shape.m <= kThinRows && shape.k <= kThinDepth && !one_by_one) return Product::thin;
  if (type == isa::DType::f32) {
    if (is_narrow(device, shape)) return Product::narrow;
    if (is_shallow(device, shape)) return Product::shallow;
  }
  if (!fast) return Product::ordered;
  return half && gains_by_small(device, type, shape) ? Product::small : Product::tensor;
}

Product product_of(const Plan& plan, const Node& node) {
  if (is_group(node)) return Product::thin;
  return product_of(plan.device, plan.fast, node.operand_types[0].dtype, matrix_shape(node));
}

bool is_plain_product(const Plan& plan, const Node& node) {
  if (node.unit != Unit::matrix || is_group(node) || node.put || !node.phases.empty() ||
      !node.prologue.empty() || node.results.size() != 1)
    return false;
  for (const char* name : {"scale", "tail"})
    if (attribute(node, name).given) return false;
  const View& result = plan.view(node.results[0]);
  if (!is_f32_matrix(node.main_type) || result.type != node.main_type || result.slice) return false;
  return is_f32_matrix(node.operand_types[0]) && is_f32_matrix(node.operand_types[1]) &&
         is_plain(plan, node.operands[0]) && is_plain(plan, node.operands[1]);
}

ProductWork product_work(const Plan& plan, const Node& node) {
  const auto has_pieces = [&](size_t operand) {
    const isa::Shape& shape = node.operand_types[operand].shape;
    return shape[shape.rank() - 1] % line_elements(node.operand_types[operand].dtype) == 0;
  };
  return {.product = product_of(plan, node),
          .element = node.operand_types[1].dtype,
          .shape = matrix_shape(node),
          .share = node.share,
          .copied = plan.device.copies_tensors && has_pieces(0) && has_pieces(1),
          .products = static_cast<int64_t>(products_of(node)),
          .group = is_group(node)};
}

ProductWork whole_work(const Plan& plan, const Node& node) {
  ProductWork work = product_work(plan, node);
  if (work.shape.k <= kMostSplit * kSegment && !work.group) {
    MatrixShape part = work.shape;
    part.k = std::min(part.k, kSegment);
    work.product = product_of(plan.device, plan.fast, node.operand_types[0].dtype, part);
  }
  const bool by_blocks = is_by_blocks(work.product);
  work.most_split = std::max<int64_t>(1, parts_of(work.shape.k, by_blocks ? kBlock : kSegment));
  const bool is_alone = work.share >= plan.device.processors;
  work.may_run = plan.device.has_tags && plan.device.makes_code() &&
                 (work.product == Product::tensor || is_in_large_parts(plan.device, work)) &&
                 work.copied && is_alone && !node.put && node.phases.empty();
  return work;
}

// By blocks nodes have equal parts; by segments all but the first have one.
std::vector<Depth> depths_of(const ProductWork& work, int64_t split) {
  std::vector<Depth> depths;
  const bool by_blocks = is_by_blocks(work.product);
  const int64_t unit = by_blocks ? kBlock : kSegment;
  const int64_t units = parts_of(work.shape.k, unit);
  for (int64_t i = 0; i < split; ++i) {
    const auto begin = [&](int64_t part) {
      return part == 0 ? 0 : by_blocks ? units * part / split : units - split + part;
    };
    const int64_t first = begin(i) * unit;
    depths.push_back({first, std::min(begin(i + 1) * unit, work.shape.k) - first});
  }
  return depths;
}

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

void add_splits(std::vector<MatrixTiles>& found, MatrixTiles tiles, const Device& device,
                const ProductWork& work) {
  constexpr int64_t kFew = 8;
  for (int64_t split = 1; split <= std::min(work.most_split, kMostSplit);
       split += split < kFew ? 1 : kFew / 2) {
    if (split > 1 && split * tiles.count > most_tasks(device)) break;
    tiles.split = split;
    found.push_back(tiles);
  }
}

int64_t depth_of(const ProductWork& work, const MatrixTiles& tiles) {
  if (tiles.split == 1) return work.shape.k;
  int64_t most = 0;
  for (const Depth& depth : depths_of(work, tiles.split)) most = std::max(most, depth.count);
  return most;
}

std::vector<int64_t> parts_of_task(int64_t there) {
  std::vector<int64_t> found;
  for (const int64_t about :
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 20, 24, 28, 32, 48, 64}) {
    const int64_t parts = parts_of(there, parts_of(there, about));
    if (found.empty() || found.back() != parts) found.push_back(parts);
  }
  return found;
}

// What it takes to add the parts: nodes more that wait, their elements, of which a processor has 1024 under way, and for
// all of them together the way of each sum to memory and back. From an H200: in a kernel that interprets 768x3072x16384
// takes 50, 69, 86 and 95 us longer than its products in 3, 5, 6 and 7 parts, 768x768x16384 20, 25 and 29 in 5, 6 and 7.
double join_of(const ProductWork& work, const MatrixTiles& tiles, const Join& join) {
  if (tiles.split == 1) return 0;
  const auto parts = static_cast<double>(tiles.split);
  const auto elements = static_cast<double>(work.shape.m * work.shape.n * work.shape.batches);
  const double rounds = std::ceil(elements / 1024 / static_cast<double>(work.share));
  return static_cast<double>(join_nodes(tiles.split)) * (join.node + rounds * join.round) +
         join.element * elements * parts;
}

namespace {

// Processors that a product's tasks are dealt to: parts of k to all but the control processor.
int64_t share_of(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  return tiles.split == 1 ? work.share
                          : std::clamp<int64_t>(work.share, 1, std::max(1, device.processors - 1));
}
// Tasks of a processor, one after the other.
double turns_of(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  return static_cast<double>(parts_of(tiles.count * tiles.split, share_of(device, work, tiles)));
}

// ---- ordered -------------------------------------------------------------------------------------

// Whether a copy engine brings blocks of k for so many groups of warps, which take them by turns
// (device/matrix_f32_turns_90a.h).
bool has_turns(const ProductWork& work, const MatrixTiles& tiles, int64_t groups) {
  const int64_t blocks = parts_of(depth_of(work, tiles), kBlock);
  return work.element == isa::DType::f32 && work.copied && work.shape.k % kOrderedDepth == 0 &&
         blocks > 1 && (blocks <= groups || blocks % groups == 0);
}
bool is_by_turns(const ProductWork& work, const MatrixTiles& tiles) {
  constexpr int64_t kHalfPart = kPartRows / 2;
  return has_turns(work, tiles, tiles.rows > kHalfPart ? 2 : 4) && 2 * tiles.rows > kHalfPart &&
         2 * tiles.columns > kHalfPart;
}
// And whether in wide parts: code that is made for one segment of operands whose lines are neighbours.
bool is_wide(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  constexpr int64_t kGroups = 4;  // all of which are to have a block
  const auto is_part = [&](const WidePart& part) {
    return tiles.rows == part.rows && tiles.columns == part.columns;
  };
  const int64_t depth = depth_of(work, tiles);
  return std::ranges::any_of(kWideParts, is_part) && is_made(device) && work.shape.ta &&
         !work.shape.tb && has_turns(work, tiles, kGroups) && depth > (kGroups - 1) * kBlock &&
         depth <= kSegment;
}

// From a quarter to four times the device's own tile, as large as keep a node's tasks few, and wide ones; and of those of four
// times, which are large parts, any number that does.
std::vector<MatrixTiles> ordered_candidates(const Device& device, const ProductWork& work) {
  const MatrixShape& shape = work.shape;
  std::vector<MatrixTiles> found;
  const auto add = [&](const MatrixTiles& tiles) {
    const auto same = [&](const MatrixTiles& other) {
      return other.rows == tiles.rows && other.columns == tiles.columns;
    };
    if (std::ranges::none_of(found, same)) add_splits(found, tiles, device, work);
  };
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
    add(tiles);
  }
  for (const WidePart& part : kWideParts) {
    const MatrixTiles wide = tiles_of(shape, part.rows, part.columns);
    if (is_wide(device, work, wide) && wide.count <= most_tasks(device)) add(wide);
  }
  const int64_t rows = 2 * device.matrix_rows;
  const int64_t columns = 2 * device.matrix_columns;
  if (work.may_run) {
    constexpr int64_t kMostTurns = 32;
    const auto add_runs = [&](int64_t split) {
      MatrixTiles tiles = tiles_of(shape, rows, columns);
      tiles.runs = device.processors;
      tiles.split = split;
      if (tiles.count <= kMostTurns * tiles.runs &&
          may_have_ordered_runs(segment_in_runs(shape, tiles), tiles))
        found.push_back(tiles);
    };
    add_runs(1);
    if (work.most_split > 1 && work.most_split <= kMostSplit && shape.k % kSegment == 0)
      add_runs(work.most_split);
  }
  const int64_t down = parts_of(shape.m, rows);
  const int64_t across = parts_of(shape.n, columns);
  if (down * across * shape.batches <= most_tasks(device)) return found;
  for (const int64_t parts_down : parts_of_task(down))
    for (const int64_t parts_across : parts_of_task(across)) {
      const MatrixTiles tiles = tiles_of(shape, parts_down * rows, parts_across * columns);
      if (tiles.count <= most_tasks(device)) add(tiles);
    }
  return found;
}

// Jobs of 64 k, of which a processor's eight warps have one each at a time and its four schedulers one: in cycles.
double jobs_of(double jobs, double job) { return std::max(jobs / 4, std::ceil(jobs / 8)) * job; }

constexpr double kOrderedTask = 2500;
constexpr double kPatches = 64 * 64;  // multiplications of a lane in a job of 32 x 64 outputs
// How many operands lie by line, and cycles more of each multiplication for each of them.
int by_line(const ProductWork& work) { return (work.shape.ta ? 0 : 1) + (work.shape.tb ? 1 : 0); }
constexpr double kByLine = 0.08;

// So many blocks of so many outputs, in large parts. Compiled loops of operands whose lines are neighbours have the sums of a
// segment in registers.
double large_parts(const Device& device, const ProductWork& work, double blocks, double outputs) {
  const double each =
      is_made(device) ? 1.31 + 0.11 * by_line(work) : 1.42 + kByLine * by_line(work);
  return jobs_of(blocks * std::ceil(outputs / 2048), kPatches * each);
}

// A processor has 128 multipliers and eight warps. Two by two of the device's tiles keep all of these at work, and so
// do smaller ones where a copy engine brings the operands, but that each part of them begins and ends. Else lanes wait for
// shared memory and for copies; warps that a tile's outputs do not need take blocks of 64 k.
double task_ordered(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  constexpr double kTurnsTask = 6000;  // until groups of warps have their first blocks
  constexpr double kPart = 2000;
  const auto blocks = static_cast<double>(parts_of(depth_of(work, tiles), kBlock));
  const auto outputs = static_cast<double>(tiles.rows * tiles.columns);
  if (tiles.rows >= 2 * device.matrix_rows && tiles.columns >= 2 * device.matrix_columns)
    return large_parts(device, work, blocks, outputs) + kOrderedTask;
  constexpr double kLargerEach = 1.55;  // cycles of a multiplication, of more than 64 x 64 outputs
  if (is_wide(device, work, tiles))
    return jobs_of(blocks * 2, outputs / 2 * kBlock / 32 * kLargerEach) + kTurnsTask;
  if (is_by_turns(work, tiles)) {
    const int64_t half = kPartRows / 2;
    const int64_t rows = tiles.rows > half ? kPartRows : half;
    const auto parts =
        static_cast<double>(parts_of(tiles.rows, rows) * parts_of(tiles.columns, half));
    const auto warps = static_cast<double>(rows / 32);
    const double each = (rows > half ? kLargerEach : 1.65) + kByLine * by_line(work);
    return parts * (jobs_of(blocks * warps, kPatches * each) + kPart) + kTurnsTask - kPart;
  }
  const double each = outputs > 2048 ? 2.8 : 3.5;  // in patches of 8 x 8, or of 4 x 4
  return jobs_of(blocks * std::ceil(outputs / 512), kPatches / 4 * each) + kOrderedTask;
}

// The longest run, which has a task for each of its tiles, and leaves sums to another and goes on from those of one.
double run_ordered(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  constexpr double kSums = 5000;
  const Runs runs(segment_in_runs(work.shape, tiles), tiles);
  const auto tasks = static_cast<double>(runs.most_ended() + 1);
  const auto outputs = static_cast<double>(tiles.rows * tiles.columns);
  return large_parts(device, work, static_cast<double>(runs.longest()), outputs) +
         tasks * kOrderedTask + 2 * kSums;
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

// ---- thin ----------------------------------------------------------------------------------------

constexpr int64_t kThinWhole = int64_t{20} * 1024;  // bytes of a matrix that is one task
constexpr int64_t kThinDeep =
    int64_t{48} * 1024;  // bytes of a sector of each k that are shared out

// Columns that give every processor of the node's share its own, in steps of a copy of 16 bytes and no fewer
// than memory brings at a time, a sector of 32; of so many k that a sector of each is long on its way, half of one,
// which two processors then read. A matrix of few bytes is one task, because what reads its product then stays with
// it.
MatrixTiles thin_tiles(const ProductWork& work) {
  const MatrixShape& shape = work.shape;
  const int64_t element = isa::byte_size(work.element);
  const int64_t step = thin_step(shape, element);
  const bool small = work.products * shape.n * shape.k * element <= kThinWhole;
  const int64_t share = std::max<int64_t>(1, work.share / work.most_split);
  const int64_t wanted = small ? shape.n : parts_of(shape.n * shape.batches, share);
  const int64_t least = 2 * step * shape.k * element > kThinDeep ? step : 2 * step;
  const int64_t columns = std::max(least, parts_of(wanted, step) * step);
  MatrixTiles tiles = tiles_of(
      shape, shape.m,
      work.group ? std::min(columns, group_columns(shape, work.products, element)) : columns);
  tiles.split = work.most_split;
  return tiles;
}

double task_of(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  switch (work.product) {
    case Product::ordered:
    case Product::thin:
      break;
    case Product::tensor:
      return task_brought(work, tiles);
    case Product::small:
      return task_small(device, work, tiles);
    case Product::narrow:
      return task_narrow(work, tiles);
    case Product::shallow:
      return task_shallow(work, tiles);
  }
  return task_ordered(device, work, tiles);
}

}  // namespace

std::vector<MatrixTiles> candidates(const Device& device, const ProductWork& work) {
  switch (work.product) {
    case Product::ordered:
      break;
    case Product::tensor:
      return work.copied ? tensor_candidates(device, work) : brought_candidates(device, work);
    case Product::thin:
      return {thin_tiles(work)};
    case Product::small:
      return small_candidates(device, work);
    case Product::narrow:
      return narrow_candidates(device, work);
    case Product::shallow:
      return shallow_candidates(device, work);
  }
  return device.packs_panels ? panel_candidates(work) : ordered_candidates(device, work);
}

double estimate(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  if (work.product == Product::thin) return 0;  // there is but one
  if (device.packs_panels) return estimate_panels(work, tiles);
  if (work.product == Product::tensor && work.copied)
    return turns_tensor(device, work, tiles, share_of(device, work, tiles)) +
           join_of(work, tiles, join_tensor(device));
  if (tiles.runs > 0) return run_ordered(device, work, tiles) + join_of(work, tiles, kJoin);
  const double join = work.product == Product::small ? join_small(device, work, tiles)
                                                     : join_of(work, tiles, kJoin);
  return turns_of(device, work, tiles) * task_of(device, work, tiles) + join;
}

MatrixTiles choose(const Device& device, const ProductWork& work, int64_t first) {
  MatrixTiles best;
  double least = 0;
  for (const MatrixTiles& tiles : candidates(device, work)) {
    if (first % rows_together(tiles) != 0) continue;
    const double cycles = estimate(device, work, tiles);
    if (best.count != 0 && cycles >= least) continue;
    best = tiles;
    least = cycles;
  }
  return best;
}

void note_product(Plan& plan, Node& node, bool is_whole) {
  node.product = static_cast<uint32_t>(plan.products.size());
  plan.products.push_back({node, is_whole, false});
}

ProductWork work_of(const Plan& plan, const ChosenProduct& product) {
  return product.is_whole ? whole_work(plan, product.node) : product_work(plan, product.node);
}

void set_tiles(Plan& plan, Node& node, const MatrixTiles& tiles) {
  node.tiles = static_cast<uint32_t>(plan.tilings.size());
  plan.tilings.push_back(tiles);
  plan.products[node.product].node.tiles = node.tiles;
}

bool set_measured(Plan& plan, Node& node, const ProductWork& work, const MeasuredTiles* measured) {
  if (measured == nullptr) return false;
  const std::optional<MatrixTiles> tiles = measured->find(plan, node, work);
  if (!tiles) return false;
  set_tiles(plan, node, *tiles);
  plan.products[node.product].measured = true;
  return true;
}

void choose_tiles(Plan& plan, const MeasuredTiles* measured) {
  for (Node& node : plan.nodes) {
    if (node.tiling != Tiling::matrix || node.tiles != kNone) continue;
    if (node.product == kNone) note_product(plan, node, false);
    const ProductWork work = product_work(plan, node);
    if (!set_measured(plan, node, work, measured)) set_tiles(plan, node, choose(plan.device, work));
  }
}

}  // namespace trek::plan
