#include "emulator/plan/geometry.h"

#include <algorithm>
#include <array>

namespace trek::plan {

using isa::Shape;

int64_t Lines::at(const std::vector<Axis>& axes, int64_t index) {
  int64_t place = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    place += index % axes[i].size * axes[i].stride;
    index /= axes[i].size;
  }
  return place;
}

Lines lines_of(const Shape& shape, const std::vector<int64_t>& axes) {
  const int rank = shape.rank();
  std::array<bool, isa::kMaxRank> along{};
  for (int64_t axis : axes) along[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  Lines lines;
  int64_t stride = 1;
  std::vector<Lines::Axis> kept;
  std::vector<Lines::Axis> summed;
  int changes = 0;
  bool inside = false;
  for (int i = rank; i-- > 0;) {
    const int64_t size = shape[i];
    const bool is_along = along[static_cast<size_t>(i)];
    (is_along ? summed : kept).push_back({size, stride});
    (is_along ? lines.n : lines.lines) *= size;
    stride *= size;
    if (size == 1) continue;
    if (is_along != inside) ++changes;
    inside = is_along;
    if (!is_along) (changes == 0 ? lines.inner : lines.outer) *= size;
  }
  lines.adjacent = changes <= 2;
  lines.kept.assign(kept.rbegin(), kept.rend());
  lines.along.assign(summed.rbegin(), summed.rend());
  return lines;
}

int64_t static_integer(const Plan& plan, Operand operand) {
  return operand.kind == Operand::Kind::constant
             ? isa::constant_integer(plan.constants[operand.index])
             : static_cast<int64_t>(operand.index);
}

const Attribute& attribute(isa::Opcode opcode, const std::vector<Attribute>& attributes,
                           std::string_view name) {
  static const Attribute kAbsent;
  const int index = isa::info(opcode).attribute(name);
  return index < 0 || static_cast<size_t>(index) >= attributes.size()
             ? kAbsent
             : attributes[static_cast<size_t>(index)];
}

const Attribute& attribute(const Node& node, std::string_view name) {
  return attribute(node.opcode, node.attributes, name);
}

bool flag(const Node& node, std::string_view name) {
  const Attribute& found = attribute(node, name);
  return found.given && (found.items.empty() || found.items[0].index != 0);
}

std::vector<int64_t> axes_of(const Plan& plan, const Node& node) {
  const isa::OpInfo& op = isa::info(node.opcode);
  const int index = op.attribute("axis");
  const isa::AttributeInfo& info = op.attributes[static_cast<size_t>(index)];
  const Attribute& given = node.attributes[static_cast<size_t>(index)];
  std::vector<int64_t> axes;
  if (!given.given && info.has_default) axes.push_back(static_cast<int64_t>(info.fallback));
  for (Operand item : given.items) axes.push_back(static_integer(plan, item));
  if (!given.given && !info.has_default)
    for (int i = 0; i < node.operand_types[0].shape.rank(); ++i) axes.push_back(i);
  return axes;
}

// The difference of two i64 fits a u64.
uint64_t trips_of(int64_t from, int64_t until, int64_t step) {
  if (step > 0 ? from >= until : from <= until) return 0;
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(until) - static_cast<uint64_t>(from)
                                     : static_cast<uint64_t>(from) - static_cast<uint64_t>(until);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : ~static_cast<uint64_t>(step) + 1;
  return (distance - 1) / stride + 1;
}

bool pads_lines(const Plan& plan, const Node& node) {
  const isa::Type& from = node.operand_types[0];
  const Shape& to = plan.view(node.results[0]).type.shape;
  const int last = to.rank() - 1;
  if (last < 0 || isa::byte_size(from.dtype) != 2 || to[last] % line_elements(from.dtype) != 0)
    return false;
  for (int i = 0; i < last; ++i)
    if (to[i] != from.shape[i]) return false;
  return static_integer(plan, attribute(node, "low").items[static_cast<size_t>(last)]) == 0;
}

namespace {

// Whether a permutation changes the last two axes for each other and leaves all others.
bool swaps_last_axes(const Plan& plan, const Node& node, int rank) {
  const Attribute& axes = attribute(node, "axes");
  for (int i = 0; i < rank; ++i) {
    const int64_t axis = static_integer(plan, axes.items[static_cast<size_t>(i)]);
    const int wanted = i < rank - 2 ? i : 2 * rank - 3 - i;
    if ((axis < 0 ? axis + rank : axis) != wanted) return false;
  }
  return true;
}

}  // namespace

BoxSize turned_boxes(const Plan& plan, const Node& node) {
  constexpr int64_t kPieces = 8;  // lines: of which what is read is whole sectors of memory
  constexpr int64_t kLeastElements = int64_t{256} * 1024;  // of fewer a quick move is sooner over
  constexpr int64_t kTask =
      3000;  // what a task costs, in elements that a processor moves meanwhile
  // What an element costs where so many of the operand's lie side by side, more than in runs of 128 bytes.
  const auto element = [](int64_t lines) { return lines == 8 ? 1.6 : lines == 16 ? 1.2 : 1.0; };
  const Device& device = plan.device;
  if (node.opcode != isa::Opcode::Permute || device.packs_panels) return {};
  const isa::Type& type = plan.view(node.results[0]).type;
  const int rank = type.shape.rank();
  if (isa::byte_size(type.dtype) != 4 || rank < 2 || type.elements() < kLeastElements ||
      type.elements() > UINT32_MAX || !swaps_last_axes(plan, node, rank))
    return {};
  if (type.shape[rank - 2] % kPieces != 0 || type.shape[rank - 1] % line_elements(type.dtype) != 0)
    return {};
  const int64_t most = int64_t{device.processors} * device.tasks_per_processor;
  BoxSize best;
  double least = 0;
  for (const int64_t lines : {8, 16, 32, 64, 128})
    for (const int64_t columns : {32, 64, 128, 256, 512, 1024, 2048}) {
      const BoxSize boxes{lines, columns};
      const int64_t count = count_of(type.shape, boxes);
      const int64_t turns = (count + device.processors - 1) / device.processors;
      const double taken = static_cast<double>(turns) *
                           (static_cast<double>(lines * columns) * element(lines) + kTask);
      if (count > most || (best.lines != 0 && taken >= least)) continue;
      best = boxes;
      least = taken;
    }
  return best;
}

namespace {

int64_t boxes_along(int64_t size, int64_t box) { return (size + box - 1) / box; }

}  // namespace

int64_t count_of(const Shape& shape, BoxSize boxes) {
  const int64_t lines = shape[shape.rank() - 2];
  const int64_t size = shape[shape.rank() - 1];
  if (shape.elements() == 0) return 0;
  return shape.elements() / (lines * size) * boxes_along(lines, boxes.lines) *
         boxes_along(size, boxes.columns);
}

Box box_at(const Shape& shape, BoxSize boxes, int64_t number) {
  const int64_t lines = shape[shape.rank() - 2];
  const int64_t size = shape[shape.rank() - 1];
  const int64_t along = boxes_along(size, boxes.columns);
  const int64_t down = boxes_along(lines, boxes.lines);
  const int64_t line = number / along % down * boxes.lines;
  const int64_t column = number % along * boxes.columns;
  Box box;
  box.begin = (number / along / down * lines + line) * size + column;
  box.row_bytes = std::min(boxes.columns, size - column);
  box.rows = std::min(boxes.lines, lines - line);
  box.stride = size;
  return box;
}

MatrixShape matrix_shape(const Shape& a, const Shape& b, const Shape& out, bool ta, bool tb) {
  MatrixShape shape;
  shape.ta = ta;
  shape.tb = tb;
  shape.m = out[out.rank() - 2];
  shape.n = out[out.rank() - 1];
  shape.k = shape.whole_k = std::min(a[a.rank() - (ta ? 2 : 1)], b[b.rank() - (tb ? 1 : 2)]);
  for (int i = 0; i + 2 < out.rank(); ++i) shape.batches *= out[i];
  return shape;
}

bool reads(const std::vector<MicroStep>& program, uint32_t index) {
  return std::ranges::any_of(program, [index](const MicroStep& step) {
    return std::ranges::any_of(step.inputs, [index](const MicroStep::Input& input) {
      return input.from == MicroStep::From::operand && input.index == index;
    });
  });
}

int64_t put_index(const Put& put, const isa::Shape& to, int64_t index) {
  int64_t place = 0;
  int64_t stride = 1;
  for (int i = to.rank(); i-- > 0;) {
    place += (put.at[static_cast<size_t>(i)] + index % put.shape[i]) * stride;
    index /= put.shape[i];
    stride *= to[i];
  }
  return place;
}

MatrixShape matrix_shape(const Node& node) {
  MatrixShape shape = matrix_shape(node.operand_types[0].shape, node.operand_types[1].shape,
                                   node.main_type.shape, flag(node, "ta"), flag(node, "tb"));
  if (node.depth.count != 0) take_depth(shape, node.depth);
  return shape;
}

Factors factors_of(const Node& node, size_t product) {
  if (product > 0) {
    const OtherProduct& other = node.others[product - 1];
    return {other.right, other.bias, &other.attributes, other.main_type};
  }
  const bool has_bias = node.own_operands > 2 && node.operands[2];
  return {1, has_bias ? 2 : size_t{kNone}, &node.attributes, node.main_type};
}

void count_tiles(MatrixTiles& tiles, const MatrixShape& shape) {
  tiles.down = (shape.m + tiles.rows - 1) / tiles.rows;
  tiles.across = (shape.n + tiles.columns - 1) / tiles.columns;
  tiles.first = 0;
  tiles.count = tiles.down * tiles.across * shape.batches;
}

void take_rows(MatrixTiles& tiles, const MatrixShape& shape, Rows rows) {
  count_tiles(tiles, shape);
  tiles.first = rows.first / tiles.rows * tiles.across;
  tiles.count = (rows.count + tiles.rows - 1) / tiles.rows * tiles.across;
}

MatrixTile matrix_tile(const MatrixShape& shape, const MatrixTiles& tiles, int64_t index) {
  MatrixTile tile;
  tile.batch = index / (tiles.down * tiles.across);
  const int64_t within = index % (tiles.down * tiles.across);
  tile.row = within / tiles.across * tiles.rows;
  tile.column = within % tiles.across * tiles.columns;
  tile.rows = std::min(tiles.rows, shape.m - tile.row);
  tile.columns = std::min(tiles.columns, shape.n - tile.column);
  return tile;
}

Pairing pairing_of(const Plan& plan, const Node& node) {
  if (node.tiling != Tiling::matrix || node.tiles == kNone) return Pairing::none;
  return plan.tilings[node.tiles].pairing;
}

namespace {

// Whether tiles of a pair stand side by side, not above each other.
bool is_side_by_side(const MatrixTiles& tiles) {
  return (tiles.pairing == Pairing::depth) != tiles.transposed;
}

}  // namespace

int64_t partner_of(const MatrixTiles& tiles, int64_t index) {
  if (tiles.pairing == Pairing::none) return kNone;
  const int64_t within = index % (tiles.down * tiles.across);
  const bool across = is_side_by_side(tiles);
  const int64_t place = across ? within % tiles.across : within / tiles.across;
  const int64_t apart = across ? 1 : tiles.across;
  if (place % 2 != 0) return index - apart;
  return place + 1 < (across ? tiles.across : tiles.down) ? index + apart : kNone;
}

int64_t rows_together(const MatrixTiles& tiles) {
  const bool two = tiles.pairing != Pairing::none && !is_side_by_side(tiles);
  return two ? 2 * tiles.rows : tiles.rows;
}

MatrixTile tile_read(const MatrixShape& shape, const MatrixTiles& tiles, int64_t index) {
  if (tiles.pairing != Pairing::depth) return matrix_tile(shape, tiles, index);
  const int64_t other = partner_of(tiles, index);
  MatrixTile first = matrix_tile(shape, tiles, std::min(index, other));
  const MatrixTile second = matrix_tile(shape, tiles, std::max(index, other));
  first.rows = second.row + second.rows - first.row;
  first.columns = second.column + second.columns - first.column;
  return first;
}

int64_t broadcast_index(const Shape& to, const Shape& from, int64_t index) {
  int64_t place = 0;
  int64_t stride = 1;
  const int shift = to.rank() - from.rank();
  for (int i = to.rank(); i-- > 0;) {
    const int64_t at = to[i] == 0 ? 0 : index % to[i];
    index = to[i] == 0 ? 0 : index / to[i];
    if (i < shift) continue;
    const int64_t size = from[i - shift];
    if (size != 1) place += at * stride;
    stride *= size;
  }
  return place;
}

}  // namespace trek::plan
