// Pointwise instructions: operands are laid against the result's shape, and a kernel makes the result
// tile by tile. What each does to one element is isa/semantics/elements.def.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "emulator/ref/box.h"
#include "emulator/ref/execute.h"

namespace trek::ref {
namespace {

using kernels::kTile;
using kernels::PointwiseTask;
using kernels::TileOperand;

using isa::AttributeKind;
using isa::Opcode;
using isa::Shape;
using isa::TypeRule;

// Elements worth a thread: a function costs about ten additions.
int64_t grain(const Step& step) {
  return step.op().numerics == isa::Numerics::function ? 4 * 1024 : 32 * 1024;
}

// The element type T of the operands: that of a tensor among them, else of the scalars.
DType element_type(const Step& step) {
  DType found = DType::none;
  for (size_t i = 0; i < step.operand_count(); ++i) {
    if (step.op().operands[i].type != TypeRule::T) continue;
    if (!step.operand(i).type->scalar) return step.operand(i).dtype();
    if (found == DType::none || !step.operand_ref(i).is(isa::RefKind::constant))
      found = step.operand(i).dtype();
  }
  return found;
}

// The operand's axes against those of the result, merged where the operand lets them.
void lay_against(TileOperand& operand, const Shape& shape, const Shape& result) {
  operand.dense = shape == result;
  const Strides strides(shape);
  const int lead = result.rank() - shape.rank();
  for (int axis = 0; axis < result.rank(); ++axis) {
    if (result[axis] == 1) continue;
    const bool repeats = axis < lead || shape[axis - lead] == 1;
    const int64_t stride = repeats ? 0 : strides[axis - lead];
    const int last = operand.rank - 1;
    if (last >= 0 && operand.strides[last] == stride * result[axis]) {
      operand.dims[last] *= result[axis];
      operand.strides[last] = stride;
    } else {
      operand.dims[operand.rank] = result[axis];
      operand.strides[operand.rank] = stride;
      ++operand.rank;
    }
  }
  if (operand.rank == 0) {
    operand.rank = 1;
    operand.dims[0] = 1;
  }
}

// The numeric attributes of the row, in the lane type.
void set_attributes(const Step& step, DType lane, DType element, std::byte* out) {
  for (const isa::AttributeInfo& attribute : step.op().attributes) {
    if (attribute.kind == AttributeKind::real) {
      const double value = step.real(attribute.name);
      step.kernels().convert(out, lane, &value, DType::f64, 1);
    } else {
      const uint64_t bits = step.element_bits(attribute.name);
      step.kernels().convert(out, lane, &bits, element, 1);
    }
    out += sizeof(double);
  }
}

// The lowest element of the result that meets a zero of the divisor, or -1.
int64_t first_division_by_zero(const Step& step, const TileOperand& divisor, int64_t n) {
  const int64_t bytes = isa::byte_size(divisor.dtype);
  int64_t stored = 1;  // elements of the divisor: those of its axes that do not repeat
  for (int axis = 0; axis < divisor.rank; ++axis)
    if (divisor.strides[axis] != 0) stored *= divisor.dims[axis];
  const int64_t found = step.kernels().first_zero(divisor.data, divisor.dtype, stored);
  if (found == stored) return -1;
  if (divisor.dense) return found;
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    int64_t offset = 0;
    for (int axis = divisor.rank - 1; axis >= 0; --axis) {
      offset += rest % divisor.dims[axis] * divisor.strides[axis];
      rest /= divisor.dims[axis];
    }
    if (step.kernels().first_zero(divisor.data + offset * bytes, divisor.dtype, 1) == 0) return i;
  }
  return -1;
}

Status pointwise(Step& step) {
  const Tensor& r = step.result(0);
  const int64_t n = r.elements();
  if (n == 0) return nullptr;
  const DType element = element_type(step);
  const bool selects = step.op().opcode == Opcode::Where;
  const DType lane = selects ? element : isa::compute_type(element);
  const bool relates = step.op().results[0].type == isa::ResultRule::boolean;

  PointwiseTask task;
  task.function = step.kernels().element(step.op().opcode, lane);
  task.operands = static_cast<int>(step.operand_count());
  task.result = r.data;
  task.dtype = r.dtype();
  task.lane = relates ? DType::boolean : lane;
  set_attributes(step, lane, element, task.attributes);

  uint64_t scalars[3] = {};  // converted to the element type, as by `cast`
  for (size_t i = 0; i < step.operand_count(); ++i) {
    const Tensor& x = step.operand(i);
    TileOperand& operand = task.operand[i];
    const bool condition = step.op().operands[i].type == TypeRule::boolean;
    operand.dtype = condition ? DType::boolean : element;
    operand.lane = condition ? DType::boolean : lane;
    operand.data = x.data;
    if (x.type->scalar) {
      step.kernels().convert(&scalars[i], operand.dtype, x.data, x.dtype(), 1);
      operand.data = reinterpret_cast<const std::byte*>(&scalars[i]);
    }
    lay_against(operand, x.shape(), r.shape());
  }
  const bool divides =
      std::count(step.op().traps.begin(), step.op().traps.end(), isa::TrapCode::DivideByZero) != 0;
  if (divides && isa::is_integer(element)) {
    const int64_t found = first_division_by_zero(step, task.operand[1], n);
    if (found >= 0)
      return trap(isa::TrapCode::DivideByZero, found,
                  fmt::format("element {} is divided by zero", found));
  }
  step.pool().ranges(n, grain(step), kTile, [&](int64_t begin, int64_t end) {
    step.kernels().pointwise(task, begin, end);
  });
  return nullptr;
}

}  // namespace

#define TREK_ROW(Id, ...) \
  Status execute(Op<Opcode::Id>, Step& step) { return pointwise(step); }
#define TREK_REAL TREK_ROW
#define TREK_NUMBER TREK_ROW
#define TREK_RELATION TREK_ROW
#define TREK_INTEGER TREK_ROW
#define TREK_BITS TREK_ROW
#include "isa/semantics/elements.def"
TREK_ROW(Where)

}  // namespace trek::ref
