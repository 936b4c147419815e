// What a training step works out for its optimizers alone.
//
// A layer's gradients of weights, its sums of biases and what leads to these are read by steps alone, so nothing in the trip
// waits for them. Of these, gradients of weights are large products, by the dot order in strict programs; what is left is
// short.
#pragma once

#include <vector>

#include "emulator/plan/node_uses.h"
#include "emulator/plan/plan.h"

namespace trek::plan {

// Whether a node takes no longer than a step does.
bool is_short(const Plan& plan, const Node& node);

// Per node: whether it is a step of an optimizer; or one of which `is_one` says yes, all of whose results are registers that
// later ones of the same region alone read.
template <class IsOne>
std::vector<bool> for_steps_alone(const Plan& plan, const NodeUses& uses, IsOne is_one) {
  std::vector<bool> found(plan.nodes.size(), false);
  for (auto n = static_cast<uint32_t>(plan.nodes.size()); n-- > 0;) {
    const Node& node = plan.nodes[n];
    const auto is_for_these = [&](uint32_t buffer) {
      return uses.is_only_for(buffer, [&](uint32_t reader) {
        return reader > n && found[reader] && plan.nodes[reader].region == node.region;
      });
    };
    found[n] = node.unit == Unit::optimizer || (!node.results.empty() && is_one(n) &&
                                                std::ranges::all_of(uses.writes(n), is_for_these));
  }
  return found;
}

// Of programs that code is made for: gradients of weights by the dot order, and whether those of a region keep all processors
// busy for long. Then what is short has time, and is best done where and when processors wait.
class LongGradients {
 public:
  explicit LongGradients(const Plan& plan);
  bool is_gradient(uint32_t node) const { return is_gradient_[node]; }
  // Whether a node is short and for steps alone, but no step.
  bool is_aside(uint32_t node) const { return is_aside_[node]; }
  // Whether gradients of a node's region, between other regions, take long; and whether those of any do.
  bool are_beside(uint32_t node) const { return are_beside_[node]; }
  bool are_any() const { return are_any_; }

 private:
  std::vector<bool> is_gradient_;
  std::vector<bool> is_aside_;
  std::vector<bool> are_beside_;
  bool are_any_ = false;
};

}  // namespace trek::plan
