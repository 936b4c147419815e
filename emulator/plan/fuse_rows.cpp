#include "emulator/plan/fuse_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "emulator/plan/row_form.h"
#include "emulator/plan/rules.h"
#include "isa/convert.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Module;
using isa::Opcode;
using isa::Shape;
using isa::Type;
using From = MicroStep::From;
using Kind = Name::Kind;

bool is_narrow(DType type) { return isa::byte_size(type) <= 4; }
bool is_float32(DType type) { return isa::is_real(type) && is_narrow(type); }

// The most values that a program has at once: what it reads of memory from its start to where it is last read, what a
// step gives from there.
size_t values_at_once(const std::vector<MicroStep>& program) {
  std::map<std::pair<From, uint32_t>, std::pair<size_t, size_t>> lives;
  for (size_t s = 0; s < program.size(); ++s) {
    for (const MicroStep::Input& input : program[s].inputs)
      if (input.from == From::operand || input.from == From::step)
        lives.try_emplace({input.from, input.index}, 0, s).first->second.second = s;
    lives[{From::step, static_cast<uint32_t>(s)}] = {s, s};
  }
  size_t most = 0;
  for (size_t s = 0; s < program.size(); ++s)
    most = std::max(most, static_cast<size_t>(std::ranges::count_if(lives, [s](const auto& life) {
                      return life.second.first <= s && s <= life.second.second;
                    })));
  return most;
}

// The rows that a set of groups works on, and which groups these are, by ascending step.
struct Rows {
  Type type;
  uint32_t region = 0;
  std::vector<uint32_t> members;
  bool has(uint32_t group) const { return std::ranges::binary_search(members, group); }
  int64_t n() const { return type.shape[type.shape.rank() - 1]; }
  int64_t count() const { return type.elements() / n(); }
  // Whether a tensor of this shape has a number for each row, at the row's own place.
  bool has_numbers(const Shape& shape) const;
};

bool Rows::has_numbers(const Shape& shape) const {
  Shape kept = type.shape;
  kept[kept.rank() - 1] = 1;
  return shape == kept || (shape.elements() == count() && count() == 1);
}

bool reduces(const Flow& flow, const Group& group) {
  return group.main != kNone && is_reduction(flow.steps[group.main].opcode);
}

// Makes one group of several, if they fit a node.
class Joiner {
 public:
  Joiner(const Module& module, const Flow& flow, const std::vector<Group>& groups, const Rows& rows,
         const std::vector<uint32_t>& defined_by)
      : module_(module), flow_(flow), groups_(groups), rows_(rows), defined_by_(defined_by) {}
  // `is_read` says of a member's result whether others than members read it. Else why they do not fit.
  template <typename F>
  std::optional<std::string_view> run(F&& is_read);
  Group take() { return std::move(made_); }

 private:
  using Program = std::vector<MicroStep>;
  struct Elements {  // of pointwise values of a program, where they are worked out
    Program& program;
    std::map<uint32_t, uint32_t> steps;
  };
  bool gives_elements(const Group& group) const {
    return group.main == kNone && type_of(group.results[0]).shape == rows_.type.shape;
  }
  void add(const Group& group, bool is_read);
  bool stays(const Group& group, bool is_read) const;
  MicroStep::Input read(Name name, Elements& into);
  void append(const Group& group, const Program& from, Elements& into);
  Program programmed(const Group& group, const Program& from);
  Program whole(Name name);
  bool fits() const;
  Type type_of(Name name) const { return flow_.type_of(module_, name); }

  const Module& module_;
  const Flow& flow_;
  const std::vector<Group>& groups_;
  const Rows& rows_;
  const std::vector<uint32_t>& defined_by_;  // per value: a group
  Group made_;
  std::map<uint32_t, MicroStep::Input> given_;  // by phases: values
};

// A value in a program: elements that no phase gives are worked out in it.
MicroStep::Input Joiner::read(Name name, Elements& into) {
  if (name.is(Kind::value)) {
    if (const auto given = given_.find(name.index); given != given_.end()) return given->second;
    const uint32_t by = defined_by_[name.index];
    if (by != kNone && rows_.has(by)) {
      auto found = into.steps.find(name.index);
      if (found == into.steps.end()) {
        append(groups_[by], groups_[by].chain, into);
        found = into.steps.emplace(name.index, into.program.size() - 1).first;
      }
      return {From::step, found->second};
    }
  }
  const auto found = std::ranges::find(made_.operands, name);
  const auto index = static_cast<uint32_t>(found - made_.operands.begin());
  if (found == made_.operands.end()) made_.operands.push_back(name);
  return {From::operand, index};
}

void Joiner::append(const Group& group, const Program& from, Elements& into) {
  std::vector<uint32_t> at;  // where its steps are now
  for (MicroStep step : from) {
    const auto move = [&](MicroStep::Input& input) {
      if (input.from == From::operand)
        input = read(group.operands[input.index], into);
      else if (input.from == From::step)
        input.index = at[input.index];
    };
    std::ranges::for_each(step.inputs, move);
    std::ranges::for_each(step.attributes, move);
    at.push_back(static_cast<uint32_t>(into.program.size()));
    into.program.push_back(step);
  }
}

Joiner::Program Joiner::programmed(const Group& group, const Program& from) {
  Program program;
  Elements into{program, {}};
  append(group, from, into);
  return program;
}

// A program that gives a value as it is.
Joiner::Program Joiner::whole(Name name) {
  MicroStep copy;
  copy.opcode = Opcode::Copy;
  copy.from = copy.to = type_of(name).dtype;
  Program program;
  Elements into{program, {}};
  copy.inputs[0] = read(name, into);
  if (copy.inputs[0].from != From::step) program.push_back(copy);
  return program;
}

bool keeps(const Phase& phase) { return phase.kind == Phase::Kind::keep; }

// Whether elements are to be kept: several programs read them, it is more than a step to work them out, and there is
// room.
bool Joiner::stays(const Group& group, bool is_read) const {
  if (is_cheap(group)) return false;
  if (std::ranges::count_if(made_.phases, keeps) == static_cast<ptrdiff_t>(kMaxKept)) return false;
  const auto readers = std::ranges::count_if(rows_.members, [&](uint32_t member) {
    return std::ranges::count(groups_[member].operands, group.results[0]) > 0;
  });
  return readers + (is_read ? 1 : 0) > 1;
}

void Joiner::add(const Group& group, bool is_read) {
  const Name result = group.results[0];
  Phase phase;
  if (reduces(flow_, group)) {
    phase.opcode = flow_.steps[group.main].opcode;
    phase.dtype = (group.prologue.empty() ? type_of(group.operands[0]) : group.source).dtype;
    phase.elements =
        group.prologue.empty() ? whole(group.operands[0]) : programmed(group, group.prologue);
    phase.tail = programmed(group, group.chain);
    phase.type = type_of(result);
  } else if (gives_elements(group)) {
    if (!stays(group, is_read)) return;
    phase.kind = Phase::Kind::keep;
    phase.dtype = type_of(result).dtype;
    phase.elements = programmed(group, group.chain);
  } else {
    phase.kind = Phase::Kind::numbers;
    phase.dtype = type_of(result).dtype;
    phase.tail = programmed(group, group.chain);
    phase.type = type_of(result);
  }
  const auto number = static_cast<uint32_t>(made_.phases.size());
  if (result.is(Kind::value))
    given_[result.index] = {phase.kind == Phase::Kind::keep ? From::kept : From::number, number};
  made_.phases.push_back(std::move(phase));
}

bool Joiner::fits() const {
  const auto fits = [](const Program& program) {
    return program.size() <= kMaxMicroSteps && values_at_once(program) <= kMaxRowValues;
  };
  return made_.phases.size() <= kMaxPhases && made_.operands.size() <= kMaxOperands &&
         fits(made_.chain) && std::ranges::all_of(made_.phases, [&](const Phase& phase) {
           return fits(phase.elements) && fits(phase.tail);
         });
}

template <typename F>
std::optional<std::string_view> Joiner::run(F&& is_read) {
  made_.step = groups_[rows_.members.back()].step;
  made_.source = rows_.type;
  std::vector<Name> numbers;
  for (uint32_t member : rows_.members) {
    const Group& group = groups_[member];
    const size_t phases = made_.phases.size();
    made_.weight += group.weight;
    if (made_.main == kNone && reduces(flow_, group)) made_.main = group.main;
    const bool is_result = is_read(group);
    add(group, is_result);
    if (!is_result) continue;
    if (gives_elements(group)) {
      if (!made_.results.empty()) return "it would be a second tensor of the rows' size";
      made_.results = group.results;
      made_.chain =
          made_.phases.size() > phases ? whole(group.results[0]) : programmed(group, group.chain);
    } else {
      made_.phases.back().result = static_cast<uint32_t>(numbers.size());
      numbers.push_back(group.results[0]);
    }
  }
  for (Phase& phase : made_.phases)
    if (phase.result != kNone) phase.result += static_cast<uint32_t>(made_.results.size());
  made_.results.insert(made_.results.end(), numbers.begin(), numbers.end());
  if (!fits()) return "the node would be too large";
  return std::nullopt;
}

class RowFuser {
 public:
  RowFuser(const Module& module, const Flow& flow, const Uses& uses, const Device& device,
           Fusion& fusion);
  void run();

 private:
  std::optional<Rows> rows_of(uint32_t index) const;
  bool is_member(const Rows& rows, uint32_t index) const;
  bool reads_well(const Rows& rows, const std::vector<MicroStep>& program, const Group& group,
                  const Shape& over) const;
  bool may_move(const Rows& rows) const;
  bool is_read(const Rows& rows, const Group& group) const;
  void add_readers(const Rows& rows, std::set<uint32_t>& candidates) const;
  std::optional<std::string_view> try_with(Rows& rows, std::optional<Group>& made, uint32_t index);
  void join(uint32_t first);
  Type type_of(Name name) const { return flow_.type_of(module_, name); }

  const Module& module_;
  const Flow& flow_;
  const Uses& uses_;
  const int64_t least_;  // elements of rows that become a node without being of a RowForm
  Fusion& fusion_;
  std::vector<Group>& groups_;
  std::vector<uint32_t> defined_by_;  // per value: the group that gives it, if one alone does
  std::vector<std::vector<uint32_t>> readers_;  // per value: groups, ascending
  std::vector<bool> taken_;                     // per group: part of another
};

RowFuser::RowFuser(const Module& module, const Flow& flow, const Uses& uses, const Device& device,
                   Fusion& fusion)
    : module_(module),
      flow_(flow),
      uses_(uses),
      least_(device.interprets ? kInterpretedElements : 1),
      fusion_(fusion),
      groups_(fusion.groups),
      defined_by_(flow.values.size(), kNone),
      readers_(flow.values.size()),
      taken_(fusion.groups.size()) {
  for (uint32_t index = 0; index < groups_.size(); ++index) {
    for (Name name : groups_[index].results)
      if (name.is(Kind::value) && !flow.values[name.index].variable)
        defined_by_[name.index] = index;
    for (Name name : names_read(flow, groups_[index])) {
      if (!name.is(Kind::value)) continue;
      std::vector<uint32_t>& readers = readers_[name.index];
      if (readers.empty() || readers.back() != index) readers.push_back(index);
    }
  }
}

// Whether steps compute with numbers of at most 32 bits, and cannot trap.
bool is_plain(const std::vector<MicroStep>& program) {
  return std::ranges::all_of(program, [](const MicroStep& step) {
    return is_narrow(step.from) && is_narrow(step.to) && !may_trap(step);
  });
}

// The rows of a reduction along the last axis.
std::optional<Rows> RowFuser::rows_of(uint32_t index) const {
  const Group& group = groups_[index];
  if (!reduces(flow_, group)) return std::nullopt;
  const Step& step = flow_.steps[group.main];
  Rows rows;
  rows.type = group.prologue.empty() ? type_of(group.operands[0]) : group.source;
  rows.region = flow_.steps[group.step].region;
  rows.members = {index};
  const int rank = rows.type.shape.rank();
  if (rows.type.scalar || rank == 0 || !is_float32(rows.type.dtype)) return std::nullopt;
  if (rows.n() < 2 || rows.n() > kRowElements) return std::nullopt;
  const FlowAttribute& axes =
      step.attributes[static_cast<size_t>(isa::info(step.opcode).attribute("axis"))];
  if (axes.given ? axes.items.size() != 1 : rank != 1) return std::nullopt;
  if (axes.given) {
    const Name item = axes.items[0];
    const int64_t axis = item.is(Kind::constant)
                             ? isa::constant_integer(flow_.constants[item.index])
                             : static_cast<int64_t>(item.index);
    if (axis != -1 && axis != rank - 1) return std::nullopt;
  }
  return rows;
}

// Whether what a program over `over` reads of the members is there: elements at elements, a row's number anywhere.
bool RowFuser::reads_well(const Rows& rows, const std::vector<MicroStep>& program,
                          const Group& group, const Shape& over) const {
  const auto well = [&](const MicroStep::Input& input) {
    if (input.from != From::operand) return true;
    const Name name = group.operands[input.index];
    if (!name.is(Kind::value)) return true;
    const uint32_t by = defined_by_[name.index];
    if (by == kNone || !rows.has(by)) return true;
    const Shape& shape = type_of(name).shape;
    return shape == over || rows.has_numbers(shape);
  };
  return std::ranges::all_of(program, [&](const MicroStep& step) {
    return std::ranges::all_of(step.inputs, well) && std::ranges::all_of(step.attributes, well);
  });
}

// Whether a group works on these rows, whatever it reads of them.
bool RowFuser::is_member(const Rows& rows, uint32_t index) const {
  const Group& group = groups_[index];
  if (taken_[index] || flow_.steps[group.step].region != rows.region) return false;
  if (group.results.size() != 1 || !is_plain(group.prologue) || !is_plain(group.chain))
    return false;
  const Type result = type_of(group.results[0]);
  if (result.scalar || !is_narrow(result.dtype)) return false;
  if (group.main == kNone) {
    const bool by_rows = result.shape == rows.type.shape || rows.has_numbers(result.shape);
    return by_rows && reads_well(rows, group.chain, group, result.shape);
  }
  const std::optional<Rows> own = rows_of(index);
  return own && own->type.shape == rows.type.shape &&
         reads_well(rows, group.prologue, group, rows.type.shape) &&
         reads_well(rows, group.chain, group, result.shape);
}

// Whether others than members read what a group gives, or nobody does.
bool RowFuser::is_read(const Rows& rows, const Group& group) const {
  const Name name = group.results[0];
  if (!name.is(Kind::value) || defined_by_[name.index] == kNone) return true;
  return readers_[name.index].empty() ||
         std::ranges::any_of(readers_[name.index],
                             [&](uint32_t reader) { return !rows.has(reader); });
}

// Whether all members can be executed where the last one stands.
bool RowFuser::may_move(const Rows& rows) const {
  const Group& last = groups_[rows.members.back()];
  return std::ranges::all_of(rows.members, [&](uint32_t member) {
    const Group& group = groups_[member];
    const std::vector<Name> reads = names_read(flow_, group);
    if (std::ranges::count(reads, last.results[0]) > 0) return false;
    if (uses_.written_between(reads, group.step, last.step)) return false;
    if (member == rows.members.back()) return true;
    const Name name = group.results[0];
    if (!name.is(Kind::value) || flow_.values[name.index].variable) return false;
    return std::ranges::all_of(readers_[name.index], [&](uint32_t reader) {
      return rows.has(reader) || groups_[reader].step > last.step;
    });
  });
}

void RowFuser::add_readers(const Rows& rows, std::set<uint32_t>& candidates) const {
  for (uint32_t member : rows.members) {
    const Name name = groups_[member].results[0];
    if (!name.is(Kind::value)) continue;
    for (uint32_t reader : readers_[name.index])
      if (!rows.has(reader)) candidates.insert(reader);
  }
}

// Makes a group of the rows' members and another one, with the reductions of the same rows that this one reads.
std::optional<std::string_view> RowFuser::try_with(Rows& rows, std::optional<Group>& made,
                                                   uint32_t index) {
  Rows more = rows;
  const auto add = [&](uint32_t member) {
    if (!more.has(member))
      more.members.insert(std::ranges::lower_bound(more.members, member), member);
  };
  for (Name name : groups_[index].operands) {
    if (!name.is(Kind::value)) continue;
    const uint32_t by = defined_by_[name.index];
    if (by != kNone && reduces(flow_, groups_[by]) && is_member(rows, by)) add(by);
  }
  add(index);
  if (!std::ranges::all_of(more.members, [&](uint32_t member) { return is_member(more, member); }))
    return "it is not of the same rows";
  if (!may_move(more)) return "something in between reads or writes";
  Joiner joiner(module_, flow_, groups_, more, defined_by_);
  if (const auto why = joiner.run([&](const Group& group) { return is_read(more, group); }))
    return why;
  rows = std::move(more);
  made = joiner.take();
  return std::nullopt;
}

// Grows the rows of a reduction by what reads them, in program order.
void RowFuser::join(uint32_t first) {
  std::optional<Rows> rows = rows_of(first);
  if (!rows || !is_member(*rows, first)) return;
  std::optional<Group> made;
  std::set<uint32_t> candidates;
  std::set<uint32_t> tried;
  add_readers(*rows, candidates);
  while (!candidates.empty()) {
    const uint32_t next = *candidates.begin();
    candidates.erase(candidates.begin());
    if (!tried.insert(next).second || rows->has(next) || !is_member(*rows, next)) continue;
    if (!try_with(*rows, made, next)) add_readers(*rows, candidates);
  }
  if (!made || (rows->type.elements() < least_ && !row_form(made->phases, made->chain, rows->n())))
    return;
  const uint32_t last = rows->members.back();
  for (uint32_t member : rows->members) {
    taken_[member] = true;
    const Name name = groups_[member].results[0];
    if (member == last || !name.is(Kind::value)) continue;
    fusion_.notes.push_back(note_of(module_, flow_, {name.index, groups_[member].step}, true,
                                    groups_[last].step, "rows"));
    fusion_.fused[name.index] = true;
  }
  groups_[last] = std::move(*made);
}

void RowFuser::run() {
  for (uint32_t index = 0; index < groups_.size(); ++index)
    if (!taken_[index]) join(index);
  std::vector<Group> left;
  for (uint32_t index = 0; index < groups_.size(); ++index)
    if (!taken_[index] || !groups_[index].phases.empty()) left.push_back(std::move(groups_[index]));
  groups_ = std::move(left);
}

}  // namespace

void fuse_rows(const Module& module, const Flow& flow, const Uses& uses, const Device& device,
               Fusion& fusion) {
  RowFuser(module, flow, uses, device, fusion).run();
}

}  // namespace trek::plan
