// Staged elements: those of some lines, brought into shared memory in one arithmetic type, so that what
// works on lines need not know where they lie, what they are or what was fused before them.
#pragma once

#include "emulator/device/program.h"

namespace trek::device {

// An array of C in shared memory, in register form: of 4 bytes each in a node whose programs are narrow,
// else of 8.
template <typename C>
struct Staged {
  std::byte* base;
  uint32_t shift;

  TREK_ON_DEVICE C get(uint32_t i) const {
    const std::byte* at = base + (static_cast<size_t>(i) << shift);
    return read<C>(at, 0);
  }
  TREK_ON_DEVICE void put(uint32_t i, C value) const {
    std::byte* at = base + (static_cast<size_t>(i) << shift);
    // A uint32_t stands for the bits of an i32 (matrix.h), whose register form has its sign above.
    if (sizeof(C) == 4 && shift == 3)
      write<uint32_t>(at, 1, __is_same(C, uint32_t) && value > C(0x7FFFFFFF) ? ~0u : 0u);
    write<C>(at, 0, value);
  }
};

TREK_UNIT uint32_t shift_of(const Node& node) { return node.fetch[0].narrow != 0 ? 2 : 3; }
template <typename C>
TREK_UNIT Staged<C> staged(const Task& task, uint32_t at) {
  return {task.block.shared + at, shift_of(task.node)};
}
// Elements that the array of `bytes` bytes at kValues has room for.
TREK_UNIT uint32_t capacity(const Node& node, uint32_t bytes) { return bytes >> shift_of(node); }

// Lines [first, first + lines) of a node, and of each the elements [k, k + n) that are staged: position
// line × n + element, or where neighbouring lines lie side by side, element × lines + line.
struct Group {
  int64_t first = 0;
  uint32_t lines = 0;
  int64_t k = 0;
  uint32_t n = 0;
  bool across = false;

  TREK_ON_DEVICE uint32_t line_step() const { return across ? 1 : n; }
  TREK_ON_DEVICE uint32_t element_step() const { return across ? lines : 1; }
  TREK_ON_DEVICE uint32_t size() const { return lines * n; }
};

TREK_UNIT Positions positions_of(const Group& group, Map kept, Map along) {
  Positions where;
  where.width = group.across ? group.lines : group.n;
  where.rows = group.across ? along : kept;
  where.first_row = group.across ? group.k : group.first;
  where.columns = group.across ? kept : along;
  where.first_column = group.across ? group.first : group.k;
  return where;
}

// Brings a group's elements of operand `i` to `at`. No sync.
TREK_UNIT void stage(const Task& task, const Group& group, uint32_t i, uint32_t at) {
  const Lines& lines = task.node.lines;
  run(task, task.node.fetch[i], positions_of(group, lines.kept, lines.along), group.size(), at,
      nullptr);
}
// Gives a group's elements from `at` to result `i`, which has lines of the same length. No sync.
TREK_UNIT void deliver(const Task& task, const Group& group, uint32_t i, uint32_t at) {
  const Lines& lines = task.node.lines;
  run(task, task.node.deliver[i], positions_of(group, lines.kept, lines.along), group.size(), at,
      &task.node.result(i));
}

// The lines [first, first + count) of a task in groups that fit `room` elements and `most` lines. Lines
// that do not fit are alone in their group, and their elements come in parts of at most `room`.
struct Grouping {
  int64_t first;
  int64_t end;
  uint32_t room;
  uint32_t most;
  int64_t n;
  bool across;

  TREK_ON_DEVICE bool whole() const { return n <= room; }
  TREK_ON_DEVICE Group at(int64_t line) const {
    Group group;
    group.first = line;
    group.across = across;
    group.n = static_cast<uint32_t>(n < room ? n : room);
    int64_t lines = n == 0 ? most : room / n;
    if (lines > most) lines = most;
    if (lines > end - line) lines = end - line;
    if (lines < 1) lines = 1;
    group.lines = static_cast<uint32_t>(lines);
    return group;
  }
  // The part of a group that begins at element k.
  TREK_ON_DEVICE Group part(Group group, int64_t k) const {
    group.k = k;
    group.n = static_cast<uint32_t>(n - k < room ? n - k : room);
    return group;
  }
};

}  // namespace trek::device
