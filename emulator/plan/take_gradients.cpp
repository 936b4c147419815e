#include "emulator/plan/take_gradients.h"

#include <algorithm>

#include <fmt/format.h>

#include "emulator/plan/node_uses.h"
#include "emulator/plan/product.h"
#include "isa/ops.h"

namespace trek::plan {
namespace {

using isa::Opcode;
using isa::Type;

// Of weights; of fewer, or of fewer columns, most of a box would be empty.
constexpr int64_t kFewestRows = 16;
constexpr int64_t kPiece = 4;         // elements of 16 bytes
constexpr int64_t kFewestLines = 32;  // of a sum: all of its partials have one

// Whether a step is by a rule, on f32.
bool is_step(const Plan& plan, const Node& step) {
  return step.unit == Unit::optimizer && step.opcode != Opcode::ClipNorm &&
         step.operands.size() == step.own_operands &&
         std::ranges::all_of(step.operands, [&](Operand of) { return is_plain(plan, of); }) &&
         std::ranges::all_of(step.operand_types,
                             [](const Type& type) { return type.dtype == isa::DType::f32; });
}

// Whether weights suit boxes.
bool has_boxes(const Plan& plan, const isa::Shape& shape) {
  const int64_t most = int64_t{plan.device.processors} * plan.device.tasks_per_processor;
  return shape.rank() == 2 && shape[0] >= kFewestRows && shape[1] >= kStepColumns[0] &&
         shape[0] % kPiece == 0 && shape[1] % kPiece == 0 &&
         shape.elements() <= 4 * kStepOutputs * most;
}

// Whether a sum is one of lines, few of them, that lie whole.
bool is_sum(const Plan& plan, const Node& sum) {
  if (sum.opcode != Opcode::Sum || sum.by_rows() || !sum.prologue.empty() || !sum.chain.empty() ||
      sum.results.size() != 1 || !is_f32_matrix(sum.operand_types[0]) ||
      !is_plain(plan, sum.operands[0]))
    return false;
  const isa::Shape& shape = sum.operand_types[0].shape;
  return axes_of(plan, sum) == std::vector<int64_t>{0} && shape[0] >= kFewestLines &&
         shape[0] <= kStepLines && shape[1] % kPiece == 0;
}

// Whether a product is nothing but its sums, of few k, and its operands lie k by k.
bool is_gradient(const Plan& plan, const Node& product) {
  if (!is_plain_product(plan, product) || !product.chain.empty() ||
      factors_of(product, 0).bias != kNone)
    return false;
  const MatrixShape shape = matrix_shape(product);
  return shape.ta && !shape.tb && shape.k <= kStepDepth && shape.k > 0 &&
         shape.k % kOrderedDepth == 0;
}

// The product or the sum that gives a step's gradient, if the step can make it.
uint32_t gradient_of(const Plan& plan, const NodeUses& uses, uint32_t index) {
  const Node& step = plan.nodes[index];
  if (!is_step(plan, step)) return kNone;
  const size_t gradient = step.own_operands - 1;
  const uint32_t at = uses.writer_for_one(step.operands[gradient]);
  if (at == kNone || at >= index || plan.nodes[at].region != step.region) return kNone;
  const Node& from = plan.nodes[at];
  const isa::Shape& shape = step.operand_types[0].shape;
  const bool suits =
      shape.rank() == 1 ? is_sum(plan, from) : has_boxes(plan, shape) && is_gradient(plan, from);
  // Read as it was given, not in another shape.
  if (!suits || plan.view(from.results[0]).type != step.operand_types[gradient]) return kNone;
  const bool is_written = std::ranges::any_of(from.operands, [&](Operand operand) {
    return operand && uses.is_written(uses.buffer_of(operand), at, index);
  });
  return is_written ? kNone : at;
}

}  // namespace

void take_gradients(Plan& plan) {
  const NodeUses uses(plan);
  std::vector<bool> gone(plan.nodes.size());
  for (uint32_t index = 0; index < plan.nodes.size(); ++index) {
    const uint32_t at = gradient_of(plan, uses, index);
    if (at == kNone) continue;
    Node& step = plan.nodes[index];
    const Node& from = plan.nodes[at];
    Operand& gradient = step.operands[step.own_operands - 1];
    Buffer& buffer = plan.buffers[uses.buffer_of(gradient)];
    plan.fusion.push_back(
        {true,
         fmt::format("{} {} into the step of {}", from.opcode == Opcode::Sum ? "sum" : "product",
                     buffer.name, plan.buffers[uses.buffer_of(step.operands[0])].name)});
    buffer.bytes = 0;
    gradient = {};
    step.factors = static_cast<uint32_t>(step.operands.size());
    for (size_t i = 0; i < from.operands.size(); ++i)
      if (from.operands[i]) take_operand(plan, index, from.operands[i], from.operand_types[i]);
    step.weight += from.weight;
    gone[at] = true;
  }
  remove_nodes(plan, gone);
}

BoxSize step_boxes(const Node& node) {
  constexpr double kTask = 4000;      // cycles of one, besides its multiplications
  constexpr double kMultiply = 1.15;  // and of one of 128 of these
  const isa::Shape& shape = node.operand_types[0].shape;
  const auto k = static_cast<double>(node.operand_types[node.factors].shape[0]);
  const int64_t share = std::max<int64_t>(1, node.share);
  BoxSize best;
  double least = 0;
  for (const int64_t outputs : {6, 5, 4, 2, 1})  // rows of a lane (../device/step_gradient.h)
    for (const int64_t columns : kStepColumns) {
      const BoxSize boxes{outputs * kStepOutputs / columns, columns};
      const int64_t turns = (count_of(shape, boxes) + share - 1) / share;
      const double multiply = static_cast<double>(outputs * kStepOutputs) / 128 * k * kMultiply;
      const double taken = static_cast<double>(turns) * (kTask + multiply);
      if (best.lines != 0 && taken >= least) continue;
      best = boxes;
      least = taken;
    }
  return best;
}

}  // namespace trek::plan
