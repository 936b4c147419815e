// Moves: instructions that bring elements elsewhere, unchanged. Elements are bytes of 1, 2, 4 or 8, whatever
// they mean; a task gives the elements [first, first + count) of the result, or all of it.
#pragma once

#include "emulator/device/index.h"
#include "emulator/device/pad_lines.h"
#include "emulator/device/shared.h"
#include "emulator/device/turn_matrices.h"

namespace trek::device {

namespace move_detail {

TREK_UNIT uint64_t raw(const std::byte* data, int64_t bytes, int64_t index) {
  switch (bytes) {
    case 1:
      return read<uint8_t>(data, index);
    case 2:
      return read<uint16_t>(data, index);
    case 4:
      return read<uint32_t>(data, index);
    default:
      return read<uint64_t>(data, index);
  }
}
TREK_UNIT void put_raw(std::byte* data, int64_t bytes, int64_t index, uint64_t bits) {
  switch (bytes) {
    case 1:
      return write(data, index, static_cast<uint8_t>(bits));
    case 2:
      return write(data, index, static_cast<uint16_t>(bits));
    case 4:
      return write(data, index, static_cast<uint32_t>(bits));
    default:
      return write(data, index, bits);
  }
}

struct __attribute__((may_alias, aligned(16))) Piece {
  uint64_t half[2];
};

// Where a box begins that stands at indices computed by the program: numbers are its `rank` strides, then
// for each axis the greatest index at which it may begin. Attributes: the indices.
TREK_UNIT int64_t begin_of_box(const Task& task) {
  const Node& node = task.node();
  int64_t place = 0;
  each_row<kMaxAxes>(node.move.rank, [&](uint32_t i) TREK_TILE_LAMBDA {
    const auto at = static_cast<int64_t>(task.attribute(i));
    if (at < 0 || at > node.number(node.move.rank + i)) task.fail(-1);
    place += at * node.number(i);
  });
  return place;
}

// An index of the node's axis, as an i64; outside() says whether it is none.
TREK_UNIT bool outside(int64_t index, int64_t size) { return index < 0 || index >= size; }

}  // namespace move_detail

// reshape, permute, broadcast, and slice, whose box begins at what its attributes say.
template <typename T>
TREK_UNIT void move_as(const Task& task, const std::byte* from, std::byte* to, Map map,
                       int64_t first, int64_t count) {
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads())
    write<T>(to, i, read<T>(from, place_here(task.node(), map, i)));
}
TREK_UNIT void move(const Task& task, int64_t first, int64_t count) {
  const Node& node = task.node();
  if (static_cast<Tiling>(node.tiling) == Tiling::boxes) return turn_matrices(task, first);
  const int64_t begin = move_detail::begin_of_box(task);
  task.sync();
  if (task.failed()) return;
  const std::byte* from = task.memory(node.operand(0)) + begin * node.move.element_bytes;
  std::byte* to = task.memory(node.result(0));
  switch (node.move.element_bytes) {
    case 1:
      return move_as<uint8_t>(task, from, to, node.move.map, first, count);
    case 2:
      return move_as<uint16_t>(task, from, to, node.move.map, first, count);
    case 4:
      return move_as<uint32_t>(task, from, to, node.move.map, first, count);
    default:
      return move_as<uint64_t>(task, from, to, node.move.map, first, count);
  }
}

// The result is [outer, size, inner]; number i is where operand i ends along the axis.
TREK_UNIT void concat(const Task& task, int64_t first, int64_t count) {
  const Node& node = task.node();
  const int64_t bytes = node.move.element_bytes;
  const int64_t row = node.move.size * node.move.inner;
  std::byte* to = task.memory(node.result(0));
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads()) {
    const int64_t outer = i / row;
    const int64_t rest = i - outer * row;
    uint32_t part = 0;
    while (rest >= node.number(part) * node.move.inner) ++part;
    const int64_t begin = part == 0 ? 0 : node.number(part - 1);
    const int64_t length = (node.number(part) - begin) * node.move.inner;
    const int64_t at = outer * length + rest - begin * node.move.inner;
    move_detail::put_raw(to, bytes, i,
                         move_detail::raw(task.memory(node.operand(part)), bytes, at));
  }
}

// The map's axes are the result's with the operand's strides; numbers are what was added before each axis,
// then the operand's dimensions. Attribute: the value, as raw bits of the element.
TREK_UNIT_CALL void pad(Task task, int64_t first, int64_t count) {
#ifdef __CUDA__
  if (task.node().flag != 0 && first % 8 == 0 && count % 8 == 0)
    return pad_lines(task, first, count);
#endif
  const Node& node = task.node();
  const int64_t bytes = node.move.element_bytes;
  const Axis* axes = node.axis(node.move.map.first);
  const std::byte* from = task.memory(node.operand(0));
  std::byte* to = task.memory(node.result(0));
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads()) {
    int64_t index = i;
    int64_t place = 0;
    bool added = false;
    for (int a = node.move.rank - 1; a >= 0; --a) {
      const int64_t above = divided(axes[a], index);
      const int64_t at = index - above * axes[a].size - node.number(a);
      added = added || move_detail::outside(at, node.number(node.move.rank + a));
      place += at * axes[a].stride;
      index = above;
    }
    move_detail::put_raw(to, bytes, i,
                         added ? task.attribute(0) : move_detail::raw(from, bytes, place));
  }
}

// The result is [outer, count, inner], x is [outer, size, inner]. An index outside traps even where
// there is no element to give.
TREK_UNIT void gather(const Task& task, int64_t first, int64_t count) {
  const Node& node = task.node();
  const Move& move = node.move;
  const std::byte* from = task.memory(node.operand(0));
  std::byte* to = task.memory(node.result(0));
  if (node.result(0).elements == 0) {
    for (int64_t j = task.thread(); j < move.count; j += task.threads())
      if (move_detail::outside(static_cast<int64_t>(operand_of(task, 1, j)), move.size))
        task.fail(j);
    return;
  }
  const Axis* axes = node.axis(move.map.first);  // of sizes count and inner
  using move_detail::Piece;
  // 16 bytes at a time where every run of `inner` elements is made of such pieces.
  const int64_t in_piece = static_cast<int64_t>(sizeof(Piece)) / move.element_bytes;
  const bool in_pieces =
      (move.inner | first | count) % in_piece == 0 &&
      ((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) & 15) == 0;
  const int64_t step = in_pieces ? in_piece : 1;
  for (int64_t i = first + step * task.thread(); i < first + count; i += step * task.threads()) {
    const int64_t above = divided(axes[1], i);
    const int64_t outer = divided(axes[0], above);
    const int64_t j = above - outer * move.count;
    const auto index = static_cast<int64_t>(operand_of(task, 1, j));
    if (move_detail::outside(index, move.size)) {
      task.fail(j);
      continue;
    }
    const int64_t at = (outer * move.size + index) * move.inner + (i - above * move.inner);
    if (in_pieces)
      *reinterpret_cast<Piece*>(to + i * move.element_bytes) =
          *reinterpret_cast<const Piece*>(from + at * move.element_bytes);
    else
      move_detail::put_raw(to, move.element_bytes, i,
                           move_detail::raw(from, move.element_bytes, at));
  }
}

// Attribute: the value, converted.
TREK_UNIT void fill(const Task& task, int64_t first, int64_t count) {
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads())
    give_result(task, 0, i, task.attribute(0));
}

// Attributes: start, step. The result is [outer, size, inner]; values grow along the middle axis.
TREK_UNIT void iota(const Task& task, int64_t first, int64_t count) {
  const auto type = static_cast<DType>(task.node().result(0).dtype);
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads()) {
    const auto place = static_cast<uint64_t>(i / task.node().move.inner % task.node().move.size);
    const uint64_t value = task.attribute(0) + task.attribute(1) * place;
    give_result(task, 0, i, cast(DType::i64, type, value));
  }
}

// The result is [count, size]. Attribute: one, converted.
TREK_UNIT void one_hot(const Task& task, int64_t first, int64_t count) {
  const Node& node = task.node();
  if (node.result(0).elements == 0) {
    for (int64_t j = task.thread(); j < node.move.count; j += task.threads())
      if (move_detail::outside(static_cast<int64_t>(operand_of(task, 0, j)), node.move.size))
        task.fail(j);
    return;
  }
  for (int64_t i = first + task.thread(); i < first + count; i += task.threads()) {
    const int64_t j = i / node.move.size;
    const auto index = static_cast<int64_t>(operand_of(task, 0, j));
    if (move_detail::outside(index, node.move.size)) task.fail(j);
    const bool hot = index == i - j * node.move.size;
    give_result(task, 0, i, hot ? task.attribute(0) : 0);
  }
}

namespace move_detail {

// Where the result is not the operand's own memory, it starts as a copy.
TREK_UNIT void copy_target(const Task& task) {
  const Node& node = task.node();
  if (node.move.in_place != 0) return;
  const std::byte* from = task.memory(node.operand(0));
  std::byte* to = task.memory(node.result(0));
  const int64_t count = node.operand(0).elements;
  for (int64_t i = task.thread(); i < count; i += task.threads())
    put_raw(to, node.move.element_bytes, i, raw(from, node.move.element_bytes, i));
}

}  // namespace move_detail

// The map is from elements of y to the box in the result.
TREK_UNIT void update(const Task& task, int64_t first, int64_t count) {
  const Node& node = task.node();
  const int64_t bytes = node.move.element_bytes;
  const int64_t begin = move_detail::begin_of_box(task);
  task.sync();
  if (task.failed()) return;
  move_detail::copy_target(task);
  task.sync();
  const std::byte* from = task.memory(node.operand(1));
  std::byte* to = task.memory(node.result(0)) + begin * bytes;
  const bool whole = static_cast<Tiling>(node.tiling) == Tiling::whole;
  const int64_t end = whole ? node.operand(1).elements : first + count;
  for (int64_t i = (whole ? 0 : first) + task.thread(); i < end; i += task.threads())
    move_detail::put_raw(to, bytes, place_of(node, node.move.map, i),
                         move_detail::raw(from, bytes, i));
}

namespace move_detail {

// x + y as `add` of the type.
TREK_UNIT_CALL uint64_t sum_of(DType type, uint64_t x, uint64_t y) {
  switch (form_of(type)) {
    case Form::real32:
      return bits_of(rounded(type, as_float(x) + as_float(y)));
    case Form::real64:
      return bits_of(as_double(x) + as_double(y));
    default:
      return wrap(type, x + y);
  }
}

}  // namespace move_detail

// scatter, scatter.add: y is [outer, count, inner], the result [outer, size, inner]. Everything that falls
// on one element is brought there by one thread, in ascending order of the index: a thread has some of the
// columns (outer, inner), or where there are fewer columns than threads, some of the indices of one.
TREK_UNIT void scatter(const Task& task, int64_t first, int64_t count) {
  const Node& node = task.node();
  const Move& move = node.move;
  const bool adds = static_cast<Opcode>(node.opcode) == Opcode::ScatterAdd;
  const auto type = static_cast<DType>(node.type);
  for (int64_t j = task.thread(); j < move.count; j += task.threads())
    if (move_detail::outside(static_cast<int64_t>(operand_of(task, 1, j)), move.size)) task.fail(j);
  task.sync();
  if (task.failed()) return;
  move_detail::copy_target(task);
  task.sync();
  const bool whole = static_cast<Tiling>(node.tiling) == Tiling::whole;
  const int64_t begin = whole ? 0 : first;
  const int64_t columns = whole ? move.outer * move.inner : count;
  if (columns == 0) return;
  const int64_t owners = columns < task.threads() ? task.threads() / columns : 1;
  const std::byte* from = task.memory(node.operand(2));
  std::byte* to = task.memory(node.result(0));
  for (int64_t c = task.thread(); c < columns * owners; c += task.threads()) {
    const int64_t column = begin + c / owners;
    const int64_t owner = c % owners;
    const int64_t outer = column / move.inner;
    const int64_t inner = column - outer * move.inner;
    for (int64_t j = 0; j < move.count; ++j) {
      const auto index = static_cast<int64_t>(operand_of(task, 1, j));
      if (index % owners != owner) continue;
      const int64_t at = (outer * move.size + index) * move.inner + inner;
      const int64_t source = (outer * move.count + j) * move.inner + inner;
      uint64_t bits = load64(from, type, source);
      if (adds) bits = move_detail::sum_of(type, load64(to, type, at), bits);
      store64(to, type, at, bits);
    }
  }
}

}  // namespace trek::device
