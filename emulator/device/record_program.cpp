// Micro-programs of the plan as those of the units: operands get maps, numbers become scalars, values get
// slots, as few as their lives allow.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "emulator/device/element.h"
#include "emulator/device/matrix_cut.h"
#include "emulator/device/matrix_thin_cut.h"
#include "emulator/device/record.h"
#include "isa/convert.h"

namespace trek::device {

using Input = Draft::Input;
using From = plan::MicroStep::From;

namespace {

DType number_type(DType from) { return isa::is_real(from) ? isa::compute_type(from) : from; }

}  // namespace

void Record::append(Draft& draft, const std::vector<plan::MicroStep>& program,
                    const isa::Shape& over, Input main) {
  const auto base = static_cast<uint32_t>(draft.steps.size());
  std::map<uint32_t, uint32_t> made;  // the plan's operands: entries of the table
  const auto input = [&](const plan::MicroStep::Input& from, DType want) -> Input {
    switch (from.from) {
      case From::none:
        return {};
      case From::main:
        return main.kind == Input::Kind::main ? Input{main.kind, from.index} : main;
      case From::step:
        return {Input::Kind::step, base + from.index};
      case From::number:
        return {Input::Kind::number, from.index};
      case From::kept:
        return {Input::Kind::main, held_phases_.at(from.index)};
      case From::operand:
        break;
    }
    if (const auto held = held_operands_.find(from.index); held != held_operands_.end())
      return {Input::Kind::main, held->second};
    const isa::Type& type = of_.operand_types[from.index];
    if (type.scalar) return {Input::Kind::scalar, scalar(of_.operands[from.index], want)};
    const auto found = made.find(from.index);
    if (found != made.end()) return {Input::Kind::operand, found->second};
    const uint32_t entry =
        operand(of_.operands[from.index], type, map(broadcast(over, type.shape)));
    made[from.index] = entry;
    return {Input::Kind::operand, entry};
  };
  for (const plan::MicroStep& step : program) {
    Draft::Step to;
    to.opcode = step.opcode;
    to.from = step.from;
    to.to = step.to;
    to.inputs[0] =
        input(step.inputs[0], step.opcode == isa::Opcode::Where ? DType::boolean : step.from);
    to.inputs[1] = input(step.inputs[1], step.from);
    to.inputs[2] = input(step.inputs[2], step.from);
    const isa::OpInfo& op = isa::info(step.opcode);
    const DType number = number_type(step.from);
    for (size_t i = 0; i < 2; ++i) {
      if (step.attributes[i].from == From::operand) {
        to.numbers[i] = {Input::Kind::scalar,
                         scalar(of_.operands[step.attributes[i].index], number)};
      } else if (i < op.attributes.size() && op.attributes[i].has_default) {
        const DType real = number == DType::f64 ? DType::f64 : DType::f32;
        to.numbers[i] = {Input::Kind::scalar,
                         constant(number, isa::double_to_bits(real, op.attributes[i].fallback))};
      }
    }
    draft.steps.push_back(to);
  }
  if (!program.empty()) {
    draft.result = {Input::Kind::step, static_cast<uint32_t>(draft.steps.size() - 1)};
    draft.dtype = program.back().to;
  }
}

// Slots by lives: a value has its slot until it is last read. Loads are there from the start.
int Record::slots_of(const Draft& draft, bool narrow, std::vector<int>* of_steps,
                     std::map<uint32_t, int>* of_loads) const {
  constexpr size_t kEnd = SIZE_MAX;
  std::vector<size_t> last(draft.steps.size(), 0);
  std::map<uint32_t, size_t> last_load;
  const auto read = [&](Input input, size_t at) {
    if (input.kind == Input::Kind::step) last[input.index] = at;
    if (input.kind == Input::Kind::operand && narrow) last_load[input.index] = at;
  };
  for (size_t s = 0; s < draft.steps.size(); ++s) {
    last[s] = s;
    for (Input input : draft.steps[s].inputs) read(input, s);
  }
  read(draft.result, kEnd);
  std::vector<size_t> free_from;  // per slot: the step that may take it
  const auto take = [&](size_t at, size_t until) {
    for (size_t slot = 0; slot < free_from.size(); ++slot)
      if (free_from[slot] != kEnd && free_from[slot] <= at) {
        free_from[slot] = until;
        return static_cast<int>(slot);
      }
    free_from.push_back(until);
    return static_cast<int>(free_from.size() - 1);
  };
  for (const auto& [load, until] : last_load) {
    free_from.push_back(until);
    if (of_loads != nullptr) (*of_loads)[load] = static_cast<int>(free_from.size() - 1);
  }
  for (size_t s = 0; s < draft.steps.size(); ++s) {
    // One that nothing reads may be overwritten by the next step, not by itself.
    const int slot = take(s, last[s] == s ? s + 1 : last[s]);
    if (of_steps != nullptr) of_steps->push_back(slot);
  }
  return static_cast<int>(free_from.size());
}

DType Record::input_type(const Draft& draft, Input input, DType main) const {
  switch (input.kind) {
    case Input::Kind::main:
      return main;
    case Input::Kind::step:
      return draft.steps[input.index].to;
    case Input::Kind::operand:
      return static_cast<DType>(operands_[input.index].dtype);
    case Input::Kind::scalar:
      return static_cast<DType>(scalars_[input.index].to);
    case Input::Kind::number:
    case Input::Kind::none:
      break;
  }
  return DType::boolean;  // not read, or narrow
}

bool Record::fits_narrow(const Draft& draft, DType main) const {
  const auto is_wide = [](DType type) { return size_of(type) > 4; };
  for (const Draft::Step& step : draft.steps) {
    if (is_wide(step.from) || is_wide(step.to)) return false;
    for (Input input : step.inputs)
      if (is_wide(input_type(draft, input, main))) return false;
  }
  if (is_wide(input_type(draft, draft.result, main))) return false;
  return slots_of(draft, true, nullptr, nullptr) <= static_cast<int>(kNarrowSlots);
}

void Record::plain_tail(const Draft& draft, DType result, int64_t n, Cut& cut) const {
  const auto is_computed = [](Opcode opcode) {
    switch (opcode) {
#define TREK_CASE(Id, expression) case Opcode::Id:
      TREK_F32_TAILS(TREK_CASE)
#undef TREK_CASE
      return true;
      default:
        return false;
    }
  };
  const auto is_value = [](Input input, size_t step) {
    return step == 0 ? input.kind == Input::Kind::main
                     : input.kind == Input::Kind::step && input.index + 1 == step;
  };
  if (result != DType::f32 || draft.steps.size() > kCutTails) return;
  if (!is_value(draft.result, draft.steps.size())) return;
  for (size_t s = 0; s < draft.steps.size(); ++s) {
    const Draft::Step& step = draft.steps[s];
    if (step.from != DType::f32 || step.to != DType::f32 || !is_computed(step.opcode)) return;
    CutTail& tail = cut.tail[s];
    tail = {};
    tail.opcode = static_cast<uint16_t>(step.opcode);
    tail.second = is_value(step.inputs[0], s) ? 0 : 1;
    const Input beside = step.inputs[1 - tail.second];
    if (!is_value(step.inputs[tail.second], s)) return;
    if (beside.kind == Input::Kind::none) continue;
    if (input_type(draft, beside, DType::f32) != DType::f32) return;
    if (beside.kind == Input::Kind::scalar) {
      tail.beside = CutTail::scalar;
      tail.scalar_index = static_cast<uint8_t>(beside.index);
      continue;
    }
    if (beside.kind != Input::Kind::operand) return;
    // An element for each of the result's, one for all, or some by row and by column.
    const Operand& operand = operands_[beside.index];
    tail.beside = CutTail::operand;
    tail.offset = operand.offset;
    if (operand.map.kind == Map::same) {
      tail.row = n;
      tail.column = 1;
    } else if (operand.map.kind == Map::axes) {
      const Axis& rows = axes_[operand.map.first];
      const Axis& columns = axes_[operand.map.first + 1];
      if (operand.map.count != 2 || columns.size != n || columns.stride > 1) return;
      tail.row = rows.stride;
      tail.column = static_cast<int32_t>(columns.stride);
    }
  }
  cut.tails = static_cast<uint8_t>(draft.steps.size());
  cut.plain = 1;
}

// Program::summed: of operands that nothing else reads, and whose entries are the table's in turn.
uint8_t Record::summed(const Draft& draft) const {
  const auto is = [](Input input, Input::Kind kind, uint32_t index) {
    return input.kind == kind && input.index == index;
  };
  const auto readers = [&](Input::Kind kind, uint32_t index) {
    size_t count = is(draft.result, kind, index) ? 1 : 0;
    for (const Draft::Step& step : draft.steps)
      for (Input input : step.inputs) count += is(input, kind, index) ? 1 : 0;
    return count;
  };
  const auto is_part = [&](Input input, uint32_t entry) {
    return is(input, Input::Kind::operand, entry) && lies_in_order(entry) &&
           operand_type(entry) == DType::f32 && readers(input.kind, entry) == 1;
  };
  if (draft.steps.empty() || draft.steps[0].inputs[0].kind != Input::Kind::operand) return 0;
  const uint32_t first = draft.steps[0].inputs[0].index;
  for (const Draft::Step& step : draft.steps)
    for (Input input : step.inputs)
      if (input.kind == Input::Kind::operand && input.index < first) return 0;
  uint32_t parts = 0;
  for (uint32_t s = 0; s < draft.steps.size(); ++s) {
    const Draft::Step& step = draft.steps[s];
    const bool adds = step.opcode == Opcode::Add && step.to == DType::f32 &&
                      (s == 0 ? is_part(step.inputs[0], first)
                              : is(step.inputs[0], Input::Kind::step, s - 1) &&
                                    readers(Input::Kind::step, s - 1) == 1) &&
                      is_part(step.inputs[1], first + s + 1);
    if (!adds) break;
    parts = s + 2;
  }
  return static_cast<uint8_t>(parts);
}

// Program::direct
bool Record::is_direct(const Draft& draft) const {
  if (draft.steps.size() != 1 || draft.result.kind != Input::Kind::step) return false;
  const Draft::Step& step = draft.steps[0];
  if (!is_simple(step.opcode, step.from, step.to)) return false;
  size_t loads = 0;
  for (Input input : step.inputs) {
    const bool is_load = input.kind == Input::Kind::operand && lies_in_order(input.index) &&
                         operand_type(input.index) == DType::f32;
    const bool is_constant =
        input.kind == Input::Kind::scalar && scalars_[input.index].kind == Scalar::constant;
    loads += is_load ? 1 : 0;
    if (!is_load && !is_constant && input.kind != Input::Kind::none) return false;
  }
  return loads == 1 || loads == 2;
}

namespace {

// A step of a program but for its numbers: `source` says where an input is found, `slot` where the value goes.
template <class SourceOf>
Step step_of(const Draft::Step& from, size_t slot, const SourceOf& source) {
  Step step{};
  step.opcode = static_cast<uint16_t>(from.opcode);
  step.from = static_cast<uint8_t>(from.from);
  step.to = static_cast<uint8_t>(from.to);
  for (size_t i = 0; i < 3; ++i) step.inputs[i] = source(from.inputs[i]);
  step.slot = static_cast<uint8_t>(slot);
  return step;
}

}  // namespace

Program Record::program(const Draft& draft, bool narrow, uint32_t most_slots) {
  std::vector<int> slots;
  std::map<uint32_t, int> loads;
  const int count = slots_of(draft, narrow, &slots, &loads);
  if (count > static_cast<int>(most_slots))
    refusal = fmt::format("{} needs {} values at once", isa::info(of_.opcode).mnemonic, count);
  const auto source = [&](Input input) -> Source {
    const auto index = static_cast<uint8_t>(input.index);
    switch (input.kind) {
      case Input::Kind::main:
        return {Source::main, index};
      case Input::Kind::number:
        return {Source::number, index};
      case Input::Kind::step:
        return {Source::slot, static_cast<uint8_t>(slots[input.index])};
      case Input::Kind::operand:
        if (narrow) return {Source::slot, static_cast<uint8_t>(loads[input.index])};
        return {Source::operand, index};
      case Input::Kind::scalar:
        return {Source::scalar, index};
      case Input::Kind::none:
        break;
    }
    return {Source::none, 0};
  };
  Program to{};
  to.first_step = static_cast<uint16_t>(steps_.size());
  to.steps = static_cast<uint8_t>(draft.steps.size());
  to.first_load = static_cast<uint16_t>(loads_.size());
  to.loads = static_cast<uint8_t>(loads.size());
  to.slots = static_cast<uint8_t>(count);
  to.narrow = narrow ? 1 : 0;
  to.dtype = static_cast<uint8_t>(draft.dtype);
  to.result = source(draft.result);
  to.summed = narrow ? summed(draft) : 0;
  to.direct = narrow && is_direct(draft) ? 1 : 0;
  for (const auto& [operand, slot] : loads)
    loads_.push_back({static_cast<uint8_t>(operand), static_cast<uint8_t>(slot), 0, 0});
  for (size_t s = 0; s < draft.steps.size(); ++s) {
    const Draft::Step& from = draft.steps[s];
    Step step = step_of(from, static_cast<size_t>(slots[s]), source);
    for (size_t i = 0; i < 2; ++i) step.numbers[i] = source(from.numbers[i]);
    if (narrow && !is_simple(from.opcode, from.from, from.to)) to.slow = 1;
    steps_.push_back(step);
  }
  return to;
}

void Record::group_program(const Draft& draft, ThinGroup& to) {
  namespace slot = thin::group_slot;
  std::map<uint32_t, uint32_t> loads;
  const auto source = [&](Input input) -> Source {
    const auto at = [](uint32_t slot) { return Source{Source::slot, static_cast<uint8_t>(slot)}; };
    switch (input.kind) {
      case Input::Kind::main:
        return at(slot::kMains + input.index);
      case Input::Kind::step:
        return at(slot::kSteps + input.index);
      case Input::Kind::operand:
        return at(slot::kLoads +
                  loads.emplace(input.index, static_cast<uint32_t>(loads.size())).first->second);
      case Input::Kind::scalar:
        return {Source::scalar, static_cast<uint8_t>(input.index)};
      case Input::Kind::number:  // of row nodes
      case Input::Kind::none:
        break;
    }
    return {Source::none, 0};
  };
  to.first_step = static_cast<uint16_t>(steps_.size());
  to.first_load = static_cast<uint16_t>(loads_.size());
  to.steps = static_cast<uint8_t>(draft.steps.size());
  for (size_t s = 0; s < draft.steps.size(); ++s)
    steps_.push_back(step_of(draft.steps[s], slot::kSteps + s, source));
  to.loads = static_cast<uint8_t>(loads.size());
  for (const auto& [operand, load] : loads)
    loads_.push_back(
        {static_cast<uint8_t>(operand), static_cast<uint8_t>(slot::kLoads + load), 0, 0});
}

}  // namespace trek::device
