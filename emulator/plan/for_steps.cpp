#include "emulator/plan/for_steps.h"

#include <algorithm>

#include "emulator/plan/cycles.h"
#include "emulator/plan/product.h"

namespace trek::plan {
namespace {

constexpr double kLong = 100'000;  // cycles of each processor

}  // namespace

bool is_short(const Plan& plan, const Node& node) {
  if (node.unit == Unit::control) return false;
  if (node.unit != Unit::matrix) return true;
  const Product product = product_of(plan, node);
  return product != Product::ordered && product != Product::tensor && product != Product::small;
}

LongGradients::LongGradients(const Plan& plan)
    : is_gradient_(plan.nodes.size(), false),
      is_aside_(plan.nodes.size(), false),
      are_beside_(plan.nodes.size(), false) {
  if (!plan.device.makes_code() || !has_steps(plan)) return;
  const auto is_step = [&](uint32_t n) { return plan.nodes[n].unit == Unit::optimizer; };
  const NodeUses uses(plan);
  const auto is_for_a_step = [&](uint32_t result) {
    return uses.is_only_for(plan.views[result].buffer, is_step);
  };
  is_aside_ =
      for_steps_alone(plan, uses, [&](uint32_t n) { return is_short(plan, plan.nodes[n]); });
  const auto nodes = static_cast<uint32_t>(plan.nodes.size());
  for (uint32_t n = 0; n < nodes; ++n) {
    if (is_step(n)) is_aside_[n] = false;
    const Node& node = plan.nodes[n];
    is_gradient_[n] = node.unit == Unit::matrix && product_of(plan, node) == Product::ordered &&
                      !node.results.empty() && std::ranges::all_of(node.results, is_for_a_step);
  }
  for (uint32_t first = 0, end = 0; first < nodes; first = end) {
    double all = 0;
    for (; end < nodes && plan.nodes[end].region == plan.nodes[first].region; ++end)
      if (is_gradient_[end]) all += cycles_of(plan, plan.nodes[end]);
    if (all < kLong * plan.device.processors) continue;
    std::fill(are_beside_.begin() + first, are_beside_.begin() + end, true);
    are_any_ = true;
  }
}

}  // namespace trek::plan
