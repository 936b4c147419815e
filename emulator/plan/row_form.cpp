#include "emulator/plan/row_form.h"

#include <algorithm>

#include "emulator/plan/geometry.h"
#include "isa/semantics/reduce.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using From = MicroStep::From;
using Input = MicroStep::Input;
using Program = std::vector<MicroStep>;

constexpr int64_t kShortRow = 128;  // of a softmax: four exponentials of a lane

// Whether a step of f32 is this one.
bool is_step(const MicroStep& step, Opcode opcode, std::array<Input, 3> inputs) {
  return step.opcode == opcode && step.from == DType::f32 && step.to == DType::f32 &&
         step.inputs == inputs && step.attributes == std::array<Input, 2>{};
}
bool is_copy(const Program& program, Input of) {
  return program.size() == 1 && is_step(program[0], Opcode::Copy, {of});
}
bool is_reduction(const Phase& phase, Opcode opcode) {
  return phase.kind == Phase::Kind::reduction && phase.opcode == opcode &&
         phase.dtype == DType::f32 && phase.result == kNone;
}
Input input_of(const Program& program, size_t step, size_t input) {
  return step < program.size() ? program[step].inputs[input] : Input{};
}
// Steps behind the first `count`: none, or a rounding.
std::optional<DType> rounding_of(const Program& program, uint32_t count) {
  if (program.size() == count) return DType::f32;
  if (program.size() != count + 1) return std::nullopt;
  const MicroStep& step = program.back();
  const bool rounds = step.opcode == Opcode::Cast && step.from == DType::f32 &&
                      (step.to == DType::f16 || step.to == DType::bf16 || step.to == DType::f32) &&
                      step.inputs[0] == Input{From::step, count - 1};
  return rounds ? std::optional(step.to) : std::nullopt;
}

std::optional<RowForm> norm_of(const std::vector<Phase>& phases, const Program& last) {
  if (phases.size() != 2 || !is_reduction(phases[0], Opcode::Mean) ||
      !is_reduction(phases[1], Opcode::Mean) || !phases[0].tail.empty())
    return std::nullopt;
  const Input x = input_of(phases[0].elements, 0, 0);
  const Program& squares = phases[1].elements;
  const Program& factor = phases[1].tail;
  const Input safe = input_of(factor, 0, 1);
  const Input scale = input_of(last, 2, 1);
  const Input shift = input_of(last, 2, 2);
  const std::optional<DType> type = rounding_of(last, 3);
  const auto is_operand = [](Input input) { return input.from == From::operand; };
  constexpr Input kMean{From::number, 0};
  constexpr Input kFirst{From::step, 0};
  const bool is_norm = type && is_operand(x) && is_operand(safe) && is_operand(scale) &&
                       is_operand(shift) && is_copy(phases[0].elements, x) && squares.size() == 2 &&
                       factor.size() == 2 && is_step(squares[0], Opcode::Sub, {x, kMean}) &&
                       is_step(squares[1], Opcode::Mul, {kFirst, kFirst}) &&
                       is_step(factor[0], Opcode::Add, {Input{From::main, 0}, safe}) &&
                       is_step(factor[1], Opcode::Rsqrt, {kFirst}) &&
                       is_step(last[0], Opcode::Sub, {x, kMean}) &&
                       is_step(last[1], Opcode::Mul, {kFirst, Input{From::number, 1}}) &&
                       is_step(last[2], Opcode::Fma, {Input{From::step, 1}, scale, shift});
  if (!is_norm) return std::nullopt;
  return RowForm{RowForm::Kind::norm, x.index, safe.index, scale.index, shift.index, *type};
}

std::optional<RowForm> softmax_of(const std::vector<Phase>& phases, const Program& last) {
  if (phases.size() != 3 || !is_reduction(phases[0], Opcode::Max) ||
      phases[1].kind != Phase::Kind::keep || phases[1].dtype != DType::f32 ||
      !is_reduction(phases[2], Opcode::Sum) || !phases[0].tail.empty() || !phases[2].tail.empty())
    return std::nullopt;
  const Input x = input_of(phases[0].elements, 0, 0);
  const Program& shares = phases[1].elements;
  const std::optional<DType> type = rounding_of(last, 1);
  constexpr Input kShare{From::kept, 1};
  const bool is_softmax = type && x.from == From::operand && is_copy(phases[0].elements, x) &&
                          shares.size() == 2 &&
                          is_step(shares[0], Opcode::Sub, {x, Input{From::number, 0}}) &&
                          is_step(shares[1], Opcode::Exp, {Input{From::step, 0}}) &&
                          is_copy(phases[2].elements, kShare) &&
                          is_step(last[0], Opcode::Div, {kShare, Input{From::number, 2}});
  if (!is_softmax) return std::nullopt;
  return RowForm{RowForm::Kind::softmax, x.index, 0, 0, 0, *type};
}

}  // namespace

std::optional<RowForm> row_form(const std::vector<Phase>& phases,
                                const std::vector<MicroStep>& last, int64_t n) {
  if (n <= semantics::kReductionTile)
    if (std::optional<RowForm> norm = norm_of(phases, last)) return norm;
  return n <= kShortRow ? softmax_of(phases, last) : std::nullopt;
}

std::optional<RowForm> row_form(const Node& node) {
  const isa::Shape& shape = rows_of(node);
  const int64_t n = shape[shape.rank() - 1];
  const std::optional<RowForm> form =
      row_form(node.phases, node.unit == Unit::matrix ? node.prologue : node.chain, n);
  if (!form) return std::nullopt;
  const auto is_tensor = [&](uint32_t i) {
    return node.operands[i].kind == Operand::Kind::view && !node.operand_types[i].scalar &&
           node.operand_types[i].dtype == DType::f32;
  };
  const auto is_column = [&](uint32_t i) {
    const isa::Shape& own = node.operand_types[i].shape;
    return is_tensor(i) && own.elements() == n && own[own.rank() - 1] == n;
  };
  if (!is_tensor(form->x) || node.operand_types[form->x].shape != shape) return std::nullopt;
  if (form->kind == RowForm::Kind::norm &&
      (!is_column(form->scale) || !is_column(form->shift) ||
       node.operands[form->safe].kind != Operand::Kind::constant))
    return std::nullopt;
  return form;
}

}  // namespace trek::plan
