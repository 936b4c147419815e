#include "emulator/plan/place.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "emulator/plan/for_steps.h"
#include "emulator/plan/product.h"

namespace trek::plan {
namespace {

int64_t aligned(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

struct Interval {
  uint32_t buffer = 0;
  uint32_t first = 0;
  uint32_t last = 0;
  int64_t bytes = 0;
};

// Bytes alive at each node, and behind the last one.
std::vector<int64_t> alive_at(const std::vector<Interval>& intervals, size_t nodes) {
  std::vector<int64_t> alive(nodes + 1, 0);  // at first what comes and goes
  for (const Interval& interval : intervals) {
    alive[interval.first] += interval.bytes;
    alive[interval.last + 1] -= interval.bytes;
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  return alive;
}
// The most at one node: no placement can do with less.
int64_t most_alive(const std::vector<Interval>& intervals, size_t nodes) {
  return std::ranges::max(alive_at(intervals, nodes));
}

// Places intervals in the given order, each into the smallest gap that is free for its whole life. In the
// order of time what has ended needs no more thought.
int64_t best_fit(const std::vector<Interval>& order, bool in_time, std::vector<int64_t>& offsets) {
  struct Placed {
    int64_t begin;
    int64_t end;
    uint32_t first;
    uint32_t last;
  };
  std::vector<Placed> placed;  // by ascending begin
  int64_t size = 0;
  for (const Interval& interval : order) {
    int64_t best = -1;
    int64_t best_gap = INT64_MAX;
    int64_t free_from = 0;
    if (in_time)
      std::erase_if(placed, [&](const Placed& other) { return other.last < interval.first; });
    for (const Placed& other : placed) {
      if (other.last < interval.first || other.first > interval.last) continue;
      const int64_t gap = other.begin - free_from;
      if (gap >= interval.bytes && gap < best_gap) {
        best = free_from;
        best_gap = gap;
      }
      free_from = std::max(free_from, other.end);
    }
    const int64_t at = best >= 0 ? best : free_from;
    offsets[interval.buffer] = at;
    const Placed mine{at, at + interval.bytes, interval.first, interval.last};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), mine,
                         [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
        mine);
    size = std::max(size, mine.end);
  }
  return size;
}

using Before = std::function<bool(const Interval&, const Interval&)>;

// Of more intervals than this only the order of time is tried, which takes no quadratic time, and all of a size are kept
// longer or none.
constexpr size_t kManyIntervals = 4000;

// The order of time first.
std::vector<Before> orders() {
  const auto length = [](const Interval& i) { return int64_t{i.last} - i.first + 1; };
  return {
      [](const Interval& a, const Interval& b) { return a.first < b.first; },
      [](const Interval& a, const Interval& b) { return a.bytes > b.bytes; },
      [length](const Interval& a, const Interval& b) { return length(a) > length(b); },
      [length](const Interval& a, const Interval& b) {
        return static_cast<double>(a.bytes) * static_cast<double>(length(a)) >
               static_cast<double>(b.bytes) * static_cast<double>(length(b));
      },
      [](const Interval& a, const Interval& b) { return a.last > b.last; },
  };
}

struct Packed {
  int64_t bytes = 0;
  std::vector<int64_t> offsets;  // per buffer
};

Packed pack(std::vector<Interval> intervals, size_t buffers, int64_t lower_bound) {
  Packed best;
  bool in_time = true;
  for (const Before& before : orders()) {
    std::sort(intervals.begin(), intervals.end(), [&](const Interval& a, const Interval& b) {
      if (before(a, b) != before(b, a)) return before(a, b);
      return a.buffer < b.buffer;
    });
    std::vector<int64_t> offsets(buffers, 0);
    const int64_t size = best_fit(intervals, in_time, offsets);
    if (best.offsets.empty() || size < best.bytes) best = {size, std::move(offsets)};
    if (best.bytes == lower_bound || intervals.size() > kManyIntervals) break;
    in_time = false;
  }
  return best;
}

// By level: the last node that is no higher.
std::vector<uint32_t> last_of_levels(const Plan& plan) {
  std::vector<uint32_t> last;
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    const uint32_t level = plan.nodes[n].level;
    if (level >= last.size()) last.resize(level + 1, 0);
    last[level] = n;
  }
  for (size_t level = 1; level < last.size(); ++level)
    last[level] = std::max(last[level], last[level - 1]);
  return last;
}

// By level: the first node that is no lower.
std::vector<uint32_t> first_of_levels(const Plan& plan) {
  std::vector<uint32_t> first;
  for (auto n = static_cast<uint32_t>(plan.nodes.size()); n-- > 0;) {
    const uint32_t level = plan.nodes[n].level;
    if (level >= first.size()) first.resize(level + 1, static_cast<uint32_t>(plan.nodes.size()));
    first[level] = n;
  }
  for (size_t level = first.size(); level-- > 1;)
    first[level - 1] = std::min(first[level - 1], first[level]);
  return first;
}

// By buffer: one above the level of the last product of a kind that reads it, or 0.
std::vector<uint32_t> levels_of_readers(const Plan& plan, Product kind) {
  std::vector<uint32_t> levels(plan.buffers.size(), 0);
  for (const Node& node : plan.nodes) {
    if (node.unit != Unit::matrix || product_of(plan, node) != kind) continue;
    for (const Operand& operand : node.operands) {
      if (operand.kind != Operand::Kind::view) continue;
      uint32_t& level = levels[plan.views[operand.index].buffer];
      level = std::max(level, node.level + 1);
    }
  }
  return levels;
}

// Nodes of a level, or nearly, can run at the same time, but not where one is to write what another has yet
// to read. So a register keeps its place until the last node has come that is no more than kLevelsKept above its own
// last one: all of at most `most` bytes; and as many others as leave no more than `enough` alive at once. First those that a
// product reads last, which takes long, and of these the largest, whose places are the likeliest to be taken. Where memory is
// more than a cache has, fresh places cost more than a wait for what is short: there only what products in the dot order read.
// Beside long gradients, whose short nodes are dealt by when they can begin, small registers have their places as many levels
// sooner, and so has what these gradients give.
constexpr uint32_t kLevelsKept = 2;

class Lives {
 public:
  explicit Lives(const Plan& plan)
      : plan_(plan), gradients_(plan), last_(last_of_levels(plan)), first_(first_of_levels(plan)) {
    if (!gradients_.are_any()) return;
    ordered_ = levels_of_readers(plan, Product::ordered);
    narrow_ = levels_of_readers(plan, Product::narrow);
  }
  uint32_t end_of(const Interval& interval) const {
    const size_t level = size_t{last_node(interval).level} + kLevelsKept;
    return std::max(interval.last, last_[std::min(level, last_.size() - 1)]);
  }
  uint32_t begin_of(const Interval& interval) const {
    if (!gradients_.are_beside(interval.first)) return interval.first;
    const uint32_t level = plan_.nodes[interval.first].level;
    return std::min(interval.first, first_[level - std::min(level, kLevelsKept)]);
  }
  bool is_for_ordered(const Interval& interval) const {
    return is_ordered(last_node(interval)) || is_read_late(interval, ordered_) ||
           is_read_late(interval, narrow_);
  }
  bool is_of_ordered(const Interval& interval) const {
    return is_ordered(plan_.nodes[interval.first]);
  }
  // How long those that read it last take: 0 of long gradients and what is beside them, 1 of other products, 2.
  int rank(const Interval& interval) const {
    if (is_read_late(interval, ordered_)) return 0;
    return last_node(interval).unit == Unit::matrix ? 1 : 2;
  }

 private:
  const Node& last_node(const Interval& interval) const { return plan_.nodes[interval.last]; }
  bool is_ordered(const Node& node) const {
    return node.unit == Unit::matrix && product_of(plan_, node) == Product::ordered;
  }
  // Beside long gradients: whether such products are among the last that read it.
  bool is_read_late(const Interval& interval, const std::vector<uint32_t>& levels) const {
    return gradients_.are_beside(interval.last) &&
           levels[interval.buffer] + kLevelsKept > last_node(interval).level;
  }

  const Plan& plan_;
  const LongGradients gradients_;
  const std::vector<uint32_t> last_;  // per level
  const std::vector<uint32_t> first_;
  std::vector<uint32_t> ordered_;  // per buffer
  std::vector<uint32_t> narrow_;
};

std::vector<Interval> kept_longer(const Plan& plan, const Lives& lives,
                                  std::vector<Interval> intervals, int64_t most, int64_t enough) {
  constexpr int64_t kCached = int64_t{32} << 20;
  const bool is_cached = plan.fixed_bytes + enough <= kCached;
  std::vector<Interval*> others;
  for (Interval& interval : intervals) {
    if (interval.bytes <= most) {
      const uint32_t end = lives.end_of(interval);
      interval.first = lives.begin_of(interval);
      interval.last = end;
    } else if (is_cached || lives.is_for_ordered(interval)) {
      others.push_back(&interval);
    }
  }
  if (others.empty() || intervals.size() > kManyIntervals) return intervals;
  std::vector<int64_t> alive = alive_at(intervals, plan.nodes.size());
  std::ranges::sort(others, {}, [&](const Interval* i) {
    const int takes = lives.rank(*i);
    return std::tuple(takes, takes < 2 ? -i->bytes : i->bytes, i->buffer);
  });
  const auto extend = [&](uint32_t from, uint32_t end, int64_t bytes) {  // by nodes [from, end)
    const std::span by(alive.begin() + from, alive.begin() + end);
    if (by.empty() || std::ranges::max(by) + bytes > enough) return false;
    for (int64_t& of_node : by) of_node += bytes;
    return true;
  };
  for (Interval* interval : others) {
    const uint32_t end = lives.end_of(*interval);
    if (extend(interval->last + 1, end + 1, interval->bytes)) interval->last = end;
  }
  // And what large products in the dot order give has its place sooner, so that those of them that could begin early do.
  for (Interval& interval : intervals) {
    if (interval.bytes <= most || !lives.is_of_ordered(interval)) continue;
    const uint32_t begin = lives.begin_of(interval);
    if (extend(begin, interval.first, interval.bytes)) interval.first = begin;
  }
  return intervals;
}

}  // namespace

void place(Plan& plan) {
  int64_t fixed = 0;
  std::vector<Interval> intervals;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    Buffer& buffer = plan.buffers[i];
    if (buffer.kind == BufferKind::tensor_register) {
      intervals.push_back({i, buffer.first, buffer.last, aligned(buffer.bytes, kAlignment)});
      continue;
    }
    fixed = aligned(fixed, buffer.kind == BufferKind::tensor ? kAlignment : 8);
    buffer.offset = fixed;
    fixed += buffer.bytes;
  }
  plan.fixed_bytes = aligned(fixed, kAlignment);
  plan.lower_bound = most_alive(intervals, plan.nodes.size());
  // What may be spent on it: little of what is alive, or next to nothing of all.
  const int64_t enough = plan.lower_bound + plan.lower_bound / 13 + plan.fixed_bytes / 1024;
  const Lives lives(plan);
  Packed packed;
  for (const int64_t most : {INT64_MAX, int64_t{256} << 10, int64_t{16} << 10, int64_t{0}}) {
    const auto kept = most == 0 ? intervals : kept_longer(plan, lives, intervals, most, enough);
    const int64_t bound = most_alive(kept, plan.nodes.size());
    if (most != 0 && bound > enough) continue;
    packed = pack(kept, plan.buffers.size(), bound);
    if (packed.bytes <= enough) break;
  }
  for (const Interval& interval : intervals)
    plan.buffers[interval.buffer].offset = plan.fixed_bytes + packed.offsets[interval.buffer];
  plan.peak_bytes = packed.bytes;
  plan.arena_bytes = plan.fixed_bytes + plan.peak_bytes;
}

}  // namespace trek::plan
