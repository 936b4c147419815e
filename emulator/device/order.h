// Sort, argsort, top_k, and the permutation that sorts random words.
//
// An element becomes a key (isa/semantics/compare.h), turned round for a descending order. Short lines are
// ordered many at a time: an element's place is the number of elements before it. A long one is sorted by
// four bits of the key after the other, the lowest first: every thread counts the digits of its own stretch,
// then moves its elements in their order to the places that the counts give; each pass is stable.
#pragma once

#include "emulator/device/reduce.h"
#include "isa/semantics/philox.h"

namespace trek::device {

namespace order_detail {
inline constexpr uint32_t kCounted = 256;  // the longest line whose places are counted
inline constexpr uint32_t kDigits = 16;
inline constexpr uint32_t kCounts = shared_at::kWork;  // uint32_t[kDigits][threads]
inline constexpr uint32_t kTotals = kCounts + kDigits * kMaxBlockThreads * 4;
// Lines of up to this many elements are sorted in shared memory: two arrays of keys and of indices.
inline constexpr uint32_t kInShared = 4096;
inline constexpr uint32_t kItemBytes = 24;
// From kSlots on: micro-programs are not used here.
inline constexpr uint32_t kItems = shared_at::kSlots;
static_assert(kItems + kInShared * kItemBytes <= kCounts);
static_assert(kTotals + 2 * kDigits * 4 <= kSharedBytes);
}  // namespace order_detail

// Bytes of arena memory that the sort of a line of n elements needs.
constexpr int64_t order_scratch(int64_t n) {
  return n <= order_detail::kInShared ? 0 : (n * order_detail::kItemBytes + 255) / 256 * 256;
}

namespace order_detail {

// The bits of a key that matter; the order of what is left is that of the elements.
TREK_UNIT_CALL uint64_t sort_key(Task task, uint64_t bits) {
  const auto type = static_cast<DType>(task.node().type);
  const Form form = form_of(type);
  uint64_t key = key_of(form, bits, false);
  // A narrow signed integer was extended: bring its sign down to its own top bit.
  if (form == Form::sint) {
    const uint32_t spare = 64 - 8 * size_of(type);
    key = (bits ^ uint64_t{1} << (63 - spare)) << spare >> spare;
  }
  const uint64_t mask = ~uint64_t{0} >> (64 - task.node().order.key_bits);
  return (task.node().order.descending != 0 ? ~key : key) & mask;
}

// Gives the element that comes k-th in line `line`: `from` is its place in the line.
TREK_UNIT_CALL void give(Task task, int64_t line, int64_t k, int64_t from) {
  const Node& node = task.node();
  const auto opcode = static_cast<Opcode>(node.opcode);
  const Lines& lines = node.lines;
  const int64_t to =
      place_of(node, lines.result_kept, line) + place_of(node, lines.result_along, k);
  if (opcode == Opcode::Sort || opcode == Opcode::TopK) {
    const int64_t at = place_of(node, lines.kept, line) + place_of(node, lines.along, from);
    give_result(task, 0, to, operand_of(task, 0, at));
  }
  if (opcode == Opcode::Sort) return;
  give_result(task, opcode == Opcode::TopK ? 1 : 0, to, static_cast<uint64_t>(from));
}

struct Items {
  uint64_t* keys;
  uint32_t* places;
};

// Sorts n items of `bits` bits; returns where they are then.
TREK_UNIT_CALL Items sort_items(Task task, Items items, Items spare, uint32_t n, uint32_t bits) {
  auto* counts = task.shared<uint32_t>(kCounts);
  auto* totals = task.shared<uint32_t>(kTotals);
  const uint32_t share = (n + task.threads() - 1) / task.threads();
  const uint32_t wanted = task.thread() * share;
  const uint32_t begin = wanted < n ? wanted : n;
  const uint32_t end = n - begin < share ? n : begin + share;
  TREK_ROLLED
  for (uint32_t shift = 0; shift < bits; shift += 4) {
    for (uint32_t d = 0; d < kDigits; ++d) counts[d * task.threads() + task.thread()] = 0;
    for (uint32_t i = begin; i < end; ++i)
      ++counts[(items.keys[i] >> shift & 15) * task.threads() + task.thread()];
    task.sync();
    // Each digit's counts become places within the digit; then digits are laid one after the other.
    for (uint32_t d = task.thread(); d < kDigits; d += task.threads()) {
      uint32_t sum = 0;
      for (uint32_t t = 0; t < task.threads(); ++t) {
        const uint32_t own = counts[d * task.threads() + t];
        counts[d * task.threads() + t] = sum;
        sum += own;
      }
      totals[d] = sum;
    }
    task.sync();
    bool lone = false;  // all items have one digit
    uint32_t before = 0;
    for (uint32_t d = 0; d < kDigits; ++d) {
      const uint32_t own = totals[d];
      lone = lone || own == n;
      counts[d * task.threads() + task.thread()] += before;
      before += own;
    }
    if (!lone) {
      for (uint32_t i = begin; i < end; ++i) {
        const uint64_t key = items.keys[i];
        const uint32_t to = counts[(key >> shift & 15) * task.threads() + task.thread()]++;
        spare.keys[to] = key;
        spare.places[to] = items.places[i];
      }
      const Items other = items;
      items = spare;
      spare = other;
    }
    task.sync();
  }
  return items;
}

// The two arrays for n items, in shared memory or in the task's part of the arena.
TREK_UNIT_CALL void make_room(Task task, int64_t first, uint32_t n, Items& items, Items& spare) {
  const Order& order = task.node().order;
  std::byte* at = task.shared<std::byte>(kItems);
  if (n > kInShared) {
    const int64_t per_block = order.tile == 0 ? 1 : (order.block + order.tile - 1) / order.tile;
    const int64_t index =
        order.tile == 0 ? 0 : first / order.block * per_block + first % order.block / order.tile;
    at = task.at(task.node().scratch) + index * task.node().scratch_bytes;
  }
  items.keys = reinterpret_cast<uint64_t*>(at);
  spare.keys = items.keys + n;
  items.places = reinterpret_cast<uint32_t*>(spare.keys + n);
  spare.places = items.places + n;
}

// Short lines: places by counting.
TREK_UNIT_CALL void count_lines(Task task, int64_t first, int64_t count) {
  const Lines& lines = task.node().lines;
  const auto n = static_cast<uint32_t>(lines.n);
  const uint32_t together = kInShared / n;
  auto* keys = task.shared<uint64_t>(kItems);
  for (int64_t done = 0; done < count; done += together) {
    const auto some = static_cast<uint32_t>(count - done < together ? count - done : together);
    for (uint32_t i = task.thread(); i < some * n; i += task.threads()) {
      const int64_t at = place_of(task.node(), lines.kept, first + done + i / n) +
                         place_of(task.node(), lines.along, i % n);
      keys[i] = sort_key(task, operand_of(task, 0, at));
    }
    task.sync();
    for (uint32_t i = task.thread(); i < some * n; i += task.threads()) {
      const uint32_t own = i % n;
      const uint64_t* line = keys + (i - own);
      const uint64_t key = line[own];
      uint32_t before = 0;
      for (uint32_t j = 0; j < n; ++j)
        before += line[j] < key || (line[j] == key && j < own) ? 1 : 0;
      if (before < lines.kept_n) give(task, first + done + i / n, before, own);
    }
    task.sync();
  }
}

}  // namespace order_detail

// Lines of at most 2^32 - 1 elements; describe() refuses longer ones.
TREK_UNIT_CALL void order(Task task, int64_t first, int64_t count) {
  using namespace order_detail;  // NOLINT(google-build-using-namespace)
  const Lines& lines = task.node().lines;
  if (lines.n == 0) return;
  if (lines.n <= kCounted) return count_lines(task, first, count);
  const auto n = static_cast<uint32_t>(lines.n);
  for (int64_t line = first; line < first + count; ++line) {
    Items items{};
    Items spare{};
    make_room(task, first, n, items, spare);
    for (uint32_t i = task.thread(); i < n; i += task.threads()) {
      const int64_t at =
          place_of(task.node(), lines.kept, line) + place_of(task.node(), lines.along, i);
      items.keys[i] = sort_key(task, operand_of(task, 0, at));
      items.places[i] = i;
    }
    task.sync();
    items = sort_items(task, items, spare, n, task.node().order.key_bits);
    for (uint32_t k = task.thread(); k < lines.kept_n; k += task.threads())
      give(task, line, k, items.places[k]);
    task.sync();
  }
}

// Attributes: key, offset.
TREK_UNIT_CALL void permutation(Task task) {
  using namespace order_detail;  // NOLINT(google-build-using-namespace)
  const auto n = static_cast<uint32_t>(task.node().result(0).elements);
  const uint64_t key = semantics::seeded_key(task.attribute(0), task.context().seed);
  Items items{};
  Items spare{};
  make_room(task, 0, n, items, spare);
  for (uint32_t i = task.thread(); i < n; i += task.threads()) {
    items.keys[i] = semantics::random_word(key, task.attribute(1), i);
    items.places[i] = i;
  }
  task.sync();
  items = sort_items(task, items, spare, n, 32);
  for (uint32_t i = task.thread(); i < n; i += task.threads())
    give_result(task, 0, i, items.places[i]);
}

}  // namespace trek::device
