#include "emulator/plan/window.h"

#include <algorithm>

#include "emulator/plan/geometry.h"

namespace trek::plan {
namespace {

using isa::Opcode;
using isa::Shape;

// Row-major coordinates in the axes [first, end) of a shape.
void unravel(const Shape& shape, int first, int end, int64_t index,
             std::array<int64_t, isa::kMaxRank>& place) {
  for (int i = end; i-- > first;) {
    place[static_cast<size_t>(i)] = index % shape[i];
    index /= shape[i];
  }
}

// The window, in the axes [first, end), of the elements [begin, begin + count) of these axes alone: up to
// the first axis in which first and last element differ it is narrow, after it whole.
void narrow(const Shape& shape, int first, int end, int64_t begin, int64_t count, Window& window) {
  std::array<int64_t, isa::kMaxRank> low{};
  std::array<int64_t, isa::kMaxRank> high{};
  unravel(shape, first, end, begin, low);
  unravel(shape, first, end, begin + count - 1, high);
  bool same = true;
  for (int i = first; i < end; ++i) {
    const auto axis = static_cast<size_t>(i);
    window.low[axis] = same ? low[axis] : 0;
    window.high[axis] = same ? high[axis] + 1 : shape[i];
    same = same && low[axis] == high[axis];
  }
}

// An element of an attribute's list where it is known when linking.
bool known(const Plan& plan, const Attribute& attribute, size_t i, int64_t& value) {
  if (!attribute.given) return false;
  const Operand item = attribute.items[i];
  if (item.kind != Operand::Kind::constant && item.kind != Operand::Kind::number) return false;
  value = static_integer(plan, item);
  return true;
}

int axis_of(const Plan& plan, const Node& node, int rank) {
  int64_t axis = 0;
  known(plan, attribute(node, "axis"), 0, axis);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// Moves axis i by `by` and keeps what lies within [0, size).
void shift(Window& window, size_t i, int64_t by, int64_t size) {
  window.low[i] = std::clamp<int64_t>(window.low[i] + by, 0, size);
  window.high[i] = std::clamp<int64_t>(window.high[i] + by, 0, size);
}

Window sliced(const Plan& plan, const Node& node, const Shape& from, const Window& window) {
  Window result = whole_window(from);
  const Attribute& strides = attribute(node, "stride");
  for (size_t i = 0; i < static_cast<size_t>(from.rank()); ++i) {
    int64_t at = 0;
    int64_t stride = 1;
    if (!known(plan, attribute(node, "at"), i, at)) continue;
    if (strides.given && !known(plan, strides, i, stride)) continue;
    // Where the slice does not fit, the task traps before it reads.
    const int64_t size = from[static_cast<int>(i)];
    if (at < 0 || at >= size || stride < 1 || (window.high[i] - 1) > (size - 1 - at) / stride)
      continue;
    result.low[i] = at + window.low[i] * stride;
    result.high[i] = at + (window.high[i] - 1) * stride + 1;
  }
  return result;
}

Window padded(const Plan& plan, const Node& node, const Shape& from, const Window& window) {
  Window result = whole_window(from);
  for (size_t i = 0; i < static_cast<size_t>(from.rank()); ++i) {
    int64_t low = 0;
    if (!known(plan, attribute(node, "low"), i, low)) continue;
    result.low[i] = window.low[i];
    result.high[i] = window.high[i];
    shift(result, i, -low, from[static_cast<int>(i)]);
  }
  return result;
}

Window concatenated(const Plan& plan, const Node& node, size_t operand, const Window& window) {
  const Shape& from = node.operand_types[operand].shape;
  const int axis = axis_of(plan, node, from.rank());
  int64_t before = 0;
  for (size_t i = 0; i < operand; ++i) before += node.operand_types[i].shape[axis];
  Window result = window;
  shift(result, static_cast<size_t>(axis), -before, from[axis]);
  return result;
}

Window permuted(const Plan& plan, const Node& node, const Shape& from, const Window& window) {
  Window result = whole_window(from);
  for (size_t i = 0; i < static_cast<size_t>(from.rank()); ++i) {
    int64_t axis = 0;
    if (!known(plan, attribute(node, "axes"), i, axis)) return whole_window(from);
    const auto to = static_cast<size_t>(axis < 0 ? axis + from.rank() : axis);
    result.low[to] = window.low[i];
    result.high[to] = window.high[i];
  }
  return result;
}

// The result of a gather has the indices' axes in place of the one that they index.
Window gathered(const Plan& plan, const Node& node, size_t operand, const Window& window) {
  const Shape& table = node.operand_types[0].shape;
  const Shape& indices = node.operand_types[1].shape;
  const int axis = axis_of(plan, node, table.rank());
  Window result = whole_window(operand == 0 ? table : indices);
  const auto take = [&](int to, int from) {
    result.low[static_cast<size_t>(to)] = window.low[static_cast<size_t>(from)];
    result.high[static_cast<size_t>(to)] = window.high[static_cast<size_t>(from)];
  };
  if (operand == 1)
    for (int i = 0; i < indices.rank(); ++i) take(i, axis + i);
  else
    for (int i = 0; i < table.rank(); ++i)
      if (i != axis) take(i, i < axis ? i : i + indices.rank() - 1);
  return result;
}

}  // namespace

bool Window::empty() const {
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i)
    if (low[i] >= high[i]) return true;
  return false;
}

Window whole_window(const Shape& shape) {
  Window window;
  window.rank = shape.rank();
  for (int i = 0; i < shape.rank(); ++i) window.high[static_cast<size_t>(i)] = shape[i];
  return window;
}

Window window_of(const Shape& shape, const Box& part) {
  Window window = whole_window(shape);
  if (window.empty() || part.empty()) return window;
  if (part.rows == 1) {
    narrow(shape, 0, shape.rank(), part.begin, part.row_bytes, window);
    return window;
  }
  // Rows that are as far apart as the elements of an axis: the axes up to it and those after it are two
  // tensors, one of rows and one of columns.
  int64_t inner = 1;
  int axis = shape.rank();
  while (axis > 0 && inner < part.stride) inner *= shape[--axis];
  const int64_t column = part.begin % part.stride;
  if (inner != part.stride || column + part.row_bytes > part.stride) return window;
  narrow(shape, 0, axis, part.begin / part.stride, part.rows, window);
  narrow(shape, axis, shape.rank(), column, part.row_bytes, window);
  return window;
}

Box box_of(const Shape& shape, const Window& window) {
  Box box;
  if (window.empty()) return box;
  const auto extent = [&](int i) {
    return window.high[static_cast<size_t>(i)] - window.low[static_cast<size_t>(i)];
  };
  std::array<int64_t, isa::kMaxRank> strides{};
  int64_t stride = 1;
  for (int i = shape.rank(); i-- > 0; stride *= shape[i]) {
    strides[static_cast<size_t>(i)] = stride;
    box.begin += window.low[static_cast<size_t>(i)] * stride;
  }
  // The innermost axes form a row as long as they are whole, with the first that is not; further out,
  // axes of one index only move it.
  int i = shape.rank();
  box.row_bytes = 1;
  bool is_whole = true;
  for (; i > 0 && (is_whole || extent(i - 1) == 1); --i) {
    if (!is_whole) continue;
    box.row_bytes *= extent(i - 1);
    is_whole = extent(i - 1) == shape[i - 1];
  }
  if (i == 0) return box;
  // The next one gives the rows, the rest as many more as lie between the first and the last.
  box.stride = strides[static_cast<size_t>(i - 1)];
  int64_t last = 0;
  for (int k = i; k-- > 0;) last += (extent(k) - 1) * strides[static_cast<size_t>(k)];
  box.rows = last / box.stride + 1;
  return box;
}

Window broadcast_window(const Shape& to, const Shape& from, const Window& window) {
  Window result = whole_window(from);
  for (int i = 1; i <= from.rank(); ++i) {
    const int axis = from.rank() - i;
    const int there = to.rank() - i;
    if (from[axis] == 1 || from[axis] != to[there]) continue;
    result.low[static_cast<size_t>(axis)] = window.low[static_cast<size_t>(there)];
    result.high[static_cast<size_t>(axis)] = window.high[static_cast<size_t>(there)];
  }
  return result;
}

Window updated_window(const Plan& plan, const Node& node, const Window& window) {
  const Shape& to = node.operand_types[0].shape;
  Window result = whole_window(to);
  for (size_t i = 0; i < static_cast<size_t>(to.rank()); ++i) {
    int64_t at = 0;
    const int64_t size = to[static_cast<int>(i)];
    if (!known(plan, attribute(node, "at"), i, at) || at < 0 || at > size) continue;
    result.low[i] = window.low[i];
    result.high[i] = window.high[i];
    shift(result, i, at, size);
  }
  return result;
}

Window put_window(const Put& put, Window window) {
  for (size_t i = 0; i < put.at.size(); ++i) {
    window.low[i] += put.at[i];
    window.high[i] += put.at[i];
  }
  return window;
}

Window moved_window(const Plan& plan, const Node& node, size_t i, const Window& window) {
  const Shape& from = node.operand_types[i].shape;
  switch (node.opcode) {
    case Opcode::Slice:
      return sliced(plan, node, from, window);
    case Opcode::Pad:
      return padded(plan, node, from, window);
    case Opcode::Concat:
      return concatenated(plan, node, i, window);
    case Opcode::Permute:
      return permuted(plan, node, from, window);
    case Opcode::Gather:
      return gathered(plan, node, i, window);
    case Opcode::Broadcast:
      return broadcast_window(node.main_type.shape, from, window);
    case Opcode::OneHot: {
      Window result = window;
      result.rank = from.rank();
      return result;
    }
    default:
      return whole_window(from);
  }
}

}  // namespace trek::plan
