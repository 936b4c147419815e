#include "emulator/device/describe_product.h"

#include "emulator/plan/product.h"

namespace trek::device {

using isa::DType;
using isa::Opcode;
using Input = Draft::Input;

static_assert(static_cast<int>(Product::ordered) == static_cast<int>(plan::Product::ordered) &&
              static_cast<int>(Product::tensor) == static_cast<int>(plan::Product::tensor));
static_assert(static_cast<int>(Product::thin) == static_cast<int>(plan::Product::thin));
static_assert(kPartRows == plan::kPartRows && kThinRows == plan::kThinRows &&
              kThinDepth == plan::kThinDepth);

namespace {

bool is_f32_or_16(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// Whether it is of one operand and nothing else.
bool is_unary(Opcode opcode) {
  const isa::OpInfo& info = isa::info(opcode);
  return info.family == isa::Family::pointwise && info.operands.size() == 1 &&
         info.attributes.empty();
}

// A step whose value so far is `value`, as one for registers; false where it is none.
bool tail_step(const Record& record, const Draft::Step& from, Input value, const Matrix& of,
               TailStep& to) {
  const bool thin = static_cast<Product>(of.product) == Product::thin;
  const auto is_value = [&](Input input) {
    return input.kind == value.kind && input.index == value.index;
  };
  Input second = from.inputs[1];
  switch (from.opcode) {
    case Opcode::Add:
    case Opcode::Mul:
      if (is_value(second))
        second = from.inputs[0];
      else if (!is_value(from.inputs[0]))
        return false;
      break;
    case Opcode::Relu:
    case Opcode::ReluGrad:
    case Opcode::Cast:
      if (!is_value(from.inputs[0])) return false;
      break;
    default:
      if (!thin || !is_unary(from.opcode) || !is_value(from.inputs[0])) return false;
      break;
  }
  if (is_value(second) || !is_f32_or_16(from.from) || !is_f32_or_16(from.to)) return false;
  to = {};
  to.opcode = static_cast<uint16_t>(from.opcode);
  to.to = static_cast<uint8_t>(from.to);
  to.index = static_cast<uint8_t>(second.index);
  switch (second.kind) {
    case Input::Kind::none:
      to.second = TailStep::none;
      return true;
    case Input::Kind::scalar:
      to.second = TailStep::scalar;
      return !thin || record.is_constant(second.index);
    case Input::Kind::operand:
      if (!is_f32_or_16(record.operand_type(second.index))) return false;
      to.second = record.reads_same(second.index) ? TailStep::elements : TailStep::row;
      return record.reads_same(second.index) || record.reads_row(second.index, of.n);
    default:
      return false;
  }
}

}  // namespace

void describe_tail(const Record& record, const Draft& draft, DType result, Matrix& to) {
  to.tail_steps = Matrix::kNoTail;
  // Lanes of tensor cores read and write pieces of two and of eight columns.
  if (!is_f32_or_16(result)) return;
  if (static_cast<Product>(to.product) == Product::tensor && to.n % 8 != 0) return;
  size_t count = draft.steps.size();
  // The store rounds to the result's type.
  if (count > 0 && draft.steps[count - 1].opcode == Opcode::Cast) --count;
  if (count > kMaxTail) return;
  Input value{Input::Kind::main, 0};
  for (size_t s = 0; s < draft.steps.size(); ++s) {
    TailStep step{};
    if (!tail_step(record, draft.steps[s], value, to, step)) return;
    if (s < count) to.tail[s] = step;
    value = {Input::Kind::step, static_cast<uint32_t>(s)};
  }
  if (draft.result.kind != value.kind || draft.result.index != value.index) return;
  to.tail_steps = static_cast<uint8_t>(count);
}

std::vector<TensorMap> tensor_maps(const plan::Plan& plan, const plan::Node& node,
                                   const Matrix& of) {
  const plan::MatrixShape shape = plan::matrix_shape(node);
  std::vector<TensorMap> maps;
  for (const bool left : {true, false}) {
    const size_t operand = left ? 0 : 1;
    const isa::Type& type = node.operand_types[operand];
    const int64_t lines = left ? of.m : of.n;
    const bool by_line = left ? of.a_k == 1 : of.b_k == 1;  // k are neighbours
    const int64_t inner = by_line ? of.k : lines;
    const int64_t pitch = by_line ? shape.whole_k : lines;
    // The f32 product wants steps of 8 k to be whole: what is behind the last k would be +0 on both sides.
    const bool is_f32 = type.dtype == DType::f32;
    const auto part = static_cast<uint32_t>(left || is_f32 ? plan::kPartRows : of.part_columns);
    const int64_t bytes = isa::byte_size(type.dtype);
    if (pitch * bytes % 16 != 0 || lines > UINT32_MAX / 2 || of.k > UINT32_MAX / 2) return {};
    if (is_f32 && of.k % 8 != 0) return {};
    TensorMap map;
    map.offset = plan.buffers[plan.view(node.operands[operand].index).buffer].offset +
                 shape.first_k * (by_line ? 1 : lines) * bytes;
    map.dtype = type.dtype;
    map.sizes = {inner, by_line ? lines : of.k, type.elements() / (lines * shape.whole_k)};
    map.strides = {bytes * pitch, bytes * lines * shape.whole_k};
    const auto row = static_cast<uint32_t>(kTensorMapRow / bytes);
    map.box = {by_line || !is_f32 ? row : part, by_line ? part : row, 1};
    maps.push_back(map);
  }
  return maps;
}

}  // namespace trek::device
