#include "emulator/plan/group_products.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emulator/plan/product.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Module;
using isa::Opcode;
using isa::Type;
using From = MicroStep::From;
using Kind = Name::Kind;

bool is_short_real(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

bool is_given(const Step& product, std::string_view name) {
  const int index = isa::info(product.opcode).attribute(name);
  return product.attributes[static_cast<size_t>(index)].given;
}
bool is_set(const Step& product, std::string_view name) {
  const int index = isa::info(product.opcode).attribute(name);
  const FlowAttribute& found = product.attributes[static_cast<size_t>(index)];
  return found.given && (found.items.empty() || found.items[0].index != 0);
}

bool has_no_numbers(const MicroStep& step) {
  return std::ranges::none_of(
      isa::info(step.opcode).attributes, [](const isa::AttributeInfo& info) {
        return info.kind == isa::AttributeKind::real || info.kind == isa::AttributeKind::element;
      });
}

// What products of a node have in common.
struct Common {
  Name left;
  DType element = DType::none;
  Type type;  // of the products
  MatrixShape matrix;
  bool fits(const Common& other) const {
    return left == other.left && element == other.element && type.shape == other.type.shape &&
           matrix.tb == other.matrix.tb;
  }
};

class Grouper {
 public:
  Grouper(const Module& module, const Flow& flow, Fusion& fusion)
      : module_(module), flow_(flow), fusion_(fusion) {}
  void run();

 private:
  static constexpr size_t kNowhere = SIZE_MAX;

  size_t slot(Name name) const;
  void note(uint32_t at);
  template <typename F>
  void each_read(const Group& group, F&& f) const;
  Type type(Name name) const { return flow_.type_of(module_, name); }
  const Group& group(uint32_t at) const { return *groups_[at]; }
  uint32_t region(uint32_t at) const { return flow_.steps[group(at).step].region; }

  std::optional<Common> shape_of(const Step& product) const;
  std::optional<Common> shape_of(const Group& of) const;
  bool is_beside(Name name, const Common& shape) const;
  bool takes_chain(const Group& of, const Common& shape) const;
  bool is_plain(Name name) const;
  bool touched(const std::vector<std::vector<uint32_t>>& by, Name name, uint32_t from,
               uint32_t to) const;
  bool writes_over(Name result, const Group& of, const Common& shape) const;
  bool can_join(uint32_t a, uint32_t b, Name value) const;
  bool makes_operand(const Group& of, Name name) const;
  Group joined(const Group& a, const Group& b, Name value) const;
  void join(uint32_t a, uint32_t b, Name value);
  void join_all(uint32_t b);
  bool takes_copy(uint32_t at, size_t result, uint32_t copy) const;
  void take_copy(uint32_t at, size_t result, uint32_t copy);
  void take_copies(uint32_t at);

  const Module& module_;
  const Flow& flow_;
  Fusion& fusion_;
  std::vector<std::optional<Group>> groups_;
  // Of a value or a tensor, by slot(): the groups that read and write it, ascending.
  std::vector<std::vector<uint32_t>> readers_;
  std::vector<std::vector<uint32_t>> writers_;
};

size_t Grouper::slot(Name name) const {
  if (name.is(Kind::value)) return name.index;
  return name.is(Kind::tensor) ? flow_.values.size() + name.index : kNowhere;
}

template <typename F>
void Grouper::each_read(const Group& group, F&& f) const {
  for (Name name : group.operands) f(name);
  if (group.main == kNone) return;
  for (const FlowAttribute& attribute : flow_.steps[group.main].attributes)
    for (Name name : attribute.items) f(name);
}

void Grouper::note(uint32_t at) {
  const auto add = [&](std::vector<std::vector<uint32_t>>& to, Name name) {
    const size_t of = slot(name);
    if (of == kNowhere) return;
    const auto place = std::ranges::lower_bound(to[of], at);
    if (place == to[of].end() || *place != at) to[of].insert(place, at);
  };
  each_read(group(at), [&](Name name) { add(readers_, name); });
  for (Name name : group(at).results) add(writers_, name);
  const Step& last = flow_.steps[group(at).step];
  const isa::OpInfo& op = isa::info(last.opcode);
  for (size_t i = 0; i < last.operands.size() && i < op.operands.size(); ++i)
    if (op.operands[i].access == isa::Access::inout) add(writers_, last.operands[i]);
}

// Of a product that can be one of several; nothing where it cannot.
std::optional<Common> Grouper::shape_of(const Step& product) const {
  if (product.opcode != Opcode::Matmul || is_set(product, "ta") || is_given(product, "scale"))
    return std::nullopt;
  const Type left = type(product.operands[0]);
  const Type right = type(product.operands[1]);
  Common shape;
  shape.left = product.operands[0];
  shape.element = left.dtype;
  shape.type = type(product.results[0]);
  const isa::Shape& out = shape.type.shape;
  MatrixShape& matrix = shape.matrix;
  matrix.tb = is_set(product, "tb");
  matrix.m = out[out.rank() - 2];
  matrix.n = out[out.rank() - 1];
  matrix.k = left.shape[left.shape.rank() - 1];
  const bool is_thin =
      matrix.m * matrix.n > 1 && matrix.m <= kThinRows && matrix.k >= 1 && matrix.k <= kThinDepth;
  if (!is_thin || shape.type.elements() != matrix.m * matrix.n ||
      left.elements() != matrix.m * matrix.k || right.elements() != matrix.n * matrix.k ||
      !is_short_real(left.dtype) || right.dtype != left.dtype || !is_short_real(shape.type.dtype))
    return std::nullopt;
  if (product.operands.size() > 2 && product.operands[2] && !is_beside(product.operands[2], shape))
    return std::nullopt;
  const auto tail = static_cast<size_t>(isa::info(product.opcode).attribute("tail"));
  if (product.attributes[tail].given) {
    const isa::OpInfo& op = isa::info(static_cast<Opcode>(product.attributes[tail].items[0].index));
    if (op.operands.size() != 1 || !op.attributes.empty()) return std::nullopt;
  }
  return shape;
}

std::optional<Common> Grouper::shape_of(const Group& of) const {
  if (of.main == kNone) return std::nullopt;
  return shape_of(flow_.steps[of.main]);
}

// Whether an operand has an element for each of the result's, or for each column.
bool Grouper::is_beside(Name name, const Common& shape) const {
  const Type of = type(name);
  if (of.scalar || !is_short_real(of.dtype) || of.shape.rank() == 0) return false;
  if (of.shape == shape.type.shape) return true;
  return of.elements() == shape.matrix.n && of.shape[of.shape.rank() - 1] == shape.matrix.n &&
         shape.matrix.n > 1;
}

bool Grouper::takes_chain(const Group& of, const Common& shape) const {
  const auto takes = [&](const MicroStep::Input& input) {
    if (input.from != From::operand) return true;
    const Name name = of.operands[input.index];
    return name.is(Kind::constant) || is_beside(name, shape);
  };
  return std::ranges::all_of(of.chain, [&](const MicroStep& step) {
    const bool is_element = step.opcode == Opcode::Cast || step.opcode == Opcode::Copy ||
                            isa::info(step.opcode).family == isa::Family::pointwise;
    return is_element && step.opcode != Opcode::Where && is_short_real(step.from) &&
           is_short_real(step.to) && std::ranges::all_of(step.inputs, takes) &&
           has_no_numbers(step);
  });
}

// Whether a name is a value with one definition.
bool Grouper::is_plain(Name name) const {
  return name.is(Kind::value) && !flow_.values[name.index].variable;
}

// Whether a group between two others is among the readers or writers of a name.
bool Grouper::touched(const std::vector<std::vector<uint32_t>>& by, Name name, uint32_t from,
                      uint32_t to) const {
  const size_t of = slot(name);
  if (of == kNowhere) return false;
  const auto next = std::ranges::upper_bound(by[of], from);
  return next != by[of].end() && *next < to;
}

// Whether a result would be written over what tiles of others, or other elements, read.
bool Grouper::writes_over(Name result, const Group& of, const Common& shape) const {
  for (uint32_t i = 0; i < of.operands.size(); ++i) {
    if (of.operands[i] != result) continue;
    const bool is_own = of.main != kNone && i < of.own_operands;
    const bool is_others = std::ranges::any_of(
        of.others, [i](const GroupProduct& other) { return other.right == i || other.bias == i; });
    if (is_own || is_others || type(result).shape != shape.type.shape) return true;
  }
  return false;
}

// Whether a group's products have an operand of their own by this name: what chains read is none.
bool Grouper::makes_operand(const Group& of, Name name) const {
  const auto own = of.operands.begin() + (of.main == kNone ? 0 : of.own_operands);
  return std::find(of.operands.begin(), own, name) != own ||
         std::ranges::any_of(of.others, [&](const GroupProduct& other) {
           return of.operands[other.right] == name ||
                  (other.bias != kNone && of.operands[other.bias] == name);
         });
}

// Whether group `a`, with products, can become part of `b`, whose chain reads its result `value`.
bool Grouper::can_join(uint32_t a, uint32_t b, Name value) const {
  const Group& from = group(a);
  const Group& to = group(b);
  if (!to.phases.empty()) return false;
  const std::optional<Common> shape = shape_of(from);
  if (!shape || region(a) != region(b) || !takes_chain(from, *shape) || !takes_chain(to, *shape))
    return false;
  const std::vector<Name>& given = from.results;
  const std::vector<Name>& results = to.results;
  const size_t products = 1 + from.others.size() + (to.main == kNone ? 0 : 1 + to.others.size());
  const std::optional<Common> other = shape_of(to);
  if (to.main != kNone && (!other || !shape->fits(*other))) return false;
  if (products > static_cast<size_t>(kGroupProducts) ||
      group_columns(shape->matrix, static_cast<int64_t>(products),
                    isa::byte_size(shape->element)) == 0 ||
      from.chain.size() + to.chain.size() > kMaxMicroSteps ||
      from.operands.size() + to.operands.size() > kMaxOperands + 2 ||
      given.size() + results.size() > kMaxGroupResults)
    return false;
  for (Name name : given)
    if (!is_plain(name) || touched(readers_, name, a, b) || makes_operand(to, name)) return false;
  for (Name name : from.operands)
    if (touched(writers_, name, a, b)) return false;
  for (Name name : results)
    if (type(name).shape != shape->type.shape || writes_over(name, from, *shape) ||
        writes_over(name, to, *shape))
      return false;
  return std::ranges::count(to.operands, value) == 1;
}

// `b` may read other results of `a`, too. What others read as well stays a result.
Group Grouper::joined(const Group& a, const Group& b, Name value) const {
  Group to = a;
  to.step = b.step;
  to.weight += b.weight;
  const auto mains = static_cast<uint32_t>(1 + a.others.size());
  const auto steps = static_cast<uint32_t>(a.chain.size());
  const auto last_of = [](const Group& of) {
    return of.chain.empty()
               ? MicroStep::Input{From::main, 0}
               : MicroStep::Input{From::step, static_cast<uint32_t>(of.chain.size() - 1)};
  };
  const auto operand = [&to](Name name) {
    const auto begin = to.operands.begin() + to.own_operands;
    const auto found = std::find(begin, to.operands.end(), name);
    const auto index = static_cast<uint32_t>(found - to.operands.begin());
    if (found == to.operands.end()) to.operands.push_back(name);
    return index;
  };
  if (a.gives.empty()) {
    to.results = {value};
    to.gives = {last_of(a)};
  }
  const std::vector<Name> given = std::exchange(to.results, {});
  const std::vector<MicroStep::Input> gives = std::exchange(to.gives, {});
  for (size_t i = 0; i < given.size(); ++i) {
    const bool is_read = std::ranges::find(b.operands, given[i]) != b.operands.end();
    if (is_read && readers_[slot(given[i])].size() == 1) continue;
    to.results.push_back(given[i]);
    to.gives.push_back(gives[i]);
  }
  if (b.main != kNone) {
    const bool has_bias = b.own_operands > 2 && b.operands[2];
    to.others.push_back(
        {b.main, operand(b.operands[1]), has_bias ? operand(b.operands[2]) : kNone});
  }
  for (const GroupProduct& other : b.others)
    to.others.push_back({other.step, operand(b.operands[other.right]),
                         other.bias == kNone ? kNone : operand(b.operands[other.bias])});
  const auto moved = [&](MicroStep::Input input) -> MicroStep::Input {
    if (input.from == From::main) input.index += mains;
    if (input.from == From::step) input.index += steps;
    if (input.from != From::operand) return input;
    const Name name = b.operands[input.index];
    const auto found = std::ranges::find(given, name);
    if (found != given.end()) return gives[static_cast<size_t>(found - given.begin())];
    return {From::operand, operand(name)};
  };
  for (MicroStep step : b.chain) {
    for (MicroStep::Input& input : step.inputs) input = moved(input);
    for (MicroStep::Input& input : step.attributes) input = moved(input);
    to.chain.push_back(step);
  }
  const std::vector<Name>& results = b.results;
  for (size_t i = 0; i < results.size(); ++i) {
    to.results.push_back(results[i]);
    to.gives.push_back(moved(b.gives.empty() ? last_of(b) : b.gives[i]));
  }
  return to;
}

void Grouper::join(uint32_t a, uint32_t b, Name value) {
  groups_[b] = joined(group(a), group(b), value);
  fusion_.notes.push_back(
      {value.index,
       {true, fmt::format("{} into a node with {} thin products", flow_.values[value.index].name,
                          1 + group(b).others.size())}});
  for (Name name : group(a).results) std::erase(readers_[slot(name)], b);
  for (std::vector<std::vector<uint32_t>>* all : {&readers_, &writers_})
    each_read(group(a), [&](Name name) {
      if (slot(name) != kNowhere) std::erase((*all)[slot(name)], a);
    });
  for (Name name : group(a).results) std::erase(writers_[slot(name)], a);
  groups_[a].reset();
  note(b);
}

// Joins to a group what its chain reads of products.
void Grouper::join_all(uint32_t b) {
  for (bool again = true; again;) {
    again = false;
    const uint32_t own = group(b).main == kNone ? 0 : group(b).own_operands;
    for (uint32_t i = own; i < group(b).operands.size() && !again; ++i) {
      const Name name = group(b).operands[i];
      if (!is_plain(name) || writers_[slot(name)].size() != 1) continue;
      const uint32_t a = writers_[slot(name)].front();
      if (a >= b || group(a).main == kNone || !can_join(a, b, name)) continue;
      join(a, b, name);
      again = true;
    }
  }
}

// Whether a copy does nothing but bring a group's result to a variable or a tensor that the group can write itself.
bool Grouper::takes_copy(uint32_t at, size_t result, uint32_t copy) const {
  const Group& from = group(at);
  const Group& of = group(copy);
  const Name name = from.results[result];
  const bool is_copy = of.main == kNone && of.phases.empty() && of.chain.size() == 1 &&
                       of.chain[0].opcode == Opcode::Copy && of.operands == std::vector{name};
  if (!is_copy || region(copy) != region(at)) return false;
  const std::vector<Name>& results = of.results;
  if (results.size() != 1 || is_plain(results[0]) || type(results[0]) != type(name)) return false;
  const Name target = results[0];
  const std::vector<uint32_t>& readers = readers_[slot(name)];
  return readers.back() == copy && !touched(readers_, target, at, copy) &&
         !touched(writers_, target, at, copy) && std::ranges::count(from.results, target) == 0 &&
         !writes_over(target, from, *shape_of(from));
}

void Grouper::take_copy(uint32_t at, size_t result, uint32_t copy) {
  const Name name = group(at).results[result];
  const Name target = group(copy).results[0];
  groups_[at]->results[result] = target;
  groups_[at]->weight += group(copy).weight;
  for (const uint32_t reader : readers_[slot(name)])
    if (reader != copy) std::ranges::replace(groups_[reader]->operands, name, target);
  std::erase(writers_[slot(target)], copy);
  groups_[copy].reset();
  for (const uint32_t reader : std::exchange(readers_[slot(name)], {}))
    if (reader != copy) note(reader);
  note(at);
}

void Grouper::take_copies(uint32_t at) {
  for (size_t i = 0; i < group(at).results.size(); ++i) {
    const Name name = group(at).results[i];
    if (!is_plain(name) || readers_[slot(name)].empty()) continue;
    const uint32_t last = readers_[slot(name)].back();
    if (takes_copy(at, i, last)) take_copy(at, i, last);
  }
}

void Grouper::run() {
  const bool has_any = std::ranges::any_of(
      fusion_.groups, [&](const Group& of) { return shape_of(of).has_value(); });
  if (!has_any) return;
  readers_.resize(flow_.values.size() + module_.tensors.size());
  writers_.resize(readers_.size());
  for (Group& of : fusion_.groups) {
    groups_.emplace_back(std::move(of));
    note(static_cast<uint32_t>(groups_.size() - 1));
  }
  for (uint32_t at = 0; at < groups_.size(); ++at)
    if (!group(at).chain.empty() || shape_of(group(at))) join_all(at);
  for (uint32_t at = 0; at < groups_.size(); ++at)
    if (groups_[at] && !group(at).gives.empty()) take_copies(at);
  fusion_.groups.clear();
  for (std::optional<Group>& of : groups_)
    if (of) fusion_.groups.push_back(std::move(*of));
}

}  // namespace

void group_products(const Module& module, const Flow& flow, Fusion& fusion) {
  Grouper(module, flow, fusion).run();
}

}  // namespace trek::plan
