// Staged elements: those of some lines, brought into shared memory in one arithmetic type, so that what
// works on lines need not know where they lie, what they are or what was fused before them.
#pragma once

#include "emulator/device/program.h"

namespace trek::device {

// An array of C in shared memory at byte offset `at`, in register form: elements of 4 bytes (shift 2) in a
// node whose programs are narrow, else of 8 (shift 3).
template <typename C>
struct Staged {
  uint32_t at;
  uint32_t shift;

  TREK_ON_DEVICE C get(const Task& task, uint32_t i) const {
    return *task.shared<Aliased<C>>(at + (i << shift));
  }
  TREK_ON_DEVICE void put(const Task& task, uint32_t i, C value) const {
    auto* to = task.shared<Aliased<C>>(at + (i << shift));
    // A uint32_t stands for the bits of an i32 (matrix.h), whose register form has its sign above.
    if (sizeof(C) == 4 && shift == 3)
      task.shared<Aliased<uint32_t>>(at + (i << 3))[1] =
          __is_same(C, uint32_t) && value > C(0x7FFFFFFF) ? ~0u : 0u;
    *to = value;
  }
};

TREK_UNIT uint32_t shift_of(const Node& node) { return node.fetch[0].narrow != 0 ? 2 : 3; }
// The shift of an array of C's alone.
template <typename C>
inline constexpr uint32_t kShift = sizeof(C) == 4 ? 2 : 3;

// Where the second of two staged arrays begins.
inline constexpr uint32_t kSecondArray = shared_at::kValues + kValuesBytes / 2;
// Elements that one of `arrays` staged arrays has room for: a multiple of 1024.
TREK_UNIT uint32_t room_for(const Node& node, uint32_t arrays) {
  return kValuesBytes / arrays >> shift_of(node);
}

// Lines [first, first + lines) of a node, and of each the elements [k, k + n) that are staged: position
// line × n + element, or where neighbouring lines lie side by side, element × lines + line.
struct Group {
  int64_t first;
  int64_t k;
  uint32_t lines;
  uint32_t n;

  TREK_ON_DEVICE uint32_t size() const { return lines * n; }
};

// The lines from `line` on that are worked on together: at most `most`, and none at or beyond `end`. Lines
// that have no room for one are alone, and their elements come in parts.
TREK_UNIT Group group_at(const Node& node, int64_t line, int64_t end, uint32_t arrays,
                         uint32_t most) {
  const uint32_t room = room_for(node, arrays);
  const int64_t n = node.lines.n;
  const auto staged = static_cast<uint32_t>(n < room ? n : room);
  int64_t lines = staged == 0 ? most : room / staged;
  if (lines > most) lines = most;
  if (lines > end - line) lines = end - line;
  return {line, 0, static_cast<uint32_t>(lines), staged};
}
TREK_UNIT bool is_whole(const Node& node, uint32_t arrays) {
  return node.lines.n <= room_for(node, arrays);
}
// The part of a group that begins at element k.
TREK_UNIT Group part_of(const Node& node, Group group, int64_t k, uint32_t arrays) {
  const uint32_t room = room_for(node, arrays);
  group.k = k;
  group.n = static_cast<uint32_t>(node.lines.n - k < room ? node.lines.n - k : room);
  return group;
}

TREK_UNIT Positions positions_of(const Node& node, const Group& group) {
  const Lines& lines = node.lines;
  const bool across = lines.across != 0;
  Positions where;
  where.width = across ? group.lines : group.n;
  where.rows = across ? lines.along : lines.kept;
  where.first_row = across ? group.k : group.first;
  where.columns = across ? lines.kept : lines.along;
  where.first_column = across ? group.first : group.k;
  return where;
}

// Brings a group's elements of operands 0 and, of two arrays, 1 to their places. No sync.
TREK_UNIT_CALL void stage(Task task, const Group& group, uint32_t arrays) {
  TREK_ROLLED
  for (uint32_t i = 0; i < arrays; ++i)
    run(task, i, positions_of(task.node(), group), group.size(),
        i == 0 ? shared_at::kValues : kSecondArray, kToShared);
}
// Gives a group's elements from the first array to result `out`, whose lines have the same length, by a
// deliver program. No sync.
TREK_UNIT_CALL void deliver(Task task, const Group& group, uint32_t program, uint32_t out) {
  run(task, kDeliver + program, positions_of(task.node(), group), group.size(), shared_at::kValues,
      out);
}
// Gives the numbers of the first array to the elements from `first` on of result 0. No sync.
TREK_UNIT_CALL void deliver_range(Task task, int64_t first, uint32_t count) {
  run(task, kDeliver, range_of(first), count, shared_at::kValues, 0);
}

}  // namespace trek::device
