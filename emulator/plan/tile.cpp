#include "emulator/plan/tile.h"

#include <algorithm>
#include <optional>

#include "emulator/plan/geometry.h"
#include "emulator/plan/rules.h"
#include "emulator/plan/window.h"

namespace trek::plan {
namespace {

using isa::Opcode;
using isa::Type;

class Tiler {
 public:
  explicit Tiler(Plan& plan) : plan_(plan) {}
  void run();

 private:
  void elements(Node& node);
  void lines(Node& node);
  void scattered_lines(Node& node, const Lines& lines, int64_t size);
  void matrix(Node& node);
  void whole(Node& node);
  void start(const Node& node, int64_t first, int64_t count);
  void add(Operand operand, const Box& part, bool write, bool partial);
  void read_scalars(const Node& node);
  void read_programs(const Node& node, const Box& like_main, const Type& main,
                     const Box& like_result);
  void matrix_operand(Operand operand, const Type& type, const MatrixShape& shape, int64_t batch,
                      int64_t row, int64_t rows, int64_t column, int64_t columns);
  int64_t chunk(int64_t elements) const;

  Plan& plan_;
  uint32_t index_ = 0;  // of the node being cut
};

// Boxes are first in elements of the view, from its start; add() makes them bytes of the arena.
Box range(int64_t first, int64_t count) { return {first, count, 1, 0, 0, false, false, false}; }
Box rectangle(int64_t first, int64_t row, int64_t rows, int64_t stride) {
  return {first, row, rows, stride, 0, false, false, false};
}

void Tiler::start(const Node& node, int64_t first, int64_t count) {
  Task task;
  task.node = index_;
  task.region = node.region;
  task.first = first;
  task.count = count;
  const uint32_t of_node = static_cast<uint32_t>(plan_.tasks.size()) - node.first_task;
  // The control processor's turn comes last: it has scalars and decisions to do besides.
  task.processor = node.unit == Unit::control
                       ? plan_.control()
                       : (of_node + 1) % static_cast<uint32_t>(plan_.device.processors);
  task.first_box = static_cast<uint32_t>(plan_.boxes.size());
  plan_.tasks.push_back(task);
}

void Tiler::add(Operand operand, const Box& part, bool write, bool partial) {
  if (operand.kind != Operand::Kind::view) return;
  const View& view = plan_.views[operand.index];
  const Buffer& buffer = plan_.buffers[view.buffer];
  if (buffer.bytes == 0 || part.empty()) return;
  const int64_t size = isa::byte_size(view.type.dtype);
  Box box = part;
  box.begin = buffer.offset + part.begin * size;
  box.row_bytes = part.row_bytes * size;
  box.stride = part.stride * size;
  box.buffer = view.buffer;
  box.write = write;
  box.partial = partial;
  box.immutable = !write && buffer.immutable;
  if (box.rows == 1 || box.stride == box.row_bytes) {  // one shape for one thing
    box.row_bytes *= box.rows;
    box.rows = 1;
    box.stride = 0;
  }
  Task& task = plan_.tasks.back();
  for (uint32_t i = task.first_box; i < plan_.boxes.size(); ++i) {
    const Box& other = plan_.boxes[i];
    if (other.buffer == box.buffer && other.write == write && covers(other, box)) return;
  }
  plan_.boxes.push_back(box);
  ++task.boxes;
}

Box all_of(const Type& type) { return range(0, type.elements()); }

// Scalars among the attributes.
void Tiler::read_scalars(const Node& node) {
  for (const Attribute& attribute : node.attributes)
    for (Operand item : attribute.items)
      if (item.kind == Operand::Kind::view) add(item, range(0, 1), false, false);
}

// What a tile reads of an operand that is broadcast to `shape`.
Box broadcast_part(const Type& type, const isa::Shape& shape, const Box& part) {
  if (type.scalar) return all_of(type);
  if (type.shape == shape) return part;
  return box_of(type.shape, broadcast_window(shape, type.shape, window_of(shape, part)));
}

// What prologue and tail read.
void Tiler::read_programs(const Node& node, const Box& like_main, const Type& main,
                          const Box& like_result) {
  const auto inputs = [&](const std::vector<MicroStep>& program, const isa::Shape& shape,
                          const Box& like) {
    const auto input = [&](const MicroStep::Input& in) {
      if (in.from != MicroStep::From::operand) return;
      add(node.operands[in.index], broadcast_part(node.operand_types[in.index], shape, like), false,
          false);
    };
    for (const MicroStep& step : program) {
      for (const auto& in : step.inputs) input(in);
      for (const auto& in : step.attributes) input(in);
    }
  };
  inputs(node.prologue, main.shape, like_main);
  if (!node.results.empty())
    inputs(node.chain, plan_.views[node.results[0]].type.shape, like_result);
}

int64_t Tiler::chunk(int64_t elements) const {
  const int64_t most = int64_t{plan_.device.processors} * plan_.device.tasks_per_processor;
  const int64_t share = (elements + most - 1) / most;
  return share <= plan_.device.chunk ? plan_.device.chunk : (share + 1023) / 1024 * 1024;
}

void Tiler::elements(Node& node) {
  const bool in_place = node.unit == Unit::optimizer;
  const Type type = in_place ? node.operand_types[0] : plan_.views[node.results[0]].type;
  const isa::OpInfo& op = isa::info(node.opcode);
  const int64_t size = chunk(type.elements());
  // Reads element i for its element i: everything but the moves, and a reshape.
  const bool moves = node.unit == Unit::move && node.opcode != Opcode::Reshape;
  // An instruction that may trap looks at its operands even where it gives nothing.
  const int64_t end = op.traps.empty() ? type.elements() : std::max<int64_t>(1, type.elements());
  for (int64_t first = 0; first < end; first += size) {
    const Box part = range(first, std::min(size, type.elements() - first));
    start(node, first, part.row_bytes);
    for (size_t i = 0; i < node.own_operands; ++i) {
      const Type& from = node.operand_types[i];
      Box read = !from.scalar && from.elements() == type.elements() ? part : all_of(from);
      if (moves && !from.scalar)
        read = box_of(from.shape, moved_window(plan_, node, i, window_of(type.shape, part)));
      add(node.operands[i], read, false, false);
      if (i < op.operands.size() && op.operands[i].access == isa::Access::inout)
        add(node.operands[i], part, true, false);
    }
    read_scalars(node);
    read_programs(node, part, type, part);
    for (uint32_t result : node.results) add({Operand::Kind::view, result}, part, true, false);
  }
}

// A range of lines of a tensor [outer, n, inner]: whole outer indices, or a part of one.
Box line_box(const Lines& lines, int64_t n, int64_t first, int64_t count) {
  const int64_t outer = first / lines.inner;
  const int64_t inner = first % lines.inner;
  if (count % lines.inner == 0 && inner == 0)
    return range(outer * n * lines.inner, count / lines.inner * n * lines.inner);
  return rectangle(outer * n * lines.inner + inner, count, n, lines.inner);
}

void Tiler::lines(Node& node) {
  const Type& main = node.operand_types[0];
  const Lines lines = lines_of(main.shape, axes_of(plan_, node));
  if (lines.lines == 0) return;
  if (lines.n == 0) return whole(node);
  const int64_t wanted = std::max<int64_t>(1, chunk(main.elements()) / lines.n);
  if (!lines.adjacent) return scattered_lines(node, lines, wanted);
  const bool by_outer = wanted >= lines.inner;
  const int64_t size = by_outer ? wanted / lines.inner * lines.inner : wanted;
  const int64_t block = by_outer ? lines.lines : lines.inner;  // tiles do not cross its ends
  for (int64_t first = 0; first < lines.lines;) {
    const int64_t count = std::min(size, block - first % block);
    start(node, first, count);
    const Box part = line_box(lines, lines.n, first, count);
    for (size_t i = 0; i < node.own_operands; ++i) add(node.operands[i], part, false, false);
    read_scalars(node);
    Box result_part = part;
    for (uint32_t result : node.results) {
      const int64_t kept = plan_.views[result].type.elements() / lines.lines;
      result_part = line_box(lines, kept, first, count);
      add({Operand::Kind::view, result}, result_part, true, false);
    }
    read_programs(node, part, main, result_part);
    first += count;
  }
}

// Lines along axes that are not neighbours. Only reductions have them: one result for a line.
void Tiler::scattered_lines(Node& node, const Lines& lines, int64_t size) {
  const Type& main = node.operand_types[0];
  std::vector<int64_t> kept;
  std::vector<size_t> axes;  // of the operand
  const std::vector<int64_t> along = axes_of(plan_, node);
  for (int i = 0; i < main.shape.rank(); ++i) {
    const bool summed = std::any_of(along.begin(), along.end(), [&](int64_t axis) {
      return (axis < 0 ? axis + main.shape.rank() : axis) == i;
    });
    if (summed) continue;
    kept.push_back(main.shape[i]);
    axes.push_back(static_cast<size_t>(i));
  }
  const isa::Shape outer(kept);
  for (int64_t first = 0; first < lines.lines; first += size) {
    const Box result = range(first, std::min(size, lines.lines - first));
    const Window of_lines = window_of(outer, result);
    Window window = whole_window(main.shape);
    for (size_t i = 0; i < axes.size(); ++i) {
      window.low[axes[i]] = of_lines.low[i];
      window.high[axes[i]] = of_lines.high[i];
    }
    const Box part = box_of(main.shape, window);
    start(node, first, result.row_bytes);
    for (size_t i = 0; i < node.own_operands; ++i) add(node.operands[i], part, false, false);
    read_scalars(node);
    read_programs(node, part, main, result);
    for (uint32_t view : node.results) add({Operand::Kind::view, view}, result, true, false);
  }
}

// Reads a part of one matrix of a batched operand, which broadcasting may share between batches.
void Tiler::matrix_operand(Operand operand, const Type& type, const MatrixShape& shape,
                           int64_t batch, int64_t row, int64_t rows, int64_t column,
                           int64_t columns) {
  const int rank = type.shape.rank();
  const int64_t height = type.shape[rank - 2];
  const int64_t width = type.shape[rank - 1];
  const isa::Shape& out = plan_.nodes[index_].main_type.shape;
  const isa::Shape batches(out.dims().first(static_cast<size_t>(out.rank() - 2)));
  const isa::Shape mine(type.shape.dims().first(static_cast<size_t>(rank - 2)));
  const int64_t at = shape.batches == 0 ? 0 : broadcast_index(batches, mine, batch);
  add(operand, rectangle(at * height * width + row * width + column, columns, rows, width), false,
      false);
}

void Tiler::matrix(Node& node) {
  const MatrixShape shape = matrix_shape(node);
  const MatrixTiles tiles = matrix_tiles(plan_.device, shape);
  for (int64_t i = 0; i < tiles.count; ++i) {
    const MatrixTile tile = matrix_tile(shape, tiles, i);
    const Box part = rectangle(tile.batch * shape.m * shape.n + tile.row * shape.n + tile.column,
                               tile.columns, tile.rows, shape.n);
    start(node, i, 1);
    matrix_operand(node.operands[0], node.operand_types[0], shape, tile.batch,
                   shape.ta ? 0 : tile.row, shape.ta ? shape.k : tile.rows, shape.ta ? tile.row : 0,
                   shape.ta ? tile.rows : shape.k);
    matrix_operand(node.operands[1], node.operand_types[1], shape, tile.batch,
                   shape.tb ? tile.column : 0, shape.tb ? tile.columns : shape.k,
                   shape.tb ? 0 : tile.column, shape.tb ? shape.k : tile.columns);
    if (node.own_operands > 2 && node.operands[2])
      add(node.operands[2], broadcast_part(node.operand_types[2], node.main_type.shape, part),
          false, false);
    read_scalars(node);
    read_programs(node, part, node.main_type, part);
    add({Operand::Kind::view, node.results[0]}, part, true, false);
  }
}

void Tiler::whole(Node& node) {
  const isa::OpInfo& op = isa::info(node.opcode);
  start(node, 0, 1);
  for (size_t i = 0; i < node.own_operands; ++i) {
    if (!node.operands[i]) continue;
    add(node.operands[i], all_of(node.operand_types[i]), false, false);
    if (i < op.operands.size() && op.operands[i].access == isa::Access::inout)
      add(node.operands[i], all_of(node.operand_types[i]), true, true);
  }
  read_scalars(node);
  const bool has_result = !node.results.empty();
  const Box part = has_result ? all_of(plan_.views[node.results[0]].type) : Box{};
  const Type main = node.operand_types.empty() ? Type{} : node.operand_types[0];
  if (has_result) read_programs(node, node.prologue.empty() ? part : all_of(main), main, part);
  for (uint32_t result : node.results) {
    // In place, only what is addressed changes.
    const bool target = op.operands.size() > 0 && op.operands[0].access == isa::Access::target;
    const bool in_place =
        target && plan_.views[result].buffer == plan_.views[node.operands[0].index].buffer;
    add({Operand::Kind::view, result}, all_of(plan_.views[result].type), true, in_place);
  }
}

void Tiler::run() {
  for (index_ = 0; index_ < plan_.nodes.size(); ++index_) {
    Node& node = plan_.nodes[index_];
    node.first_task = static_cast<uint32_t>(plan_.tasks.size());
    switch (node.tiling) {
      case Tiling::elements:
        elements(node);
        break;
      case Tiling::lines:
        lines(node);
        break;
      case Tiling::matrix:
        matrix(node);
        break;
      case Tiling::whole:
        whole(node);
        break;
    }
    node.tasks = static_cast<uint32_t>(plan_.tasks.size()) - node.first_task;
    // A node that could not be cut as its rule says is one task.
    if (node.tiling == Tiling::lines && node.tasks == 1) node.tiling = Tiling::whole;
  }
  const auto first_task = [&](uint32_t node) {
    return node < plan_.nodes.size() ? plan_.nodes[node].first_task
                                     : static_cast<uint32_t>(plan_.tasks.size());
  };
  for (Region& region : plan_.regions) {
    region.first_task = first_task(region.first_node);
    region.end_task = first_task(region.end_node);
  }
}

}  // namespace

void tile(Plan& plan) { Tiler(plan).run(); }

}  // namespace trek::plan
