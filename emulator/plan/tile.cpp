#include "emulator/plan/tile.h"

#include <algorithm>
#include <cstdlib>

#include "emulator/plan/take_gradients.h"
#include "emulator/plan/tiler.h"
#include "emulator/plan/window.h"

namespace trek::plan {

using isa::Opcode;
using isa::Type;

void Tiler::start(const Node& node, int64_t first, int64_t count) {
  Task task;
  task.node = index_;
  task.region = node.region;
  task.first = first;
  task.count = count;
  task.first_box = static_cast<uint32_t>(plan_.boxes.size());
  plan_.tasks.push_back(task);
}

// What all trips have of part of a slice, where that is a row.
Box Tiler::in_all_trips(const Slice& slice, const Box& part) const {
  Box all = part;
  all.begin += slice.first;
  if (slice.region == kNone) return all;
  const Region& loop = plan_.regions[slice.region];
  const int64_t step = slice.step * loop.step;  // from trip to trip
  const auto trips = static_cast<int64_t>(loop.trips);
  all.begin += slice.step * loop.from + (step < 0 ? step * (trips - 1) : 0);
  all.rows = trips;
  all.stride = std::abs(step);
  return all;
}

void Tiler::add(Operand operand, const Box& part, bool write, bool partial) {
  if (operand.kind != Operand::Kind::view) return;
  const View& view = plan_.views[operand.index];
  const Buffer& buffer = plan_.buffers[view.buffer];
  if (buffer.bytes == 0 || part.empty()) return;
  const int64_t size = isa::byte_size(view.type.dtype);
  const Box all = view.slice ? in_all_trips(*view.slice, part) : part;
  Box box = all;
  box.begin = buffer.offset + all.begin * size;
  box.row_bytes = all.row_bytes * size;
  box.stride = all.stride * size;
  box.buffer = view.buffer;
  box.write = write;
  box.partial = partial || (write && view.slice);
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

// What a program over the part `like` of a tensor of `shape` reads.
void Tiler::read_program(const Node& node, const std::vector<MicroStep>& program,
                         const isa::Shape& shape, const Box& like) {
  const auto input = [&](const MicroStep::Input& in) {
    if (in.from != MicroStep::From::operand) return;
    add(node.operands[in.index], broadcast_part(node.operand_types[in.index], shape, like), false,
        false);
  };
  for (const MicroStep& step : program) {
    for (const auto& in : step.inputs) input(in);
    for (const auto& in : step.attributes) input(in);
  }
}

// What prologue and tail read.
void Tiler::read_programs(const Node& node, const Box& like_main, const Type& main,
                          const Box& like_result) {
  read_program(node, node.prologue, main.shape, like_main);
  if (!node.results.empty())
    read_program(node, node.chain, plan_.views[node.results[0]].type.shape, like_result);
}

// What reads the products of a batch is cut as they are, so that a head of attention stays where it is: the
// elements of a task of one of them, 0 where the node reads none.
int64_t Tiler::piece(const Node& node, int64_t elements) const {
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (node.operands[i].kind != Operand::Kind::view) continue;
    const int64_t of_batch = pieces_[plan_.views[node.operands[i].index].buffer];
    if (of_batch != 0 && node.operand_types[i].elements() == elements) return of_batch;
  }
  return 0;
}

void Tiler::note_pieces(const Node& node) {
  for (uint32_t result : node.results) {
    const View& view = plan_.views[result];
    int64_t& of_batch = pieces_[view.buffer];
    of_batch = 0;
    if (node.put || node.tasks < 2 || node.tasks > static_cast<uint32_t>(plan_.device.processors))
      continue;
    const int64_t elements = view.type.elements();
    const bool by_batch = node.unit == Unit::matrix
                              ? node.tasks == matrix_shape(node).batches
                              : node.unit != Unit::move && !node.operand_types.empty() &&
                                    piece(node, node.operand_types[0].elements()) != 0;
    if (by_batch && elements % node.tasks == 0) of_batch = elements / node.tasks;
  }
}

// One task for each of so many processors, of up to kMostChunks; beyond that several of kFewChunks; of half a chunk where chunks
// would be for a quarter to half of all.
int64_t Tiler::chunk(int64_t elements, int64_t processors) const {
  constexpr int64_t kFewChunks = 4;
  constexpr int64_t kMostChunks = 8;
  const Device& device = plan_.device;
  const int64_t all = device.processors * device.chunk;
  if (4 * elements > all && 2 * elements <= all) return device.chunk / 2;
  const auto chunks = [&](int64_t tasks) {  // of one of so many tasks
    const int64_t size = (elements + tasks - 1) / tasks;
    return (size + device.chunk - 1) / device.chunk;
  };
  const int64_t of_each = std::max<int64_t>(1, chunks(processors));
  const int64_t wanted = of_each <= kMostChunks ? of_each : kFewChunks;
  const int64_t most = int64_t{device.processors} * device.tiles_per_processor;
  return std::max(wanted, chunks(most)) * device.chunk;
}

// How many have a part in a step: its share, but some if it has anything for them.
int64_t Tiler::processors_of_step(const Node& node) const {
  constexpr int64_t kSome = 8;
  const int64_t all = plan_.device.processors;
  return plan_.device.makes_code() ? std::min(std::max<int64_t>(kSome, node.share), all) : all;
}

void Tiler::elements(Node& node) {
  const bool in_place = node.unit == Unit::optimizer;
  const Type type = in_place ? node.operand_types[0] : plan_.views[node.results[0]].type;
  const isa::OpInfo& op = isa::info(node.opcode);
  const isa::Shape& shape = type.shape;
  const int64_t line = node.rows.count != 0 ? shape[shape.rank() - 1] : 0;
  const int64_t begin = node.rows.first * line;
  const int64_t elements = line != 0 ? node.rows.count * line : type.elements();
  const int64_t of_batch = piece(node, type.elements());
  // Nodes of equal size are cut alike, whatever runs beside them; but no other has to do with the elements of a step.
  const int64_t processors = in_place ? processors_of_step(node) : plan_.device.processors;
  const int64_t size = of_batch != 0 ? of_batch : chunk(elements, processors);
  // Reads element i for its element i: everything but the moves, and a reshape.
  const bool moves = node.unit == Unit::move && node.opcode != Opcode::Reshape;
  // An instruction that may trap looks at its operands even where it gives nothing.
  const int64_t end = begin + (op.traps.empty() ? elements : std::max<int64_t>(1, elements));
  for (int64_t first = begin; first < end; first += size) {
    const Box part = range(first, std::min(size, begin + elements - first));
    start(node, first, part.row_bytes);
    const size_t operands = in_place ? node.operands.size() : node.own_operands;
    for (size_t i = 0; i < operands; ++i) {
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

// Boxes of matrices that are turned around.
void Tiler::boxes(Node& node, BoxSize boxes) {
  node.tiling = Tiling::boxes;
  const isa::Shape& shape = plan_.views[node.results[0]].type.shape;
  for (int64_t number = 0; number < count_of(shape, boxes); ++number) {
    const Box part = box_at(shape, boxes, number);
    start(node, number, 1);
    const Window read = moved_window(plan_, node, 0, window_of(shape, part));
    add(node.operands[0], box_of(node.operand_types[0].shape, read), false, false);
    add({Operand::Kind::view, node.results[0]}, part, true, false);
  }
}

// Boxes of weights, each stepped with a gradient that is made for it: of all k, of its own rows and columns. Or elements of a bias,
// by sums of lines.
void Tiler::steps(Node& node) {
  const isa::Shape& shape = node.operand_types[0].shape;
  const int64_t k = node.operand_types[node.factors].shape[0];
  const auto step = [&](int64_t first, int64_t count, const Box& part) {
    start(node, first, count);
    for (size_t i = 0; i + 1 < node.own_operands; ++i) {
      add(node.operands[i], part, false, false);
      add(node.operands[i], part, true, false);
    }
    read_scalars(node);
  };
  const auto read = [&](size_t factor, int64_t line, int64_t lines) {
    const isa::Shape& from = node.operand_types[node.factors + factor].shape;
    add(node.operands[node.factors + factor], rectangle(line, lines, k, from[1]), false, false);
  };
  if (shape.rank() == 1) {
    for (int64_t first = 0; first < shape[0]; first += kStepSums) {
      const int64_t count = std::min(kStepSums, shape[0] - first);
      step(first, count, range(first, count));
      read(0, first, count);
    }
    return;
  }
  node.tiling = Tiling::boxes;
  const BoxSize boxes = step_boxes(node);
  for (int64_t number = 0; number < count_of(shape, boxes); ++number) {
    const Box part = box_at(shape, boxes, number);
    step(number, 1, part);
    read(0, part.begin / shape[1], part.rows);
    read(1, part.begin % shape[1], part.row_bytes);
  }
}

// The window of x that a window of y becomes, where `at` is known; all of an axis where it is not.
void Tiler::update(Node& node) {
  const Type& patch = node.operand_types[1];
  const int64_t size = chunk(patch.elements());
  for (int64_t first = 0; first < std::max<int64_t>(1, patch.elements()); first += size) {
    const Box part = range(first, std::min(size, patch.elements() - first));
    start(node, first, part.row_bytes);
    add(node.operands[1], part, false, false);
    read_scalars(node);
    if (part.empty()) continue;
    const isa::Shape& shape = node.operand_types[0].shape;
    const Window target = updated_window(plan_, node, window_of(patch.shape, part));
    add({Operand::Kind::view, node.results[0]}, box_of(shape, target), true, true);
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
    add({Operand::Kind::view, result}, all_of(plan_.views[result].type), true, false);
  }
}

namespace {

bool is_loss(const Node& node) {
  return node.opcode == Opcode::CrossEntropy || node.opcode == Opcode::CrossEntropyGrad ||
         node.opcode == Opcode::CrossEntropyWithGrad;
}

}  // namespace

void Tiler::run() {
  for (index_ = 0; index_ < plan_.nodes.size(); ++index_) {
    Node& node = plan_.nodes[index_];
    node.first_task = static_cast<uint32_t>(plan_.tasks.size());
    switch (node.tiling) {
      case Tiling::elements:
        if (node.makes_gradient())
          steps(node);
        else if (const BoxSize turned = turned_boxes(plan_, node); turned.lines != 0)
          boxes(node, turned);
        else
          node.opcode == Opcode::Update ? update(node) : elements(node);
        break;
      case Tiling::boxes:
        break;  // boxes() and steps() say so, of elements
      case Tiling::lines:
        if (node.unit == Unit::move)
          scatter(node);
        else
          node.by_rows() ? rows(node) : is_loss(node) ? loss(node) : lines(node);
        break;
      case Tiling::matrix:
        matrix(node);
        break;
      case Tiling::whole:
        whole(node);
        break;
    }
    node.tasks = static_cast<uint32_t>(plan_.tasks.size()) - node.first_task;
    note_pieces(node);
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

void tile(Plan& plan) { Tiler(plan).run(); }

}  // namespace trek::plan
