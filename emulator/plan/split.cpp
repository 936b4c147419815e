#include "emulator/plan/split.h"

#include <utility>

#include <fmt/format.h>

#include "emulator/plan/product.h"
#include "isa/convert.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using isa::Type;
using Kind = Name::Kind;

// A loss of more work than this many pointwise tiles is cut into rows.
constexpr int64_t kTilesOfLoss = 4;
// The choices of TREK_REDUCTION (ops.def).
enum class Reduction : uint8_t { mean, sum, none };

class Splitter {
 public:
  Splitter(const isa::Module& module, const Device& device, bool fast, Flow& flow)
      : module_(module), device_(device), fast_(fast), flow_(flow) {}
  void run();

 private:
  void one(Step& step);
  void in_place(Step& step);
  bool loss(Step& step);
  void clip_norm(Step& step);
  void product(Step& step);

  Step& append(const Step& like, Opcode opcode, std::vector<Name> operands, Name result);
  Name fresh(const Step& at, const Type& type);
  Name pointwise(const Step& like, Opcode opcode, std::vector<Name> operands, const Type& type) {
    const Name result = fresh(like, type);
    append(like, opcode, std::move(operands), result);
    return result;
  }
  Name cast(const Step& like, Name from, DType to);
  Name padded(const Step& like, Name from);
  Name turned(const Step& like, Name from);
  void turn(Step& step, std::string_view name, size_t operand);
  Name constant(DType dtype, uint64_t bits);
  Name integer(int64_t value) { return constant(DType::i64, static_cast<uint64_t>(value)); }
  Name real(DType dtype, double value) {
    return constant(dtype, isa::double_to_bits(dtype, value));
  }
  void cast_to(const Step& like, Name from, DType to, Name result);
  const FlowAttribute& attribute(const Step& step, std::string_view name) const {
    return step.attributes[static_cast<size_t>(isa::info(step.opcode).attribute(name))];
  }
  bool flag(const Step& step, std::string_view name) const {
    const FlowAttribute& found = attribute(step, name);
    return found.given && (found.items.empty() || found.items[0].index != 0);
  }

  const isa::Module& module_;
  const Device& device_;
  bool fast_;
  Flow& flow_;
  std::vector<Step> steps_;  // the new ones
};

Step& Splitter::append(const Step& like, Opcode opcode, std::vector<Name> operands, Name result) {
  Step step;
  step.opcode = opcode;
  step.region = like.region;
  step.function = like.function;
  step.instruction = like.instruction;
  step.site = like.site;
  step.operands = std::move(operands);
  step.results = {result};
  step.attributes.resize(isa::info(opcode).attributes.size());
  steps_.push_back(std::move(step));
  return steps_.back();
}

Name Splitter::fresh(const Step& at, const Type& type) {
  FlowValue value;
  value.type = type;
  value.region = at.region;
  value.name = fmt::format("{}{}", type.scalar ? '$' : '%', flow_.values.size());
  flow_.values.push_back(std::move(value));
  return {Kind::value, static_cast<uint32_t>(flow_.values.size() - 1)};
}

Name Splitter::constant(DType dtype, uint64_t bits) {
  flow_.constants.push_back({dtype, bits});
  return {Kind::constant, static_cast<uint32_t>(flow_.constants.size() - 1)};
}

void Splitter::cast_to(const Step& like, Name from, DType to, Name result) {
  Step& step = append(like, Opcode::Cast, {from}, result);
  FlowAttribute& type =
      step.attributes[static_cast<size_t>(isa::info(Opcode::Cast).attribute("to"))];
  type.given = true;
  type.items = {{Kind::number, static_cast<uint32_t>(to)}};
}

// The tensor in another element type, or itself.
Name Splitter::cast(const Step& like, Name from, DType to) {
  Type type = flow_.type_of(module_, from);
  if (type.dtype == to) return from;
  type.dtype = to;
  const Name result = fresh(like, type);
  cast_to(like, from, to, result);
  return result;
}

// What a tensor's lines lack to multiples of line_elements().
int64_t missing(const Type& type) {
  const int64_t pieces = line_elements(type.dtype);
  const int64_t line = type.shape[type.shape.rank() - 1];
  return (pieces - line % pieces) % pieces;
}

// The tensor with zeros behind its lines up to such a multiple, or itself.
Name Splitter::padded(const Step& like, Name from) {
  Type type = flow_.type_of(module_, from);
  const int64_t high = missing(type);
  if (high == 0) return from;
  const int last = type.shape.rank() - 1;
  std::vector<Name> before(static_cast<size_t>(last) + 1, integer(0));
  std::vector<Name> behind = before;
  behind.back() = integer(high);
  type.shape[last] += high;
  const Name result = fresh(like, type);
  Step& step = append(like, Opcode::Pad, {from}, result);
  const isa::OpInfo& pad = isa::info(Opcode::Pad);
  step.attributes[static_cast<size_t>(pad.attribute("low"))] = {true, std::move(before)};
  step.attributes[static_cast<size_t>(pad.attribute("high"))] = {true, std::move(behind)};
  return result;
}

// The tensor with its last two axes changed for each other.
Name Splitter::turned(const Step& like, Name from) {
  Type type = flow_.type_of(module_, from);
  const int last = type.shape.rank() - 1;
  std::vector<Name> axes;
  for (int i = 0; i <= last; ++i) axes.push_back(integer(i < last - 1 ? i : 2 * last - 1 - i));
  std::swap(type.shape[last - 1], type.shape[last]);
  const Name result = fresh(like, type);
  Step& step = append(like, Opcode::Permute, {from}, result);
  step.attributes[static_cast<size_t>(isa::info(Opcode::Permute).attribute("axes"))] = {
      true, std::move(axes)};
  return result;
}

// Takes an operand turned around; `name` is the flag that says how it lies.
void Splitter::turn(Step& step, std::string_view name, size_t operand) {
  step.operands[operand] = turned(step, step.operands[operand]);
  FlowAttribute& lies =
      step.attributes[static_cast<size_t>(isa::info(step.opcode).attribute(name))];
  lies = {!flag(step, name), {}};
}

void Splitter::product(Step& step) {
  const Type a = flow_.type_of(module_, step.operands[0]);
  const Type b = flow_.type_of(module_, step.operands[1]);
  const Type out = flow_.type_of(module_, step.results[0]);
  const MatrixShape shape =
      matrix_shape(a.shape, b.shape, out.shape, flag(step, "ta"), flag(step, "tb"));
  const bool odd = missing(a) != 0 || missing(b) != 0;
  const Product product = product_of(device_, fast_, a.dtype, shape);
  if (a.dtype == DType::f32 && (product == Product::tensor || product == Product::ordered)) {
    const Turns turns = gains_by_turning(device_, product, a, b, shape);
    if (turns.left) turn(step, "ta", 0);
    if (turns.right) turn(step, "tb", 1);
  }
  if (odd && isa::byte_size(a.dtype) == 2 && product == Product::tensor &&
      gains_by_padding(device_, a.dtype, shape)) {
    const Name left = padded(step, step.operands[0]);
    step.operands[1] = padded(step, step.operands[1]);
    step.operands[0] = left;
  }
  steps_.push_back(std::move(step));
}

// The result becomes a variable: the copy defines it, and the step in place again.
void Splitter::in_place(Step& step) {
  const Name result = step.results[0];
  const Name target = step.operands[0];
  for (size_t i = 1; i < step.operands.size(); ++i) {
    if (step.operands[i] != result) continue;
    const Name saved = fresh(step, flow_.type_of(module_, result));
    append(step, Opcode::Copy, {result}, saved);
    step.operands[i] = saved;
  }
  if (target != result) {
    append(step, Opcode::Copy, {target}, result);
    if (result.is(Kind::value)) flow_.values[result.index].variable = true;
    step.operands[0] = result;
  }
  steps_.push_back(std::move(step));
}

bool Splitter::loss(Step& step) {
  const FlowAttribute& given = attribute(step, "reduction");
  const auto reduction =
      given.given ? static_cast<Reduction>(given.items[0].index) : Reduction::mean;
  const Type logits = flow_.type_of(module_, step.operands[0]);
  const Type targets = flow_.type_of(module_, step.operands[1]);
  if (reduction == Reduction::none || targets.elements() < 2 ||
      kWorkOfLogit * logits.elements() <= kTilesOfLoss * device_.chunk)
    return false;
  const Name loss = step.results[0];
  Type type = flow_.type_of(module_, loss);
  type.shape = targets.shape;
  const Name rows = fresh(step, type);
  step.results[0] = rows;
  steps_.push_back(std::move(step));
  const Step like = steps_.back();
  append(like, reduction == Reduction::mean ? Opcode::Mean : Opcode::Sum, {rows}, loss);
  return true;
}

void Splitter::clip_norm(Step& step) {
  const Name norm = step.results[0];
  const Type one = flow_.type_of(module_, norm);
  const DType compute = one.dtype;
  Type flag = one;
  flag.dtype = DType::boolean;
  std::vector<Name> tensors;
  Name total;
  for (Name operand : step.operands) {
    const Name tensor = cast(step, operand, compute);
    const Name squares =
        pointwise(step, Opcode::Mul, {tensor, tensor}, flow_.type_of(module_, tensor));
    const Name sum = pointwise(step, Opcode::Sum, {squares}, one);
    total = total ? pointwise(step, Opcode::Add, {total, sum}, one) : sum;
    // A cast of its own for the product: it is fused there, and needs no memory.
    tensors.push_back(operand);
  }
  append(step, Opcode::Sqrt, {total}, norm);
  const Name most = attribute(step, "max").items[0];
  const Name above = pointwise(step, Opcode::Gt, {norm, most}, flag);
  const Name ratio = pointwise(step, Opcode::Div, {most, norm}, one);
  const Name factor = pointwise(step, Opcode::Where, {above, ratio, real(compute, 1.0)}, one);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Type type = flow_.type_of(module_, tensors[i]);
    const Name tensor = cast(step, tensors[i], compute);
    const Name result = step.results[i + 1];
    if (type.dtype == compute) {
      append(step, Opcode::Mul, {tensor, factor}, result);
    } else {
      const Name product =
          pointwise(step, Opcode::Mul, {tensor, factor}, flow_.type_of(module_, tensor));
      cast_to(step, product, type.dtype, result);
    }
  }
  steps_.back().weight = step.weight;
}

void Splitter::one(Step& step) {
  switch (step.opcode) {
    case Opcode::Update:
    case Opcode::Scatter:
    case Opcode::ScatterAdd:
      return in_place(step);
    case Opcode::CrossEntropy:
    case Opcode::CrossEntropyWithGrad:
      if (loss(step)) return;
      break;
    case Opcode::ClipNorm:
      return clip_norm(step);
    case Opcode::Matmul:
      return product(step);
    default:
      break;
  }
  steps_.push_back(std::move(step));
}

void Splitter::run() {
  std::vector<uint32_t> start;  // per old step, and the end: where it begins now
  for (Step& step : flow_.steps) {
    start.push_back(static_cast<uint32_t>(steps_.size()));
    one(step);
  }
  start.push_back(static_cast<uint32_t>(steps_.size()));
  flow_.steps = std::move(steps_);
  for (FlowRegion& region : flow_.regions) {
    region.first = start[region.first];
    region.end = start[region.end];
    if (region.decision != kNone) region.decision = start[region.decision];
  }
}

}  // namespace

void split(const isa::Module& module, const Device& device, bool fast, Flow& flow) {
  Splitter(module, device, fast, flow).run();
}

}  // namespace trek::plan
