// Reductions in the reduction order (isa/semantics/reduce.h), by all threads: a thread makes one of the 32
// partials of a tile of 1024, partials fold in shared memory, tile results are reduced in the same way.
#pragma once

#include "emulator/device/stage.h"
#include "isa/semantics/compare.h"
#include "isa/semantics/elements.h"
#include "isa/semantics/reduce.h"

namespace trek::device {

enum class Joining : uint8_t { sum, product, greatest, least };

template <typename C>
struct Join {
  Joining how;
  TREK_ON_DEVICE C operator()(C a, C b) const {
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
};

// What of a staged element is reduced.
enum class TermOf : uint8_t {
  element,
  square,
  exponential,  // exp(x - the line's subtrahend)
  product,      // x × the element of a second array
};
template <typename C>
struct Term {
  TermOf what = TermOf::element;
  Staged<C> x{};
  Staged<C> y{};
  const C* subtrahend = nullptr;  // per line
  TREK_ON_DEVICE C operator()(uint32_t i, uint32_t line) const {
    const C value = x.get(i);
    if constexpr (semantics::kIsFloat<C>) {
      switch (what) {
        case TermOf::square:
          return value * value;
        case TermOf::exponential:
          return semantics::exp(value - subtrahend[line]);
        case TermOf::product:
          return value * y.get(i);
        default:
          return value;
      }
    }
    return value;
  }
};

// What reductions have in kWork.
namespace reduce_at {
inline constexpr uint32_t kPairs = 128;  // of a line and a tile, at once
inline constexpr uint32_t kPartials = shared_at::kWork;
inline constexpr uint32_t kSecond = kPartials + kPairs * 32 * 8;   // of half as many lines
inline constexpr uint32_t kTiles = kSecond + kPairs / 2 * 32 * 8;  // results of a long line's tiles
inline constexpr uint32_t kTop = kTiles + 1024 * 8;                // an Ordered of those
inline constexpr uint32_t kFirst = kTop + 2048;                    // a number per line
inline constexpr uint32_t kOther = kFirst + kPairs * 8;            // another
static_assert(kOther + kPairs * 8 <= kSharedBytes);
}  // namespace reduce_at

namespace reduce_detail {

// The tiles of some lines: pair q is tile q % tiles of line q / tiles.
struct Pairs {
  uint32_t lines;
  uint32_t tiles;
  uint32_t n;  // elements of a line
  uint32_t line_step;
  uint32_t element_step;
  TREK_ON_DEVICE uint32_t count() const { return lines * tiles; }
  TREK_ON_DEVICE uint32_t length(uint32_t tile) const {
    const uint32_t left = n - tile * semantics::kReductionTile;
    return left < semantics::kReductionTile ? left : semantics::kReductionTile;
  }
};
TREK_UNIT uint32_t tiles_of(uint32_t n) {
  return (n + semantics::kReductionTile - 1) / semantics::kReductionTile;
}

// Reduces every pair: its result is partials[32 q]. A sync at the end.
template <typename C>
TREK_UNIT void reduce_pairs(const Task& task, const Pairs& pairs, const Term<C>& term, Joining how,
                            C* partials) {
  const Join<C> join{how};
  for (uint32_t t = task.thread(); t < pairs.count() * 32; t += task.threads()) {
    const uint32_t line = t / 32 / pairs.tiles;
    const uint32_t tile = t / 32 - line * pairs.tiles;
    const uint32_t length = pairs.length(tile);
    uint32_t i = t % 32;
    if (i >= length) continue;
    uint32_t at =
        line * pairs.line_step + (tile * semantics::kReductionTile + i) * pairs.element_step;
    C sum = term(at, line);
    for (i += 32; i < length; i += 32) {
      at += 32 * pairs.element_step;
      sum = join(sum, term(at, line));
    }
    partials[t] = sum;
  }
  task.sync();
  TREK_ROLLED
  for (uint32_t half = 16; half > 0; half /= 2) {
    for (uint32_t t = task.thread(); t < pairs.count() * half; t += task.threads()) {
      const uint32_t pair = t / half;
      const uint32_t j = t - pair * half;
      const uint32_t length = pairs.length(pair % pairs.tiles);
      const uint32_t present = length < 2 * half ? length : 2 * half;
      C* partial = partials + 32 * pair;
      if (j + half < present) partial[j] = join(partial[j], partial[j + half]);
    }
    task.sync();
  }
}

}  // namespace reduce_detail

// Reduces the lines of a group that is staged whole; to[line] is the result. n is at least 1. A sync at the
// end.
template <typename C>
TREK_UNIT void reduce_staged(const Task& task, const Group& group, Term<C> term, Joining how,
                             C* to) {
  C* partials = task.shared<C>(reduce_at::kPartials);
  reduce_detail::Pairs pairs{group.lines, reduce_detail::tiles_of(group.n), group.n,
                             group.line_step(), group.element_step()};
  // Tile results are fewer than 1024 here, so that one more round ends it.
  TREK_ROLLED
  for (;;) {
    reduce_detail::reduce_pairs(task, pairs, term, how, partials);
    if (pairs.tiles == 1) break;
    constexpr uint32_t kShift = sizeof(C) == 4 ? 2 : 3;
    term = Term<C>{TermOf::element, {reinterpret_cast<std::byte*>(partials), kShift}};
    pairs = {pairs.lines, 1, pairs.tiles, 32 * pairs.tiles, 32};
    partials = task.shared<C>(reduce_at::kSecond);
  }
  for (uint32_t line = task.thread(); line < group.lines; line += task.threads())
    to[line] = partials[32 * line];
  task.sync();
}

namespace reduce_detail {
// The levels above: results of 1024 tiles each. Made where it is wanted, in shared memory.
template <typename C>
struct Top : semantics::Ordered<C, Join<C>> {
  TREK_ON_DEVICE explicit Top(Join<C> join) : semantics::Ordered<C, Join<C>>(join) {}
  TREK_ON_DEVICE static void* operator new(size_t, void* at) { return at; }
  TREK_ON_DEVICE static void operator delete(void*, void*) {}
};
}  // namespace reduce_detail

// A reduction whose elements come in order, some tiles at a time: of a line too long to be staged whole.
template <typename C>
class LongReduction {
 public:
  TREK_ON_DEVICE LongReduction(const Task& task, Joining how)
      : task_(task), how_(how), top_(task.shared<reduce_detail::Top<C>>(reduce_at::kTop)) {
    static_assert(sizeof(reduce_detail::Top<C>) <= 2048);
    if (task.thread() == 0) new (top_) reduce_detail::Top<C>(Join<C>{how});
    task.sync();
  }
  // The next staged elements of the line: `n`, all but the last time a multiple of 1024.
  TREK_ON_DEVICE void push(const Term<C>& term, uint32_t n) {
    C* partials = task_.shared<C>(reduce_at::kPartials);
    const reduce_detail::Pairs pairs{1, reduce_detail::tiles_of(n), n, n, 1};
    if (filled_ + pairs.tiles > semantics::kReductionTile) close();
    reduce_detail::reduce_pairs(task_, pairs, term, how_, partials);
    C* tiles = task_.shared<C>(reduce_at::kTiles);
    for (uint32_t t = task_.thread(); t < pairs.tiles; t += task_.threads())
      tiles[filled_ + t] = partials[32 * t];
    filled_ += pairs.tiles;
    task_.sync();
  }
  // The result, in to[0]. A sync at the end.
  TREK_ON_DEVICE void finish(C* to) {
    close();
    if (task_.thread() == 0) to[0] = top_->finish(C(0));
    task_.sync();
  }

 private:
  // Tile results become one of the next level.
  TREK_ON_DEVICE void close() {
    C* partials = task_.shared<C>(reduce_at::kPartials);
    constexpr uint32_t kShift = sizeof(C) == 4 ? 2 : 3;
    const Term<C> term{TermOf::element, {task_.shared<std::byte>(reduce_at::kTiles), kShift}};
    const reduce_detail::Pairs pairs{1, 1, filled_, filled_, 1};
    reduce_detail::reduce_pairs(task_, pairs, term, how_, partials);
    if (task_.thread() == 0) top_->push(partials[0]);
    task_.sync();
    filled_ = 0;
  }

  const Task& task_;
  Joining how_;
  reduce_detail::Top<C>* top_;
  uint32_t filled_ = 0;
};

// Reduces the lines of a group, staging them itself where they are too long to be kept; to[line] is the
// result. n is at least 1.
template <typename C>
TREK_UNIT void reduce_group(const Task& task, const Grouping& grouping, const Group& group,
                            const Term<C>& term, Joining how, uint32_t arrays, C* to) {
  if (grouping.whole()) return reduce_staged(task, group, term, how, to);
  LongReduction<C> reduction(task, how);
  for (int64_t k = 0; k < grouping.n; k += grouping.room) {
    const Group part = grouping.part(group, k);
    stage(task, part, 0, shared_at::kValues);
    if (arrays > 1) stage(task, part, 1, shared_at::kValues + kValuesBytes / 2);
    task.sync();
    reduction.push(term, part.n);
  }
  reduction.finish(to);
}

// ---- sum, mean, max, min, prod, norm2 ------------------------------------------------------------

TREK_UNIT Joining joining_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::Prod:
      return Joining::product;
    case Opcode::Max:
      return Joining::greatest;
    case Opcode::Min:
      return Joining::least;
    default:
      return Joining::sum;
  }
}

template <typename C>
TREK_UNIT_CALL void reduce(Task task, int64_t first, int64_t count) {
  const Node& node = task.node;
  const auto opcode = static_cast<Opcode>(node.opcode);
  const Grouping grouping{
      first,        first + count,         capacity(node, kValuesBytes), reduce_at::kPairs,
      node.lines.n, node.lines.across != 0};
  // A line may have 16 tiles of the pairs at once.
  const uint32_t tiles = node.lines.n == 0 || !grouping.whole()
                             ? 1
                             : reduce_detail::tiles_of(static_cast<uint32_t>(node.lines.n));
  Grouping limited = grouping;
  limited.most = reduce_at::kPairs / (2 * tiles) * (tiles == 1 ? 2 : 1);
  C* results = task.shared<C>(reduce_at::kFirst);
  Term<C> term{opcode == Opcode::Norm2 ? TermOf::square : TermOf::element,
               staged<C>(task, shared_at::kValues)};
  for (int64_t line = first; line < first + count;) {
    const Group group = limited.at(line);
    if (group.n > 0) {
      if (limited.whole()) stage(task, group, 0, shared_at::kValues);
      task.sync();
      reduce_group<C>(task, limited, group, term, joining_of(opcode), 1, results);
    }
    const Staged<C> mains = staged<C>(task, shared_at::kValues);
    for (uint32_t i = task.thread(); i < group.lines; i += task.threads()) {
      C value = group.n > 0 ? results[i] : C(opcode == Opcode::Prod ? 1 : 0);
      if constexpr (semantics::kIsFloat<C>) {
        if (opcode == Opcode::Mean) value = value / static_cast<C>(node.lines.n);
        if (opcode == Opcode::Norm2) value = semantics::sqrt(value);
      }
      mains.put(i, value);
    }
    task.sync();
    Positions where;
    where.first = line;
    run(task, node.deliver[0], where, group.lines, shared_at::kValues, &node.result(0));
    task.sync();
    line += group.lines;
  }
}

// ---- argmax, argmin ------------------------------------------------------------------------------

// The key of a staged element, by which the greatest is looked for (isa/semantics/compare.h).
TREK_UNIT uint64_t key_of(Form form, uint64_t bits, bool least) {
  switch (form) {
    case Form::real32:
      return least ? semantics::least_key(as_float(bits)) : semantics::order_key(as_float(bits));
    case Form::real64:
      return least ? semantics::least_key(as_double(bits)) : semantics::order_key(as_double(bits));
    case Form::sint:
      return least ? semantics::least_key(static_cast<int64_t>(bits))
                   : semantics::order_key(static_cast<int64_t>(bits));
    default:
      return least ? semantics::least_key(bits) : semantics::order_key(bits);
  }
}

TREK_UNIT_CALL void find_best(Task task, int64_t first, int64_t count) {
  const Node& node = task.node;
  const bool least = static_cast<Opcode>(node.opcode) == Opcode::Argmin;
  const Form form = form_of(static_cast<DType>(node.type));
  constexpr uint32_t kSeekers = 32;  // of a line
  const Grouping grouping{first, first + count, capacity(node, kValuesBytes),
                          32,    node.lines.n,  node.lines.across != 0};
  auto* keys = task.shared<uint64_t>(shared_at::kWork);
  auto* places = task.shared<int64_t>(shared_at::kWork + 32 * kSeekers * 8);
  for (int64_t line = first; line < first + count;) {
    const Group group = grouping.at(line);
    const uint32_t seekers = group.lines * kSeekers;
    for (int64_t k = 0; k < grouping.n; k += grouping.room) {
      const Group part = grouping.part(group, k);
      stage(task, part, 0, shared_at::kValues);
      task.sync();
      const uint32_t shift = shift_of(node);
      for (uint32_t t = task.thread(); t < seekers; t += task.threads()) {
        const uint32_t base = t / kSeekers * part.line_step();
        // Ascending, so that the first of equals stays.
        for (uint32_t i = t % kSeekers; i < part.n; i += kSeekers) {
          const std::byte* at = task.shared<std::byte>(shared_at::kValues) +
                                (static_cast<size_t>(base + i * part.element_step()) << shift);
          const uint64_t bits = shift == 2 ? read<uint32_t>(at, 0) : read<uint64_t>(at, 0);
          const uint64_t key = key_of(form, bits, least);
          if ((k == 0 && i < kSeekers) || key > keys[t]) {
            keys[t] = key;
            places[t] = k + i;
          }
        }
      }
      task.sync();
    }
    for (uint32_t l = task.thread(); l < group.lines; l += task.threads()) {
      uint32_t best = l * kSeekers;
      const uint32_t present = static_cast<uint32_t>(grouping.n < kSeekers ? grouping.n : kSeekers);
      for (uint32_t j = 1; j < present; ++j) {
        const uint32_t t = l * kSeekers + j;
        if (keys[t] > keys[best] || (keys[t] == keys[best] && places[t] < places[best])) best = t;
      }
      task.shared<uint64_t>(shared_at::kValues)[l] =
          present == 0 ? 0 : static_cast<uint64_t>(places[best]);
    }
    task.sync();
    Positions where;
    where.first = line;
    run(task, node.deliver[0], where, group.lines, shared_at::kValues, &node.result(0));
    task.sync();
    line += group.lines;
  }
}

}  // namespace trek::device
