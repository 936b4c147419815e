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

// The places of `first` and of those that follow it `apart` from each other, all at once: their divisions need not wait
// for one another.
TREK_UNIT void places_quick(const Node& node, Map map, int64_t first, uint32_t apart,
                            int64_t (&place)[kMovesAtOnce]) {
  const auto each = [&](auto act) {
    TREK_UNROLLED
    for (uint32_t i = 0; i < kMovesAtOnce; ++i) act(i);
  };
  each([&](uint32_t i) { place[i] = first + i * apart; });
  if (map.kind == Map::same) return;
  const Axis* axes = node.axis(map.first);
  if (map.kind == Map::one || map.count == 1) {
    const int64_t stride = map.kind == Map::one ? 0 : axes[0].stride;
    return each([&](uint32_t i) { place[i] *= stride; });
  }
  uint32_t left[kMovesAtOnce];
  each([&](uint32_t i) {
    left[i] = static_cast<uint32_t>(place[i]);
    place[i] = 0;
  });
  TREK_ROLLED
  for (int a = map.count - 1; a > 0; --a) {
    const Axis axis = axes[a];
    each([&](uint32_t i) {
      const uint32_t above = divided_by_magic(axis, left[i]);
      place[i] +=
          static_cast<int64_t>(left[i] - above * static_cast<uint32_t>(axis.size)) * axis.stride;
      left[i] = above;
    });
  }
  const int64_t outermost = axes[0].stride;
  each([&](uint32_t i) { place[i] += int64_t{left[i]} * outermost; });
}

// As units of T, of which `first` and `count` are numbers, between operands that lie at `from` and `to`.
template <typename T, class Turns>
TREK_UNIT void move_units(const Task& task, const Node& node, int64_t first, int64_t count,
                          const std::byte* from, std::byte* to, Turns turns) {
  const Map from_map = node.operand(node.move.quick_from).map;
  const Map to_map = node.operand(node.move.quick_to).map;
  const auto end = static_cast<uint32_t>(count);
  const uint32_t apart = task.threads();
  int64_t begin[kMovesAtOnce];
  places_quick(node, from_map, first + task.thread(), apart, begin);
  TREK_ROLLED
  for (uint32_t turn = 0; turns(turn); ++turn) {
    int64_t place[kMovesAtOnce] = {begin[0], begin[1], begin[2], begin[3]};
    TREK_ROLLED
    for (uint32_t p = task.thread(); p < end; p += kMovesAtOnce * apart) {
      T x[kMovesAtOnce] = {};
      if (p != task.thread()) places_quick(node, from_map, first + p, apart, place);
      TREK_UNROLLED
      for (uint32_t i = 0; i < kMovesAtOnce; ++i)
        if (p + i * apart < end) x[i] = read<T>(from, place[i]);
      places_quick(node, to_map, first + p, apart, place);
      TREK_UNROLLED
      for (uint32_t i = 0; i < kMovesAtOnce; ++i)
        if (p + i * apart < end) write(to, place[i], x[i]);
    }
  }
}

}  // namespace quick_detail

// The elements [first, first + count) of a node that is Quick::move, whose operands lie where place(operand) says. A sync
// before others read them is the caller's. `turns` as in quick.h.
template <class Place, class Turns>
TREK_UNIT void run_quick_move(const Task& task, const Node& node, int64_t first, int64_t count,
                              Place place, Turns turns) {
  const std::byte* from = place(node.operand(node.move.quick_from));
  std::byte* to = place(node.operand(node.move.quick_to));
  if (node.move.element_bytes == 2)
    quick_detail::move_units<uint16_t>(task, node, first, count, from, to, turns);
  else
    quick_detail::move_units<uint32_t>(task, node, first, count, from, to, turns);
}

}  // namespace trek::device
