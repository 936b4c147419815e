#include "emulator/plan/take_logits.h"

#include <algorithm>

#include <fmt/format.h>

#include "emulator/plan/geometry.h"
#include "emulator/plan/node_uses.h"
#include "emulator/plan/product.h"
#include "isa/ops.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using isa::Type;

// Whether two operands are the same tensor, read alike.
bool is_same(const Plan& plan, Operand a, Operand b) {
  return is_plain(plan, a) && is_plain(plan, b) &&
         plan.view(a.index).buffer == plan.view(b.index).buffer &&
         plan.view(a.index).type == plan.view(b.index).type;
}

class Logits {
 public:
  explicit Logits(Plan& plan) : plan_(plan), uses_(plan), gone_(plan.nodes.size()) {}
  void run();

 private:
  bool suits(const Node& loss) const;
  uint32_t layer_of(uint32_t index) const;
  uint32_t back_of(uint32_t index, const Node& layer) const;
  void take_layer(uint32_t index, uint32_t at);
  void take_back(uint32_t index, uint32_t at);
  bool is_changed(Operand operand, uint32_t from, uint32_t to) const {
    return operand && uses_.is_written(uses_.buffer_of(operand), from, to);
  }

  Plan& plan_;
  const NodeUses uses_;
  std::vector<bool> gone_;
};

// Whether a loss is one for each row, of few classes and rows.
bool Logits::suits(const Node& loss) const {
  if (loss.opcode != Opcode::CrossEntropy && loss.opcode != Opcode::CrossEntropyWithGrad)
    return false;
  if (!is_f32_matrix(loss.operand_types[0]) || !is_plain(plan_, loss.operands[0])) return false;
  const isa::Shape& shape = loss.operand_types[0].shape;
  // Beside products in the dot order two rows of a task take longer than what they save.
  const int64_t rows = plan_.fast ? kMostLossRows : 1;
  return shape[0] > 1 && shape[0] <= rows * plan_.device.processors && shape[1] <= kMostClasses &&
         plan_.view(loss.results[0]).type.elements() == shape[0];
}

// The product that gives the logits, if the loss can make them.
uint32_t Logits::layer_of(uint32_t index) const {
  const Node& loss = plan_.nodes[index];
  if (!suits(loss)) return kNone;
  const uint32_t at = uses_.writer_for_one(loss.operands[0]);
  if (at == kNone) return kNone;
  const Node& layer = plan_.nodes[at];
  if (at >= index || layer.region != loss.region || !is_plain_product(plan_, layer) ||
      !layer.chain.empty() || layer.main_type != loss.operand_types[0])
    return kNone;
  const MatrixShape shape = matrix_shape(layer);
  constexpr int64_t kPiece = 4;  // elements of 16 bytes
  if (shape.ta || shape.tb || shape.k == 0 || shape.k % kPiece != 0 || shape.k > kMostRow ||
      shape.k * shape.n > kMostWeights)
    return kNone;
  Operand bias;
  if (const Factors of = factors_of(layer, 0); of.bias != kNone) {
    bias = layer.operands[of.bias];
    const Type& type = layer.operand_types[of.bias];
    if (!is_plain(plan_, bias) || type.scalar || type.dtype != DType::f32 ||
        type.elements() != shape.n || type.shape[type.shape.rank() - 1] != shape.n)
      return kNone;
  }
  const bool is_changed_between = is_changed(layer.operands[0], at, index) ||
                                  is_changed(layer.operands[1], at, index) ||
                                  is_changed(bias, at, index);
  return is_changed_between ? kNone : at;
}

void Logits::take_layer(uint32_t index, uint32_t at) {
  Node& loss = plan_.nodes[index];
  const Node& layer = plan_.nodes[at];
  Buffer& logits = plan_.buffers[uses_.buffer_of(loss.operands[0])];
  plan_.fusion.push_back({true, fmt::format("product {} into its loss", logits.name)});
  logits.bytes = 0;
  loss.operands[0] = {};
  loss.factors = static_cast<uint32_t>(loss.operands.size());
  const auto take = [&](size_t operand) {
    take_operand(plan_, index, layer.operands[operand], layer.operand_types[operand]);
  };
  take(0);
  take(1);
  if (const Factors of = factors_of(layer, 0); of.bias != kNone) take(of.bias);
  loss.weight += layer.weight;
  gone_[at] = true;
}

// The product that the layer before goes on from, if the loss can give it.
uint32_t Logits::back_of(uint32_t index, const Node& layer) const {
  const Node& loss = plan_.nodes[index];
  if (loss.opcode != Opcode::CrossEntropyWithGrad) return kNone;
  for (const uint32_t at : uses_.readers(plan_.view(loss.results[1]).buffer)) {
    const Node& back = plan_.nodes[at];
    if (at <= index || back.region != loss.region || !is_plain_product(plan_, back) ||
        factors_of(back, 0).bias != kNone || back.chain.size() > 1)
      continue;
    const MatrixShape shape = matrix_shape(back);
    if (shape.ta || !shape.tb ||
        !is_same(plan_, back.operands[0], {Operand::Kind::view, loss.results[1]}) ||
        !is_same(plan_, back.operands[1], layer.operands[1]))
      continue;
    if (!back.chain.empty()) {
      const MicroStep& step = back.chain[0];
      if (step.opcode != Opcode::ReluGrad || step.from != DType::f32 || step.to != DType::f32 ||
          step.inputs[0].from != MicroStep::From::main ||
          step.inputs[1].from != MicroStep::From::operand ||
          !is_same(plan_, back.operands[step.inputs[1].index], layer.operands[0]))
        continue;
    }
    // It is given sooner, from what is there then.
    const uint32_t result = plan_.view(back.results[0]).buffer;
    const auto is_behind = [&](uint32_t reader) { return reader > at; };
    if (!uses_.is_only_for(result, is_behind) || uses_.writers(result).size() != 1) continue;
    if (is_changed(back.operands[0], index, at) || is_changed(layer.operands[0], index, at) ||
        is_changed(layer.operands[1], index, at))
      continue;
    return at;
  }
  return kNone;
}

void Logits::take_back(uint32_t index, uint32_t at) {
  Node& loss = plan_.nodes[index];
  const Node& back = plan_.nodes[at];
  Buffer& result = plan_.buffers[plan_.view(back.results[0]).buffer];
  plan_.fusion.push_back({true, fmt::format("product {} into the loss before it", result.name)});
  loss.back = back.chain.empty() ? Back::plain : Back::relu_grad;
  loss.results.push_back(back.results[0]);
  result.first = std::min(result.first, index);
  loss.weight += back.weight;
  gone_[at] = true;
}

void Logits::run() {
  for (uint32_t index = 0; index < plan_.nodes.size(); ++index) {
    const uint32_t at = layer_of(index);
    if (at == kNone) continue;
    const uint32_t back = back_of(index, plan_.nodes[at]);
    take_layer(index, at);
    if (back != kNone) take_back(index, back);
  }
  remove_nodes(plan_, gone_);
}

}  // namespace

void take_logits(Plan& plan) { Logits(plan).run(); }

}  // namespace trek::plan
