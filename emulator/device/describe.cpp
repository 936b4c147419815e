// The switch that gives every instruction of ops.def its unit, what the descriptions of all kinds of nodes share, and
// those that need few lines: pointwise programs, training, random numbers, control.
#include "emulator/device/describe.h"

#include "emulator/device/describer.h"
#include "emulator/device/element.h"
#include "emulator/plan/take_gradients.h"

namespace trek::device {

using isa::DType;
using isa::Opcode;
using isa::Shape;
using isa::Type;
using plan::Attribute;
using Input = Draft::Input;

namespace {

static_assert(plan::kStepDepth == kMostMade && plan::kStepSums == kSummed &&
              plan::kStepLines == kMostSummed);

// No default: an instruction without a unit does not build. Pointwise rows come from their table.
Kind kind_of(Opcode opcode) {
  switch (opcode) {
#define TREK_ROW(Id, ...) case Opcode::Id:
#define TREK_REAL TREK_ROW
#define TREK_NUMBER TREK_ROW
#define TREK_INTEGER TREK_ROW
#define TREK_BITS TREK_ROW
#define TREK_RELATION TREK_ROW
#include "isa/semantics/elements.def"
#undef TREK_REAL
#undef TREK_NUMBER
#undef TREK_INTEGER
#undef TREK_BITS
#undef TREK_RELATION
#undef TREK_ROW
    case Opcode::Copy:
    case Opcode::Cast:
    case Opcode::Where:
      return Kind::program;
    case Opcode::Reshape:
    case Opcode::Permute:
    case Opcode::Slice:
    case Opcode::Broadcast:
      return Kind::move;
    case Opcode::Fill:
      return Kind::fill;
    case Opcode::Iota:
      return Kind::iota;
    case Opcode::Concat:
      return Kind::concat;
    case Opcode::Pad:
      return Kind::pad;
    case Opcode::Gather:
      return Kind::gather;
    case Opcode::OneHot:
      return Kind::one_hot;
    case Opcode::Update:
      return Kind::update;
    case Opcode::Scatter:
    case Opcode::ScatterAdd:
      return Kind::scatter;
    case Opcode::Sum:
    case Opcode::Mean:
    case Opcode::Max:
    case Opcode::Min:
    case Opcode::Prod:
    case Opcode::Norm2:
      return Kind::reduce;
    case Opcode::Argmax:
    case Opcode::Argmin:
      return Kind::arg;
    case Opcode::Cumsum:
      return Kind::cumsum;
    case Opcode::Sort:
    case Opcode::Argsort:
    case Opcode::TopK:
      return Kind::order;
    case Opcode::Matmul:
      return Kind::matrix;
    case Opcode::Softmax:
    case Opcode::LogSoftmax:
    case Opcode::SoftmaxGrad:
    case Opcode::LogSoftmaxGrad:
      return Kind::softmax;
    case Opcode::CrossEntropy:
    case Opcode::CrossEntropyGrad:
    case Opcode::CrossEntropyWithGrad:
      return Kind::cross_entropy;
    case Opcode::Sgd:
    case Opcode::SgdMomentum:
    case Opcode::Adam:
    case Opcode::Adamw:
    case Opcode::Rmsprop:
      return Kind::optimizer;
    case Opcode::ClipNorm:
      return Kind::clip;
    case Opcode::Uniform:
    case Opcode::Normal:
    case Opcode::Bernoulli:
      return Kind::random;
    case Opcode::Permutation:
      return Kind::permutation;
    case Opcode::Dropout:
    case Opcode::DropoutGrad:
      return Kind::dropout;
    case Opcode::Load:
    case Opcode::Store:
      return Kind::exchange;
    case Opcode::AssertFinite:
      return Kind::assert_finite;
    case Opcode::Trap:
      return Kind::trap;
    case Opcode::Loop:
    case Opcode::While:
    case Opcode::Test:
    case Opcode::If:
    case Opcode::Else:
    case Opcode::Yield:
    case Opcode::Call:
    case Opcode::Return:
    case Opcode::Emit:
    case Opcode::Next:
      return Kind::engine;
  }
  return Kind::engine;
}

// Conversions, moves, comparisons of order and integer steps are in both builds.
bool needs_full(const Node& node) {
  for (uint32_t s = 0; s < node.steps; ++s) {
    const Step& step = *node.step(s);
    const auto opcode = static_cast<Opcode>(step.opcode);
    const bool moves = opcode == Opcode::Copy || opcode == Opcode::Cast || opcode == Opcode::Where;
    if (!moves && form_of(static_cast<DType>(step.from)) == Form::real64) return true;
  }
  switch (static_cast<Kind>(node.kind)) {
    case Kind::reduce:
    case Kind::softmax:
    case Kind::cumsum:
    case Kind::cross_entropy:
    case Kind::clip:
    case Kind::matrix:
    case Kind::optimizer:
    case Kind::random:
    case Kind::dropout:
      return form_of(static_cast<DType>(node.compute)) != Form::real32;
    default:
      return false;
  }
}

}  // namespace

int Describer::axis_in(const Shape& shape) const {
  const int64_t axis = integer("axis");
  return static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
}

int64_t Describer::integer(std::string_view name) const {
  const Attribute& given = plan::attribute(of_, name);
  if (given.given) return plan::static_integer(plan_, given.items[0]);
  const isa::OpInfo& op = isa::info(of_.opcode);
  return static_cast<int64_t>(op.attributes[static_cast<size_t>(op.attribute(name))].fallback);
}

void Describer::own_operands() {
  for (size_t i = 0; i < of_.own_operands; ++i)
    record_.operand(of_.operands[i], of_.operand_types[i], {0, 0, Map::same});
  node_.operands = static_cast<uint16_t>(of_.own_operands);
  for (uint32_t view : of_.results) record_.result(view);
}

// All programs of a node have one form, because they share what is staged.
void Describer::programs(const std::vector<Draft>& fetch, const std::vector<Draft>& deliver,
                         DType main) {
  bool narrow = size_of(main) <= 4;
  for (const Draft& draft : fetch) narrow = narrow && record_.fits_narrow(draft, main);
  for (const Draft& draft : deliver) narrow = narrow && record_.fits_narrow(draft, main);
  for (size_t i = 0; i < fetch.size(); ++i) node_.fetch[i] = record_.program(fetch[i], narrow);
  for (size_t i = 0; i < deliver.size(); ++i)
    node_.deliver[i] = record_.program(deliver[i], narrow);
}

// An own operand as it lies.
Draft Describer::plain(size_t operand) {
  Draft draft;
  draft.result = {Input::Kind::operand, static_cast<uint32_t>(operand)};
  draft.dtype = type(operand).dtype;
  return draft;
}

// Operand 0, or what the prologue makes of others.
Draft Describer::fetch_source() {
  if (of_.prologue.empty()) return plain(0);
  Draft draft;
  record_.append(draft, of_.prologue, type(0).shape, {});
  return draft;
}

// The main value, converted.
Draft Describer::converted(DType from, DType to) {
  Draft draft;
  draft.dtype = to;
  if (from == to) {
    draft.result = {Input::Kind::main, 0};
    return draft;
  }
  Draft::Step step;
  step.opcode = Opcode::Cast;
  step.from = from;
  step.to = to;
  step.inputs[0] = {Input::Kind::main, 0};
  draft.steps.push_back(step);
  draft.result = {Input::Kind::step, 0};
  return draft;
}

// From the main value of result 0, which is a `from`, through its own type and the node's chain.
Draft Describer::tail(DType from) {
  Draft draft = converted(from, main_type());
  const Input main = draft.result;
  record_.append(draft, of_.chain, result_type(0).shape, main);
  return draft;
}

// ---- pointwise -----------------------------------------------------------------------------------

void Describer::describe_program() {
  node_.kind = static_cast<uint8_t>(Kind::program);
  const Type& result = result_type(0);
  Draft draft;
  record_.append(draft, of_.chain, result.shape, {});
  node_.whole = result.scalar ? 1 : result.elements();
  programs({}, {draft}, DType::boolean);
}

// ---- training and random numbers -----------------------------------------------------------------

// Whether an operand may be asked for before the task's inputs are there, from the loop's second trip on: only then a device
// knows which trip it is.
bool Describer::stands(size_t operand) const {
  return plan_.device.has_tags && of_.stands(operand);
}

// The tensor maps of all that a step of boxes reads: both operands of the product, [k, lines], in parts of k, and then the
// weights and what else it steps.
void Describer::describe_boxes() {
  if (!plan_.device.copies_tensors) return;
  const Matrix& of = node_.matrix;
  const auto add = [&](size_t operand, int64_t lines, int64_t columns) {
    const Shape& shape = type(operand).shape;
    TensorMap map;
    map.offset = plan_.buffers[plan_.view(of_.operands[operand].index).buffer].offset;
    map.dtype = DType::f32;
    map.sizes = {shape[1], shape[0], 1};
    map.strides = {4 * shape[1], 4 * shape.elements()};
    map.box = {static_cast<uint32_t>(columns), static_cast<uint32_t>(lines), 1};
    maps_.push_back(map);
  };
  add(of_.factors, kMadePart, of.tile_rows);
  add(of_.factors + 1, kMadePart, of.tile_columns);
  for (size_t i = 0; i + 1 < of_.own_operands; ++i) add(i, of.tile_rows, of.tile_columns);
  scratch_ = node_.scratch_bytes = static_cast<int64_t>(maps_.size()) * kTensorMapBytes;
  node_.matrix.has_boxes = 1;
}

void Describer::describe_optimizer() {
  const DType compute = isa::compute_type(type(0).dtype);
  node_.compute = static_cast<uint8_t>(compute);
  node_.whole = type(0).elements();
  if (of_.opcode == Opcode::ClipNorm) return record_.real_attribute("max", compute);
  for (size_t i = of_.own_operands; i < of_.operands.size(); ++i)
    record_.operand(of_.operands[i], type(i), {0, 0, Map::same});
  if (of_.makes_gradient()) {
    Matrix& gradient = node_.matrix;
    gradient.k = type(of_.factors).shape[0];
    gradient.n = type(0).shape[type(0).shape.rank() - 1];
    if (of_.steps_boxes()) {
      const plan::BoxSize boxes = plan::step_boxes(of_);
      gradient.m = type(0).shape[0];
      gradient.tile_rows = boxes.lines;
      gradient.tile_columns = boxes.columns;
      gradient.across = (gradient.n + boxes.columns - 1) / boxes.columns;
      gradient.left_stands = stands(of_.factors) ? 1 : 0;
      gradient.right_stands = stands(of_.factors + 1) ? 1 : 0;
      gradient.own_stands = 1;
      for (size_t i = 0; i + 1 < of_.own_operands; ++i)
        if (!stands(i)) gradient.own_stands = 0;
      describe_boxes();
    }
  }
  record_.real_attribute("lr", compute);
  record_.real_attribute("weight_decay", compute);
  switch (of_.opcode) {
    case Opcode::SgdMomentum:
      node_.flag = plan::flag(of_, "nesterov") ? 1 : 0;
      return record_.real_attribute("momentum", compute);
    case Opcode::Rmsprop:
      record_.real_attribute("decay", compute);
      return record_.real_attribute("eps", compute);
    case Opcode::Adam:
    case Opcode::Adamw:
      record_.real_attribute("beta1", compute);
      record_.real_attribute("beta2", compute);
      record_.real_attribute("eps", compute);
      return record_.index_attribute("step");
    default:
      return;
  }
}

// uniform, normal, bernoulli, dropout and its gradient.
void Describer::describe_random() {
  const DType element = of_.own_operands > 0 ? type(0).dtype : main_type();
  const DType compute = element == DType::f64 ? DType::f64 : DType::f32;
  node_.compute = static_cast<uint8_t>(compute);
  node_.whole = result_type(0).elements();
  const bool drops = static_cast<Kind>(node_.kind) == Kind::dropout;
  if (drops) record_.real_attribute("p", compute);
  if (of_.opcode != Opcode::DropoutGrad) {
    record_.index_attribute("key");
    record_.index_attribute("offset");
  }
  if (drops) return;
  switch (of_.opcode) {
    case Opcode::Uniform:
      record_.real_attribute("low", compute);
      return record_.real_attribute("high", compute);
    case Opcode::Normal:
      record_.real_attribute("mean", compute);
      return record_.real_attribute("std", compute);
    default:
      return record_.real_attribute("p", compute);
  }
}

// ---- control -------------------------------------------------------------------------------------

void Describer::describe_exchange() {
  if (of_.opcode == Opcode::AssertFinite) {
    node_.flag = type(0).scalar ? 1 : 0;
    if (type(0).scalar) record_.attribute(record_.scalar(of_.operands[0], type(0).dtype));
    return;
  }
  Shape one = type(0).shape;
  for (int i = 0; i < one.rank(); ++i) one[i] = 1;
  describe_box(type(0).shape, one, false);
  if (of_.opcode == Opcode::Store)
    record_.attribute(record_.scalar(of_.operands[1], type(0).dtype));
}

// ---- a node ---------------------------------------------------------------------------------------

Described Describer::run() {
  const bool is_chain = !of_.chain.empty() && main_type() == DType::none;
  const Kind kind = is_chain ? Kind::program : of_.by_rows() ? Kind::phases : kind_of(of_.opcode);
  node_.opcode = static_cast<uint16_t>(of_.opcode);
  node_.kind = static_cast<uint8_t>(kind);
  node_.tiling = static_cast<uint8_t>(of_.tiling);
  if (of_.own_operands > 0) node_.type = static_cast<uint8_t>(type(0).dtype);
  if (!is_chain && !of_.results.empty()) node_.whole = result_type(0).elements();
  if (kind == Kind::move || kind == Kind::concat || kind == Kind::pad || kind == Kind::gather ||
      kind == Kind::update || kind == Kind::scatter)
    node_.move.element_bytes = size_of(type(0).dtype);
  own_operands();
  switch (kind) {
    case Kind::program:
      describe_program();
      break;
    case Kind::move:
      describe_move();
      break;
    case Kind::concat:
      describe_concat();
      break;
    case Kind::pad:
      describe_pad();
      break;
    case Kind::gather:
      describe_axis(type(0).shape);
      node_.move.count = type(1).elements();
      node_.move.map = record_.axes({{node_.move.count, 0}, {node_.move.inner, 0}});
      break;
    case Kind::fill:
    case Kind::iota:
    case Kind::one_hot:
      describe_filling();
      break;
    case Kind::update:
    case Kind::scatter:
      describe_update();
      break;
    case Kind::reduce:
    case Kind::arg:
    case Kind::cumsum:
      describe_reduction();
      break;
    case Kind::phases:
      describe_phases();
      node_.whole = record_.phases->rows;
      node_.compute = static_cast<uint8_t>(DType::f32);
      break;
    case Kind::softmax:
      describe_softmax();
      break;
    case Kind::cross_entropy:
      describe_cross_entropy();
      break;
    case Kind::order:
    case Kind::permutation:
      describe_order();
      break;
    case Kind::matrix:
      describe_matrix();
      break;
    case Kind::optimizer:
    case Kind::clip:
      describe_optimizer();
      break;
    case Kind::random:
    case Kind::dropout:
      describe_random();
      break;
    case Kind::exchange:
    case Kind::assert_finite:
      describe_exchange();
      break;
    case Kind::trap:
    case Kind::engine:
      break;
  }
  Described described = record_.finish();
  if (is_met(described.node())) {
    reinterpret_cast<Node*>(described.bytes.data())->matrix.meets = 1;
    scratch_ += kMeetingBytes;
  }
  described.scratch_bytes = (scratch_ + 255) / 256 * 256;
  described.maps = std::move(maps_);
  described.needs_full = needs_full(*reinterpret_cast<const Node*>(described.bytes.data()));
  return described;
}

Described describe(const plan::Plan& plan, uint32_t node) { return Describer(plan, node).run(); }

}  // namespace trek::device
