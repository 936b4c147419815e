// The reduction order (isa/semantics/reduce.h) by all threads: a thread makes one of the 32 partials of a
// tile of 1024, partials fold in shared memory, tile results are reduced in the same way.
#pragma once

#include "emulator/device/stage.h"
#include "isa/semantics/elements.h"
#include "isa/semantics/reduce.h"

namespace trek::device {

enum class Joining : uint8_t { sum, product, greatest, least };

template <typename C>
TREK_UNIT C join(Joining how, C a, C b) {
  switch (how) {
    case Joining::product:
      return semantics::mul(a, b);
    case Joining::greatest:
      return semantics::max(a, b);
    case Joining::least:
      return semantics::min(a, b);
    default:
      return semantics::add(a, b);
  }
}

// What of a staged element is reduced.
enum class Term : uint8_t {
  element,
  square,
  exponential,  // exp(x - the line's number at reduce_at::kFirst)
  product,      // x × the element of the second array
};

// What reductions have in kWork, as byte offsets in shared memory.
namespace reduce_at {
inline constexpr uint32_t kPairs = 128;  // of a line and a tile, at once
inline constexpr uint32_t kPartials = shared_at::kWork;
inline constexpr uint32_t kSecond = kPartials + kPairs * 32 * 8;   // of half as many lines
inline constexpr uint32_t kTiles = kSecond + kPairs / 2 * 32 * 8;  // results of a long line's tiles
inline constexpr uint32_t kUpper = kTiles + 1024 * 8;              // the levels above those
inline constexpr uint32_t kFirst = kUpper + 2048;                  // a number per line
inline constexpr uint32_t kOther = kFirst + kPairs * 8;            // another
static_assert(kOther + kPairs * 8 <= kSharedBytes);
}  // namespace reduce_at

namespace reduce_detail {

using semantics::kPartials;
using semantics::kReductionTile;

// The tiles of some lines: pair q is tile q % tiles of line q / tiles.
struct Pairs {
  uint32_t lines;
  uint32_t tiles;
  uint32_t n;  // elements of a line
  uint32_t line_step;
  uint32_t element_step;
  TREK_ON_DEVICE uint32_t count() const { return lines * tiles; }
  TREK_ON_DEVICE uint32_t length(uint32_t tile) const {
    const uint32_t left = n - tile * kReductionTile;
    return left < kReductionTile ? left : kReductionTile;
  }
};
TREK_UNIT uint32_t tiles_of(int64_t n) {
  return static_cast<uint32_t>((n + kReductionTile - 1) / kReductionTile);
}

template <typename C>
TREK_UNIT C term_of(const Task& task, const Staged<C>& x, Term term, uint32_t i, uint32_t line) {
  const C value = x.get(task, i);
  if constexpr (semantics::kIsFloat<C>) {
    switch (term) {
      case Term::square:
        return value * value;
      case Term::exponential:
        return semantics::exp(value - task.shared<C>(reduce_at::kFirst)[line]);
      case Term::product:
        return value * Staged<C>{kSecondArray, x.shift}.get(task, i);
      default:
        return value;
    }
  }
  return value;
}

#if defined(TREK_SPECIALISED) && !defined(__CUDA__)
// One thread with vectors: it has all partials of a tile at once, or those of some neighbouring lines.
template <typename C>
TREK_UNIT C fold(C (&sums)[kPartials], uint32_t length, Joining how) {
  for (uint32_t half = kPartials / 2; half > 0; half /= 2)
    for (uint32_t j = 0; j < half && j + half < length; ++j)
      sums[j] = join(how, sums[j], sums[j + half]);
  return sums[0];
}
template <typename C>
TREK_UNIT void reduce_along(const Task& task, const Pairs& pairs, const Staged<C>& x, Term term,
                            Joining how, C* partials) {
  for (uint32_t q = 0; q < pairs.count(); ++q) {
    const uint32_t line = q / pairs.tiles;
    const uint32_t tile = q - line * pairs.tiles;
    const uint32_t length = pairs.length(tile);
    const uint32_t at = line * pairs.line_step + tile * kReductionTile;
    C sums[kPartials];
    for (uint32_t j = 0; j < kPartials && j < length; ++j)
      sums[j] = term_of(task, x, term, at + j, line);
    uint32_t i = kPartials;
    for (; i + kPartials <= length; i += kPartials)
      for (uint32_t j = 0; j < kPartials; ++j)
        sums[j] = join(how, sums[j], term_of(task, x, term, at + i + j, line));
    for (uint32_t j = 0; i + j < length; ++j)
      sums[j] = join(how, sums[j], term_of(task, x, term, at + i + j, line));
    partials[kPartials * q] = fold(sums, length, how);
  }
}
template <typename C>
TREK_UNIT void reduce_across(const Task& task, const Pairs& pairs, const Staged<C>& x, Term term,
                             Joining how, C* partials) {
  constexpr uint32_t kLines = 16;
  for (uint32_t tile = 0; tile < pairs.tiles; ++tile)
    for (uint32_t first = 0; first < pairs.lines; first += kLines) {
      const uint32_t n = pairs.lines - first < kLines ? pairs.lines - first : kLines;
      const uint32_t length = pairs.length(tile);
      const uint32_t begin = first * pairs.line_step + tile * kReductionTile * pairs.element_step;
      C sums[kPartials][kLines];
      for (uint32_t i = 0; i < length; ++i) {
        C* sum = sums[i % kPartials];
        const uint32_t at = begin + i * pairs.element_step;
        if (i < kPartials)
          for (uint32_t l = 0; l < n; ++l)
            sum[l] = term_of(task, x, term, at + l * pairs.line_step, first + l);
        else
          for (uint32_t l = 0; l < n; ++l)
            sum[l] = join(how, sum[l], term_of(task, x, term, at + l * pairs.line_step, first + l));
      }
      for (uint32_t half = kPartials / 2; half > 0; half /= 2)
        for (uint32_t j = 0; j < half && j + half < length; ++j)
          for (uint32_t l = 0; l < n; ++l) sums[j][l] = join(how, sums[j][l], sums[j + half][l]);
      for (uint32_t l = 0; l < n; ++l)
        partials[kPartials * ((first + l) * pairs.tiles + tile)] = sums[0][l];
    }
}
// Reduces every pair: its result is number 32 q at `to`.
template <typename C>
TREK_UNIT void reduce_pairs(Task task, Pairs pairs, Staged<C> x, Term term, Joining how,
                            uint32_t to) {
  C* partials = task.shared<C>(to);
  if (pairs.element_step == 1)
    reduce_along(task, pairs, x, term, how, partials);
  else
    reduce_across(task, pairs, x, term, how, partials);
}
#else
// Reduces every pair: its result is number 32 q at `to`. A sync at the end.
template <typename C>
TREK_UNIT_CALL void reduce_pairs(Task task, Pairs pairs, Staged<C> x, Term term, Joining how,
                                 uint32_t to) {
  C* partials = task.shared<C>(to);
  for (uint32_t t = task.thread(); t < pairs.count() * kPartials; t += task.threads()) {
    const uint32_t line = t / kPartials / pairs.tiles;
    const uint32_t tile = t / kPartials - line * pairs.tiles;
    const uint32_t length = pairs.length(tile);
    uint32_t i = t % kPartials;
    if (i >= length) continue;
    uint32_t at = line * pairs.line_step + (tile * kReductionTile + i) * pairs.element_step;
    C sum = term_of(task, x, term, at, line);
    for (i += kPartials; i < length; i += kPartials) {
      at += kPartials * pairs.element_step;
      sum = join(how, sum, term_of(task, x, term, at, line));
    }
    partials[t] = sum;
  }
  task.sync();
  TREK_ROLLED
  for (uint32_t half = kPartials / 2; half > 0; half /= 2) {
    for (uint32_t t = task.thread(); t < pairs.count() * half; t += task.threads()) {
      const uint32_t pair = t / half;
      const uint32_t j = t - pair * half;
      const uint32_t length = pairs.length(pair % pairs.tiles);
      const uint32_t present = length < 2 * half ? length : 2 * half;
      C* partial = partials + kPartials * pair;
      if (j + half < present) partial[j] = join(how, partial[j], partial[j + half]);
    }
    task.sync();
  }
}

#endif

// The levels above tiles of tiles: what semantics::Ordered does, in shared memory, by one thread.
template <typename C>
struct Upper {
  static constexpr uint32_t kLevels = 4;  // with the two below, 1024^6 elements
  C partials[kLevels][kPartials];
  uint32_t counts[kLevels];
};

template <typename C>
TREK_UNIT C close_level(Upper<C>& upper, uint32_t level, Joining how) {
  C* partial = upper.partials[level];
  uint32_t present = upper.counts[level] < kPartials ? upper.counts[level] : kPartials;
  upper.counts[level] = 0;
  TREK_ROLLED
  for (uint32_t half = kPartials / 2; half > 0; half /= 2) {
    TREK_ROLLED
    for (uint32_t j = 0; j < half && j + half < present; ++j)
      partial[j] = join(how, partial[j], partial[j + half]);
    present = present < half ? present : half;
  }
  return partial[0];
}

// Another result of a level-2 tile; at the end (`ends`) the result of all in *to.
template <typename C>
TREK_UNIT void push_upper(Upper<C>& upper, C x, Joining how, bool ends, C* to) {
  TREK_ROLLED
  for (uint32_t level = 0; level < Upper<C>::kLevels; ++level) {
    C& partial = upper.partials[level][upper.counts[level] % kPartials];
    partial = upper.counts[level] < kPartials ? x : join(how, partial, x);
    ++upper.counts[level];
    bool above = false;
    for (uint32_t l = level + 1; l < Upper<C>::kLevels; ++l) above = above || upper.counts[l] != 0;
    if (ends ? !above : upper.counts[level] < kReductionTile) {
      if (ends) *to = close_level(upper, level, how);
      return;
    }
    x = close_level(upper, level, how);
  }
}

}  // namespace reduce_detail

// A reduction whose elements come in order, some tiles at a time. `filled` is the number of tile results
// that wait; begin with begin_long() and 0.
template <typename C>
TREK_UNIT void begin_long(const Task& task) {
  auto& upper = *task.shared<reduce_detail::Upper<C>>(reduce_at::kUpper);
  static_assert(sizeof(upper) <= 2048);
  if (task.thread() == 0)
    for (uint32_t& count : upper.counts) count = 0;
  task.sync();
}
// The next `n` staged elements, all but the last time the same 1, 2, 4, 8 or 16 times 1024, so that 1024 tile
// results make a tile; with the last ones (`ends`) the result is in the first number at `to`. A sync at the end.
template <typename C>
TREK_UNIT_CALL uint32_t push_long(Task task, Staged<C> x, Term term, Joining how, uint32_t n,
                                  uint32_t filled, bool ends, uint32_t to) {
  using namespace reduce_detail;  // NOLINT(google-build-using-namespace)
  const uint32_t tiles = tiles_of(n);
  C* results = task.shared<C>(reduce_at::kTiles);
  reduce_pairs<C>(task, {1, tiles, n, n, 1}, x, term, how, reduce_at::kPartials);
  for (uint32_t t = task.thread(); t < tiles; t += task.threads())
    results[filled + t] = task.shared<C>(reduce_at::kPartials)[kPartials * t];
  filled += tiles;
  task.sync();
  if (!ends && filled < kReductionTile) return filled;
  reduce_pairs<C>(task, {1, 1, filled, filled, 1}, {reduce_at::kTiles, kShift<C>}, Term::element,
                  how, reduce_at::kPartials);
  if (task.thread() == 0)
    push_upper(*task.shared<Upper<C>>(reduce_at::kUpper), task.shared<C>(reduce_at::kPartials)[0],
               how, ends, task.shared<C>(to));
  task.sync();
  return 0;
}

// Lines that a group may have, so that its pairs fit: a line of several tiles has room in kSecond.
TREK_UNIT uint32_t most_lines(const Node& node, uint32_t arrays) {
  if (!is_whole(node, arrays)) return 1;
  const uint32_t tiles = reduce_detail::tiles_of(node.lines.n);
  return tiles <= 1 ? reduce_at::kPairs : reduce_at::kPairs / (2 * tiles);
}

// Reduces the lines of a group: number `line` at `to` is the result. n is at least 1. Where the lines have
// room they are staged (and a sync has passed), else this stages them, part by part. A sync at the end.
template <typename C>
TREK_UNIT void reduce_group(const Task& task, const Group& group, Term term, Joining how,
                            uint32_t arrays, uint32_t to) {
  using namespace reduce_detail;  // NOLINT(google-build-using-namespace)
  if (!is_whole(task.node(), arrays)) {
    begin_long<C>(task);
    uint32_t filled = 0;
    for (int64_t k = 0; k < task.node().lines.n;) {
      const Group part = part_of(task.node(), group, k, arrays);
      stage(task, part, arrays);
      task.sync();
      k += part.n;
      filled = push_long<C>(task, {shared_at::kValues, shift_of(task.node())}, term, how, part.n,
                            filled, k == task.node().lines.n, to);
    }
    return;
  }
  const bool across = task.node().lines.across != 0;
  const uint32_t tiles = tiles_of(group.n);
  reduce_pairs<C>(task,
                  {group.lines, tiles, group.n, across ? 1 : group.n, across ? group.lines : 1},
                  {shared_at::kValues, shift_of(task.node())}, term, how, reduce_at::kPartials);
  uint32_t from = reduce_at::kPartials;
  if (tiles > 1) {
    from = reduce_at::kSecond;
    reduce_pairs<C>(task, {group.lines, 1, tiles, kPartials * tiles, kPartials},
                    {reduce_at::kPartials, kShift<C>}, Term::element, how, from);
  }
  for (uint32_t line = task.thread(); line < group.lines; line += task.threads())
    task.shared<C>(to)[line] = task.shared<C>(from)[kPartials * line];
  task.sync();
}

}  // namespace trek::device
