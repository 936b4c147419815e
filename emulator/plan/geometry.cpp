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

const Attribute& attribute(const Node& node, std::string_view name) {
  static const Attribute kAbsent;
  const int index = isa::info(node.opcode).attribute(name);
  return index < 0 || static_cast<size_t>(index) >= node.attributes.size()
             ? kAbsent
             : node.attributes[static_cast<size_t>(index)];
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

MatrixShape matrix_shape(const Node& node) {
  const Shape& a = node.operand_types[0].shape;
  const Shape& out = node.main_type.shape;
  MatrixShape shape;
  shape.ta = flag(node, "ta");
  shape.tb = flag(node, "tb");
  shape.m = out[out.rank() - 2];
  shape.n = out[out.rank() - 1];
  shape.whole_k = a[a.rank() - (shape.ta ? 2 : 1)];
  shape.first_k = node.depth.first;
  shape.k = node.depth.count == 0 ? shape.whole_k : node.depth.count;
  for (int i = 0; i + 2 < out.rank(); ++i) shape.batches *= out[i];
  return shape;
}

void count_tiles(MatrixTiles& tiles, const MatrixShape& shape) {
  tiles.down = (shape.m + tiles.rows - 1) / tiles.rows;
  tiles.across = (shape.n + tiles.columns - 1) / tiles.columns;
  tiles.count = tiles.down * tiles.across * shape.batches;
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
