// Quick moves: elements of two or four bytes from places that are known to others (permute, broadcast, slice and update
// at constants), without a context. They cannot trap.
#pragma once

#include "emulator/device/index.h"
#include "emulator/device/shared.h"

namespace trek::device {

namespace quick_detail {

inline constexpr uint32_t kMovesAtOnce = 4;  // of a thread

// A map that is_magic (record.cpp).
TREK_UNIT int64_t place_quick(const Node& node, Map map, int64_t element) {
  if (map.kind == Map::same) return element;
  return map.kind == Map::one ? 0 : place_by_magic(node, map, element);
}

// As units of T, of which `first` and `count` are numbers.
template <typename T>
TREK_UNIT void move_units(const Task& task, const Node& node, int64_t first, int64_t count,
                          std::byte* arena) {
  const Operand& source = node.operand(node.move.quick_from);
  const Operand& target = node.operand(node.move.quick_to);
  const Map from_map = source.map;
  const Map to_map = target.map;
  const std::byte* from = arena + source.offset;
  std::byte* to = arena + target.offset;
  const auto end = static_cast<uint32_t>(count);
  TREK_ROLLED
  for (uint32_t p = task.thread(); p < end; p += kMovesAtOnce * task.threads()) {
    T x[kMovesAtOnce] = {};
    TREK_UNROLLED
    for (uint32_t i = 0; i < kMovesAtOnce; ++i) {
      const uint32_t q = p + i * task.threads();
      if (q < end) x[i] = read<T>(from, place_quick(node, from_map, first + q));
    }
    TREK_UNROLLED
    for (uint32_t i = 0; i < kMovesAtOnce; ++i) {
      const uint32_t q = p + i * task.threads();
      if (q < end) write(to, place_quick(node, to_map, first + q), x[i]);
    }
  }
}

}  // namespace quick_detail

// The elements [first, first + count) of a node that is Quick::move. A sync before others read them is the caller's.
TREK_UNIT void run_quick_move(const Block& block, const Node& node, int64_t first, int64_t count,
                              std::byte* arena) {
  const Task task(block);
  if (node.move.element_bytes == 2)
    quick_detail::move_units<uint16_t>(task, node, first, count, arena);
  else
    quick_detail::move_units<uint32_t>(task, node, first, count, arena);
}

}  // namespace trek::device
