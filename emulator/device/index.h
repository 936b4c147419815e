// Index maps: from the elements that a unit walks over to the elements of a tensor.
#pragma once

#include "emulator/device/node.h"

namespace trek::device {

// index ÷ the axis's size; index is not negative.
TREK_UNIT_CALL int64_t divided_slowly(int64_t index, int64_t size) { return index / size; }
TREK_UNIT int64_t divided(const Axis& axis, int64_t index) {
  if (axis.magic == 0) return divided_slowly(index, axis.size);
  return static_cast<int64_t>(static_cast<uint64_t>(index) * axis.magic >> axis.shift);
}
TREK_UNIT uint32_t divided_by_magic(const Axis& axis, uint32_t index) {
  return static_cast<uint32_t>(uint64_t{index} * axis.magic >> axis.shift);
}

// The place of `index` under a map of the node. place_of() is the same as a call: for where registers
// are worth more.
TREK_UNIT int64_t place_here(const Node& node, Map map, int64_t index) {
  if (map.kind == Map::same) return index;
  if (map.kind == Map::one) return 0;
  int64_t place = 0;
  const Axis* axes = node.axis(map.first);
  TREK_ROLLED
  for (int i = map.count - 1; i > 0; --i) {
    const Axis axis = axes[i];
    const int64_t above = divided(axis, index);
    place += (index - above * axis.size) * axis.stride;
    index = above;
  }
  // The outermost axis takes what is left; where the map is periodic it has the stride 0.
  return place + index * axes[0].stride;
}

TREK_UNIT_CALL int64_t place_of(const Node& node, Map map, int64_t index) {
  return place_here(node, map, index);
}

// The same of axes that have a magic, but for the outermost: where there are two or more, indices have 31 bits.
TREK_UNIT int64_t place_by_magic(const Node& node, Map map, int64_t index) {
  const Axis* axes = node.axis(map.first);
  if (map.count == 1) return index * axes[0].stride;
  auto left = static_cast<uint32_t>(index);
  int64_t place = 0;
  TREK_ROLLED
  for (int i = map.count - 1; i > 0; --i) {
    const Axis axis = axes[i];
    const uint32_t above = divided_by_magic(axis, left);
    place += static_cast<int64_t>(left - above * static_cast<uint32_t>(axis.size)) * axis.stride;
    left = above;
  }
  return place + int64_t{left} * axes[0].stride;
}

// The elements of a tensor that a unit works on together, numbered by position: a range, or the rectangle
// rows × columns, where element = rows(first_row + p / width) + columns(first_column + p % width).
struct Positions {
  int64_t first = 0;  // of a range, whose width is 0
  int64_t first_row = 0;
  int64_t first_column = 0;
  uint32_t width = 0;
  Map rows{};
  Map columns{};
};

// Whether four positions that are left in their row are four elements in line.
TREK_UNIT bool rows_of_fours(const Node& node, const Positions& at) {
  if (at.width == 0) return true;
  if (((at.first_column | at.width) & 3) != 0) return false;
  if (at.columns.kind != Map::axes) return at.columns.kind == Map::same;
  const Axis& last = node.axis(at.columns.first)[at.columns.count - 1];
  return last.stride == 1 && (last.size & 3) == 0;
}

TREK_UNIT int64_t element_at(const Node& node, const Positions& at, uint32_t p) {
  if (at.width == 0) return at.first + p;
  const uint32_t row = p / at.width;
  return place_of(node, at.rows, at.first_row + row) +
         place_of(node, at.columns, at.first_column + (p - row * at.width));
}

}  // namespace trek::device
