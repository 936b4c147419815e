#include "emulator/plan/fuse.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "emulator/plan/fuse_rows.h"
#include "emulator/plan/rules.h"
#include "emulator/plan/uses.h"
#include "isa/semantics/reduce.h"

namespace trek::plan {
namespace {

using isa::Module;
using isa::Opcode;
using isa::Type;
using From = MicroStep::From;
using Kind = Name::Kind;

class Fuser {
 public:
  Fuser(const Module& module, const Flow& flow, const Uses& uses, bool enabled)
      : module_(module),
        flow_(flow),
        uses_(uses),
        enabled_(enabled),
        groups_(flow.steps.size()),
        fused_(flow.values.size()) {}
  Fusion run();

 private:
  Group plain(uint32_t at);
  Group chain(uint32_t at);
  bool redirected(uint32_t at, Group& group);
  std::optional<std::string> refusal(uint32_t value, uint32_t at, bool prologue) const;
  bool written_between(const Group& group, uint32_t from, uint32_t to) const {
    return uses_.written_between(names_read(flow_, group), from, to);
  }
  std::optional<std::string> overwrites_input(const Group& group, const Step& last) const;
  bool may_move(const Group& producer, uint32_t at) const;
  bool take(uint32_t value, uint32_t at, bool prologue);
  void tell(bool fused, uint32_t value, uint32_t at, std::string_view why);
  MicroStep::Input add_operand(Group& group, Name name) const;
  uint32_t splice(Group& into, const Group& from) const;
  void absorb(Group& group, uint32_t at);
  bool is_absorbable(const Group& group, uint32_t operand, uint32_t at) const;
  void splice_before(Group& group, std::vector<MicroStep>& program, uint32_t operand) const;
  std::vector<MicroStep>* program_for(Group& group, uint32_t operand, uint32_t definition) const;
  void repeat(uint32_t definition, const std::vector<uint32_t>& readers);
  void repeat_all();
  MicroStep micro_step(Group& group, const Step& step) const;

  const Module& module_;
  const Flow& flow_;
  const Uses& uses_;
  bool enabled_;
  std::vector<std::optional<Group>> groups_;  // per step; none where it is part of another
  std::vector<bool> fused_;                   // per value: it has become part of another group
  std::vector<Fusion::Note> notes_;
};

void Fuser::tell(bool fused, uint32_t value, uint32_t at, std::string_view why) {
  notes_.push_back(note_of(module_, flow_, {value, uses_[value].definition}, fused, at, why));
}

// A group may write what it reads only element by element.
std::optional<std::string> Fuser::overwrites_input(const Group& group, const Step& last) const {
  for (Name result : last.results)
    for (Name operand : group.operands)
      if (operand == result && (group.main != kNone || flow_.type_of(module_, operand).scalar))
        return "the destination is read by other tiles";
  return std::nullopt;
}

// Whether a group can be executed where step `at` stands, and give its destination.
bool Fuser::may_move(const Group& producer, uint32_t at) const {
  return !written_between(producer, producer.step, at) &&
         !overwrites_input(producer, flow_.steps[at]);
}

// Why the producer of `value` cannot become part of step `at`; nothing where it can.
std::optional<std::string> Fuser::refusal(uint32_t value, uint32_t at, bool prologue) const {
  const Uses::Use& use = uses_[value];
  const FlowValue& v = flow_.values[value];
  const Step& step = flow_.steps[at];
  if (!enabled_) return "fusion is off";
  if (v.variable) return "a loop or a branch defines it";
  if (use.consumers > 1) return fmt::format("{} instructions read it", use.consumers);
  const Step& producer = flow_.steps[use.definition];
  if (producer.region != step.region) return "it is read in an inner region";
  if (producer.results.size() != 1) return "its instruction has other results";
  const Group& group = *groups_[use.definition];
  const bool is_pure = group.main == kNone;
  const bool is_copy = step.opcode == Opcode::Copy && step.operands.size() == 1;
  if (!is_pure && !is_copy && !rule_of(flow_.steps[group.main].opcode).tail)
    return "its instruction takes no tail";
  if (!is_pure && prologue) return "a prologue is pointwise";
  if (may_trap(module_, flow_, flow_.steps[is_pure ? use.definition : group.main]))
    return "it may trap";
  if (!prologue && v.type.shape != flow_.type_of(module_, step.results[0]).shape)
    return fmt::format("it is broadcast from {}", v.type.shape.text());
  if (group.chain.size() >= kMaxMicroSteps) return "the program would be too long";
  if (group.operands.size() >= kMaxOperands) return "the program would read too many operands";
  if (written_between(group, use.definition, at)) return "what it reads is written in between";
  return overwrites_input(group, step);
}

MicroStep::Input Fuser::add_operand(Group& group, Name name) const {
  for (uint32_t i = group.own_operands; i < group.operands.size(); ++i)
    if (group.operands[i] == name) return {From::operand, i};
  group.operands.push_back(name);
  return {From::operand, static_cast<uint32_t>(group.operands.size() - 1)};
}

// Appends the program of `from` to that of `into`; the index of its last step.
uint32_t Fuser::splice(Group& into, const Group& from) const {
  const auto base = static_cast<uint32_t>(into.chain.size());
  const auto move = [&](MicroStep::Input& input) {
    if (input.from == From::operand)
      input = add_operand(into, from.operands[input.index]);
    else if (input.from == From::step)
      input.index += base;
  };
  for (MicroStep step : from.chain) {
    for (MicroStep::Input& input : step.inputs) move(input);
    for (MicroStep::Input& input : step.attributes) move(input);
    into.chain.push_back(step);
  }
  return static_cast<uint32_t>(into.chain.size() - 1);
}

// The step itself, reading its operands from memory; those that are fused are replaced by the caller.
MicroStep Fuser::micro_step(Group& group, const Step& step) const {
  MicroStep micro;
  micro.opcode = step.opcode;
  micro.from = element_type(module_, flow_, step);
  micro.to = flow_.type_of(module_, step.results[0]).dtype;
  const isa::OpInfo& op = isa::info(step.opcode);
  size_t next = 0;
  for (size_t i = 0; i < step.attributes.size(); ++i) {
    const isa::AttributeKind kind = op.attributes[i].kind;
    if (kind != isa::AttributeKind::real && kind != isa::AttributeKind::element) continue;
    if (step.attributes[i].given)
      micro.attributes[next] = add_operand(group, step.attributes[i].items[0]);
    ++next;
  }
  return micro;
}

// Whether the producer of `value` becomes part of step `at`, noted either way.
bool Fuser::take(uint32_t value, uint32_t at, bool prologue) {
  const uint32_t definition = uses_[value].definition;
  if (definition == kNone || flow_.values[value].type.scalar) return false;
  if (flow_.values[value].variable) return false;
  const Step& producer = flow_.steps[definition];
  const Rule rule = rule_of(producer.opcode);
  const bool worth_a_word = rule.chain || rule.tail;
  if (auto why = refusal(value, at, prologue)) {
    if (worth_a_word) tell(false, value, at, *why);
    return false;
  }
  tell(true, value, at,
       prologue                             ? "prologue"
       : groups_[definition]->main == kNone ? "chain"
                                            : "tail");
  return true;
}

Group Fuser::plain(uint32_t at) {
  const Step& step = flow_.steps[at];
  Group group;
  group.step = at;
  group.main = at;
  group.weight = step.weight;
  group.operands = step.operands;
  group.own_operands = static_cast<uint32_t>(step.operands.size());
  if (!rule_of(step.opcode).prologue || !step.operands[0].is(Kind::value)) return group;
  const uint32_t value = step.operands[0].index;
  if (!take(value, at, true)) return group;
  Group& producer = *groups_[uses_[value].definition];
  group.source = flow_.values[value].type;
  group.operands[0] = {};
  group.weight += producer.weight;
  splice(group, producer);
  group.prologue = std::exchange(group.chain, {});
  groups_[uses_[value].definition].reset();
  return group;
}

// A copy that takes in the instruction before it: that one writes the copy's destination instead.
bool Fuser::redirected(uint32_t at, Group& group) {
  const Step& step = flow_.steps[at];
  if (step.opcode != Opcode::Copy || !step.operands[0].is(Kind::value)) return false;
  const uint32_t value = step.operands[0].index;
  if (!take(value, at, false)) return false;
  group = std::move(*groups_[uses_[value].definition]);
  groups_[uses_[value].definition].reset();
  group.step = at;
  group.weight += step.weight;
  return true;
}

Group Fuser::chain(uint32_t at) {
  const Step& step = flow_.steps[at];
  Group group;
  if (redirected(at, group)) return group;
  std::vector<uint32_t> taken;
  for (Name name : step.operands) {
    if (!name.is(Kind::value) || std::count(taken.begin(), taken.end(), name.index) > 0) continue;
    if (!take(name.index, at, false)) continue;
    Group& producer = *groups_[uses_[name.index].definition];
    size_t steps = producer.chain.size() + 1;
    size_t operands = producer.operands.size() + step.operands.size();
    bool other_main = false;
    for (uint32_t other : taken) {
      const Group& earlier = *groups_[uses_[other].definition];
      steps += earlier.chain.size();
      operands += earlier.operands.size();
      other_main = other_main || earlier.main != kNone;
    }
    const bool two_mains = producer.main != kNone && other_main;
    // A trap is said of the node, and that is then the other instruction.
    const bool traps_as_tail = producer.main != kNone && may_trap(module_, flow_, step);
    if (traps_as_tail || two_mains || steps > kMaxMicroSteps || operands > kMaxOperands) {
      notes_.pop_back();
      tell(false, name.index, at,
           traps_as_tail ? "it may trap"
           : two_mains   ? "the other operand is a tail already"
                         : "the program would be too long");
      continue;
    }
    taken.push_back(name.index);
  }
  // The one with an instruction of its own comes first: its operands keep their places.
  const auto with_main = std::find_if(taken.begin(), taken.end(), [&](uint32_t value) {
    return groups_[uses_[value].definition]->main != kNone;
  });  // at most one of them has
  if (with_main != taken.end()) std::rotate(taken.begin(), with_main, with_main + 1);
  std::map<uint32_t, MicroStep::Input> inputs;
  for (uint32_t value : taken) {
    Group& producer = *groups_[uses_[value].definition];
    if (producer.main != kNone) {
      group = std::move(producer);
      inputs[value] =
          group.chain.empty()
              ? MicroStep::Input{From::main, 0}
              : MicroStep::Input{From::step, static_cast<uint32_t>(group.chain.size() - 1)};
    } else {
      inputs[value] = {From::step, splice(group, producer)};
      group.weight += producer.weight;
    }
  }
  for (uint32_t value : taken) groups_[uses_[value].definition].reset();
  group.step = at;
  group.weight += step.weight;
  MicroStep micro = micro_step(group, step);
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const Name name = step.operands[i];
    const auto found = name.is(Kind::value) ? inputs.find(name.index) : inputs.end();
    micro.inputs[i] = found != inputs.end() ? found->second : add_operand(group, name);
  }
  group.chain.push_back(micro);
  absorb(group, at);
  return group;
}

// How many steps of a program read an operand.
uint32_t readers_of(const std::vector<MicroStep>& program, uint32_t operand) {
  return static_cast<uint32_t>(std::ranges::count_if(program, [operand](const MicroStep& step) {
    return std::ranges::any_of(step.inputs, [operand](const MicroStep::Input& input) {
      return input.from == From::operand && input.index == operand;
    });
  }));
}

// Whether all that reads this operand has become part of the group, and it could have been taken by one of them
// alone.
bool Fuser::is_absorbable(const Group& group, uint32_t operand, uint32_t at) const {
  const Name name = group.operands[operand];
  if (!enabled_ || !name.is(Kind::value)) return false;
  const Uses::Use& use = uses_[name.index];
  const FlowValue& value = flow_.values[name.index];
  if (use.definition == kNone || value.type.scalar || value.variable) return false;
  if (readers_of(group.chain, operand) != use.consumers) return false;
  const Step& producer = flow_.steps[use.definition];
  const auto& from = groups_[use.definition];
  return from && from->main == kNone && producer.region == flow_.steps[at].region &&
         !may_trap(module_, flow_, producer) &&
         value.type.shape == flow_.type_of(module_, flow_.steps[at].results[0]).shape &&
         from->chain.size() + group.chain.size() <= kMaxMicroSteps &&
         from->operands.size() + group.operands.size() <= kMaxOperands && may_move(*from, at);
}

// Puts the program of an operand's producer before one of the group's own that reads the operand.
void Fuser::splice_before(Group& group, std::vector<MicroStep>& program, uint32_t operand) const {
  const Group& producer = *groups_[uses_[group.operands[operand].index].definition];
  std::vector<MicroStep> other = std::exchange(group.chain, {});  // splice() appends to the chain
  std::vector<MicroStep> own =
      &program == &group.chain ? std::exchange(other, {}) : std::exchange(program, {});
  const uint32_t last = splice(group, producer);
  for (MicroStep step : own) {
    for (MicroStep::Input& input : step.inputs) {
      if (input.from == From::operand && input.index == operand)
        input = {From::step, last};
      else if (input.from == From::step)
        input.index += last + 1;
    }
    for (MicroStep::Input& input : step.attributes)
      if (input.from == From::step) input.index += last + 1;
    group.chain.push_back(step);
  }
  if (&program != &group.chain) program = std::exchange(group.chain, std::move(other));
  group.operands.erase(group.operands.begin() + operand);
  for (std::vector<MicroStep>* each : {&group.prologue, &group.chain})
    for (MicroStep& step : *each) {
      const auto move = [operand](MicroStep::Input& input) {
        if (input.from == From::operand && input.index > operand) --input.index;
      };
      std::ranges::for_each(step.inputs, move);
      std::ranges::for_each(step.attributes, move);
    }
}

// A value that several instructions read is taken in once all of them are in one group.
void Fuser::absorb(Group& group, uint32_t at) {
  for (uint32_t i = group.own_operands; i < group.operands.size();) {
    if (!is_absorbable(group, i, at)) {
      ++i;
      continue;
    }
    const uint32_t value = group.operands[i].index;
    group.weight += groups_[uses_[value].definition]->weight;
    splice_before(group, group.chain, i);
    groups_[uses_[value].definition].reset();
    fused_[value] = true;
    tell(true, value, at, "chain");
    i = group.own_operands;  // what it reads may have no other readers either
  }
}

// The program of a group that reads an operand which step `definition` gives, where that step may be worked out there
// anew; else null.
std::vector<MicroStep>* Fuser::program_for(Group& group, uint32_t operand,
                                           uint32_t definition) const {
  const Group& producer = *groups_[definition];
  const Step& last = flow_.steps[group.step];
  if (operand < group.own_operands || last.results.empty()) return nullptr;
  const uint32_t in_prologue = readers_of(group.prologue, operand);
  if (in_prologue != 0 && readers_of(group.chain, operand) != 0) return nullptr;
  // Long lines are reduced as they lie, where nothing has to be worked out first (../device/strided_lines.h).
  if (in_prologue != 0) {
    const Type result = flow_.type_of(module_, flow_.steps[group.main].results[0]);
    if (group.source.elements() > result.elements() * semantics::kReductionTile) return nullptr;
  }
  std::vector<MicroStep>& program = in_prologue != 0 ? group.prologue : group.chain;
  const isa::Shape& shape =
      in_prologue != 0 ? group.source.shape : flow_.type_of(module_, last.results[0]).shape;
  const bool fits = flow_.steps[definition].region == last.region &&
                    flow_.type_of(module_, group.operands[operand]).shape == shape &&
                    producer.chain.size() + program.size() <= kMaxMicroSteps &&
                    producer.operands.size() + group.operands.size() <= kMaxOperands &&
                    may_move(producer, group.step);
  return fits ? &program : nullptr;
}

// A cheap step that two or three groups read becomes part of each: x - mean(x) of a layer norm is worked out twice and
// never written.
void Fuser::repeat(uint32_t definition, const std::vector<uint32_t>& readers) {
  constexpr size_t kMostReaders = 3;
  const Step& step = flow_.steps[definition];
  if (!groups_[definition] || !is_cheap(*groups_[definition]) || readers.size() > kMostReaders)
    return;
  const Name name = step.results[0];
  const FlowValue& value = flow_.values[name.index];
  if (value.variable || value.type.scalar || may_trap(module_, flow_, step)) return;
  // More to read than before would be no gain.
  const auto is_whole = [&](Name operand) {
    return flow_.type_of(module_, operand).shape == value.type.shape;
  };
  if (std::ranges::count_if(groups_[definition]->operands, is_whole) > 1) return;
  uint32_t consumers = 0;
  for (uint32_t at : readers) {
    Group& group = *groups_[at];
    const auto operand =
        static_cast<uint32_t>(std::ranges::find(group.operands, name) - group.operands.begin());
    if (program_for(group, operand, definition) == nullptr) return;
    consumers += readers_of(group.prologue, operand) + readers_of(group.chain, operand);
  }
  if (consumers != uses_[name.index].consumers) return;
  for (uint32_t at : readers) {
    Group& group = *groups_[at];
    const auto operand =
        static_cast<uint32_t>(std::ranges::find(group.operands, name) - group.operands.begin());
    splice_before(group, *program_for(group, operand, definition), operand);
    tell(true, name.index, at, "worked out again");
  }
  groups_[readers.front()]->weight += groups_[definition]->weight;
  groups_[definition].reset();
  fused_[name.index] = true;
}

void Fuser::repeat_all() {
  std::vector<std::vector<uint32_t>> readers(flow_.values.size());  // groups, per value
  for (uint32_t at = 0; at < groups_.size(); ++at) {
    if (!groups_[at]) continue;
    for (Name name : groups_[at]->operands) {
      if (!name.is(Kind::value)) continue;
      std::vector<uint32_t>& of = readers[name.index];
      if (of.empty() || of.back() != at) of.push_back(at);
    }
  }
  for (uint32_t at = 0; at < groups_.size(); ++at) {
    if (!groups_[at] || flow_.steps[at].results.size() != 1) continue;
    const Name name = flow_.steps[at].results[0];
    if (!name.is(Kind::value) || readers[name.index].size() < 2) continue;
    const std::vector<Name> reads = groups_[at]->operands;
    repeat(at, readers[name.index]);
    if (groups_[at]) continue;
    // What it read, its readers read now.
    for (Name operand : reads) {
      if (!operand.is(Kind::value)) continue;
      std::vector<uint32_t>& of = readers[operand.index];
      std::erase(of, at);
      of.insert(of.end(), readers[name.index].begin(), readers[name.index].end());
      std::ranges::sort(of);
      of.erase(std::ranges::unique(of).begin(), of.end());
    }
  }
}

Fusion Fuser::run() {
  for (uint32_t at = 0; at < flow_.steps.size(); ++at)
    groups_[at] = rule_of(flow_.steps[at].opcode).chain ? chain(at) : plain(at);
  if (enabled_) repeat_all();
  Fusion fusion;
  for (auto& group : groups_) {
    if (!group) continue;
    group->results = flow_.steps[group->step].results;
    fusion.groups.push_back(std::move(*group));
  }
  fusion.notes = std::move(notes_);
  fusion.fused = std::move(fused_);
  return fusion;
}

}  // namespace

isa::DType element_type(const Module& module, const Flow& flow, const Step& step) {
  const isa::OpInfo& op = isa::info(step.opcode);
  isa::DType scalar = isa::DType::none;
  isa::DType immediate = isa::DType::none;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const isa::OperandInfo& info = op.operands[std::min(i, op.operands.size() - 1)];
    if (info.type != isa::TypeRule::T || !step.operands[i]) continue;
    const Type type = flow.type_of(module, step.operands[i]);
    if (!type.scalar) return type.dtype;
    isa::DType& found = step.operands[i].is(Kind::constant) ? immediate : scalar;
    if (found == isa::DType::none) found = type.dtype;
  }
  if (scalar != isa::DType::none) return scalar;
  if (immediate != isa::DType::none) return immediate;
  const int to = op.attribute("to");
  if (to < 0 || !step.attributes[static_cast<size_t>(to)].given) return isa::DType::none;
  return static_cast<isa::DType>(step.attributes[static_cast<size_t>(to)].items[0].index);
}

bool may_trap(const Module& module, const Flow& flow, const Step& step) {
  const isa::OpInfo& op = isa::info(step.opcode);
  if (op.traps.empty()) return false;
  const bool divides = op.traps.size() == 1 && op.traps[0] == isa::TrapCode::DivideByZero;
  return !divides || !isa::is_real(element_type(module, flow, step));
}

bool is_cheap(const Group& group) {
  if (group.main != kNone || group.chain.size() != 1) return false;
  switch (group.chain[0].opcode) {
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Fma:
    case Opcode::Neg:
    case Opcode::Relu:
    case Opcode::Cast:
      return true;
    default:
      return false;
  }
}

std::vector<Name> names_read(const Flow& flow, const Group& group) {
  std::vector<Name> names = group.operands;
  if (group.main != kNone)
    for (const FlowAttribute& attribute : flow.steps[group.main].attributes)
      names.insert(names.end(), attribute.items.begin(), attribute.items.end());
  return names;
}

namespace {

std::string text_of(const Module& module, const Step& step) {
  const std::string_view function =
      step.function < module.functions.size()
          ? std::string_view(module.strings[module.functions[step.function].name])
          : "init";
  return fmt::format("{} ({}:{})", isa::info(step.opcode).mnemonic, function, step.instruction);
}

}  // namespace

Fusion::Note note_of(const Module& module, const Flow& flow, Defined value, bool fused, uint32_t at,
                     std::string_view why) {
  const std::string_view name = flow.values[value.value].name;
  const std::string from = text_of(module, flow.steps[value.definition]);
  return {value.value,
          {fused, fused ? fmt::format("{} of {} into {}: {}", name, from,
                                      text_of(module, flow.steps[at]), why)
                        : fmt::format("{} of {} stays: {}", name, from, why)}};
}

std::vector<FusionNote> Fusion::take_notes() {
  std::vector<FusionNote> taken;
  taken.reserve(notes.size());
  for (Note& each : notes)
    if (each.note.fused || !fused[each.value]) taken.push_back(std::move(each.note));
  return taken;
}

Fusion fuse(const Module& module, const Flow& flow, const Device& device, bool enabled) {
  const Uses uses(flow);
  Fusion fusion = Fuser(module, flow, uses, enabled).run();
  if (enabled) fuse_rows(module, flow, uses, device, fusion);
  return fusion;
}

}  // namespace trek::plan
