#include "emulator/plan/place.h"

#include <algorithm>
#include <functional>

namespace trek::plan {
namespace {

int64_t aligned(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

struct Interval {
  uint32_t buffer = 0;
  uint32_t first = 0;
  uint32_t last = 0;
  int64_t bytes = 0;
};

// The most bytes alive at one node: no placement can do with less.
int64_t most_alive(const std::vector<Interval>& intervals, size_t nodes) {
  std::vector<int64_t> change(nodes + 1, 0);
  for (const Interval& interval : intervals) {
    change[interval.first] += interval.bytes;
    change[interval.last + 1] -= interval.bytes;
  }
  int64_t alive = 0;
  int64_t most = 0;
  for (int64_t step : change) most = std::max(most, alive += step);
  return most;
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

// Of more intervals than this only the order of time is tried, which takes no quadratic time.
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
  std::vector<int64_t> best;
  bool in_time = true;
  for (const Before& before : orders()) {
    std::sort(intervals.begin(), intervals.end(), [&](const Interval& a, const Interval& b) {
      if (before(a, b) != before(b, a)) return before(a, b);
      return a.buffer < b.buffer;
    });
    std::vector<int64_t> offsets(plan.buffers.size(), 0);
    const int64_t size = best_fit(intervals, in_time, offsets);
    if (best.empty() || size < plan.peak_bytes) {
      plan.peak_bytes = size;
      best = std::move(offsets);
    }
    if (plan.peak_bytes == plan.lower_bound || intervals.size() > kManyIntervals) break;
    in_time = false;
  }
  for (const Interval& interval : intervals)
    plan.buffers[interval.buffer].offset = plan.fixed_bytes + best[interval.buffer];
  plan.arena_bytes = plan.fixed_bytes + plan.peak_bytes;
}

}  // namespace trek::plan
