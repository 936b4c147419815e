// What rows that go through several phases want in their descriptor (row_phases.h).
#include <algorithm>

#include "emulator/device/describer.h"
#include "emulator/plan/row_form.h"

namespace trek::device {

using isa::DType;
using isa::Opcode;
using isa::Shape;
using Input = Draft::Input;

// Operands of which several programs read all elements, as many as there is room for.
std::vector<uint32_t> Describer::held_operands() const {
  std::vector<uint32_t> readers(of_.operands.size());
  const auto count = [&](const std::vector<plan::MicroStep>& program) {
    for (uint32_t i = 0; i < readers.size(); ++i)
      if (plan::reads(program, i)) ++readers[i];
  };
  for (const plan::Phase& phase : of_.phases) count(phase.elements);
  count(last_of_rows());
  const auto kept = static_cast<size_t>(std::ranges::count(
      of_.phases, plan::Phase::Kind::keep, [](const plan::Phase& phase) { return phase.kind; }));
  std::vector<uint32_t> held;
  for (uint32_t i = 0; i < readers.size() && held.size() + kept < kMaxHeld; ++i)
    if (readers[i] > 1 && !type(i).scalar && type(i).shape == plan::rows_of(of_)) held.push_back(i);
  return held;
}

// Whether an operand is a row that is the same for all rows.
bool Describer::is_column(size_t i) const {
  const Shape& shape = type(i).shape;
  const Shape& rows = plan::rows_of(of_);
  return of_.operands[i].kind == plan::Operand::Kind::view && !type(i).scalar && shape.rank() > 0 &&
         shape != rows && shape.elements() == rows[rows.rank() - 1] &&
         shape[shape.rank() - 1] == rows[rows.rank() - 1];
}

void Describer::describe_phase(const plan::Phase& from, Phase& to) {
  const Shape& shape = plan::rows_of(of_);
  to.kind = static_cast<uint8_t>(from.kind);
  to.opcode = static_cast<uint16_t>(from.opcode);
  to.result = from.result == plan::kNone ? Phase::kNoResult : static_cast<uint8_t>(from.result);
  Draft elements;
  record_.append(elements, from.elements, shape, {});
  // What is reduced as it is needs no step.
  if (elements.steps.size() == 1 && elements.steps[0].opcode == Opcode::Copy) {
    elements.result = elements.steps[0].inputs[0];
    elements.steps.clear();
  }
  to.elements = record_.row_program(elements);
  Draft tail;
  if (from.kind == plan::Phase::Kind::reduction) tail = converted(DType::f32, from.dtype);
  const Input main = tail.result;
  record_.append(tail, from.tail, from.type.shape, main);
  to.tail = record_.row_program(tail);
}

// What the rows of a node, or of a product's left operand, go through.
void Describer::describe_phases() {
  static_assert(plan::kMaxPhases == kMaxPhases && plan::kMaxRowValues == kRowSlots &&
                plan::kRowElements == kLongRow && plan::kMaxKept < kMaxHeld);
  const Shape& shape = plan::rows_of(of_);
  Phases& to = record_.phases.emplace();
  to.n = static_cast<uint32_t>(shape[shape.rank() - 1]);
  to.rows = shape.elements() / to.n;
  to.phases = static_cast<uint8_t>(of_.phases.size());
  for (uint32_t operand : held_operands()) {
    record_.hold_operand(operand, to.held++);
    to.operand[to.brought++] = static_cast<uint8_t>(
        record_.operand(of_.operands[operand], type(operand), {0, 0, Map::same}));
  }
  // Of a product only the last program finds them: they are not in shared memory, which its right operand has.
  if (of_.by_rows()) hold_columns();
  for (uint32_t p = 0; p < to.phases; ++p) {
    describe_phase(of_.phases[p], to.phase[p]);
    if (of_.phases[p].kind != plan::Phase::Kind::keep) continue;
    to.phase[p].held = to.held;
    record_.hold_phase(p, to.held++);
  }
  if (!of_.by_rows()) hold_columns();
  describe_form();
  if (last_of_rows().empty()) return;
  Draft last;
  record_.append(last, last_of_rows(), shape, {});
  to.last = record_.row_program(last);
  to.gives_elements = 1;
}

void Describer::describe_form() {
  const std::optional<plan::RowForm> form = plan::row_form(of_);
  if (!form || (of_.by_rows() && plan::rows_of(of_).elements() >= plan::kInterpretedElements))
    return;
  Phases& to = *record_.phases;
  const bool is_norm = form->kind == plan::RowForm::Kind::norm;
  to.form = static_cast<uint8_t>(is_norm ? RowForm::norm : RowForm::softmax);
  to.form_type = static_cast<uint8_t>(form->type);
  if (!is_norm) return;
  const auto operand = [&](uint32_t i) {
    return static_cast<uint8_t>(record_.operand(of_.operands[i], type(i), {0, 0, Map::same}));
  };
  to.scale = operand(form->scale);
  to.shift = operand(form->shift);
  to.scales_stay = is_immutable(form->scale) && is_immutable(form->shift) ? 1 : 0;
}

void Describer::hold_columns() {
  Phases& to = *record_.phases;
  to.columns_stay = 1;
  for (uint32_t i = of_.own_operands; i < of_.operands.size(); ++i) {
    const bool is_read = of_.by_rows() || plan::reads(last_of_rows(), i);
    if (!is_read || !is_column(i) || to.columns == kMaxColumns ||
        (to.columns + 1) * to.n > kColumnWords)
      continue;
    if (!is_immutable(i)) to.columns_stay = 0;
    record_.hold_operand(i, kMaxHeld + to.columns);
    to.column[to.columns++] =
        static_cast<uint8_t>(record_.operand(of_.operands[i], type(i), {0, 0, Map::same}));
  }
}

}  // namespace trek::device
