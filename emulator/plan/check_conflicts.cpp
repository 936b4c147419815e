#include "emulator/plan/check_conflicts.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "emulator/plan/runs.h"

namespace trek::plan {
namespace {

using Proof = Conflict::Proof;

// Accesses of one processor to the same bytes in the same way.
struct AccessClass {
  Box box;
  uint32_t processor = 0;
  bool is_late = false;         // is_read_late()
  std::vector<uint32_t> tasks;  // in program order
  std::vector<uint32_t> loops;  // that are around any of them
};

class Conflicts {
 public:
  Conflicts(const Plan& plan, const std::function<bool(uint32_t, uint32_t)>& is_settled)
      : plan_(plan), is_settled_(is_settled) {}
  std::vector<Conflict>&& find();

 private:
  std::vector<AccessClass> classes() const;
  void pair_up(const AccessClass& early, const AccessClass& late);
  void pair_up_tiles(const AccessClass& a, const AccessClass& b);
  // Whether `later` is executed only where `earlier` is.
  bool sure(uint32_t earlier, uint32_t later) const {
    return plan_.encloses(plan_.tasks[earlier].region, plan_.tasks[later].region);
  }
  uint32_t node_of(uint32_t task) const { return plan_.tasks[task].node; }

  const Plan& plan_;
  const std::function<bool(uint32_t, uint32_t)>& is_settled_;
  std::vector<Conflict> conflicts_;
};

std::vector<AccessClass> Conflicts::classes() const {
  struct Access {
    uint32_t task;
    uint32_t box;
  };
  std::vector<Access> order;
  for (uint32_t i = 0; i < plan_.tasks.size(); ++i)
    for (uint32_t b = 0; b < plan_.tasks[i].boxes; ++b) {
      const uint32_t box = plan_.tasks[i].first_box + b;
      if (!plan_.boxes[box].empty()) order.push_back({i, box});
    }
  const auto is_late = [&](const Access& a) {
    return is_read_late(plan_, plan_.tasks[a.task], plan_.boxes[a.box]);
  };
  const auto key = [&](const Access& a) {
    const Box& box = plan_.boxes[a.box];
    return std::tuple(box.begin, box.row_bytes, box.rows, box.stride, box.write, box.partial,
                      is_late(a), plan_.tasks[a.task].processor);
  };
  std::sort(order.begin(), order.end(), [&](const Access& a, const Access& b) {
    return std::pair(key(a), a.task) < std::pair(key(b), b.task);
  });
  std::vector<AccessClass> made;
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t task = order[i].task;
    if (i == 0 || key(order[i]) != key(order[i - 1]))
      made.push_back(
          {plan_.boxes[order[i].box], plan_.tasks[task].processor, is_late(order[i]), {}, {}});
    AccessClass& mine = made.back();
    if (mine.tasks.empty() || mine.tasks.back() != task) mine.tasks.push_back(task);
  }
  for (AccessClass& mine : made) {
    for (uint32_t i = 0; i < mine.tasks.size(); ++i) {
      const uint32_t region = plan_.tasks[mine.tasks[i]].region;
      if (i > 0 && region == plan_.tasks[mine.tasks[i - 1]].region) continue;
      for (uint32_t r = region; r != kNone; r = plan_.regions[r].parent)
        if (plan_.regions[r].is_loop()) mine.loops.push_back(r);
    }
    std::sort(mine.loops.begin(), mine.loops.end());
    mine.loops.erase(std::unique(mine.loops.begin(), mine.loops.end()), mine.loops.end());
  }
  return made;
}

// Tasks of one queue are in order whatever they do.
std::vector<Conflict>&& Conflicts::find() {
  const std::vector<AccessClass> all = classes();
  std::vector<const AccessClass*> reads;
  std::vector<const AccessClass*> writes;
  for (const AccessClass& mine : all) {
    const auto meet = [&](std::vector<const AccessClass*>& others) {
      std::erase_if(others, [&](const AccessClass* a) { return a->box.end() <= mine.box.begin; });
      for (const AccessClass* other : others) {
        if (other->processor == mine.processor || !overlap(mine.box, other->box)) continue;
        if (mine.box.partial && other->box.partial) {
          pair_up_tiles(mine, *other);
        } else {
          pair_up(mine, *other);
          pair_up(*other, mine);
        }
      }
    };
    meet(writes);
    if (mine.box.write) meet(reads);
    (mine.box.write ? writes : reads).push_back(&mine);
  }
  return std::move(conflicts_);
}

// Finds enough pairs of a task of `early` and a later one of `late` that their proofs are the proof of all such
// pairs.
//
// Within a trip: a task for which c certainly waits, and which is executed whenever c is, brings all that is
// before it on its queue.
//
// Across the trips of a loop: what is right in the loop's body, in no region within it, is executed in every
// trip. A task that waits for one of those of the trip before waits for all that was before that on its queue; and
// who comes after one of those on its queue waits for all that it waits for.
void Conflicts::pair_up(const AccessClass& early, const AccessClass& late) {
  const auto region = [&](uint32_t task) { return plan_.tasks[task].region; };
  auto next = early.tasks.begin();
  for (const uint32_t c : late.tasks) {
    while (next != early.tasks.end() && *next < c) ++next;
    for (auto a = next; a != early.tasks.begin();) {
      --a;
      if (is_settled_(*a, c)) break;
      conflicts_.push_back({*a, c, Proof::within, early.is_late, late.is_late});
      if (sure(*a, c)) break;
    }
  }
  for (const uint32_t loop : early.loops) {
    if (!std::binary_search(late.loops.begin(), late.loops.end(), loop)) continue;
    const Region& body = plan_.regions[loop];
    const auto right_in_it = [&](uint32_t task) { return region(task) == loop; };
    const auto a_begin = std::lower_bound(early.tasks.begin(), early.tasks.end(), body.first_task);
    const auto a_end = std::lower_bound(a_begin, early.tasks.end(), body.end_task);
    const auto c_begin = std::lower_bound(late.tasks.begin(), late.tasks.end(), body.first_task);
    const auto c_end = std::lower_bound(c_begin, late.tasks.end(), body.end_task);
    const auto a_last = std::find_if(a_begin, a_end, right_in_it);
    auto c_first = c_end;
    while (c_first != c_begin && (c_first == c_end || !right_in_it(*c_first))) --c_first;
    for (auto a = a_begin; a != a_end; ++a) {
      for (auto c = c_first; c != c_end; ++c)
        // An inner loop with both has trips of its own, one after another also where the outer trip ends.
        if (*a < *c && plan_.common_loop(region(*a), region(*c)) == loop)
          conflicts_.push_back({*a, *c, Proof::across, early.is_late, late.is_late});
      if (a == a_last) break;
    }
  }
}

void Conflicts::pair_up_tiles(const AccessClass& a, const AccessClass& b) {
  for (const uint32_t x : a.tasks)
    for (const uint32_t y : b.tasks) {
      const auto [first, second] = std::minmax(x, y);
      const bool tiles = node_of(x) == node_of(y);
      const bool repeated =
          plan_.common_loop(plan_.tasks[x].region, plan_.tasks[y].region) != kNone;
      if (!tiles && !is_settled_(first, second))
        conflicts_.push_back({first, second, Proof::within});
      if (repeated) conflicts_.push_back({first, second, tiles ? Proof::between : Proof::across});
    }
}

}  // namespace

std::vector<Conflict> find_conflicts(
    const Plan& plan, const std::function<bool(uint32_t early, uint32_t late)>& is_settled) {
  return Conflicts(plan, is_settled).find();
}

}  // namespace trek::plan
