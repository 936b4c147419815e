#include "emulator/plan/node_uses.h"

#include <algorithm>
#include <utility>

#include "emulator/plan/renumber.h"

namespace trek::plan {

NodeUses::NodeUses(const Plan& plan)
    : plan_(plan),
      readers_(plan.buffers.size()),
      writers_(plan.buffers.size()),
      reads_(plan.nodes.size()),
      writes_(plan.nodes.size()) {
  for (uint32_t index = 0; index < plan.nodes.size(); ++index) {
    const Node& node = plan.nodes[index];
    const auto note = [&](auto& users, auto& uses, Operand operand) {
      if (operand.kind != Operand::Kind::view) return;
      const uint32_t buffer = buffer_of(operand);
      std::vector<uint32_t>& nodes = users[buffer];
      if (!nodes.empty() && nodes.back() == index) return;
      nodes.push_back(index);
      uses[index].push_back(buffer);
    };
    const auto read = [&](Operand operand) { note(readers_, reads_, operand); };
    const auto write = [&](Operand operand) { note(writers_, writes_, operand); };
    const auto read_all = [&](const std::vector<Attribute>& attributes) {
      for (const Attribute& attribute : attributes) std::ranges::for_each(attribute.items, read);
    };
    std::ranges::for_each(node.operands, read);
    read_all(node.attributes);
    for (const OtherProduct& other : node.others) read_all(other.attributes);
    each_write(node, write);
  }
}

uint32_t NodeUses::writer_for_one(Operand operand) const {
  const uint32_t buffer = buffer_of(operand);
  if (buffer == kNone || plan_.buffers[buffer].kind != BufferKind::tensor_register ||
      writers_[buffer].size() != 1 || readers_[buffer].size() != 1)
    return kNone;
  return writers_[buffer].front();
}

bool NodeUses::has_one(const std::vector<uint32_t>& nodes, uint32_t from, uint32_t to) {
  const auto next = std::ranges::upper_bound(nodes, from);
  return next != nodes.end() && *next <= to;
}

std::vector<uint32_t> sole_writers(const Plan& plan) {
  constexpr uint32_t kSeveral = kNone - 1;
  std::vector<uint32_t> writers(plan.buffers.size(), kNone);
  for (uint32_t n = 0; n < plan.nodes.size(); ++n)
    each_write(plan.nodes[n], [&](Operand to) {
      if (to.kind != Operand::Kind::view) return;
      uint32_t& writer = writers[plan.view(to.index).buffer];
      writer = writer == kNone ? n : kSeveral;
    });
  std::ranges::replace(writers, kSeveral, kNone);
  return writers;
}

uint32_t result_in(const Plan& plan, const Node& node, uint32_t buffer) {
  const auto found = std::ranges::find_if(
      node.results, [&](uint32_t view) { return plan.view(view).buffer == buffer; });
  return static_cast<uint32_t>(found - node.results.begin());
}

bool is_written_in(const Plan& plan, const Region& region, uint32_t buffer) {
  bool is_written = false;
  for (uint32_t n = region.first_node; n < region.end_node; ++n)
    each_write(plan.nodes[n], [&](Operand to) {
      is_written =
          is_written || (to.kind == Operand::Kind::view && plan.view(to.index).buffer == buffer);
    });
  return is_written;
}
bool has_trips_in_turn(const Plan& plan, uint32_t region) {
  return plan.regions[region].kind == RegionKind::loop &&
         std::ranges::none_of(plan.regions, [&](const Region& r) { return r.parent == region; });
}

bool has_steps(const Plan& plan) {
  return std::ranges::any_of(plan.nodes,
                             [](const Node& node) { return node.unit == Unit::optimizer; });
}

void take_operand(Plan& plan, uint32_t node, Operand operand, const isa::Type& type) {
  plan.nodes[node].operands.push_back(operand);
  plan.nodes[node].operand_types.push_back(type);
  uint32_t& last = plan.buffers[plan.view(operand.index).buffer].last;
  last = std::max(last, node);
}

void remove_nodes(Plan& plan, const std::vector<bool>& gone) {
  std::vector<uint32_t> start;
  std::vector<Node> left;
  for (uint32_t index = 0; index < plan.nodes.size(); ++index) {
    start.push_back(static_cast<uint32_t>(left.size()));
    if (!gone[index]) left.push_back(std::move(plan.nodes[index]));
  }
  start.push_back(static_cast<uint32_t>(left.size()));
  renumber(plan, std::move(left), start, plan.buffers.size());
}

}  // namespace trek::plan
