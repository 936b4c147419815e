// What each unit wants in its descriptor: one function per kind, and the switch that gives every instruction
// of ops.def its unit.
#include "emulator/device/describe.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>
#include <ranges>

#include <fmt/format.h>

#include "emulator/device/describe_product.h"
#include "emulator/device/element.h"
#include "emulator/device/matrix_cut.h"
#include "emulator/device/matrix_thin_cut.h"
#include "emulator/device/order.h"
#include "emulator/device/record.h"
#include "emulator/plan/product.h"
#include "isa/semantics/reduce.h"

namespace trek::device {

using isa::Shape;
using isa::Type;
using plan::Attribute;
using Input = Draft::Input;

namespace {

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

int64_t product(const Shape& shape, int first, int end) {
  int64_t all = 1;
  for (int i = first; i < end; ++i) all *= shape[i];
  return all;
}

class Describer {
 public:
  Describer(const plan::Plan& plan, uint32_t index)
      : plan_(plan), of_(plan.nodes[index]), record_(plan, of_), node_(record_.node) {}
  Described run();

 private:
  const Type& type(size_t i) const { return of_.operand_types[i]; }
  const Type& result_type(size_t i) const { return plan_.view(of_.results[i]).type; }
  DType main_type() const { return of_.main_type.dtype; }
  int axis_in(const Shape& shape) const;
  int64_t integer(std::string_view name) const;

  void own_operands();
  void programs(const std::vector<Draft>& fetch, const std::vector<Draft>& deliver, DType main);
  Draft plain(size_t operand);
  Draft fetch_source();
  Draft converted(DType from, DType to);
  Draft tail(DType from);

  void describe_program();
  void describe_move();
  void describe_box(const Shape& shape, const Shape& size, bool strided);
  void describe_axis(const Shape& shape);
  void describe_concat();
  void describe_pad();
  void describe_filling();
  void describe_update();
  std::optional<int64_t> known_box(const Shape& shape, const Shape& size, bool strided) const;
  void quick_move(uint32_t operand, int64_t from_element, Map from, int64_t to_element, Map to);
  plan::Lines describe_lines();
  void describe_stride(const plan::Lines& lines, const Draft& fetch);
  void describe_reduction();
  std::vector<uint32_t> held_operands() const;
  bool is_column(size_t i) const;
  const std::vector<plan::MicroStep>& last_of_rows() const {
    return of_.by_rows() ? of_.chain : of_.prologue;
  }
  void describe_phase(const plan::Phase& from, Phase& to);
  void describe_phases();
  void hold_columns();
  void describe_softmax();
  void describe_cross_entropy();
  void describe_order();
  bool is_immutable(size_t operand) const;
  Draft product_draft(const plan::Factors& of, DType accumulator);
  void describe_group();
  void describe_put();
  void describe_matrix();
  void describe_optimizer();
  void describe_random();
  void describe_exchange();

  const plan::Plan& plan_;
  const plan::Node& of_;
  Record record_;
  Node& node_;
  int64_t scratch_ = 0;  // of all tasks
  std::vector<TensorMap> maps_;
};

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

// ---- moves ---------------------------------------------------------------------------------------

// The attribute `at`: where a box of `size` stands in a tensor of `shape`.
void Describer::describe_box(const Shape& shape, const Shape& size, bool strided) {
  const Dimensions dimensions = dimensions_of(shape);
  const Attribute& at = plan::attribute(of_, "at");
  const Attribute& stride = plan::attribute(of_, "stride");
  node_.move.rank = static_cast<uint16_t>(shape.rank());
  for (const Dimension& dimension : dimensions) record_.number(dimension.stride);
  for (int i = 0; i < shape.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    const int64_t apart = strided ? plan::static_integer(plan_, stride.items[axis]) : 1;
    const int64_t span = size[i] == 0 ? 0 : (size[i] - 1) * apart + 1;
    record_.number(shape[i] - span);
    record_.attribute(record_.scalar(at.items[axis], DType::i64));
  }
}

// Where such a box begins, in elements, if that is known and lies within.
std::optional<int64_t> Describer::known_box(const Shape& shape, const Shape& size,
                                            bool strided) const {
  const Dimensions dimensions = dimensions_of(shape);
  const Attribute& at = plan::attribute(of_, "at");
  const Attribute& stride = plan::attribute(of_, "stride");
  int64_t begin = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    if (at.items[axis].kind != plan::Operand::Kind::constant) return std::nullopt;
    const int64_t index = plan::static_integer(plan_, at.items[axis]);
    const int64_t apart = strided ? plan::static_integer(plan_, stride.items[axis]) : 1;
    const int64_t span = size[i] == 0 ? 0 : (size[i] - 1) * apart + 1;
    if (index < 0 || index > shape[i] - span) return std::nullopt;
    begin += index * dimensions[axis].stride;
  }
  return begin;
}

// A move of elements of two or four bytes between places that are known (quick_move.h), beside the unit's description:
// the node's elements are read and written from these elements on, by these maps.
void Describer::quick_move(uint32_t operand, int64_t from_element, Map from, int64_t to_element,
                           Map to) {
  const int64_t bytes = node_.move.element_bytes;
  if (bytes != 2 && bytes != 4) return;
  node_.quick = static_cast<uint8_t>(Quick::move);
  node_.move.quick_from =
      static_cast<uint8_t>(record_.part_of_operand(operand, from_element * bytes, from));
  node_.move.quick_to = static_cast<uint8_t>(record_.part_of_result(0, to_element * bytes, to));
}

void Describer::describe_move() {
  const Shape& from = type(0).shape;
  const Shape& to = result_type(0).shape;
  const Dimensions own = dimensions_of(from);
  Dimensions map = dimensions_of(to);
  switch (of_.opcode) {
    case Opcode::Permute: {
      const Attribute& axes = plan::attribute(of_, "axes");
      for (size_t i = 0; i < map.size(); ++i) {
        const int64_t axis = plan::static_integer(plan_, axes.items[i]);
        map[i].stride = own[static_cast<size_t>(axis < 0 ? axis + from.rank() : axis)].stride;
      }
      break;
    }
    case Opcode::Broadcast:
      map = broadcast(to, from);
      break;
    case Opcode::Slice: {
      const Attribute& stride = plan::attribute(of_, "stride");
      describe_box(from, to, stride.given);
      for (size_t i = 0; i < map.size(); ++i)
        map[i].stride =
            own[i].stride * (stride.given ? plan::static_integer(plan_, stride.items[i]) : 1);
      break;
    }
    default:
      break;  // a reshape
  }
  node_.move.map = record_.map(map);
  node_.whole = result_type(0).elements();
  std::optional<int64_t> begin = 0;
  if (of_.opcode == Opcode::Slice)
    begin = known_box(from, to, plan::attribute(of_, "stride").given);
  if (begin) quick_move(0, *begin, node_.move.map, 0, {0, 0, Map::same});
}

// [outer, size, inner] around the attribute `axis` of a tensor.
void Describer::describe_axis(const Shape& shape) {
  const int axis = axis_in(shape);
  node_.move.outer = product(shape, 0, axis);
  node_.move.size = shape[axis];
  node_.move.inner = product(shape, axis + 1, shape.rank());
}

void Describer::describe_concat() {
  describe_axis(result_type(0).shape);
  const int axis = axis_in(result_type(0).shape);
  int64_t end = 0;
  for (size_t i = 0; i < of_.own_operands; ++i) record_.number(end += type(i).shape[axis]);
}

void Describer::describe_pad() {
  const Shape& from = type(0).shape;
  const Dimensions own = dimensions_of(from);
  Dimensions map = dimensions_of(result_type(0).shape);
  for (size_t i = 0; i < map.size(); ++i) map[i].stride = own[i].stride;
  node_.move.map = record_.axes(map);
  node_.move.rank = static_cast<uint16_t>(from.rank());
  const Attribute& low = plan::attribute(of_, "low");
  for (int i = 0; i < from.rank(); ++i)
    record_.number(plan::static_integer(plan_, low.items[static_cast<size_t>(i)]));
  for (int i = 0; i < from.rank(); ++i) record_.number(from[i]);
  const Attribute& value = plan::attribute(of_, "value");
  uint64_t raw = 0;
  if (value.given) {
    const isa::Constant& constant = plan_.constants[value.items[0].index];
    std::byte bytes[8] = {};
    store64(bytes, type(0).dtype, 0, cast(constant.dtype, type(0).dtype, register_form(constant)));
    raw = read<uint64_t>(bytes, 0);
  }
  record_.attribute(record_.constant(DType::u64, raw));
  node_.move.inner = from[from.rank() - 1];
  node_.flag = raw == 0 && plan::pads_lines(plan_, of_) ? 1 : 0;
}

// fill, iota, one_hot.
void Describer::describe_filling() {
  const Type& result = result_type(0);
  node_.whole = result.elements();
  switch (of_.opcode) {
    case Opcode::Fill:
      return record_.attribute(record_.scalar(of_.operands[0], result.dtype));
    case Opcode::Iota:
      describe_axis(result.shape);
      record_.attribute(record_.constant(DType::i64, static_cast<uint64_t>(integer("start"))));
      return record_.attribute(
          record_.constant(DType::i64, static_cast<uint64_t>(integer("step"))));
    default:
      node_.move.size = integer("depth");
      node_.move.count = type(0).elements();
      return record_.attribute(
          record_.constant(result.dtype, cast(DType::boolean, result.dtype, 1)));
  }
}

// update, scatter, scatter.add.
void Describer::describe_update() {
  const Shape& x = type(0).shape;
  node_.move.in_place =
      plan_.view(of_.results[0]).buffer == plan_.view(of_.operands[0].index).buffer ? 1 : 0;
  if (of_.opcode != Opcode::Update) {
    describe_axis(x);
    node_.move.count = type(1).elements();
    return;
  }
  const Shape& y = type(1).shape;
  describe_box(x, y, false);
  Dimensions map = dimensions_of(x);
  for (size_t i = 0; i < map.size(); ++i) map[i].size = y[static_cast<int>(i)];
  node_.move.map = record_.map(map);
  const std::optional<int64_t> begin = known_box(x, y, false);
  if (begin && node_.move.in_place != 0 && of_.tiling == plan::Tiling::elements)
    quick_move(1, 0, {0, 0, Map::same}, *begin, node_.move.map);
}

// ---- lines ---------------------------------------------------------------------------------------

Dimensions dimensions_of(const std::vector<plan::Lines::Axis>& axes) {
  Dimensions dimensions;
  for (const plan::Lines::Axis& axis : axes) dimensions.push_back({axis.size, axis.stride});
  return dimensions;
}

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

// Whether rows.h can have the lines: f32 or bf16 as it lies, in memory at one stride. A stride other than 1 costs
// a sector of memory an element, which large tensors do not afford.
void Describer::describe_stride(const plan::Lines& lines, const Draft& fetch) {
  constexpr int64_t kSmall = int64_t{256} * 1024;
  const std::optional<int64_t> stride = stride_of(lines);
  const bool is_arg = static_cast<Kind>(node_.kind) == Kind::arg;
  if (!stride || *stride > INT32_MAX || lines.n < 1) return;
  if (lines.n > (is_arg ? INT32_MAX : kMostTiles * semantics::kReductionTile)) return;
  if (*stride != 1 && lines.n * lines.lines > kSmall) return;
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

// ---- rows ----------------------------------------------------------------------------------------

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
  if (last_of_rows().empty()) return;
  Draft last;
  record_.append(last, last_of_rows(), shape, {});
  to.last = record_.row_program(last);
  to.gives_elements = 1;
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

// For rows of n elements of f32 that lie in line.
uint8_t rows_of(int64_t n) {
  if (n <= 0 || n > kLongRow) return static_cast<uint8_t>(Rows::staged);
  return static_cast<uint8_t>(n <= kShortRow ? Rows::by_warps : Rows::by_block);
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

// ---- matrix --------------------------------------------------------------------------------------

bool Describer::is_immutable(size_t operand) const {
  return plan_.buffers[plan_.view(of_.operands[operand].index).buffer].immutable;
}

// Scale, bias and tail of a product as steps in the accumulator's type, then the conversion to its own.
Draft Describer::product_draft(const plan::Factors& of, DType accumulator) {
  const Shape& out = of.type.shape;
  Draft draft;
  Input main{Input::Kind::main, 0};
  const auto add = [&](Opcode opcode, DType to_type, Input second) {
    Draft::Step step;
    step.opcode = opcode;
    step.from = accumulator;
    step.to = to_type;
    step.inputs[0] = main;
    step.inputs[1] = second;
    draft.steps.push_back(step);
    main = {Input::Kind::step, static_cast<uint32_t>(draft.steps.size() - 1)};
  };
  const Attribute& scale = plan::attribute(of_.opcode, *of.attributes, "scale");
  if (scale.given)
    add(Opcode::Mul, accumulator,
        {Input::Kind::scalar, record_.scalar(scale.items[0], accumulator)});
  if (of.bias != plan::kNone)
    add(Opcode::Add, accumulator,
        {Input::Kind::operand, record_.operand(of_.operands[of.bias], type(of.bias),
                                               record_.map(broadcast(out, type(of.bias).shape)))});
  const Attribute& tail_of = plan::attribute(of_.opcode, *of.attributes, "tail");
  if (tail_of.given) {
    plan::MicroStep step;
    step.opcode = static_cast<Opcode>(tail_of.items[0].index);
    step.from = step.to = accumulator;
    step.inputs[0].from = plan::MicroStep::From::main;
    record_.append(draft, {step}, out, main);
    main = draft.result;
  }
  if (of.type.dtype != accumulator) add(Opcode::Cast, of.type.dtype, {});
  draft.result = main;
  draft.dtype = of.type.dtype;
  return draft;
}

// Several thin products that a program joins (matrix_thin_group.h).
void Describer::describe_group() {
  Matrix& to = node_.matrix;
  const DType element = type(0).dtype;
  const size_t products = plan::products_of(of_);
  programs({}, {converted(DType::f32, main_type())}, DType::f32);
  node_.fetch[0].narrow = node_.deliver[0].narrow;
  to.product = static_cast<uint8_t>(Product::thin);
  to.cut = {};
  to.thin = {};
  ThinGroup& group = to.thin.group;
  group.products = static_cast<uint8_t>(products);
  group.place_bits =
      static_cast<uint8_t>(std::countr_zero(kBlockThreads / std::bit_ceil(products)));
  int64_t rights = 0;  // where all of them begin: only as many lower bits as are the same count
  bool immutable = true;
  for (size_t p = 0; p < products; ++p) {
    const size_t right = plan::factors_of(of_, p).right;
    uint32_t entry = 1;
    if (p > 0) entry = record_.operand(of_.operands[right], type(right), {0, 0, Map::same});
    if (p == 1) group.others = static_cast<uint8_t>(entry);
    rights |= record_.offset(entry);
    immutable = immutable && is_immutable(right);
  }
  to.thin.cut = thin_cut_of(to, {record_.offset(0), rights, size_of(element), element == DType::f32,
                                 immutable, static_cast<uint32_t>(products)});
  group.panel =
      static_cast<uint32_t>(to.tile_columns) *
      (to.thin.cut.by_line != 0 ? to.thin.cut.blocks * to.thin.cut.row : size_of(element));
  for (size_t p = 0; p < products; ++p)
    describe_group_tail(record_, product_draft(plan::factors_of(of_, p), DType::f32), p, to);
  Draft draft;
  record_.append(draft, of_.chain, result_type(0).shape, {Input::Kind::main, 0});
  record_.group_program(draft, group);
  for (size_t i = 0; i < of_.gives.size(); ++i) group.gives[i] = group_slot_of(of_.gives[i]);
}

// The places of what a product puts into a larger tensor.
void Describer::describe_put() {
  const Shape& to = result_type(0).shape;
  Dimensions map = device::dimensions_of(to);
  for (size_t i = 0; i < map.size(); ++i) map[i].size = of_.put->shape[static_cast<int>(i)];
  record_.put_result(0, plan::put_index(*of_.put, to, 0), record_.map(map));
}

void Describer::describe_matrix() {
  const plan::MatrixShape shape = plan::matrix_shape(of_);
  const plan::MatrixTiles& tiles = plan_.tilings[of_.tiles];
  const Shape& a = type(0).shape;
  const Shape& b = type(1).shape;
  const Shape& out = of_.main_type.shape;
  Matrix& to = node_.matrix;
  to.m = shape.m;
  to.n = shape.n;
  to.k = shape.k;
  to.tile_rows = tiles.rows;
  to.tile_columns = tiles.columns;
  to.down = tiles.down;
  to.across = tiles.across;
  const int64_t a_line = a[a.rank() - 1];
  const int64_t b_line = b[b.rank() - 1];
  // Of a single line it does not matter how far the next would be.
  to.a_row = !shape.ta ? a_line : a_line == 1 ? shape.whole_k : 1;
  to.a_k = shape.ta ? a_line : 1;
  to.b_column = shape.tb ? b_line : b_line == 1 ? shape.whole_k : 1;
  to.b_k = shape.tb ? 1 : b_line;
  to.a_matrix = a_line * a[a.rank() - 2];
  to.b_matrix = b_line * b[b.rank() - 2];
  if (of_.phases.empty())
    record_.begin_at(0, shape.first_k * to.a_k);
  else
    describe_phases();
  record_.begin_at(1, shape.first_k * to.b_k);
  const auto leading = [](const Shape& of) {
    return Shape(of.dims().first(static_cast<size_t>(of.rank() - 2)));
  };
  to.a_batch = record_.map(broadcast(leading(out), leading(a)));
  to.b_batch = record_.map(broadcast(leading(out), leading(b)));
  to.result_rows = record_.map({{shape.batches * shape.m, shape.n}});
  to.result_columns = record_.map({{shape.n, 1}});

  const DType element = type(0).dtype;
  const bool wide = size_of(element) == 8;
  const DType accumulator =
      isa::is_real(element) ? (wide ? DType::f64 : DType::f32) : (wide ? DType::i64 : DType::i32);
  node_.compute = static_cast<uint8_t>(accumulator);
  if (plan::is_group(of_)) return describe_group();
  if (element == DType::f32 && type(1).dtype == DType::f32) {
    // Buffers begin at multiples of 16 bytes; lines of a tile, where they are neighbours, and matrices must.
    const auto aligned = [](int64_t line, int64_t lines, int64_t matrix) {
      return (line != 1 || lines % 4 == 0) && matrix % 4 == 0;
    };
    to.cut = cut_of(to, {aligned(to.a_row, tiles.rows, to.a_matrix),
                         aligned(to.b_column, tiles.columns, to.b_matrix)});
  }
  Draft draft = product_draft(plan::factors_of(of_, 0), accumulator);
  record_.append(draft, of_.chain, result_type(0).shape, draft.result);
  record_.plain_tail(draft, result_type(0).dtype, shape.n, to.cut);
  programs({}, {draft}, accumulator);
  node_.fetch[0].narrow = node_.deliver[0].narrow;  // the form of what is staged
  // What has elements of 8 bytes behind it stays with the dot order.
  const bool narrow = node_.deliver[0].narrow != 0;
  const plan::Product product = narrow ? plan::product_of(plan_, of_) : plan::Product::ordered;
  to.product = static_cast<uint8_t>(product);
  to.part_columns = static_cast<uint16_t>(tiles.part_columns);
  if (product != plan::Product::ordered)
    describe_tail(record_, draft, result_type(0).dtype, to);
  else if (!narrow || to.cut.patch != matrix_f32::kLargePatch)
    return;
  if (product == plan::Product::thin) {
    to.cut = {};
    to.thin = {};
    to.thin.cut = thin_cut_of(to, {record_.offset(0), record_.offset(1), size_of(element),
                                   element == DType::f32, is_immutable(1)});
    if (!of_.put) return;
    if (to.tail_steps == Matrix::kNoTail) std::abort();  // plan::take_updates lets no other through
    describe_put();
    return;
  }
  if (!plan_.device.copies_tensors) return;
  maps_ = tensor_maps(plan_, of_, to);
  to.has_maps = maps_.empty() ? 0 : 1;
  scratch_ = node_.scratch_bytes = static_cast<int64_t>(maps_.size()) * kTensorMapBytes;
}

// ---- training and random numbers -----------------------------------------------------------------

void Describer::describe_optimizer() {
  const DType compute = isa::compute_type(type(0).dtype);
  node_.compute = static_cast<uint8_t>(compute);
  node_.whole = type(0).elements();
  if (of_.opcode == Opcode::ClipNorm) return record_.real_attribute("max", compute);
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
  described.scratch_bytes = (scratch_ + 255) / 256 * 256;
  described.maps = std::move(maps_);
  described.needs_full = needs_full(*reinterpret_cast<const Node*>(described.bytes.data()));
  return described;
}

}  // namespace

Described describe(const plan::Plan& plan, uint32_t node) { return Describer(plan, node).run(); }

}  // namespace trek::device
