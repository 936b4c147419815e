#include "emulator/plan/lower.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "emulator/plan/rules.h"

namespace trek::plan {
namespace {

using isa::Module;
using isa::Opcode;
using isa::Type;
using Kind = Name::Kind;

class Lowering {
 public:
  Lowering(const Module& module, const Flow& flow, const Fusion& fusion, Plan& plan)
      : module_(module), flow_(flow), groups_(fusion.groups), plan_(plan) {}
  void run();

 private:
  using Key = std::pair<Kind, uint32_t>;
  void collect_uses();
  void use(Name name, uint32_t at);
  bool is_view_candidate(const Group& group) const;
  void choose_views();
  void make_fixed_buffers();
  void make_registers();
  void make_regions();
  void make_nodes();
  std::vector<Attribute> attributes(const Step& step);
  void make_node(const Group& group);
  void mark_immutable();
  uint32_t node_at(uint32_t step) const;  // the first node of a group at or after `step`
  uint32_t view(Name name);
  Operand operand(Name name);
  Name root(Name name) const;

  const Module& module_;
  const Flow& flow_;
  const std::vector<Group>& groups_;
  Plan& plan_;
  std::vector<uint32_t> end_;    // per value: the step before which it is last needed
  std::vector<uint32_t> begin_;  // per value: the step that first defines it
  std::vector<Name> source_;     // per value: what it is a view of, or none
  std::vector<bool> is_view_;    // per group
  std::map<Key, std::vector<uint32_t>> writes_;  // of tensors and variables: steps, ascending
  std::vector<uint32_t> steps_;                  // per node
  std::vector<uint32_t> buffers_;                // per value
  std::vector<uint32_t> params_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> views_;
  std::map<uint32_t, uint32_t> texts_;
};

void Lowering::use(Name name, uint32_t at) {
  if (!name.is(Kind::value)) return;
  uint32_t& end = end_[name.index];
  end = std::max(end, flow_.use_end(flow_.values[name.index].region, flow_.steps[at].region, at));
}

void Lowering::collect_uses() {
  end_.assign(flow_.values.size(), 0);
  begin_.assign(flow_.values.size(), kNone);
  source_.resize(flow_.values.size());
  for (const Group& group : groups_) {
    const Step& last = flow_.steps[group.step];
    for (Name name : names_read(flow_, group)) use(name, group.step);
    for (Name name : group.results) {
      use(name, group.step);
      if (name.is(Kind::value)) begin_[name.index] = std::min(begin_[name.index], group.step);
      if (name.is(Kind::tensor) || flow_.values[name.index].variable)
        writes_[{name.kind, name.index}].push_back(group.step);
    }
    const isa::OpInfo& op = isa::info(last.opcode);
    for (size_t i = 0; i < last.operands.size() && i < op.operands.size(); ++i)
      if (op.operands[i].access == isa::Access::inout)
        writes_[{last.operands[i].kind, last.operands[i].index}].push_back(group.step);
  }
}

bool Lowering::is_view_candidate(const Group& group) const {
  const Step& step = flow_.steps[group.step];
  if (step.results.size() != 1 || !step.results[0].is(Kind::value)) return false;
  const FlowValue& value = flow_.values[step.results[0].index];
  if (value.variable || value.type.scalar) return false;
  if (!group.operands.empty() && !group.operands[0].is(Kind::value) &&
      !group.operands[0].is(Kind::tensor))
    return false;
  const bool is_reshape = step.opcode == Opcode::Reshape && group.main == group.step;
  // Not one that stands for the instruction before it, which writes its destination.
  const bool is_copy = step.opcode == Opcode::Copy && group.main == kNone &&
                       group.chain.size() == 1 && group.chain[0].opcode == Opcode::Copy;
  return is_reshape || is_copy;
}

// What a name's bytes belong to if every candidate so far is a view.
Name Lowering::root(Name name) const {
  while (name.is(Kind::value) && source_[name.index]) name = source_[name.index];
  return name;
}

// Backwards, so that a view's last use includes that of the views of it.
void Lowering::choose_views() {
  is_view_.assign(groups_.size(), false);
  for (const Group& group : groups_)
    if (is_view_candidate(group)) {
      const Step& step = flow_.steps[group.step];
      source_[step.results[0].index] = group.operands[0];
    }
  for (size_t g = groups_.size(); g-- > 0;) {
    const Group& group = groups_[g];
    if (!is_view_candidate(group)) continue;
    const Step& step = flow_.steps[group.step];
    const uint32_t value = step.results[0].index;
    const Name origin = root(group.operands[0]);
    const auto found = writes_.find({origin.kind, origin.index});
    bool is_view = true;
    if (found != writes_.end()) {
      const auto next = std::lower_bound(found->second.begin(), found->second.end(), group.step);
      is_view = next == found->second.end() || *next >= end_[value];
    }
    if (!is_view) {
      source_[value] = {};
      continue;
    }
    is_view_[g] = true;
    const uint32_t operand = group.operands[0].index;
    if (group.operands[0].is(Kind::value))
      end_[operand] = std::max(
          {end_[operand], end_[value],
           flow_.use_end(flow_.values[operand].region, flow_.values[value].region, group.step)});
  }
}

void Lowering::make_fixed_buffers() {
  for (uint32_t i = 0; i < module_.tensors.size(); ++i) {
    const isa::TensorDecl& decl = module_.tensors[i];
    Buffer buffer;
    buffer.kind = BufferKind::tensor;
    buffer.name = "@" + module_.strings[decl.name];
    buffer.source = i;
    buffer.bytes = decl.role == isa::Role::stream ? 0 : module_.types[decl.type].bytes();
    buffer.initialised = true;
    plan_.buffers.push_back(std::move(buffer));
  }
  for (uint32_t i = 0; i < module_.params.size(); ++i) {
    Buffer buffer;
    buffer.kind = BufferKind::param;
    buffer.name = "$" + module_.strings[module_.params[i].name];
    buffer.source = i;
    buffer.bytes = isa::byte_size(module_.params[i].dtype);
    buffer.initialised = true;
    params_.push_back(static_cast<uint32_t>(plan_.buffers.size()));
    plan_.buffers.push_back(std::move(buffer));
  }
}

uint32_t Lowering::node_at(uint32_t step) const {
  return static_cast<uint32_t>(std::lower_bound(steps_.begin(), steps_.end(), step) -
                               steps_.begin());
}

void Lowering::make_registers() {
  for (size_t g = 0; g < groups_.size(); ++g)
    if (!is_view_[g]) steps_.push_back(groups_[g].step);
  buffers_.assign(flow_.values.size(), kNone);
  for (const bool scalar : {true, false})
    for (uint32_t v = 0; v < flow_.values.size(); ++v) {
      const FlowValue& value = flow_.values[v];
      if (value.type.scalar != scalar || source_[v] || begin_[v] == kNone) continue;
      Buffer buffer;
      buffer.kind = scalar ? BufferKind::scalar_register : BufferKind::tensor_register;
      buffer.name = value.name;
      buffer.bytes = scalar ? isa::byte_size(value.type.dtype) : value.type.bytes();
      buffer.first = node_at(begin_[v]);
      buffer.last = std::max(buffer.first, node_at(end_[v]) - 1);
      buffers_[v] = static_cast<uint32_t>(plan_.buffers.size());
      plan_.buffers.push_back(std::move(buffer));
    }
}

void Lowering::make_regions() {
  for (const FlowRegion& from : flow_.regions) {
    Region region;
    region.kind = from.kind;
    region.parent = from.parent;
    region.depth = from.depth;
    region.first_node = node_at(from.first);
    region.end_node = node_at(from.end);
    if (from.decision != kNone) region.decision = node_at(from.decision);
    region.static_trips = from.static_trips;
    region.from = from.from;
    region.step = from.step;
    region.trips = from.trips;
    region.weight = from.weight;
    plan_.regions.push_back(region);
  }
}

uint32_t Lowering::view(Name name) {
  const Type type = flow_.type_of(module_, name);
  const Name origin = root(name);
  uint32_t buffer = 0;
  if (origin.is(Kind::tensor))
    buffer = origin.index;
  else if (origin.is(Kind::param))
    buffer = params_[origin.index];
  else
    buffer = buffers_[origin.index];
  const auto [at, is_new] = views_.emplace(std::pair(buffer, type.text()), plan_.views.size());
  if (is_new) plan_.views.push_back({buffer, type, std::nullopt});
  return at->second;
}

Operand Lowering::operand(Name name) {
  using OperandKind = Operand::Kind;
  switch (name.kind) {
    case Kind::none:
      return {};
    case Kind::value:
    case Kind::tensor:
    case Kind::param:
      return {OperandKind::view, view(name)};
    case Kind::counter:
      return {OperandKind::counter, name.index};
    case Kind::constant:
      return {OperandKind::constant, name.index};
    case Kind::number:
      return {OperandKind::number, name.index};
    case Kind::text: {
      const auto [at, is_new] = texts_.emplace(name.index, plan_.texts.size());
      if (is_new) plan_.texts.push_back(module_.strings[name.index]);
      return {OperandKind::text, at->second};
    }
  }
  return {};
}

std::vector<Attribute> Lowering::attributes(const Step& step) {
  std::vector<Attribute> all;
  for (const FlowAttribute& attribute : step.attributes) {
    Attribute lowered;
    lowered.given = attribute.given;
    for (Name name : attribute.items) lowered.items.push_back(operand(name));
    all.push_back(std::move(lowered));
  }
  return all;
}

void Lowering::make_node(const Group& group) {
  const Step& last = flow_.steps[group.step];
  const Step& main = flow_.steps[group.main == kNone ? group.step : group.main];
  const Rule rule = rule_of(main.opcode);
  Node node;
  node.opcode = main.opcode;
  node.unit = rule.unit;
  node.tiling = rule.tiling;
  node.region = last.region;
  node.function = main.function;
  node.instruction = main.instruction;
  node.site = main.site;
  node.weight = group.weight;
  node.own_operands = group.own_operands;
  node.prologue = group.prologue;
  node.chain = group.chain;
  node.gives = group.gives;
  node.phases = group.phases;
  for (Name name : group.operands) {
    node.operands.push_back(operand(name));
    node.operand_types.push_back(flow_.type_of(module_, name));
  }
  if (!group.prologue.empty()) node.operand_types[0] = group.source;
  if (group.main != kNone) {
    node.attributes = attributes(main);
    if (!main.results.empty()) node.main_type = flow_.type_of(module_, main.results[0]);
  }
  for (const GroupProduct& other : group.others) {
    const Step& step = flow_.steps[other.step];
    node.others.push_back(
        {other.right, other.bias, attributes(step), flow_.type_of(module_, step.results[0])});
  }
  if (!group.phases.empty()) node.main_type = group.source;
  for (Name name : group.results) node.results.push_back(view(name));
  // A scalar instruction, and what acts on one element, is the control processor's.
  const bool scalar = !group.results.empty() && flow_.type_of(module_, group.results[0]).scalar;
  if (scalar && node.unit != Unit::control) {
    node.unit = Unit::control;
    node.tiling = Tiling::whole;
  }
  plan_.nodes.push_back(std::move(node));
}

void Lowering::make_nodes() {
  for (size_t g = 0; g < groups_.size(); ++g)
    if (is_view_[g])
      plan_.regions[flow_.steps[groups_[g].step].region].weight += groups_[g].weight;
    else
      make_node(groups_[g]);
  for (Region& region : plan_.regions) region.instructions = region.weight;
  for (const Node& node : plan_.nodes) plan_.regions[node.region].instructions += node.weight;
  for (uint32_t r = 0; r < plan_.regions.size(); ++r) {
    const uint32_t decision = plan_.regions[r].decision;
    if (decision != kNone && plan_.nodes[decision].decides == kNone)
      plan_.nodes[decision].decides = r;
  }
}

void Lowering::mark_immutable() {
  for (Buffer& buffer : plan_.buffers)
    buffer.immutable = buffer.kind == BufferKind::tensor || buffer.kind == BufferKind::param;
  for (const Node& node : plan_.nodes) {
    const isa::OpInfo& op = isa::info(node.opcode);
    for (uint32_t result : node.results)
      plan_.buffers[plan_.views[result].buffer].immutable = false;
    for (size_t i = 0; i < node.own_operands && i < op.operands.size(); ++i)
      if (op.operands[i].access == isa::Access::inout)
        plan_.buffers[plan_.views[node.operands[i].index].buffer].immutable = false;
  }
}

void Lowering::run() {
  plan_.constants = flow_.constants;
  plan_.sites = flow_.sites;
  collect_uses();
  choose_views();
  make_fixed_buffers();
  make_registers();
  make_regions();
  make_nodes();
  mark_immutable();
}

}  // namespace

void lower(const Module& module, const Flow& flow, const Fusion& fusion, Plan& plan) {
  Lowering(module, flow, fusion, plan).run();
}

}  // namespace trek::plan
