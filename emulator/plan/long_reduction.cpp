#include "emulator/plan/long_reduction.h"

#include <algorithm>
#include <utility>

#include "emulator/plan/geometry.h"
#include "emulator/plan/renumber.h"
#include "emulator/plan/rules.h"
#include "emulator/plan/tiler.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using isa::Shape;
using isa::Type;
using From = MicroStep::From;

constexpr int64_t kTile = 1024;    // of the reduction rule
constexpr size_t kAddedSteps = 2;  // to a program, at most
constexpr size_t kMostSteps = 12;  // of a program
constexpr int64_t kTilesWorthIt =
    4;  // a node with fewer elements than these pointwise tiles stays one

bool is_one(const Type& type) { return type.scalar || type.elements() == 1; }

class LongReductions {
 public:
  explicit LongReductions(Plan& plan) : plan_(plan) {}
  void run();

 private:
  struct Halves {
    int64_t n = 0;    // of a whole line
    DType compute{};  // the type between them
    Opcode joins{};   // what both do
    Type partial;     // [outer, tiles, inner]
  };
  bool is_long(const Node& node) const;
  void halve(Node& node);
  Node first_half(const Node& node, const Halves& halves) const;
  Node second_half(Node node, const Halves& halves);
  uint32_t view(uint32_t buffer, const Type& type);
  static void append(std::vector<MicroStep>& program, Opcode opcode, DType from, DType to,
                     MicroStep::Input x, MicroStep::Input y = {});
  static MicroStep::Input last_of(const std::vector<MicroStep>& program);
  static void reduce_axis(Node& node, uint32_t axis);
  static void keep_used(Node& node);

  Plan& plan_;
  std::vector<Node> nodes_;
};

bool LongReductions::is_long(const Node& node) const {
  if (!is_reduction(node.opcode) || node.unit != Unit::reduce || node.by_rows() ||
      node.main_type.dtype == DType::none)
    return false;
  const Type& main = node.operand_types[0];
  const Lines lines = lines_of(main.shape, axes_of(plan_, node));
  if (!lines.adjacent || lines.lines == 0 || lines.n < 2 * kTile || lines.n % kTile != 0)
    return false;
  if (main.elements() < kTilesWorthIt * plan_.device.chunk) return false;
  const int64_t columns = std::min(lines.inner, kColumns);
  const int64_t tasks = lines.outer * ((lines.inner + columns - 1) / columns);
  if (2 * tasks > plan_.device.processors) return false;
  if (std::max(node.prologue.size(), node.chain.size()) + kAddedSteps > kMostSteps) return false;
  // A reshape leaves a broadcast operand behind.
  const auto reshapes = [&](const MicroStep::Input& input) {
    if (input.from != From::operand) return true;
    const Type& type = node.operand_types[input.index];
    return is_one(type) || type.shape == main.shape;
  };
  return std::all_of(node.prologue.begin(), node.prologue.end(), [&](const MicroStep& step) {
    return std::all_of(step.inputs.begin(), step.inputs.end(), reshapes);
  });
}

uint32_t LongReductions::view(uint32_t buffer, const Type& type) {
  plan_.views.push_back({buffer, type, std::nullopt});
  return static_cast<uint32_t>(plan_.views.size() - 1);
}

void LongReductions::append(std::vector<MicroStep>& program, Opcode opcode, DType from, DType to,
                            MicroStep::Input x, MicroStep::Input y) {
  MicroStep step;
  step.opcode = opcode;
  step.from = from;
  step.to = to;
  step.inputs[0] = x;
  step.inputs[1] = y;
  program.push_back(step);
}

// What a program gives; of an empty tail, what its instruction gave.
MicroStep::Input LongReductions::last_of(const std::vector<MicroStep>& program) {
  if (program.empty()) return {From::main, 0};
  return {From::step, static_cast<uint32_t>(program.size() - 1)};
}

void LongReductions::reduce_axis(Node& node, uint32_t axis) {
  for (Attribute& attribute : node.attributes) attribute = {};
  node.attributes[static_cast<size_t>(isa::info(node.opcode).attribute("axis"))] = {
      true, {{Operand::Kind::number, axis}}};
}

// Operands that no program reads any more are none.
void LongReductions::keep_used(Node& node) {
  std::vector<bool> used(node.operands.size(), false);
  used[0] = true;
  for (const auto* program : {&node.prologue, &node.chain})
    for (const MicroStep& step : *program) {
      for (const auto& input : step.inputs)
        if (input.from == From::operand) used[input.index] = true;
      for (const auto& input : step.attributes)
        if (input.from == From::operand) used[input.index] = true;
    }
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i]) node.operands[i] = {};
}

// The lines of tiles: the operand reshaped, no tail. Its program ends in the compute type, and for a norm
// in squares.
Node LongReductions::first_half(const Node& node, const Halves& halves) const {
  Node first = node;
  first.opcode = halves.joins;
  first.weight = 0;
  first.chain.clear();
  first.main_type = halves.partial;
  reduce_axis(first, 2);
  const Type main = node.operand_types[0];
  if (first.prologue.empty() && (halves.compute != main.dtype || node.opcode == Opcode::Norm2)) {
    // What the instruction read is now read by a program.
    first.operands.push_back(std::exchange(first.operands[0], {}));
    first.operand_types.push_back(main);
    const auto last = static_cast<uint32_t>(first.operands.size() - 1);
    append(first.prologue, Opcode::Cast, main.dtype, halves.compute, {From::operand, last});
  } else if (halves.compute != main.dtype) {
    append(first.prologue, Opcode::Cast, main.dtype, halves.compute, last_of(first.prologue));
  }
  if (node.opcode == Opcode::Norm2) {
    const MicroStep::Input x = last_of(first.prologue);
    append(first.prologue, Opcode::Mul, halves.compute, halves.compute, x, x);
  }
  first.operand_types[0].dtype = halves.compute;
  keep_used(first);
  return first;
}

// What the tiles gave, then what the whole reduction does with it, then the tail.
Node LongReductions::second_half(Node node, const Halves& halves) {
  const DType narrow = node.main_type.dtype;
  std::vector<MicroStep> tail;
  if (node.opcode == Opcode::Mean) {
    isa::Constant count;
    count.dtype = DType::i64;
    count.bits = static_cast<uint64_t>(halves.n);
    plan_.constants.push_back(count);
    node.operands.push_back(
        {Operand::Kind::constant, static_cast<uint32_t>(plan_.constants.size() - 1)});
    node.operand_types.push_back(Type::make_scalar(DType::i64));
    const auto divisor = static_cast<uint32_t>(node.operands.size() - 1);
    append(tail, Opcode::Div, halves.compute, halves.compute, last_of(tail),
           {From::operand, divisor});
  }
  if (node.opcode == Opcode::Norm2)
    append(tail, Opcode::Sqrt, halves.compute, halves.compute, last_of(tail));
  if (halves.compute != narrow) append(tail, Opcode::Cast, halves.compute, narrow, last_of(tail));
  const auto added = static_cast<uint32_t>(tail.size());
  const MicroStep::Input main = last_of(tail);
  for (MicroStep step : node.chain) {
    for (MicroStep::Input& input : step.inputs)
      if (input.from == From::step)
        input.index += added;
      else if (input.from == From::main)
        input = main;
    tail.push_back(step);
  }
  node.chain = std::move(tail);
  node.opcode = halves.joins;
  node.prologue.clear();
  node.main_type.dtype = halves.compute;
  reduce_axis(node, 1);
  return node;
}

void LongReductions::halve(Node& node) {
  const Type main = node.operand_types[0];
  const Lines lines = lines_of(main.shape, axes_of(plan_, node));
  const bool compares = node.opcode == Opcode::Max || node.opcode == Opcode::Min;
  const bool sums = node.opcode == Opcode::Mean || node.opcode == Opcode::Norm2;
  Halves halves;
  halves.n = lines.n;
  halves.compute = compares ? main.dtype : isa::compute_type(main.dtype);
  halves.joins = sums ? Opcode::Sum : node.opcode;
  halves.partial = Type::tensor(halves.compute, {lines.outer, lines.n / kTile, lines.inner});
  const Shape tiled{lines.outer, lines.n / kTile, kTile, lines.inner};

  Buffer buffer;
  buffer.kind = BufferKind::tensor_register;
  buffer.name = plan_.buffers[plan_.views[node.results[0]].buffer].name + ".tiles";
  buffer.bytes = halves.partial.bytes();
  buffer.first = static_cast<uint32_t>(nodes_.size());
  buffer.last = buffer.first + 1;
  const uint32_t temporary = view(static_cast<uint32_t>(plan_.buffers.size()), halves.partial);
  plan_.buffers.push_back(std::move(buffer));

  Node first = first_half(node, halves);
  first.results = {temporary};
  for (size_t i = 0; i < first.operands.size(); ++i) {
    Type& type = first.operand_types[i];
    if (is_one(type) || type.shape != main.shape) continue;
    type.shape = tiled;
    if (first.operands[i])
      first.operands[i].index = view(plan_.views[first.operands[i].index].buffer, type);
  }
  Node second = second_half(std::move(node), halves);
  second.operands[0] = {Operand::Kind::view, temporary};
  second.operand_types[0] = halves.partial;
  keep_used(second);
  nodes_.push_back(std::move(first));
  nodes_.push_back(std::move(second));
}

void LongReductions::run() {
  std::vector<uint32_t> start;  // per old node, and the end: its first one now
  const size_t buffers = plan_.buffers.size();
  for (Node& node : plan_.nodes) {
    start.push_back(static_cast<uint32_t>(nodes_.size()));
    if (is_long(node))
      halve(node);
    else
      nodes_.push_back(std::move(node));
  }
  start.push_back(static_cast<uint32_t>(nodes_.size()));
  renumber(plan_, std::move(nodes_), start, buffers);
}

}  // namespace

void split_long_reductions(Plan& plan) { LongReductions(plan).run(); }

}  // namespace trek::plan
