#include "emulator/device/describe_product.h"

#include <cstdlib>

#include "emulator/device/brought.h"
#include "emulator/device/matrix_cut.h"
#include "emulator/device/matrix_narrow_cut.h"
#include "emulator/device/matrix_small_cut.h"
#include "emulator/device/matrix_thin_cut.h"
#include "emulator/device/ring.h"
#include "emulator/plan/group_products.h"
#include "emulator/plan/product.h"
#include "emulator/plan/small_runs.h"

namespace trek::device {

using isa::DType;
using isa::Opcode;
using Input = Draft::Input;

static_assert(static_cast<int>(Product::ordered) == static_cast<int>(plan::Product::ordered) &&
              static_cast<int>(Product::tensor) == static_cast<int>(plan::Product::tensor));
static_assert(static_cast<int>(Pairing::depth) == static_cast<int>(plan::Pairing::depth) &&
              static_cast<int>(Pairing::columns) == static_cast<int>(plan::Pairing::columns));
static_assert(kMostParts == plan::kMostParts);
static_assert(static_cast<int>(OfRuns::begun) == static_cast<int>(plan::OfRuns::begun) &&
              static_cast<int>(OfRuns::ended) == static_cast<int>(plan::OfRuns::ended));
static_assert(static_cast<int>(Product::thin) == static_cast<int>(plan::Product::thin) &&
              static_cast<int>(Product::small) == static_cast<int>(plan::Product::small));
static_assert(static_cast<int>(Product::narrow) == static_cast<int>(plan::Product::narrow) &&
              static_cast<int>(Product::shallow) == static_cast<int>(plan::Product::shallow));
static_assert(small::kMostLines == plan::kSmallLines);
static_assert(kNarrowColumns == plan::kNarrowColumns && kNarrowDepth == plan::kNarrowDepth &&
              narrow::kMostSums == plan::kNarrowSums);
static_assert(kShallowDepth == plan::kShallowDepth && kShallowRows == plan::kShallowRows &&
              kShallowColumns == plan::kShallowColumns &&
              4 * kShallowDepth * kShallowRows <= kValuesBytes);
static_assert(kPartRows == plan::kPartRows && kThinRows == plan::kThinRows &&
              kThinDepth == plan::kThinDepth);
static_assert(kMaxProducts == plan::kGroupProducts && kBlockThreads == plan::kGroupOutputs &&
              kGroupSteps == plan::kMaxMicroSteps && kGroupLoads >= plan::kMaxOperands &&
              kGroupResults == plan::kMaxGroupResults);
// A tile of a group is one part: half words by line have the greatest pads.
static_assert(plan::kGroupBytes / 8 * 9 <= thin::kWholeBytes);
static_assert(plan::kSmallBytes == small::kRoom &&
              plan::small_sums(1, 1) == 4 * small::kWarps * small::kRows * small::kWide);
static_assert(4 * kThinRows * (kThinDepth / thin::kBlock) * (thin::kBlock + thin::kLeftPad) +
                  plan::kGroupBytes / 8 * 9 +
                  4 * kThinRows * plan::kGroupBytes / (2 * thin::kBlock) <=
              thin::kRoom);

namespace {

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
  const bool one_by_one = static_cast<Product>(of.product) != Product::tensor;
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
      if (!one_by_one || !is_unary(from.opcode) || !is_value(from.inputs[0])) return false;
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

void describe_group_tail(const Record& record, const Draft& draft, size_t product, Matrix& to) {
  ThinGroup& group = to.thin.group;
  Input value{Input::Kind::main, 0};
  for (const Draft::Step& step : draft.steps) {
    uint8_t& steps = group.tail_steps[product];
    if (steps == kGroupTail || !tail_step(record, step, value, to, group.tail[product][steps]))
      std::abort();  // plan::group_products lets no other through
    value = {Input::Kind::step, steps++};
  }
}

uint8_t group_slot_of(const plan::MicroStep::Input& given) {
  const bool is_step = given.from == plan::MicroStep::From::step;
  return static_cast<uint8_t>((is_step ? thin::group_slot::kSteps : thin::group_slot::kMains) +
                              given.index);
}

void describe_tail(const Record& record, const Draft& draft, DType result, Matrix& to) {
  to.tail_steps = Matrix::kNoTail;
  if (!is_f32_or_16(result)) return;
  size_t count = draft.steps.size();
  // The store rounds to the result's type.
  if (count > 0 && draft.steps[count - 1].opcode == Opcode::Cast) --count;
  if (count > kMaxTail) return;
  Input value{Input::Kind::main, 0};
  for (size_t s = 0; s < draft.steps.size(); ++s) {
    TailStep step{};
    if (!tail_step(record, draft.steps[s], value, to, step)) return;
    // Lanes of tensor cores read other operands two columns at a time.
    if (static_cast<Product>(to.product) == Product::tensor && to.n % 2 != 0 &&
        step.reads_operand())
      return;
    if (s < count) to.tail[s] = step;
    value = {Input::Kind::step, static_cast<uint32_t>(s)};
  }
  if (draft.result.kind != value.kind || draft.result.index != value.index) return;
  to.tail_steps = static_cast<uint8_t>(count);
}

std::vector<TensorMap> tensor_maps(const plan::Plan& plan, const plan::Node& node,
                                   const Matrix& described) {
  const plan::MatrixShape shape = plan::matrix_shape(node);
  const Matrix of = tensor::multiplied(described);
  std::vector<TensorMap> maps;
  for (const bool left : {true, false}) {
    const size_t operand = left == (of.transposed == 0) ? 0 : 1;
    const isa::Type& type = node.operand_types[operand];
    const int64_t lines = left ? of.m : of.n;
    const bool by_line = left ? of.a_k == 1 : of.b_k == 1;  // k are neighbours
    const int64_t pitch =
        left ? std::max(of.a_row, of.a_k) : std::max(of.b_column, of.b_k);  // of memory's lines
    const int64_t matrix = left ? of.a_matrix : of.b_matrix;
    // The dot order wants steps of 8 k to be whole: what is behind the last k would be +0 on both sides.
    const bool ordered = static_cast<Product>(of.product) == Product::ordered;
    const bool by_turns = ordered && tensor::takes_turns(of.cut);
    const uint32_t part = by_turns          ? matrix_f32::part_lines(of.cut, left)
                          : left || ordered ? kPartRows
                                            : of.part_columns;
    // Lines of a copy where they are neighbours.
    const uint32_t at_once = by_turns ? tensor::lines_at_once(of.cut, left) : part;
    const bool halves = !left && tensor::brings_halves(of);
    const int64_t bytes = isa::byte_size(type.dtype);
    if (pitch * bytes % 16 != 0 || lines > UINT32_MAX / 2 || of.k > UINT32_MAX / 2) return {};
    if (ordered && of.k % 8 != 0) return {};
    TensorMap map;
    map.offset = plan.buffers[plan.view(node.operands[operand].index).buffer].offset +
                 shape.first_k * (by_line ? 1 : pitch) * bytes;
    map.dtype = type.dtype;
    map.as_tf32 = !ordered && type.dtype == DType::f32;
    map.sizes = {by_line ? of.k : lines, by_line ? lines : of.k, type.elements() / matrix};
    map.strides = {bytes * pitch, bytes * matrix};
    const auto row = static_cast<uint32_t>(kTensorMapRow / bytes);
    map.swizzled = by_line || !ordered;
    map.box = {map.swizzled ? row : at_once,
               by_line ? lines_brought(lines, halves ? part / 2 : part) : row, 1};
    maps.push_back(map);
  }
  return maps;
}

}  // namespace trek::device
