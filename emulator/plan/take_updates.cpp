#include "emulator/plan/take_updates.h"

#include <optional>
#include <vector>

#include <fmt/format.h>

#include "emulator/plan/node_uses.h"
#include "emulator/plan/product.h"
#include "isa/ops.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using isa::Shape;

bool is_short_real(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// Where an `update` puts its patch, if that is known and within the tensor.
std::optional<Put> put_of(const Plan& plan, const Node& update) {
  const Shape& to = update.operand_types[0].shape;
  Put put;
  put.shape = update.operand_types[1].shape;
  const Attribute& at = attribute(update, "at");
  if (!at.given) return std::nullopt;
  for (int i = 0; i < to.rank(); ++i) {
    const Operand item = at.items[static_cast<size_t>(i)];
    if (item.kind != Operand::Kind::constant && item.kind != Operand::Kind::number)
      return std::nullopt;
    put.at.push_back(static_integer(plan, item));
    if (put.at.back() < 0 || put.at.back() > to[i] - put.shape[i]) return std::nullopt;
  }
  return put;
}

// Whether what a product gives goes through a bias and a step of one operand at most.
bool has_plain_tail(const Node& product) {
  if (!product.chain.empty() || is_group(product) || product.results.size() != 1 ||
      !is_short_real(product.main_type.dtype) || attribute(product, "scale").given)
    return false;
  if (const Attribute& tail = attribute(product, "tail"); tail.given) {
    const isa::OpInfo& op = isa::info(static_cast<Opcode>(tail.items[0].index));
    if (op.operands.size() != 1 || !op.attributes.empty()) return false;
  }
  const Factors factors = factors_of(product, 0);
  if (factors.bias == kNone) return true;
  const isa::Type& bias = product.operand_types[factors.bias];
  const int64_t n = matrix_shape(product).n;
  return !bias.scalar && is_short_real(bias.dtype) && bias.shape.rank() > 0 && n > 1 &&
         (bias.shape == product.main_type.shape ||
          (bias.elements() == n && bias.shape[bias.shape.rank() - 1] == n));
}

// The product that gives what an `update` puts, if it can put it.
uint32_t product_of(const Plan& plan, const NodeUses& uses, uint32_t index) {
  const Node& update = plan.nodes[index];
  const uint32_t to = uses.buffer_of(update.operands[0]);
  const uint32_t at = uses.writer_for_one(update.operands[1]);
  if (at == kNone) return kNone;
  const Node& product = plan.nodes[at];
  if (at >= index || product.unit != Unit::matrix || product.region != update.region ||
      product_of(plan, product) != Product::thin || !has_plain_tail(product))
    return kNone;
  for (const Operand operand : product.operands)
    if (uses.buffer_of(operand) == to) return kNone;
  const bool is_free = !uses.is_read(to, at, index - 1) && !uses.is_written(to, at, index - 1);
  return is_free ? at : kNone;
}

}  // namespace

void take_updates(Plan& plan) {
  const NodeUses uses(plan);
  std::vector<bool> gone(plan.nodes.size());
  for (uint32_t index = 0; index < plan.nodes.size(); ++index) {
    const Node& update = plan.nodes[index];
    if (update.opcode != Opcode::Update || update.unit != Unit::move) continue;
    const std::optional<Put> put = put_of(plan, update);
    const uint32_t at = put ? product_of(plan, uses, index) : kNone;
    if (at == kNone) continue;
    Buffer& patch = plan.buffers[uses.buffer_of(update.operands[1])];
    plan.fusion.push_back(
        {true, fmt::format("update of {} into the product that gives {}",
                           plan.buffers[uses.buffer_of(update.operands[0])].name, patch.name)});
    patch.bytes = 0;
    plan.nodes[at].put = put;
    plan.nodes[at].results = update.results;
    plan.nodes[at].weight += update.weight;
    gone[index] = true;
  }
  remove_nodes(plan, gone);
}

}  // namespace trek::plan
