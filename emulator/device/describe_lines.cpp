// What works on lines wants in its descriptor: reductions, softmax, losses, sorting.
#include <optional>
#include <ranges>

#include <fmt/format.h>

#include "emulator/device/describer.h"
#include "emulator/device/element.h"
#include "emulator/device/order.h"
#include "emulator/plan/take_logits.h"
#include "isa/semantics/reduce.h"

namespace trek::device {

using isa::DType;
using isa::Opcode;
using isa::Shape;
using plan::Attribute;
using Input = Draft::Input;

namespace {

Dimensions dimensions_of(const std::vector<plan::Lines::Axis>& axes) {
  Dimensions dimensions;
  for (const plan::Lines::Axis& axis : axes) dimensions.push_back({axis.size, axis.stride});
  return dimensions;
}

// The type in which lines are worked on: the compute type, or the widest integer of the kind.
DType line_type(DType type) {
  switch (form_of(type)) {
    case Form::real32:
      return DType::f32;
    case Form::real64:
      return DType::f64;
    case Form::sint:
      return DType::i64;
    case Form::uint:
      break;
  }
  return DType::u64;
}

static_assert(plan::kMostClasses == kMostClasses && plan::kMostWeights == kMostWeights &&
              plan::kMostRow == kMostRow && plan::kMostLossRows == kMostLossRows);

// How far the elements of a line are apart, where there is one number for it; of a line of one element 1.
std::optional<int64_t> stride_of(const plan::Lines& lines) {
  std::optional<int64_t> stride;
  int64_t next = 1;  // where the axis before goes on
  for (const plan::Lines::Axis& axis : lines.along | std::views::reverse) {
    if (axis.size == 1) continue;
    if (stride && axis.stride != next) return std::nullopt;
    if (!stride) stride = axis.stride;
    next = axis.size * axis.stride;
  }
  return stride.value_or(1);
}

// For rows of n elements of f32 that lie in line.
uint8_t rows_of(int64_t n) {
  if (n <= 0 || n > kLongRow) return static_cast<uint8_t>(Rows::staged);
  return static_cast<uint8_t>(n <= kShortRow ? Rows::by_warps : Rows::by_block);
}

}  // namespace

plan::Lines Describer::describe_lines() {
  const std::vector<int64_t> axes = plan::axes_of(plan_, of_);
  const plan::Lines lines = plan::lines_of(type(0).shape, axes);
  node_.lines.lines = lines.lines;
  node_.lines.n = lines.n;
  node_.lines.kept = record_.map(dimensions_of(lines.kept));
  node_.lines.along = record_.map(dimensions_of(lines.along));
  node_.lines.kept_n = lines.n;
  int64_t stride = 1;
  for (const plan::Lines::Axis& axis : lines.along)
    if (axis.size != 1) stride = axis.stride;
  node_.lines.across = stride != 1 ? 1 : 0;
  node_.whole = lines.lines;
  return lines;
}

// Whether rows.h can have the lines: f32 or bf16 as it lies, in memory at one stride. For argmax and argmin a stride other
// than 1 costs a sector of memory an element, which large tensors do not afford.
void Describer::describe_stride(const plan::Lines& lines, const Draft& fetch) {
  constexpr int64_t kSmall = int64_t{256} * 1024;
  const std::optional<int64_t> stride = stride_of(lines);
  const bool is_arg = static_cast<Kind>(node_.kind) == Kind::arg;
  if (!stride || *stride > INT32_MAX || lines.n < 1) return;
  if (lines.n > (is_arg ? INT32_MAX : kMostTiles * semantics::kReductionTile)) return;
  if (is_arg && *stride != 1 && lines.n * lines.lines > kSmall) return;
  Draft::Input source = fetch.result;
  bool squares = false;
  if (source.kind == Input::Kind::step && fetch.steps.size() == 1 && !is_arg) {
    const Draft::Step& step = fetch.steps[0];
    squares = step.opcode == Opcode::Mul && step.from == DType::f32 && step.to == DType::f32 &&
              step.inputs[0].kind == step.inputs[1].kind &&
              step.inputs[0].index == step.inputs[1].index && of_.opcode != Opcode::Norm2;
    source = step.inputs[0];
    if (!squares) return;
  }
  if (source.kind != Input::Kind::operand || !record_.lies_in_order(source.index)) return;
  if (!is_arg && node_.deliver[0].narrow == 0) return;  // results are given by deliver_one()
  const DType type = record_.operand_type(source.index);
  if (type != DType::f32 && (type != DType::bf16 || squares)) return;
  node_.lines.strided = static_cast<uint8_t>(squares ? Strided::squares : Strided::elements);
  node_.lines.source = static_cast<uint8_t>(source.index);
  node_.lines.stride = static_cast<int32_t>(*stride);
}

// reduce, arg, cumsum.
void Describer::describe_reduction() {
  const plan::Lines lines = describe_lines();
  const DType compute = line_type(type(0).dtype);
  node_.compute = static_cast<uint8_t>(compute);
  const Draft fetch = fetch_source();
  if (static_cast<Kind>(node_.kind) != Kind::arg) {
    programs({fetch}, {tail(compute)}, compute);
    const bool short_rows = lines.n >= 1 && lines.n <= semantics::kReductionTile &&
                            lines.adjacent && lines.inner == 1 && compute == DType::f32;
    if (static_cast<Kind>(node_.kind) == Kind::reduce && short_rows)
      node_.quick = static_cast<uint8_t>(Quick::rows);
  } else {
    // Its elements and its results have different forms.
    node_.fetch[0] =
        record_.program(fetch, compute == DType::f32 && record_.fits_narrow(fetch, compute));
    node_.deliver[0] = record_.program(tail(DType::i64), false);
  }
  if (static_cast<Kind>(node_.kind) != Kind::cumsum && compute == DType::f32)
    describe_stride(lines, fetch);
}

void Describer::describe_softmax() {
  const plan::Lines lines = describe_lines();
  const DType compute = isa::compute_type(type(0).dtype);
  node_.compute = static_cast<uint8_t>(compute);
  std::vector<Draft> fetch{fetch_source()};
  if (of_.own_operands > 1) fetch.push_back(plain(1));
  const Draft out = tail(compute);
  programs(fetch, {out}, compute);
  // The store rounds to the result's type.
  const bool rounds = out.steps.size() == 1 && out.result.kind == Input::Kind::step &&
                      out.steps[0].opcode == Opcode::Cast &&
                      out.steps[0].inputs[0].kind == Input::Kind::main &&
                      out.steps[0].from == DType::f32 && form_of(out.steps[0].to) == Form::real32;
  if (lines.adjacent && lines.inner == 1 && of_.own_operands == 1 && of_.prologue.empty() &&
      (of_.chain.empty() || rounds) && type(0).dtype == DType::f32)
    node_.lines.rows = rows_of(lines.n);
}

void Describer::describe_cross_entropy() {
  const bool only_gradient = of_.opcode == Opcode::CrossEntropyGrad;
  const size_t logits = only_gradient ? 1 : 0;
  const Shape& shape = type(logits).shape;
  const int64_t classes = shape[shape.rank() - 1];
  const int64_t rows = type(logits + 1).elements();
  const DType compute = isa::compute_type(type(logits).dtype);
  node_.type = static_cast<uint8_t>(type(logits).dtype);
  node_.compute = static_cast<uint8_t>(compute);
  const Attribute& reduction = plan::attribute(of_, "reduction");
  node_.flag = reduction.given ? static_cast<uint8_t>(reduction.items[0].index) : 0;
  node_.lines.lines = rows;
  node_.lines.n = classes;
  node_.lines.kept_n = classes;
  node_.lines.kept = record_.map({{rows, classes}});
  node_.lines.along = record_.map({{classes, 1}});
  node_.whole = rows;
  if (of_.makes_logits()) {
    const size_t first = of_.factors;
    node_.lines.rows = static_cast<uint8_t>(Rows::made);
    node_.lines.row = static_cast<uint32_t>(type(first).shape[1]);
    node_.lines.has_bias = of_.operands.size() > first + 2 ? 1 : 0;
    node_.lines.back = static_cast<uint8_t>(of_.back);
    for (size_t i = first; i < of_.operands.size(); ++i) {
      const uint32_t entry = record_.operand(of_.operands[i], type(i), {0, 0, Map::same});
      if (i == first) node_.lines.made_of = static_cast<uint8_t>(entry);
    }
    return;
  }
  const Draft out = converted(compute, type(logits).dtype);
  programs({plain(logits)}, {out, out}, compute);
  if (!only_gradient && type(logits).dtype == DType::f32) node_.lines.rows = rows_of(classes);
  if (!only_gradient) scratch_ = node_.scratch_bytes = rows * size_of(compute);
}

void Describer::describe_order() {
  const uint32_t bits = form_of(static_cast<DType>(node_.type)) == Form::real32
                            ? 32
                            : 8 * size_of(static_cast<DType>(node_.type));
  node_.order.key_bits = static_cast<uint8_t>(bits);
  int64_t n = 0;
  if (of_.opcode == Opcode::Permutation) {
    n = node_.whole = result_type(0).elements();
    record_.index_attribute("key");
    record_.index_attribute("offset");
    node_.order.tile = 0;
    scratch_ = node_.scratch_bytes = order_scratch(n);
  } else {
    describe_lines();
    n = node_.lines.n;
    const plan::Lines results = plan::lines_of(result_type(0).shape, plan::axes_of(plan_, of_));
    node_.lines.kept_n = results.n;
    node_.lines.result_kept = record_.map(dimensions_of(results.kept));
    node_.lines.result_along = record_.map(dimensions_of(results.along));
    const bool top = of_.opcode == Opcode::TopK;
    node_.order.descending =
        (top ? !plan::flag(of_, "smallest") : plan::flag(of_, "descending")) ? 1 : 0;
    // A place for each line: tasks need not know how others were cut.
    node_.order.tile = node_.order.block = 1;
    node_.scratch_bytes = order_scratch(n);
    if (of_.tasks == 1) node_.order.tile = 0;
    scratch_ = node_.scratch_bytes * (of_.tasks == 1 ? 1 : node_.lines.lines);
  }
  if (n > int64_t{UINT32_MAX})
    record_.refusal = fmt::format("{} of a line of {} elements", isa::info(of_.opcode).mnemonic, n);
}

}  // namespace trek::device
