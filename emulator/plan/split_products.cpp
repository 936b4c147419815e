#include "emulator/plan/split_products.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "emulator/plan/for_steps.h"
#include "emulator/plan/node_uses.h"
#include "emulator/plan/product.h"
#include "emulator/plan/renumber.h"
#include "emulator/plan/runs.h"
#include "isa/semantics/dot.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using isa::Type;
using From = MicroStep::From;
using Input = MicroStep::Input;

// What the programs of quick nodes have room for (emulator/device/quick.h).
constexpr size_t kMostSteps = 12;
constexpr size_t kMostTensors = 6;

// A pointwise node that grows step by step: f32 until it ends.
class Program {
 public:
  // At the place of `product`, of its results and its operands but for those that it multiplies.
  explicit Program(const Node& product) : node_(product) {
    node_.operands[0] = node_.operands[1] = {};
    node_.own_operands = 0;
    node_.attributes.clear();
    node_.main_type = {};
    node_.chain.clear();
    node_.unit = Unit::vector;
    node_.tiling = Tiling::elements;
    node_.tiles = node_.product = kNone;
    node_.opcode = Opcode::Copy;
  }
  Input operand(Operand from, const Type& type) {
    node_.operands.push_back(from);
    node_.operand_types.push_back(type);
    return {From::operand, static_cast<uint32_t>(node_.operands.size() - 1)};
  }
  Input step(Opcode opcode, DType from, DType to, Input x, Input y = {}) {
    return append({opcode, from, to, {x, y}, {}});
  }
  Input append(const MicroStep& step) {
    node_.chain.push_back(step);
    node_.opcode = step.opcode;
    return {From::step, static_cast<uint32_t>(node_.chain.size() - 1)};
  }
  size_t steps() const { return node_.chain.size(); }
  Node take() { return std::move(node_); }

 private:
  Node node_;
};

class Products {
 public:
  Products(Plan& plan, const MeasuredTiles* measured)
      : plan_(plan), measured_(measured), uses_(plan), gradients_(plan) {}
  void run();

 private:
  struct Sum {
    Operand view;
    Type type;
  };
  Type type_of(Operand scalar) const;
  void finish(Program& program, const Node& product, Input sum) const;
  size_t most_added(const Node& product) const;
  uint32_t optimizer_of(const Node& product) const;
  Sum temporary(const Node& product, std::string_view part, const Type& type);
  void note_read(const Sum& sum);
  Node part_of(const Node& product, Depth depth, int64_t number);
  Sum lines_of_runs(const Node& product);
  void begin_tiles(const Node& product, const Sum& begun);
  void end_tiles(Node& node, const Sum& begun);
  static Input add(Program& program, const std::vector<Sum>& sums);
  uint32_t adder_of_blocks(const Node& product, uint32_t number) const;
  void by_blocks(Node& product, uint32_t optimizer);
  void split(const Node& product, size_t most);
  void divide(const Node& product, const RowParts& parts, size_t most);
  void cut_into_runs(const Node& product);
  void as_tiles_say(Node node, size_t most);
  void one(Node& node, uint32_t number);

  Plan& plan_;
  const MeasuredTiles* measured_;
  std::vector<Node> nodes_;
  NodeUses uses_;  // before any node is divided
  LongGradients gradients_;
  std::map<uint32_t, std::vector<Sum>> added_;  // to the gradients of optimizers
};

Type Products::type_of(Operand scalar) const {
  switch (scalar.kind) {
    case Operand::Kind::view:
      return plan_.view(scalar.index).type;
    case Operand::Kind::constant:
      return Type::make_scalar(plan_.constants[scalar.index].dtype);
    default:
      return Type::make_scalar(DType::i64);
  }
}

// Scale, bias and tail in f32, then the conversion, then the chain.
void Products::finish(Program& program, const Node& product, Input sum) const {
  constexpr DType kF32 = DType::f32;
  if (const Attribute& scale = attribute(product, "scale"); scale.given) {
    const Input by = program.operand(scale.items[0], type_of(scale.items[0]));
    sum = program.step(Opcode::Mul, kF32, kF32, sum, by);
  }
  if (product.own_operands > 2 && product.operands[2]) {
    Input bias{From::operand, 2};
    const Type& type = product.operand_types[2];
    if (type.dtype != kF32 && !type.scalar)
      bias = program.step(Opcode::Cast, type.dtype, kF32, bias);
    sum = program.step(Opcode::Add, kF32, kF32, sum, bias);
  }
  if (const Attribute& tail = attribute(product, "tail"); tail.given)
    sum = program.step(static_cast<Opcode>(tail.items[0].index), kF32, kF32, sum);
  if (product.main_type.dtype != kF32)
    sum = program.step(Opcode::Cast, kF32, product.main_type.dtype, sum);
  const auto before = static_cast<uint32_t>(program.steps());
  for (MicroStep step : product.chain) {
    for (auto* inputs : {&step.inputs[0], &step.inputs[1], &step.inputs[2], &step.attributes[0],
                         &step.attributes[1]}) {
      if (inputs->from == From::step) inputs->index += before;
      if (inputs->from == From::main) *inputs = sum;
    }
    program.append(step);
  }
}

// How many sums the node that finishes may add: at least two, or it may not be split.
size_t Products::most_added(const Node& product) const {
  if (plan_.device.packs_panels || product.unit != Unit::matrix) return 0;
  const DType type = product.operand_types[0].dtype;
  if (!isa::is_real(type) || type == DType::f64) return 0;
  Program program(product);
  finish(program, product, {From::main, 0});
  const size_t steps = program.steps();
  const Node end = program.take();
  std::set<uint32_t> tensors;
  for (const MicroStep& step : end.chain) {
    if (isa::byte_size(step.from) > 4 || isa::byte_size(step.to) > 4) return 0;
    for (const Input& input : step.inputs)
      if (input.from == From::operand && !end.operand_types[input.index].scalar)
        tensors.insert(input.index);
  }
  if (steps >= kMostSteps || tensors.size() >= kMostTensors) return 0;
  return std::min(kMostSteps - steps + 1, kMostTensors - tensors.size());
}

// The optimizer that may add the parts of a product, which is nothing but its sums and has no other use: so no node adds
// them, and they pass memory once. kNone.
uint32_t Products::optimizer_of(const Node& product) const {
  const uint32_t buffer = plan_.view(product.results[0]).buffer;
  const std::vector<uint32_t>& readers = uses_.readers(buffer);
  if (!plan_.device.makes_code() || product.results.size() != 1 || product.rows.count != 0 ||
      plan_.buffers[buffer].kind != BufferKind::tensor_register || readers.size() != 1)
    return kNone;
  const Node& reader = plan_.nodes[readers[0]];
  if (reader.unit != Unit::optimizer || reader.opcode == Opcode::ClipNorm ||
      reader.region != product.region ||
      uses_.buffer_of(reader.operands[reader.own_operands - 1]) != buffer)
    return kNone;
  Program program(product);
  finish(program, product, {From::main, 0});
  const auto is_f32 = [](const Type& type) { return type.dtype == DType::f32; };
  return program.steps() == 0 && std::ranges::all_of(reader.operand_types, is_f32)
             ? readers[0]
             : uint32_t{kNone};
}

// The optimizer that may add the blocks of a product of a few columns, or kNone. Such a product of many k has little to
// multiply, and tiles of all k have a few lines of every k: for each of these the second-level cache is asked anew. The
// optimizer then takes longer, for which there is time beside long gradients.
uint32_t Products::adder_of_blocks(const Node& product, uint32_t number) const {
  constexpr int64_t kFewest = 16;
  constexpr int64_t kMostBytes = int64_t{8} << 20;
  if (product.unit != Unit::matrix || product_of(plan_, product) != Product::narrow ||
      !gradients_.are_beside(number))
    return kNone;
  const MatrixShape shape = matrix_shape(product);
  const int64_t blocks = shape.k / semantics::kDotBlock;
  if (!shape.ta || shape.tb || shape.batches != 1 || shape.k % semantics::kDotBlock != 0 ||
      blocks < kFewest || blocks * shape.m * shape.n * 4 > kMostBytes || !product.phases.empty())
    return kNone;
  static_assert(kNarrowDepth <= semantics::kDotSegment);
  return optimizer_of(product);
}

// Makes a product one of blocks of its k, each a matrix of a batch, whose sums an optimizer adds in ascending order: what the
// dot order does with one segment.
void Products::by_blocks(Node& product, uint32_t optimizer) {
  const MatrixShape shape = matrix_shape(product);
  const int64_t blocks = shape.k / semantics::kDotBlock;
  for (size_t i = 0; i < 2; ++i) {
    Type& type = product.operand_types[i];
    type = Type::tensor(type.dtype, {blocks, semantics::kDotBlock, i == 0 ? shape.m : shape.n});
    plan_.views.push_back({plan_.view(product.operands[i].index).buffer, type, std::nullopt});
    product.operands[i].index = static_cast<uint32_t>(plan_.views.size() - 1);
  }
  product.main_type.shape = {blocks, shape.m, shape.n};
  View& result = plan_.views[product.results[0]];
  result.type.shape = product.main_type.shape;
  plan_.buffers[result.buffer].bytes = result.type.bytes();
  Node& adds = plan_.nodes[optimizer];
  adds.operands[adds.own_operands - 1] = {Operand::Kind::view, product.results[0]};
  adds.operand_types[adds.own_operands - 1] = result.type;
}

// A tensor for the next node's sums; its last reader is to be said.
Products::Sum Products::temporary(const Node& product, std::string_view part, const Type& type) {
  Sum sum;
  sum.type = type;
  Buffer buffer;
  buffer.kind = BufferKind::tensor_register;
  buffer.name =
      fmt::format("{}.{}", plan_.buffers[plan_.view(product.results[0]).buffer].name, part);
  buffer.bytes = sum.type.bytes();
  buffer.first = buffer.last = static_cast<uint32_t>(nodes_.size());
  plan_.views.push_back({static_cast<uint32_t>(plan_.buffers.size()), sum.type, std::nullopt});
  plan_.buffers.push_back(std::move(buffer));
  sum.view = {Operand::Kind::view, static_cast<uint32_t>(plan_.views.size() - 1)};
  return sum;
}

// The next node reads it.
void Products::note_read(const Sum& sum) {
  plan_.buffers[plan_.view(sum.view.index).buffer].last = static_cast<uint32_t>(nodes_.size());
}

// A node that gives the product's sums alone.
Node sums_of(const Node& product, uint32_t result) {
  Node node = product;
  node.operands.resize(2);
  node.operand_types.resize(2);
  node.own_operands = 2;
  for (const char* name : {"scale", "tail", "to"})
    node.attributes[static_cast<size_t>(isa::info(node.opcode).attribute(name))] = {};
  node.chain.clear();
  node.main_type = Type::tensor(DType::f32, product.main_type.shape);
  node.results = {result};
  node.weight = 0;
  return node;
}

// One of the nodes that a product's k is divided between.
Node Products::part_of(const Node& product, Depth depth, int64_t number) {
  Node node = product;
  node.depth = depth;
  MatrixTiles tiles = plan_.tilings[product.tiles];
  if (tiles.runs == 0) return node;
  tiles.segment = number;
  node.tiles = static_cast<uint32_t>(plan_.tilings.size());
  plan_.tilings.push_back(tiles);
  return node;
}

// For what runs begin of tiles: a line for each, of whichever part its tile is.
Products::Sum Products::lines_of_runs(const Node& product) {
  const MatrixTiles& tiles = plan_.tilings[product.tiles];
  const MatrixShape shape = segment_in_runs(matrix_shape(product), tiles);
  return temporary(product, "begun",
                   Type::tensor(DType::f32, {tiles.runs, line_of_run(shape, tiles)}));
}
void Products::begin_tiles(const Node& product, const Sum& begun) {
  nodes_.push_back(sums_of(product, begun.view.index));
  nodes_.back().of_runs = OfRuns::begun;
}
// The next node ends these tiles.
void Products::end_tiles(Node& node, const Sum& begun) {
  note_read(begun);
  node.of_runs = OfRuns::ended;
  node.begun = static_cast<uint32_t>(node.operands.size());
  node.operands.push_back(begun.view);
  node.operand_types.push_back(begun.type);
}

// All of them, in order.
Input Products::add(Program& program, const std::vector<Sum>& sums) {
  Input total = program.operand(sums[0].view, sums[0].type);
  for (size_t i = 1; i < sums.size(); ++i)
    total = program.step(Opcode::Add, DType::f32, DType::f32, total,
                         program.operand(sums[i].view, sums[i].type));
  return total;
}

void Products::split(const Node& product, size_t most) {
  const int64_t split = plan_.tilings[product.tiles].split;
  const bool in_runs = plan_.tilings[product.tiles].runs > 0;
  const Type type = Type::tensor(DType::f32, product.main_type.shape);
  const auto next = [&](size_t number) {
    return temporary(product, fmt::format("part{}", number), type);
  };
  const uint32_t optimizer = split <= kMostParts + 1 ? optimizer_of(product) : uint32_t{kNone};
  std::vector<Node> parts;
  for (const Depth& depth : depths_of(whole_work(plan_, product), split))
    parts.push_back(part_of(product, depth, static_cast<int64_t>(parts.size())));
  const Sum begun = in_runs ? lines_of_runs(product) : Sum();
  if (in_runs)
    for (const Node& part : parts) begin_tiles(part, begun);
  std::vector<Sum> sums;
  for (const Node& part : parts) {
    const size_t i = sums.size();
    const bool is_own = optimizer != kNone && i == 0;
    sums.push_back(is_own ? Sum{{Operand::Kind::view, product.results[0]}, type} : next(i));
    Node node = sums_of(part, sums.back().view.index);
    if (in_runs) end_tiles(node, begun);
    if (is_own) node.weight = product.weight;
    nodes_.push_back(std::move(node));
  }
  if (optimizer != kNone) {
    added_[optimizer].assign(sums.begin() + 1, sums.end());
    return;
  }
  const auto read_now = [&](const std::vector<Sum>& some) {
    for (const Sum& sum : some) note_read(sum);
  };
  // More than the last node may add are added by others before it.
  for (size_t number = sums.size(); sums.size() > most; ++number) {
    const auto end =
        sums.begin() + static_cast<ptrdiff_t>(std::min(kMostTensors, sums.size() - most + 1));
    const std::vector<Sum> some(sums.begin(), end);
    const Sum total = next(number);
    Program program(product);
    add(program, some);
    read_now(some);
    Node node = program.take();
    std::fill_n(node.operands.begin(), product.operands.size(), Operand{});
    node.results = {total.view.index};
    node.weight = 0;
    nodes_.push_back(std::move(node));
    sums.erase(sums.begin(), end);
    sums.insert(sums.begin(), total);
  }
  Program program(product);
  finish(program, product, add(program, sums));
  read_now(sums);
  nodes_.push_back(program.take());
}

// The first rows, and then the rest: what stands for the instruction is the first.
void Products::divide(const Node& product, const RowParts& parts, size_t most) {
  const int64_t whole = matrix_shape(product).m;
  Node first = product;
  first.rows = {0, parts.first};
  set_tiles(plan_, first, parts.of_first);
  nodes_.push_back(std::move(first));
  Node rest = product;
  rest.rows = {parts.first, whole - parts.first};
  rest.weight = 0;
  rest.tiles = static_cast<uint32_t>(plan_.tilings.size());
  plan_.tilings.push_back(parts.of_rest);
  as_tiles_say(std::move(rest), most);
}

// What runs begin of tiles, and then the tiles: what stands for the instruction is these.
void Products::cut_into_runs(const Node& product) {
  const Sum begun = lines_of_runs(product);
  begin_tiles(product, begun);
  Node ended = product;
  end_tiles(ended, begun);
  nodes_.push_back(std::move(ended));
}

// Divides the k of a node whose tiles are known, if they say so.
void Products::as_tiles_say(Node node, size_t most) {
  const MatrixTiles tiles = node.tiles != kNone ? plan_.tilings[node.tiles] : MatrixTiles();
  if (tiles.split > 1) return split(node, most);
  if (tiles.runs > 0) return cut_into_runs(node);
  nodes_.push_back(std::move(node));
}

void Products::one(Node& node, uint32_t number) {
  if (const uint32_t optimizer = adder_of_blocks(node, number); optimizer != kNone) {
    by_blocks(node, optimizer);
    nodes_.push_back(std::move(node));
    return;
  }
  const size_t most = node.tiling == Tiling::matrix ? most_added(node) : 0;
  if (most >= 2) {
    const ProductWork work = whole_work(plan_, node);
    note_product(plan_, node, true);
    if (!set_measured(plan_, node, work, measured_)) {
      const MatrixTiles tiles = choose(plan_.device, work);
      const bool in_runs = tiles.runs > 0 && work.product == Product::tensor;
      if (!node.put && node.phases.empty() && !in_runs)
        if (const auto parts = divide_rows(plan_.device, work, tiles))
          return divide(node, *parts, most);
      if (tiles.split > 1 || tiles.runs > 0) set_tiles(plan_, node, tiles);
    }
    return as_tiles_say(std::move(node), most);
  }
  nodes_.push_back(std::move(node));
}

void Products::run() {
  std::vector<uint32_t> start;
  const size_t buffers = plan_.buffers.size();
  for (uint32_t n = 0; n < plan_.nodes.size(); ++n) {
    Node& node = plan_.nodes[n];
    start.push_back(static_cast<uint32_t>(nodes_.size()));
    for (const Sum& sum : added_[n]) {
      node.operands.push_back(sum.view);
      node.operand_types.push_back(sum.type);
      note_read(sum);
    }
    one(node, n);
  }
  start.push_back(static_cast<uint32_t>(nodes_.size()));
  renumber(plan_, std::move(nodes_), start, buffers);
}

}  // namespace

void split_products(Plan& plan, const MeasuredTiles* measured) { Products(plan, measured).run(); }

}  // namespace trek::plan
