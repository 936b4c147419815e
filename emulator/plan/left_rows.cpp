#include "emulator/plan/left_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emulator/plan/fuse.h"
#include "emulator/plan/node_uses.h"
#include "emulator/plan/product.h"
#include "emulator/plan/row_form.h"
#include "isa/semantics/reduce.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using isa::Shape;
using From = MicroStep::From;

// A program's operands and steps, `operands` and `steps` further on; its main value becomes step 0.
std::vector<MicroStep> moved(std::vector<MicroStep> program, uint32_t operands, uint32_t steps) {
  const auto move = [&](MicroStep::Input& input) {
    if (input.from == From::operand) input.index += operands;
    if (input.from == From::step) input.index += steps;
    if (input.from == From::main && steps > 0) input = {From::step, 0};
  };
  for (MicroStep& step : program) {
    std::ranges::for_each(step.inputs, move);
    std::ranges::for_each(step.attributes, move);
  }
  return program;
}

MicroStep float_step(Opcode opcode, MicroStep::Input x, MicroStep::Input y = {}) {
  MicroStep step;
  step.opcode = opcode;
  step.from = step.to = DType::f32;
  step.inputs[0] = x;
  step.inputs[1] = y;
  return step;
}

class LeftRows {
 public:
  LeftRows(Plan& plan, const Device& device)
      : plan_(plan), device_(device), uses_(plan), gone_(plan.nodes.size()) {}
  void run();

 private:
  std::optional<Node> rows_node(const Node& node) const;
  std::optional<Node> phases_of_softmax(const Node& node) const;
  bool multiplies(const Node& node, uint32_t buffer, int64_t n) const;
  bool stays(const Node& rows, uint32_t from, uint32_t to) const;
  void take(uint32_t index, const Node& rows, uint32_t buffer);

  Plan& plan_;
  const Device& device_;
  NodeUses uses_;
  std::vector<bool> gone_;  // per node
};

// A softmax of rows of f32 whose tail reads nothing else, as phases.
std::optional<Node> LeftRows::phases_of_softmax(const Node& node) const {
  if (node.opcode != Opcode::Softmax || node.operands.size() != 1 || !node.prologue.empty() ||
      node.main_type.dtype != DType::f32 || node.chain.size() >= kMaxMicroSteps)
    return std::nullopt;
  const Shape& shape = node.main_type.shape;
  const Lines lines = lines_of(shape, axes_of(plan_, node));
  if (!lines.adjacent || lines.inner != 1 || lines.n != shape[shape.rank() - 1])
    return std::nullopt;
  Node rows = node;
  rows.own_operands = 0;
  const MicroStep::Input x{From::operand, 0};
  Shape of_numbers = shape;
  of_numbers[shape.rank() - 1] = 1;
  const auto reduction = [&](Opcode opcode, MicroStep::Input of) {
    Phase phase;
    phase.opcode = opcode;
    phase.dtype = DType::f32;
    phase.elements = {float_step(Opcode::Copy, of)};
    phase.type = isa::Type::tensor(DType::f32, of_numbers);
    return phase;
  };
  Phase shares;
  shares.kind = Phase::Kind::keep;
  shares.dtype = DType::f32;
  shares.elements = {float_step(Opcode::Sub, x, {From::number, 0}),
                     float_step(Opcode::Exp, {From::step, 0})};
  rows.phases = {reduction(Opcode::Max, x), shares, reduction(Opcode::Sum, {From::kept, 1})};
  rows.chain = {float_step(Opcode::Div, {From::kept, 1}, {From::number, 2})};
  for (const MicroStep& step : moved(node.chain, 0, 1)) rows.chain.push_back(step);
  return rows;
}

// A node that gives rows of few elements and nothing else, as phases.
std::optional<Node> LeftRows::rows_node(const Node& node) const {
  std::optional<Node> rows = node.by_rows() ? node : phases_of_softmax(node);
  if (!rows || rows->results.size() != 1 || rows->chain.empty()) return std::nullopt;
  const Shape& shape = rows->main_type.shape;
  const int64_t n = shape[shape.rank() - 1];
  if (n < 2 || n > semantics::kReductionTile) return std::nullopt;
  if (device_.interprets && !row_form(*rows)) return std::nullopt;
  return rows;
}

// Whether a node is a thin product that reads a buffer as its left operand, in rows of n elements, and nowhere else.
bool LeftRows::multiplies(const Node& node, uint32_t buffer, int64_t n) const {
  if (node.unit != Unit::matrix || !node.phases.empty() ||
      uses_.buffer_of(node.operands[0]) != buffer)
    return false;
  const auto reads = [&](Operand operand) { return uses_.buffer_of(operand) == buffer; };
  if (std::ranges::count_if(node.operands, reads) != 1) return false;
  const MatrixShape shape = matrix_shape(node);
  return !shape.ta && shape.k == n && shape.whole_k == n &&
         product_of(plan_, node) == Product::thin;
}

// Whether nothing that rows are made of is written behind node `from`, up to `to` and by that.
bool LeftRows::stays(const Node& rows, uint32_t from, uint32_t to) const {
  return std::ranges::none_of(rows.operands, [&](Operand operand) {
    return operand.kind == Operand::Kind::view &&
           uses_.is_written(uses_.buffer_of(operand), from, to);
  });
}

void LeftRows::take(uint32_t index, const Node& rows, uint32_t buffer) {
  const std::vector<uint32_t>& readers = uses_.readers(buffer);
  for (uint32_t reader : readers) {
    Node& node = plan_.nodes[reader];
    const auto first = static_cast<uint32_t>(node.operands.size());
    node.operands[0] = {};
    node.operands.insert(node.operands.end(), rows.operands.begin(), rows.operands.end());
    node.operand_types.insert(node.operand_types.end(), rows.operand_types.begin(),
                              rows.operand_types.end());
    node.phases = rows.phases;
    for (Phase& phase : node.phases) {
      phase.elements = moved(phase.elements, first, 0);
      phase.tail = moved(phase.tail, first, 0);
    }
    node.prologue = moved(rows.chain, first, 0);
  }
  plan_.nodes[readers.front()].weight += rows.weight;
  for (Operand operand : rows.operands) {
    if (operand.kind != Operand::Kind::view) continue;
    Buffer& read = plan_.buffers[uses_.buffer_of(operand)];
    if (read.kind == BufferKind::tensor_register || read.kind == BufferKind::scalar_register)
      read.last = std::max(read.last, readers.back());
  }
  plan_.fusion.push_back({true, fmt::format("{} into {} thin product{}: rows of the left operand",
                                            plan_.buffers[buffer].name, readers.size(),
                                            readers.size() == 1 ? "" : "s")});
  plan_.buffers[buffer].bytes = 0;
  gone_[index] = true;
}

void LeftRows::run() {
  for (uint32_t index = 0; index < plan_.nodes.size(); ++index) {
    const std::optional<Node> rows = rows_node(plan_.nodes[index]);
    if (!rows) continue;
    const uint32_t buffer = plan_.view(rows->results[0]).buffer;
    const std::vector<uint32_t>& readers = uses_.readers(buffer);
    if (plan_.buffers[buffer].kind != BufferKind::tensor_register ||
        uses_.writers(buffer).size() != 1 || readers.empty() || readers.front() <= index)
      continue;
    const Shape& shape = rows->main_type.shape;
    const bool all = std::ranges::all_of(readers, [&](uint32_t reader) {
      return plan_.nodes[reader].region == rows->region &&
             multiplies(plan_.nodes[reader], buffer, shape[shape.rank() - 1]);
    });
    if (all && stays(*rows, index, readers.back())) take(index, *rows, buffer);
  }
  remove_nodes(plan_, gone_);
}

}  // namespace

void take_left_rows(Plan& plan, const Device& device) { LeftRows(plan, device).run(); }

}  // namespace trek::plan
