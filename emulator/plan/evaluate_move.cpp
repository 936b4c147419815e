// Moves: where each element of the result comes from.
#include <algorithm>
#include <array>

#include "emulator/plan/evaluate.h"
#include "isa/semantics/elements.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;
using isa::Shape;
using isa::TrapCode;
using Index = std::array<int64_t, isa::kMaxRank>;

Index unravel(const Shape& shape, int64_t index) {
  Index place{};
  for (int i = shape.rank(); i-- > 0;) {
    place[static_cast<size_t>(i)] = index % shape[i];
    index /= shape[i];
  }
  return place;
}

int64_t ravel(const Shape& shape, const Index& place) {
  int64_t index = 0;
  for (int i = 0; i < shape.rank(); ++i) index = index * shape[i] + place[static_cast<size_t>(i)];
  return index;
}

int64_t axis_of(Work& work, const Shape& shape) {
  const int64_t axis = work.integer("axis");
  return axis < 0 ? axis + shape.rank() : axis;
}

int64_t index_value(Work& work, size_t operand, int64_t at) {
  return value_as<int64_t>(work.type(operand).dtype, work.operand(operand, at));
}

// An index read as it is: a u64 beyond the i64 range is outside any axis, as a negative one is.
bool inside(int64_t index, int64_t size) { return index >= 0 && index < size; }

// Concat and slice read element `place` of which operand, and where.
uint64_t concat_element(Work& work, Index place) {
  const size_t axis = static_cast<size_t>(axis_of(work, work.result_type(0).shape));
  size_t from = 0;
  while (place[axis] >= work.type(from).shape[static_cast<int>(axis)])
    place[axis] -= work.type(from++).shape[static_cast<int>(axis)];
  return work.operand(from, ravel(work.type(from).shape, place));
}

uint64_t pad_element(Work& work, Index place) {
  const Shape& x = work.type(0).shape;
  for (int i = 0; i < x.rank(); ++i) {
    int64_t& at = place[static_cast<size_t>(i)];
    at -= work.integer("low", static_cast<size_t>(i));
    if (!inside(at, x[i])) {
      const Attribute& value = attribute(work.node, "value");
      return value.given ? cast_bits(work.type_of(value.items[0]), work.type(0).dtype,
                                     work.read(value.items[0], 0))
                         : 0;
    }
  }
  return work.operand(0, ravel(x, place));
}

Faulted slice_range(Work& work) {
  const Shape& x = work.type(0).shape;
  const Shape& size = work.result_type(0).shape;
  const bool strided = attribute(work.node, "stride").given;
  for (int i = 0; i < x.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    const int64_t at = work.integer("at", axis);
    const int64_t stride = strided ? work.integer("stride", axis) : 1;
    const bool fits = size[i] == 0 ? at >= 0 && at <= x[i]
                                   : inside(at, x[i]) && (size[i] - 1) * stride < x[i] - at;
    if (!fits) return Fault{TrapCode::IndexOutOfRange, -1};
  }
  return std::nullopt;
}

uint64_t slice_element(Work& work, Index place) {
  const Shape& x = work.type(0).shape;
  const bool strided = attribute(work.node, "stride").given;
  for (int i = 0; i < x.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    place[axis] =
        work.integer("at", axis) + place[axis] * (strided ? work.integer("stride", axis) : 1);
  }
  return work.operand(0, ravel(x, place));
}

// gather and scatter: result element (outer, j, inner) meets element index[j] of the axis.
struct Indexed {
  int64_t size = 1;  // of the axis
  int64_t inner = 1;
  int64_t count = 1;  // of indices
};
Indexed indexed(Work& work) {
  const Shape& x = work.type(0).shape;
  const int axis = static_cast<int>(axis_of(work, x));
  Indexed shape;
  shape.size = x[axis];
  for (int i = axis + 1; i < x.rank(); ++i) shape.inner *= x[i];
  shape.count = work.type(1).elements();
  return shape;
}

Faulted check_indices(Work& work, size_t operand, int64_t size) {
  const int64_t count = work.type(operand).elements();
  for (int64_t j = 0; j < count; ++j)
    if (!inside(index_value(work, operand, j), size)) return Fault{TrapCode::IndexOutOfRange, j};
  return std::nullopt;
}

// Of the indices that the task's elements are picked by, each `inner` elements one, the lowest that is
// outside. The only task of an empty result looks at all of them.
Faulted check_used_indices(Work& work, size_t operand, int64_t size, int64_t inner) {
  if (work.node.main_type.elements() == 0) return check_indices(work, operand, size);
  const int64_t count = work.type(operand).elements();
  const int64_t end = (work.task.first + work.task.count + inner - 1) / inner;
  int64_t lowest = -1;
  for (int64_t at = work.task.first / inner; at < end; ++at) {
    const int64_t j = at % count;
    if ((lowest < 0 || j < lowest) && !inside(index_value(work, operand, j), size)) lowest = j;
  }
  if (lowest < 0) return std::nullopt;
  return Fault{TrapCode::IndexOutOfRange, lowest};
}

uint64_t gather_element(Work& work, const Indexed& shape, int64_t index) {
  const int64_t inner = index % shape.inner;
  const int64_t j = index / shape.inner % shape.count;
  const int64_t outer = index / shape.inner / shape.count;
  return work.operand(0, (outer * shape.size + index_value(work, 1, j)) * shape.inner + inner);
}

uint64_t add_elements(DType type, uint64_t a, uint64_t b) {
  return apply(Opcode::Add, type, type, {a, b, 0, 0, 0});
}

// The result is operand 0's own memory: the linker has seen to it. A task has lines of it.
Faulted scatter(Work& work) {
  const Indexed shape = indexed(work);
  if (auto fault = check_indices(work, 1, shape.size)) return fault;
  if (work.type(2).elements() == 0) return std::nullopt;
  const bool adds = work.node.opcode == Opcode::ScatterAdd;
  const DType type = work.type(0).dtype;
  const bool whole = work.node.tiling == Tiling::whole;
  const int64_t first = whole ? 0 : work.task.first;
  const int64_t lines = work.type(2).elements() / shape.count;
  const int64_t end = whole ? lines : first + work.task.count;
  std::vector<uint64_t> sums(static_cast<size_t>(adds ? shape.size : 0));
  for (int64_t line = first; line < end; ++line) {
    const int64_t outer = line / shape.inner;
    const int64_t inner = line % shape.inner;
    const auto target = [&](int64_t at) { return (outer * shape.size + at) * shape.inner + inner; };
    for (int64_t at = 0; adds && at < shape.size; ++at)
      sums[static_cast<size_t>(at)] =
          work.read({Operand::Kind::view, work.node.results[0]}, target(at));
    for (int64_t j = 0; j < shape.count; ++j) {
      const int64_t at = index_value(work, 1, j);
      const uint64_t y = work.operand(2, (outer * shape.count + j) * shape.inner + inner);
      if (adds) {
        uint64_t& sum = sums[static_cast<size_t>(at)];
        sum = add_elements(type, sum, y);
      } else {
        work.write(work.node.results[0], target(at), y);
      }
    }
    for (int64_t at = 0; adds && at < shape.size; ++at)
      work.write(work.node.results[0], target(at), sums[static_cast<size_t>(at)]);
  }
  return std::nullopt;
}

// As scatter, in operand 0's own memory; a task has elements of y.
Faulted update(Work& work) {
  const Shape& x = work.type(0).shape;
  const Shape& y = work.type(1).shape;
  Index at{};
  for (int i = 0; i < x.rank(); ++i) {
    const auto axis = static_cast<size_t>(i);
    at[axis] = work.integer("at", axis);
    if (at[axis] < 0 || at[axis] > x[i] - y[i]) return Fault{TrapCode::IndexOutOfRange, -1};
  }
  for (int64_t i = work.task.first; i < work.task.first + work.task.count; ++i) {
    Index place = unravel(y, i);
    for (size_t axis = 0; axis < place.size(); ++axis) place[axis] += at[axis];
    work.write(work.node.results[0], ravel(x, place), work.operand(1, i));
  }
  return std::nullopt;
}

uint64_t iota_element(Work& work, const Index& place) {
  const auto axis = static_cast<size_t>(axis_of(work, work.result_type(0).shape));
  const uint64_t value =
      static_cast<uint64_t>(work.integer("start")) +
      static_cast<uint64_t>(work.integer("step")) * static_cast<uint64_t>(place[axis]);
  return cast_bits(DType::i64, work.result_type(0).dtype, value);
}

uint64_t permute_element(Work& work, const Index& place) {
  Index from{};
  const int rank = work.type(0).shape.rank();
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
    const int64_t axis = work.integer("axes", i);
    from[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = place[i];
  }
  return work.operand(0, ravel(work.type(0).shape, from));
}

uint64_t element(Work& work, const Indexed& shape, int64_t i) {
  const isa::Type& out = work.node.main_type;
  switch (work.node.opcode) {
    case Opcode::Fill:
      return cast_bits(work.type(0).dtype, out.dtype, work.operand(0, 0));
    case Opcode::Iota:
      return iota_element(work, unravel(out.shape, i));
    case Opcode::Reshape:
      return work.operand(0, i);
    case Opcode::Permute:
      return permute_element(work, unravel(out.shape, i));
    case Opcode::Slice:
      return slice_element(work, unravel(out.shape, i));
    case Opcode::Concat:
      return concat_element(work, unravel(out.shape, i));
    case Opcode::Pad:
      return pad_element(work, unravel(out.shape, i));
    case Opcode::Gather:
      return gather_element(work, shape, i);
    case Opcode::Broadcast:
      return work.operand(0, broadcast_index(out.shape, work.type(0).shape, i));
    case Opcode::OneHot: {
      const int64_t depth = work.integer("depth");
      const bool hot = index_value(work, 0, i / depth) == i % depth;
      return cast_bits(DType::boolean, out.dtype, hot ? 1 : 0);
    }
    default:
      std::abort();  // the others are whole
  }
}

}  // namespace

Faulted evaluate_move(Work& work) {
  const Opcode opcode = work.node.opcode;
  if (opcode == Opcode::Scatter || opcode == Opcode::ScatterAdd) return scatter(work);
  if (opcode == Opcode::Update) return update(work);
  Indexed shape;
  Faulted fault;
  if (opcode == Opcode::Slice) fault = slice_range(work);
  if (opcode == Opcode::OneHot) {
    const int64_t depth = work.integer("depth");
    fault = check_used_indices(work, 0, depth, depth);
  }
  if (opcode == Opcode::Gather) {
    shape = indexed(work);
    fault = check_used_indices(work, 1, shape.size, shape.inner);
  }
  if (fault) return fault;
  const Box part =
      work.node.tiling == Tiling::boxes
          ? box_at(work.result_type(0).shape, turned_boxes(work.plan, work.node), work.task.first)
          : Box{work.task.first, work.task.count};
  for (int64_t row = 0; row < part.rows; ++row)
    for (int64_t i = 0; i < part.row_bytes; ++i) {
      const int64_t at = part.begin + row * part.stride + i;
      work.give(0, at, element(work, shape, at));
    }
  return std::nullopt;
}

}  // namespace trek::plan
