// Whether what a task reads has been written, on every way that leads to it: bytes of each buffer are
// followed through the regions. A loop may make no trip and a branch may not be taken, so what they wrote
// is forgotten at their end, unless both branches of an `if` wrote it.
#include <algorithm>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "emulator/plan/check.h"

namespace trek::plan {
namespace {

// Ranges of bytes, disjoint and not touching: begin to end.
class Ranges {
 public:
  void add(int64_t begin, int64_t end) {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second >= begin) --at;
    while (at != ranges_.end() && at->first <= end) {
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = ranges_.erase(at);
    }
    ranges_[begin] = end;
  }
  bool has(int64_t begin, int64_t end) const {
    const auto at = ranges_.upper_bound(begin);
    return at != ranges_.begin() && std::prev(at)->second >= end;
  }
  void add_common(const Ranges& a, const Ranges& b) {
    for (const auto& [begin, end] : a.ranges_)
      for (const auto& [other, other_end] : b.ranges_)
        if (other < end && begin < other_end) add(std::max(begin, other), std::min(end, other_end));
  }

 private:
  std::map<int64_t, int64_t> ranges_;
};

using Written = std::map<uint32_t, Ranges>;  // per buffer

class Walk {
 public:
  Walk(const Plan& plan, PlanErrors& errors) : plan_(plan), errors_(errors) {}

  void run() {
    for (uint32_t i = 0; i < plan_.tasks.size(); ++i) {
      go_to(plan_.tasks[i].region);
      task(i);
    }
    go_to(0);
  }

 private:
  struct Open {
    uint32_t region = 0;
    Written before;
  };

  void task(uint32_t index) {
    const auto boxes = plan_.boxes_of(plan_.tasks[index]);
    for (const Box& box : boxes) {
      const Buffer& buffer = plan_.buffers[box.buffer];
      if (box.write || buffer.initialised) continue;
      const auto found = written_.find(box.buffer);
      for (int64_t row = 0; row < box.rows; ++row) {
        const int64_t begin = box.begin + row * box.stride;
        if (found != written_.end() && found->second.has(begin, begin + box.row_bytes)) continue;
        errors_.add(fmt::format("task {} reads {} before it is written", index, buffer.name));
        break;
      }
    }
    for (const Box& box : boxes)
      for (int64_t row = 0; box.write && !box.partial && row < box.rows; ++row)
        written_[box.buffer].add(box.begin + row * box.stride,
                                 box.begin + row * box.stride + box.row_bytes);
  }

  void go_to(uint32_t region) {
    while (!open_.empty() && !plan_.encloses(open_.back().region, region)) leave();
    std::vector<uint32_t> path;
    for (uint32_t r = region; r != 0 && (open_.empty() || r != open_.back().region);
         r = plan_.regions[r].parent)
      path.push_back(r);
    for (size_t i = path.size(); i-- > 0;) open_.push_back({path[i], written_});
  }

  void leave() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    const Region& region = plan_.regions[closed.region];
    // The body of a while up to its test is executed at least once.
    if (region.kind == RegionKind::repeat) return;
    if (region.kind == RegionKind::then) then_[region.decision] = written_;
    Written inside = std::exchange(written_, std::move(closed.before));
    if (region.kind != RegionKind::otherwise) return;
    const Written& other = then_[region.decision];
    for (const auto& [buffer, ranges] : inside)
      if (const auto found = other.find(buffer); found != other.end())
        written_[buffer].add_common(ranges, found->second);
  }

  const Plan& plan_;
  PlanErrors& errors_;
  Written written_;
  std::vector<Open> open_;
  std::map<uint32_t, Written> then_;  // per decision: what its first branch had written
};

}  // namespace

void check_written(const Plan& plan, PlanErrors& errors) { Walk(plan, errors).run(); }

}  // namespace trek::plan
