#include "emulator/plan/accesses.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace trek::plan {
namespace {

// A task is to be in about so many of the sets that one access makes of a node, at most.
constexpr size_t kSetsOfTask = 3;

uint64_t mix(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9E3779B97F4A7C15u ^ (hash >> 29);
}

}  // namespace

Accesses::Accesses(const Plan& plan) : plan_(plan) {
  pieces_.reserve(plan.boxes.size());
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) add_node(n);
  first_.push_back(static_cast<uint32_t>(accesses_.size()));
}

void Accesses::add_node(uint32_t node) {
  const auto first = static_cast<uint32_t>(accesses_.size());
  first_.push_back(first);
  const Node& n = plan_.nodes[node];
  // Which accesses there are, then their pieces one after the other.
  const auto find = [&](const Box& box) -> Access& {
    for (size_t i = first; i < accesses_.size(); ++i)
      if (accesses_[i].buffer == box.buffer && accesses_[i].write == box.write) return accesses_[i];
    Access access;
    access.node = node;
    access.buffer = box.buffer;
    access.write = box.write;
    accesses_.push_back(access);
    return accesses_.back();
  };
  const auto each_piece = [&](auto&& f) {
    for (uint32_t t = n.first_task; t < n.first_task + n.tasks; ++t)
      for (uint32_t b = 0; b < plan_.tasks[t].boxes; ++b) {
        const uint32_t box = plan_.tasks[t].first_box + b;
        // Nothing waits for a read of what is never written.
        const bool matters = !plan_.buffers[plan_.boxes[box].buffer].immutable;
        if (matters && !plan_.boxes[box].empty()) f(t, box);
      }
  };
  each_piece([&](uint32_t, uint32_t box) { ++find(plan_.boxes[box]).count; });
  auto next = static_cast<uint32_t>(pieces_.size());
  for (size_t i = first; i < accesses_.size(); ++i) {
    accesses_[i].first = next;
    next += std::exchange(accesses_[i].count, 0);
  }
  pieces_.resize(next);
  each_piece([&](uint32_t task, uint32_t box) {
    Access& access = find(plan_.boxes[box]);
    pieces_[access.first + access.count++] = {task, box};
  });
  for (size_t i = first; i < accesses_.size(); ++i) finish(accesses_[i]);
}

void Accesses::finish(Access& access) {
  const auto begin = pieces_.begin() + access.first;
  const auto box = [&](const Piece& piece) -> const Box& { return plan_.boxes[piece.box]; };
  std::sort(begin, begin + access.count, [&](const Piece& a, const Piece& b) {
    return std::pair(box(a).begin, a.box) < std::pair(box(b).begin, b.box);
  });
  access.begin = box(*begin).begin;
  access.end = access.begin;
  int64_t bytes = 0;
  bool ranges = true;
  bool gap = false;
  bool once = true;  // each task has one piece, so that what they write is disjoint
  for (uint32_t i = 0; i < access.count; ++i) {
    const Box& b = box(*(begin + i));
    ranges = ranges && b.rows == 1;
    gap = gap || b.begin > access.end;
    access.end = std::max(access.end, b.end());
    access.longest = std::max(access.longest, b.end() - b.begin);
    access.partial = access.partial || b.partial;
    bytes += b.rows * b.row_bytes;
  }
  const Node& node = plan_.nodes[access.node];
  for (uint32_t t = node.first_task; once && t < node.first_task + node.tasks; ++t) {
    int pieces = 0;
    for (const Box& b : plan_.boxes_of(plan_.tasks[t]))
      pieces += b.buffer == access.buffer && b.write == access.write ? 1 : 0;
    once = pieces <= 1;
  }
  const bool tiles = access.write && !access.partial && once;
  access.solid = ranges ? !gap : tiles && bytes == access.end - access.begin;
}

// Of tiles that write only parts of their boxes none speaks for another's; one box that has all of it does,
// because every task of its node has come after what it overlaps.
bool Accesses::covers(const Access& outer, const Access& inner) const {
  if (!outer.write || outer.begin > inner.begin || outer.end < inner.end) return false;
  if (outer.solid && !outer.partial) return true;
  for (uint32_t i = 0; i < outer.count; ++i) {
    const Box& box = plan_.boxes[pieces_[outer.first + i].box];
    if (box.rows == 1 && box.begin <= inner.begin && box.end() >= inner.end) return true;
  }
  return false;
}

uint32_t Accesses::whole_node(uint32_t node) {
  const Node& n = plan_.nodes[node];
  if (n.tasks == 1) return kSingle + n.first_task;
  const uint64_t hash = mix(mix(mix(0, node), n.first_task), n.tasks);
  const auto [begin, end] = interned_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (sets_[it->second].range && sets_[it->second].first == n.first_task &&
        sets_[it->second].count == n.tasks)
      return it->second;
  sets_.push_back({node, n.first_task, n.tasks, true});
  used_.push_back(0);
  interned_.emplace(hash, static_cast<uint32_t>(sets_.size() - 1));
  return static_cast<uint32_t>(sets_.size() - 1);
}

uint32_t Accesses::united(uint32_t a, uint32_t b) {
  const auto [at, is_new] = unions_.emplace(std::minmax(a, b), kNone);
  if (!is_new) return at->second;
  std::vector<uint32_t> tasks;
  for (uint32_t set : {a, b}) each_member(set, [&](uint32_t task) { tasks.push_back(task); });
  std::sort(tasks.begin(), tasks.end());
  tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
  return at->second = intern(set(a).node, tasks);
}

// Whether a set has these tasks, which ascend.
bool Accesses::is_same(uint32_t index, const std::vector<uint32_t>& tasks) const {
  const ProducerSet set = this->set(index);
  if (set.count != tasks.size()) return false;
  if (set.range) return set.first == tasks.front() && set.first + set.count - 1 == tasks.back();
  return std::equal(tasks.begin(), tasks.end(), pool_.begin() + set.first);
}

// `tasks` ascend.
uint32_t Accesses::intern(uint32_t node, const std::vector<uint32_t>& tasks) {
  if (tasks.size() == 1) return kSingle + tasks[0];
  const auto count = static_cast<uint32_t>(tasks.size());
  const bool range = tasks.back() - tasks.front() + 1 == count;
  uint64_t hash = mix(mix(mix(0, node), tasks.front()), count);
  if (!range)
    for (uint32_t task : tasks) hash = mix(hash, task);
  const auto [begin, end] = interned_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (is_same(it->second, tasks)) return it->second;
  ProducerSet set{node, tasks.front(), count, range};
  if (!range) {
    set.first = static_cast<uint32_t>(pool_.size());
    pool_.insert(pool_.end(), tasks.begin(), tasks.end());
  }
  sets_.push_back(set);
  used_.push_back(0);
  interned_.emplace(hash, static_cast<uint32_t>(sets_.size() - 1));
  return static_cast<uint32_t>(sets_.size() - 1);
}

// Calls f(task) for the tasks of `earlier` that share bytes with a box, until f says false.
template <typename F>
void Accesses::each_touched(const Box& box, const Access& earlier, F&& f) const {
  const Piece* begin = pieces_.data() + earlier.first;
  const Piece* end = begin + earlier.count;
  const int64_t least = box.begin - earlier.longest;
  const Piece* at = std::lower_bound(begin, end, least, [&](const Piece& piece, int64_t place) {
    return plan_.boxes[piece.box].begin < place;
  });
  for (; at != end && plan_.boxes[at->box].begin < box.end(); ++at)
    if (overlap(box, plan_.boxes[at->box]) && !f(at->task)) return;
}

void Accesses::relate(const Access& later, const Access& earlier, bool whole,
                      std::vector<Candidate>& out) {
  // Boxes that are equal touch the same: rows and columns of tiles read the same panels.
  using Shape = std::array<int64_t, 5>;
  std::map<Shape, uint32_t> memo;
  const bool distinct = later.write && !later.partial;  // nothing to remember
  const size_t begun = out.size();
  size_t members = 0;  // of all different sets
  ++relation_;
  uint32_t last = kNone;
  std::vector<uint32_t> tasks;
  for (uint32_t i = 0; i < later.count; ++i) {
    const Piece& piece = pieces_[later.first + i];
    const Box& box = plan_.boxes[piece.box];
    const uint32_t processor = plan_.tasks[piece.task].processor;
    if (box.begin >= earlier.end || box.end() <= earlier.begin) continue;
    uint32_t once = kNone;
    uint32_t* found = &once;
    if (!distinct) {
      const auto [at, is_new] = memo.emplace(
          Shape{box.begin, box.row_bytes, box.rows, box.stride, whole ? processor : 0}, kNone);
      found = &at->second;
      if (!is_new) {
        if (*found != kNone) out.push_back({piece.task, *found});
        continue;
      }
    }
    tasks.clear();
    const bool all = box.rows == 1 && box.begin <= earlier.begin && box.end() >= earlier.end;
    if (whole) {
      // What its own processor did before, a task need not wait for, but where that is its own node's trip before:
      // a counter of a whole node counts on no task of it running a trip ahead of the others.
      each_touched(box, earlier, [&](uint32_t task) {
        if (plan_.tasks[task].processor == processor && later.node != earlier.node) return true;
        *found = whole_node(earlier.node);
        return false;
      });
    } else if (all && earlier.count >= plan_.nodes[earlier.node].tasks) {
      *found = whole_node(earlier.node);
    } else {
      each_touched(box, earlier, [&](uint32_t task) {
        tasks.push_back(task);
        return true;
      });
    }
    if (!tasks.empty()) {
      std::sort(tasks.begin(), tasks.end());
      tasks.erase(std::unique(tasks.begin(), tasks.end()), tasks.end());
      *found = last != kNone && is_same(last, tasks) ? last : intern(earlier.node, tasks);
      const bool is_new = *found != std::exchange(last, *found);
      if (is_new && (last >= kSingle || std::exchange(used_[last], relation_) != relation_))
        members += tasks.size();
    }
    if (*found != kNone) out.push_back({piece.task, *found});
    if (!whole && members > kSetsOfTask * (earlier.count + 1)) {
      out.resize(begun);
      return relate(later, earlier, true, out);
    }
  }
}

}  // namespace trek::plan
