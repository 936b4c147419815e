// What moves want in their descriptors: maps of indices, boxes, and constants that fill.
#include <optional>

#include "emulator/device/describer.h"
#include "emulator/device/element.h"

namespace trek::device {

using isa::DType;
using isa::Opcode;
using isa::Shape;
using isa::Type;
using plan::Attribute;

namespace {

int64_t product(const Shape& shape, int first, int end) {
  int64_t all = 1;
  for (int i = first; i < end; ++i) all *= shape[i];
  return all;
}

}  // namespace

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
  if (of_.tiling == plan::Tiling::boxes) {
    const plan::BoxSize boxes = plan::turned_boxes(plan_, of_);
    node_.move.outer = boxes.lines;
    node_.move.count = boxes.columns;
    node_.move.size = to[to.rank() - 1];
    node_.move.inner = to[to.rank() - 2];
    return;
  }
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

}  // namespace trek::device
