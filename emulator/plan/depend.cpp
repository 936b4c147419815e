#include "emulator/plan/depend.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace trek::plan {
namespace {

constexpr size_t kMaxSignals = 4;  // per task; beyond it, counters are of whole nodes

// How far each processor has certainly come: all its tasks before clock[p] are done.
using Clock = std::vector<uint32_t>;

void merge(Clock& into, const Clock& from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

struct Need {
  uint32_t producer = 0;
  uint8_t delta = 0;
  bool back = false;  // of the trip before
};

class Dependencies {
 public:
  explicit Dependencies(Plan& plan)
      : plan_(plan),
        known_(plan.tasks.size()),
        needs_(plan.tasks.size()),
        log_(plan.buffers.size()) {}
  void run();

 private:
  struct Access {
    uint32_t task = 0;
    uint32_t box = 0;
  };
  struct Killed {
    uint32_t buffer = 0;
    Access access;
  };
  // A region being walked: what is to be restored at its end.
  struct Open {
    uint32_t region = 0;
    std::vector<Clock> clocks;
    std::vector<Killed> killed;
  };

  void find_neighbours();
  void forward();
  void backward(uint32_t loop);
  void enter(uint32_t region);
  void leave();
  void go_to(uint32_t region);
  void want_earlier(uint32_t task);
  void record(uint32_t task);
  template <typename F>
  void each_cover(uint32_t task, F&& f) const;
  bool is_covered(const Box& box, uint32_t at, const Access& access) const {
    return task(access.task).node != task(at).node && covers(box, plan_.boxes[access.box]);
  }
  std::vector<uint32_t> conflicts(uint32_t task, bool later) const;
  void make_waits();
  bool count_signals(const std::vector<std::vector<std::vector<uint32_t>>>& sets,
                     std::vector<std::vector<uint32_t>>& signals);
  bool is_first_trip(const Need& need, uint32_t task) const;
  const Task& task(uint32_t index) const { return plan_.tasks[index]; }

  Plan& plan_;
  std::vector<Clock> known_;              // per task, when it ends
  std::vector<std::vector<Need>> needs_;  // per task
  std::vector<std::vector<Access>> log_;  // per buffer: accesses that still matter
  std::vector<std::vector<uint32_t>>
      neighbours_;             // per buffer: those that share bytes of the arena
  std::vector<Clock> clocks_;  // per processor
  std::vector<Open> open_;
  std::set<uint32_t> coarse_;  // nodes whose counters are of all their tasks
  std::map<std::vector<uint32_t>, uint32_t> counters_;
};

void Dependencies::find_neighbours() {
  neighbours_.resize(plan_.buffers.size());
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < plan_.buffers.size(); ++i)
    if (plan_.buffers[i].bytes > 0) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return plan_.buffers[a].offset < plan_.buffers[b].offset;
  });
  for (size_t i = 0; i < order.size(); ++i) {
    neighbours_[order[i]].push_back(order[i]);
    const int64_t end = plan_.buffers[order[i]].offset + plan_.buffers[order[i]].bytes;
    for (size_t j = i + 1; j < order.size() && plan_.buffers[order[j]].offset < end; ++j) {
      neighbours_[order[i]].push_back(order[j]);
      neighbours_[order[j]].push_back(order[i]);
    }
  }
}

// Tasks in the log that task `at` conflicts with, descending: those before it, or with `later` the others.
std::vector<uint32_t> Dependencies::conflicts(uint32_t at, bool later) const {
  std::vector<uint32_t> found;
  for (const Box& box : plan_.boxes_of(task(at)))
    for (uint32_t buffer : neighbours_[box.buffer])
      for (const Access& access : log_[buffer]) {
        const Box& other = plan_.boxes[access.box];
        if (!box.write && !other.write) continue;
        // Tiles of one node write different elements, whatever their boxes: only trips are in order.
        const bool tiles = box.partial && other.partial && task(access.task).node == task(at).node;
        if (tiles ? !later : (access.task >= at) != later) continue;
        if (overlap(box, other)) found.push_back(access.task);
      }
  std::sort(found.rbegin(), found.rend());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// Enters the task's boxes into the log, and forgets what its writes cover: who conflicts with that
// conflicts with this task too.
void Dependencies::record(uint32_t at) {
  for (uint32_t i = 0; i < task(at).boxes; ++i)
    log_[plan_.boxes[task(at).first_box + i].buffer].push_back({at, task(at).first_box + i});
  each_cover(at, [&](const Box& box, uint32_t buffer) {
    std::erase_if(log_[buffer], [&](const Access& access) {
      if (!is_covered(box, at, access)) return false;
      if (!open_.empty()) open_.back().killed.push_back({buffer, access});
      return true;
    });
  });
}

// Calls f(box, buffer) for what is overwritten now that the task is done. Tiles of one node do not wait for
// each other where their writes are partial, so one of them speaks for the others only once all are known.
template <typename F>
void Dependencies::each_cover(uint32_t at, F&& f) const {
  const Node& node = plan_.nodes[task(at).node];
  const bool is_last = at + 1 == node.first_task + node.tasks;
  for (uint32_t t = is_last ? node.first_task : at; t <= at; ++t)
    for (const Box& box : plan_.boxes_of(task(t))) {
      if (!box.write || (box.partial ? !is_last : t != at)) continue;
      for (uint32_t buffer : neighbours_[box.buffer]) f(box, buffer);
    }
}

void Dependencies::enter(uint32_t region) {
  open_.push_back({region, clocks_, {}});
  const uint32_t decision = plan_.regions[region].decision;
  if (decision == kNone) return;
  const uint32_t decider = plan_.nodes[decision].first_task;
  for (Clock& clock : clocks_) {
    merge(clock, known_[decider]);
    clock[plan_.control()] = std::max(clock[plan_.control()], decider + 1);
  }
}

void Dependencies::leave() {
  Open closed = std::move(open_.back());
  open_.pop_back();
  if (plan_.regions[closed.region].is_loop()) backward(closed.region);
  for (size_t p = 0; p < clocks_.size(); ++p) {
    const uint32_t own = clocks_[p][p];
    clocks_[p] = std::move(closed.clocks[p]);
    clocks_[p][p] = own;
  }
  for (const Killed& killed : closed.killed) log_[killed.buffer].push_back(killed.access);
}

void Dependencies::go_to(uint32_t region) {
  while (!open_.empty() && !plan_.encloses(open_.back().region, region)) leave();
  std::vector<uint32_t> path;
  for (uint32_t r = region; r != 0 && (open_.empty() || r != open_.back().region);
       r = plan_.regions[r].parent)
    path.push_back(r);
  for (size_t i = path.size(); i-- > 0;) enter(path[i]);
}

void Dependencies::forward() {
  for (uint32_t at = 0; at < plan_.tasks.size(); ++at) {
    go_to(task(at).region);
    const uint32_t p = task(at).processor;
    Clock& clock = clocks_[p];
    clock[p] = at;
    for (uint32_t producer : conflicts(at, false)) {
      const uint32_t from = task(producer).processor;
      if (clock[from] > producer) continue;
      needs_[at].push_back({producer, 0, false});
      if (!plan_.encloses(task(producer).region, task(at).region)) continue;
      merge(clock, known_[producer]);
    }
    clock[p] = at + 1;
    known_[at] = clock;
    record(at);
  }
  go_to(0);
}

// The second look at a loop's body, as its next trip: for which tasks of the trip before must each wait?
// Clocks are now of the trip before. Called as the loop ends, when the log has what its body left.
void Dependencies::backward(uint32_t loop) {
  const Region& body = plan_.regions[loop];
  const uint32_t end = body.end_task;
  std::vector<Clock> clocks = clocks_;
  std::vector<Clock> known(end - body.first_task);
  struct Saved {
    uint32_t region;
    std::vector<Clock> clocks;
  };
  std::vector<Saved> saved;
  const auto log = log_;
  for (uint32_t at = body.first_task; at < end; ++at) {
    while (!saved.empty() && !plan_.encloses(saved.back().region, task(at).region)) {
      clocks = std::move(saved.back().clocks);
      saved.pop_back();
    }
    const uint32_t inner = saved.empty() ? loop : saved.back().region;
    if (task(at).region != inner) saved.push_back({task(at).region, clocks});
    const uint32_t p = task(at).processor;
    Clock& clock = clocks[p];
    clock[p] = end;
    for (const Need& need : needs_[at]) {
      const bool sure = plan_.encloses(task(need.producer).region, task(at).region);
      if (!need.back && need.producer >= body.first_task && sure)
        merge(clock, known[need.producer - body.first_task]);
    }
    for (uint32_t producer : conflicts(at, true)) {
      if (producer < body.first_task || producer >= end) continue;
      if (clock[task(producer).processor] > producer) continue;
      const bool around = plan_.encloses(task(producer).region, task(at).region);
      needs_[at].push_back({producer, static_cast<uint8_t>(around ? 1 : 0), true});
      if (task(producer).region != loop) continue;
      merge(clock, known_[producer]);
    }
    known[at - body.first_task] = clock;
    if (task(at).region != loop) continue;
    each_cover(at, [&](const Box& box, uint32_t buffer) {
      std::erase_if(log_[buffer], [&](const Access& a) { return is_covered(box, at, a); });
    });
  }
  log_ = log;
}

// Whether the producers precede the innermost loop around the task, which then need not look again.
bool Dependencies::is_first_trip(const Need& need, uint32_t at) const {
  uint32_t loop = task(at).region;
  if (plan_.regions[loop].kind == RegionKind::rest) loop = plan_.regions[loop].parent;
  if (!plan_.regions[loop].is_loop() || need.back) return false;
  return need.producer < plan_.regions[loop].first_task;
}

// Counters from producer sets; false if a task would raise too many, whose node is then coarse.
bool Dependencies::count_signals(const std::vector<std::vector<std::vector<uint32_t>>>& sets,
                                 std::vector<std::vector<uint32_t>>& signals) {
  counters_.clear();
  plan_.counters.clear();
  signals.assign(plan_.tasks.size(), {});
  for (const auto& of_task : sets)
    for (const auto& set : of_task) {
      const auto [at, is_new] = counters_.emplace(set, static_cast<uint32_t>(counters_.size()));
      if (!is_new) continue;
      plan_.counters.push_back({task(set[0]).region, static_cast<uint32_t>(set.size())});
      for (uint32_t producer : set) signals[producer].push_back(at->second);
    }
  bool good = true;
  for (uint32_t at = 0; at < signals.size(); ++at)
    if (signals[at].size() > kMaxSignals && coarse_.insert(task(at).node).second) good = false;
  return good;
}

void Dependencies::make_waits() {
  using GroupKey = std::tuple<uint32_t, uint8_t, bool>;  // node, delta, back
  std::vector<std::vector<std::vector<uint32_t>>> sets;
  std::vector<std::vector<Need>> heads;
  std::vector<std::vector<uint32_t>> signals;
  do {
    sets.assign(plan_.tasks.size(), {});
    heads.assign(plan_.tasks.size(), {});
    for (uint32_t at = 0; at < plan_.tasks.size(); ++at) {
      std::map<GroupKey, std::vector<uint32_t>> groups;
      for (const Need& need : needs_[at])
        groups[{task(need.producer).node, need.delta, need.back}].push_back(need.producer);
      for (auto& [key, set] : groups) {
        const auto [node, delta, back] = key;
        if (coarse_.contains(node) && node != task(at).node) {
          set.resize(plan_.nodes[node].tasks);
          for (uint32_t i = 0; i < set.size(); ++i) set[i] = plan_.nodes[node].first_task + i;
        }
        std::sort(set.begin(), set.end());
        set.erase(std::unique(set.begin(), set.end()), set.end());
        heads[at].push_back({set[0], delta, back});
        sets[at].push_back(std::move(set));
      }
    }
  } while (!count_signals(sets, signals));

  for (uint32_t at = 0; at < plan_.tasks.size(); ++at) {
    Task& t = plan_.tasks[at];
    t.first_wait = static_cast<uint32_t>(plan_.waits.size());
    for (size_t i = 0; i < sets[at].size(); ++i) {
      const uint32_t counter = counters_.at(sets[at][i]);
      plan_.waits.push_back({counter, plan_.counters[counter].producers, heads[at][i].delta,
                             is_first_trip(heads[at][i], at)});
    }
    t.waits = static_cast<uint16_t>(sets[at].size());
    t.first_signal = static_cast<uint32_t>(plan_.signals.size());
    plan_.signals.insert(plan_.signals.end(), signals[at].begin(), signals[at].end());
    t.signals = static_cast<uint16_t>(signals[at].size());
  }
}

void Dependencies::run() {
  const size_t queues = static_cast<size_t>(plan_.device.processors);
  clocks_.assign(queues, Clock(queues, 0));
  find_neighbours();
  forward();
  make_waits();
}

}  // namespace

void depend(Plan& plan) { Dependencies(plan).run(); }

}  // namespace trek::plan
