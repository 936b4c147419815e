#include "emulator/plan/slices.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "emulator/plan/geometry.h"
#include "emulator/plan/group_products.h"
#include "emulator/plan/node_uses.h"

namespace trek::plan {
namespace {

using isa::Opcode;
using isa::Shape;

// Whether the elements of a box of this shape are neighbours in a tensor.
bool are_neighbours(const Shape& box, const Shape& in) {
  bool whole = false;  // from this axis on
  for (int i = 0; i < in.rank(); ++i) {
    if (whole && box[i] != in[i]) return false;
    whole = whole || box[i] > 1;
  }
  return true;
}

// The box of this shape in a tensor, at `at`, of a node in `region`; nothing where it is none that View::slice can be.
std::optional<Slice> slice_of(const Plan& plan, const Attribute& at, const Shape& box,
                              const Shape& in, uint32_t region) {
  if (!at.given || box.rank() != in.rank() || !are_neighbours(box, in)) return std::nullopt;
  const Region& loop = plan.regions[region];
  Slice slice;
  int64_t stride = 1;
  for (int i = in.rank(); i-- > 0; stride *= in[i]) {
    const Operand item = at.items[static_cast<size_t>(i)];
    const bool is_known =
        item.kind == Operand::Kind::constant || item.kind == Operand::Kind::number;
    const bool is_counted = item.kind == Operand::Kind::counter && item.index == region &&
                            loop.kind == RegionKind::loop && loop.static_trips && loop.trips != 0;
    if (!is_known && !is_counted) return std::nullopt;
    const int64_t first = is_known ? static_integer(plan, item) : loop.from;
    const bool moves = is_counted && loop.trips > 1;
    const int64_t last =
        moves ? loop.from + loop.step * static_cast<int64_t>(loop.trips - 1) : first;
    if (std::min(first, last) < 0 || std::max(first, last) > in[i] - box[i]) return std::nullopt;
    if (moves) {
      slice.region = region;
      slice.step += stride;
    } else {
      slice.first += first * stride;
    }
  }
  const bool overlaps = slice.region != kNone && slice.step * std::abs(loop.step) < box.elements();
  return overlaps ? std::nullopt : std::optional(slice);
}

bool is_group_of_a_row(const Node& node) {
  if (!is_group(node)) return false;
  const MatrixShape shape = matrix_shape(node);
  return shape.m == 1 && shape.batches == 1;
}

// Of a plan as it is when this is made: who takes some of it makes another for the rest.
class Taker {
 public:
  explicit Taker(Plan& plan) : plan_(plan), uses_(plan), gone_(plan.nodes.size()) {}

  void take_slices() {
    for (uint32_t n = 0; n < plan_.nodes.size(); ++n)
      if (is_group_of_a_row(plan_.nodes[n])) take_slices_of(n, matrix_shape(plan_.nodes[n]).n);
    remove_nodes(plan_, gone_);
  }
  void take_updates() {
    for (uint32_t n = 0; n < plan_.nodes.size(); ++n)
      if (plan_.nodes[n].opcode == Opcode::Update && plan_.nodes[n].unit == Unit::move)
        take_update(n);
    remove_nodes(plan_, gone_);
  }

 private:
  uint32_t add_view(uint32_t buffer, const isa::Type& type, const Slice& slice) {
    plan_.views.push_back({buffer, type, slice});
    return static_cast<uint32_t>(plan_.views.size() - 1);
  }
  void take(uint32_t from, uint32_t into, const std::string& what) {
    plan_.nodes[into].weight += plan_.nodes[from].weight;
    gone_[from] = true;
    plan_.fusion.push_back({true, what});
  }

  void take_slices_of(uint32_t n, int64_t columns) {
    Node& node = plan_.nodes[n];
    for (size_t i = 1; i < node.operands.size(); ++i) {
      if (node.operand_types[i].scalar || node.operand_types[i].elements() != columns) continue;
      const uint32_t row = uses_.buffer_of(node.operands[i]);
      const uint32_t from = row == kNone ? kNone : slicing(row, n);
      if (from == kNone) continue;
      const Node& sliced = plan_.nodes[from];
      const uint32_t whole = uses_.buffer_of(sliced.operands[0]);
      const std::optional<Slice> slice =
          slice_of(plan_, attribute(sliced, "at"), plan_.view(sliced.results[0]).type.shape,
                   sliced.operand_types[0].shape, node.region);
      if (!slice || whole == kNone || plan_.buffers[whole].bytes == 0 ||
          uses_.is_written(whole, from, n))
        continue;
      take(from, n,
           fmt::format("slice {} of {} into the products that read it", plan_.buffers[row].name,
                       plan_.buffers[whole].name));
      plan_.buffers[row].bytes = 0;
      plan_.buffers[whole].last = std::max(plan_.buffers[whole].last, n);
      node.operands[i].index = add_view(whole, node.operand_types[i], *slice);
    }
  }
  // The `slice` that gives a buffer to nobody but node `n`; else kNone.
  uint32_t slicing(uint32_t buffer, uint32_t n) const {
    if (plan_.buffers[buffer].kind != BufferKind::tensor_register ||
        uses_.writers(buffer).size() != 1 || uses_.readers(buffer).size() != 1)
      return kNone;
    const uint32_t from = uses_.writers(buffer).front();
    const Node& node = plan_.nodes[from];
    const bool is_plain = node.opcode == Opcode::Slice && node.unit == Unit::move &&
                          node.prologue.empty() && node.chain.empty() &&
                          !attribute(node, "stride").given;
    return is_plain && from < n && node.region == plan_.nodes[n].region ? from : kNone;
  }

  void take_update(uint32_t n) {
    const Node& update = plan_.nodes[n];
    const uint32_t to = uses_.buffer_of(update.operands[0]);
    const uint32_t patch = uses_.buffer_of(update.operands[1]);
    if (to == kNone || patch == kNone || plan_.view(update.results[0]).buffer != to) return;
    const uint32_t from = group_giving(patch, n);
    if (from == kNone) return;
    Node& group = plan_.nodes[from];
    const std::optional<Slice> slice =
        slice_of(plan_, attribute(update, "at"), update.operand_types[1].shape,
                 update.operand_types[0].shape, update.region);
    if (!slice || group.results.size() == kMaxGroupResults || touches(group, to) ||
        uses_.is_read(to, from, n - 1) || uses_.is_written(to, from, n - 1) ||
        plan_.buffers[to].first > from)
      return;
    const uint32_t result = result_in(plan_, group, patch);
    take(n, from,
         fmt::format("update of {} into the products that give {}", plan_.buffers[to].name,
                     plan_.buffers[patch].name));
    const isa::Type type = plan_.view(group.results[result]).type;
    group.results.push_back(add_view(to, type, *slice));
    group.gives.push_back(group.gives[result]);
  }
  // The last node that writes `patch` before node `n`, if it is a group of one row in the same region.
  uint32_t group_giving(uint32_t patch, uint32_t n) const {
    const std::vector<uint32_t>& writers = uses_.writers(patch);
    const auto next = std::ranges::lower_bound(writers, n);
    if (next == writers.begin()) return kNone;
    const uint32_t from = *std::prev(next);
    const Node& group = plan_.nodes[from];
    return is_group_of_a_row(group) && group.region == plan_.nodes[n].region ? from : kNone;
  }
  bool touches(const Node& node, uint32_t buffer) const {
    return result_in(plan_, node, buffer) != node.results.size() ||
           std::ranges::any_of(node.operands,
                               [&](Operand operand) { return uses_.buffer_of(operand) == buffer; });
  }

  Plan& plan_;
  const NodeUses uses_;
  std::vector<bool> gone_;
};

}  // namespace

// What slices were of is read by other nodes, and later, before updates are looked at.
void take_slices(Plan& plan) {
  Taker(plan).take_slices();
  Taker(plan).take_updates();
}

}  // namespace trek::plan
