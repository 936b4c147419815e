#include "emulator/plan/depend.h"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "emulator/plan/accesses.h"
#include "emulator/plan/runs.h"

namespace trek::plan {
namespace {

constexpr size_t kMaxSignals = 4;  // of a task; beyond it, waits are for whole nodes
constexpr size_t kMaxWaits = 4;    // the same, where that can help

// How far each processor has certainly come: all its tasks before clock[p] are done. Shared between the
// tasks that know the same; a task's own processor is known from its queue, and may be behind here.
using Clock = std::shared_ptr<uint32_t[]>;
using Known = std::shared_ptr<const uint32_t[]>;

// A set of producers, and the trip of theirs that a task needs.
struct Need {
  uint32_t set = 0;
  uint8_t delta = 0;
  bool back = false;  // of the trip before
  bool late = false;  // Wait::late
};

class Dependencies {
 public:
  explicit Dependencies(Plan& plan)
      : plan_(plan), accesses_(plan), processors_(static_cast<size_t>(plan.device.processors)) {
    for (const Region& region : plan.regions) in_turn_.push_back(region.kind == RegionKind::loop);
    for (uint32_t r = 1; r < plan.regions.size(); ++r) in_turn_[plan.regions[r].parent] = false;
  }
  void run();

 private:
  using Candidate = Accesses::Candidate;
  struct Killed {
    uint32_t log = 0;
    uint32_t access = 0;
  };
  // A region being walked: what is to be restored at its end.
  struct Open {
    uint32_t region = 0;
    std::vector<Known> clocks;
    std::vector<Killed> killed;
  };
  // A walk's own knowledge: of this trip, or of the trip before.
  struct Walk {
    std::vector<Known> clocks;  // per processor
    std::vector<Known> known;   // per task from first_task on, when it ends
    std::unordered_map<uint32_t, Known> of_set;
    uint32_t first_task = 0;
    uint32_t end =
        0;  // where tasks come after all of their processor's in the trip before: the body's end
  };

  void reset();
  void forward();
  void forward_node(uint32_t index);
  void backward(uint32_t loop);
  void backward_node(uint32_t index, uint32_t loop, Walk& walk);
  void enter(uint32_t region);
  void leave();
  void go_to(uint32_t region);
  void record(uint32_t node);
  // The log that has an access: registers share places, so they share one.
  uint32_t log_of(const Access& access) const {
    return plan_.buffers[access.buffer].kind == BufferKind::tensor_register
               ? static_cast<uint32_t>(plan_.buffers.size())
               : access.buffer;
  }
  // What the node's tasks conflict with among the nodes that `wanted` takes, by task, later nodes first.
  template <typename F>
  void find_candidates(uint32_t node, F&& wanted);
  // The same of one access, in no order.
  template <typename F>
  void relate_to_log(const Access& access, F&& wanted, std::vector<Candidate>& out);
  // What its tasks read of what these write, by task.
  template <typename F>
  void find_reads(uint32_t node, F&& wanted);
  // Notes which of the reads of a task that begins with `clock` are none of things that stand there; `own` as in is_known().
  void see_reads(uint32_t at, const Known& clock, uint32_t own, size_t& next);
  void say_standing();
  template <typename F>
  void each_covered(uint32_t node, F&& kill);

  Clock copy_of(const Known& known) const;
  void merge(Known& into, const Known& known) const;
  bool is_known(const Known& clock, uint32_t processor, uint32_t own, uint32_t set) const;
  bool is_behind(uint32_t processor, uint32_t at, uint32_t set) const;
  const Known& known_of(Walk& walk, uint32_t set);

  void make_waits();
  bool few_enough();
  bool is_first_trip(const Need& need, uint32_t at) const;
  bool is_late(const Node& node, uint32_t set) const;
  const Task& task(uint32_t index) const { return plan_.tasks[index]; }
  uint32_t region_of(uint32_t set) const { return plan_.nodes[accesses_.set(set).node].region; }

  Plan& plan_;
  Accesses accesses_;
  size_t processors_;
  Walk now_;
  Known nothing_;
  std::vector<std::vector<uint32_t>> log_;  // accesses that still matter
  std::vector<uint32_t> logged_;            // per node: its accesses in logs
  std::vector<Open> open_;
  std::vector<Candidate> candidates_;
  struct Read {
    Candidate of;
    uint32_t buffer;
  };
  std::vector<Read> reads_;
  std::vector<bool> in_turn_;              // per region: a loop with none in it
  std::vector<std::set<uint32_t>> comes_;  // per node: buffers that do not stand there
  std::vector<std::pair<uint32_t, Known>>
      behind_;                        // of the task at hand: region, what is known there
  std::vector<uint32_t> first_need_;  // per task, into forward_
  std::vector<Need> forward_;
  std::vector<std::pair<uint32_t, Need>> back_;  // task, need
  std::set<uint32_t> coarse_;                    // nodes that are waited for whole
};

void Dependencies::reset() {
  now_ = {};
  nothing_ = std::make_shared<uint32_t[]>(processors_);
  now_.clocks.assign(processors_, nothing_);
  now_.known.resize(plan_.tasks.size());
  log_.assign(plan_.buffers.size() + 1, {});
  logged_.assign(plan_.nodes.size(), 0);
  comes_.assign(plan_.nodes.size(), {});
  first_need_.clear();
  forward_.clear();
  back_.clear();
}

Clock Dependencies::copy_of(const Known& known) const {
  Clock copy = std::make_shared_for_overwrite<uint32_t[]>(processors_);
  std::copy_n(known.get(), processors_, copy.get());
  return copy;
}

void Dependencies::merge(Known& into, const Known& known) const {
  if (into == known) return;
  const Clock result = copy_of(into);
  for (size_t i = 0; i < processors_; ++i) result[i] = std::max(result[i], known[i]);
  into = result;
}

// Whether a task that its processor begins with `clock`, and after its own tasks before `own`, comes after
// all of the set.
bool Dependencies::is_known(const Known& clock, uint32_t processor, uint32_t own,
                            uint32_t set) const {
  bool known = true;
  const auto passed = [&](uint32_t producer) {
    const uint32_t from = task(producer).processor;
    known = known && (from == processor ? producer < own : producer < clock[from]);
  };
  const ProducerSet producers = accesses_.set(set);
  const auto processors = static_cast<uint32_t>(processors_);
  // A node's tiles are dealt in turn, but for those of runs: the last round has every processor's last one.
  const bool in_turn = plan_.nodes[producers.node].of_runs == OfRuns::none;
  if (producers.range && producers.count > processors && in_turn) {
    const uint32_t end = producers.first + producers.count;
    for (uint32_t t = end - processors; t < end && known; ++t) passed(t);
    return known;
  }
  accesses_.each_member(set, passed);
  return known;
}

// What who waits for a set knows from it.
const Known& Dependencies::known_of(Walk& walk, uint32_t set) {
  Known& result = walk.of_set[set];
  if (result) return result;
  const Clock clock = copy_of(nothing_);
  const uint32_t* last = nullptr;
  accesses_.each_member(set, [&](uint32_t producer) {
    uint32_t& own = clock[task(producer).processor];
    own = std::max(own, walk.end != 0 ? walk.end : producer + 1);
    const Known& known = walk.known[producer - walk.first_task];
    if (!known || known.get() == last) return;
    last = known.get();
    for (size_t i = 0; i < processors_; ++i) clock[i] = std::max(clock[i], last[i]);
  });
  result = clock;
  return result;
}

template <typename F>
void Dependencies::relate_to_log(const Access& access, F&& wanted, std::vector<Candidate>& out) {
  for (uint32_t index : log_[log_of(access)]) {
    const Access& other = accesses_[index];
    if ((!access.write && !other.write) || other.begin >= access.end || access.begin >= other.end ||
        !wanted(other))
      continue;
    accesses_.relate(access, other, coarse_.contains(other.node), out);
  }
}

template <typename F>
void Dependencies::find_candidates(uint32_t node, F&& wanted) {
  candidates_.clear();
  for (const Access& access : accesses_.of(node)) relate_to_log(access, wanted, candidates_);
  std::sort(candidates_.begin(), candidates_.end(), [&](const Candidate& a, const Candidate& b) {
    if (a.task != b.task) return a.task < b.task;
    const uint32_t x = accesses_.set(a.set).node;
    const uint32_t y = accesses_.set(b.set).node;
    return x != y ? x > y : a.set < b.set;
  });
  // One set per task and node.
  size_t kept = 0;
  for (const Candidate& candidate : candidates_) {
    Candidate* last = kept == 0 ? nullptr : &candidates_[kept - 1];
    if (last != nullptr && last->task == candidate.task &&
        accesses_.set(last->set).node == accesses_.set(candidate.set).node) {
      if (last->set != candidate.set) last->set = accesses_.united(last->set, candidate.set);
    } else {
      candidates_[kept++] = candidate;
    }
  }
  candidates_.resize(kept);
}

template <typename F>
void Dependencies::find_reads(uint32_t node, F&& wanted) {
  reads_.clear();
  if (!in_turn_[plan_.nodes[node].region]) return;
  std::vector<Candidate> found;
  for (const Access& access : accesses_.of(node)) {
    if (access.write) continue;
    found.clear();
    relate_to_log(access, wanted, found);
    for (const Candidate& candidate : found) reads_.push_back({candidate, access.buffer});
  }
  std::ranges::sort(reads_, {}, [](const Read& read) { return read.of.task; });
}
void Dependencies::see_reads(uint32_t at, const Known& clock, uint32_t own, size_t& next) {
  for (; next < reads_.size() && reads_[next].of.task == at; ++next) {
    std::set<uint32_t>& comes = comes_[task(at).node];
    if (comes.contains(reads_[next].buffer)) continue;
    if (!is_known(clock, task(at).processor, own, reads_[next].of.set))
      comes.insert(reads_[next].buffer);
  }
}
void Dependencies::say_standing() {
  for (uint32_t n = 0; n < plan_.nodes.size(); ++n) {
    Node& node = plan_.nodes[n];
    node.standing = 0;
    if (!in_turn_[node.region]) continue;
    for (uint32_t i = 0; i < node.operands.size() && i < 32; ++i) {
      const Operand& operand = node.operands[i];
      if (operand.kind == Operand::Kind::view &&
          !comes_[n].contains(plan_.views[operand.index].buffer))
        node.standing |= 1U << i;
    }
  }
}

// Calls kill(log, place in it) for what the node's writes cover: who conflicts with that conflicts with
// this node too. `kill` says whether to remove it.
template <typename F>
void Dependencies::each_covered(uint32_t node, F&& kill) {
  for (const Access& access : accesses_.of(node)) {
    if (!access.write) continue;
    const uint32_t log = log_of(access);
    std::erase_if(log_[log], [&](uint32_t index) {
      const Access& other = accesses_[index];
      return other.node != node && accesses_.covers(access, other) && kill(log, index);
    });
  }
}

// What is forgotten for good outside all regions frees what its tasks knew, so that long programs need
// memory for what is alive alone.
void Dependencies::record(uint32_t node) {
  each_covered(node, [&](uint32_t log, uint32_t index) {
    if (!open_.empty()) {
      open_.back().killed.push_back({log, index});
    } else if (--logged_[accesses_[index].node] == 0) {
      const Node& dead = plan_.nodes[accesses_[index].node];
      for (uint32_t t = dead.first_task; t < dead.first_task + dead.tasks; ++t)
        if (dead.decides == kNone) now_.known[t].reset();
    }
    return true;
  });
  for (const Access& access : accesses_.of(node)) {
    log_[log_of(access)].push_back(accesses_.index(access));
    ++logged_[node];
  }
}

void Dependencies::enter(uint32_t region) {
  open_.push_back({region, now_.clocks, {}});
  const uint32_t decision = plan_.regions[region].decision;
  if (decision == kNone) return;
  const uint32_t decider = plan_.nodes[decision].first_task;
  const Clock decided = copy_of(now_.known[decider]);
  decided[plan_.control()] = std::max(decided[plan_.control()], decider + 1);
  for (Known& clock : now_.clocks)
    if (clock[plan_.control()] <= decider) merge(clock, decided);
}

// What a region taught, and what it overwrote, holds after it only where it is executed for certain.
void Dependencies::leave() {
  Open closed = std::move(open_.back());
  open_.pop_back();
  if (plan_.regions[closed.region].is_loop()) backward(closed.region);
  now_.clocks = std::move(closed.clocks);
  for (const Killed& killed : closed.killed) log_[killed.log].push_back(killed.access);
}

void Dependencies::go_to(uint32_t region) {
  while (!open_.empty() && !plan_.encloses(open_.back().region, region)) leave();
  std::vector<uint32_t> path;
  for (uint32_t r = region; r != 0 && (open_.empty() || r != open_.back().region);
       r = plan_.regions[r].parent)
    path.push_back(r);
  for (size_t i = path.size(); i-- > 0;) enter(path[i]);
}

void Dependencies::forward_node(uint32_t index) {
  const Node& node = plan_.nodes[index];
  go_to(node.region);
  find_candidates(index, [&](const Access& other) { return other.node != index; });
  find_reads(index, [&](const Access& other) {
    return other.node >= plan_.regions[node.region].first_node && other.node < index;
  });
  size_t next = 0;
  size_t read = 0;
  for (uint32_t at = node.first_task; at < node.first_task + node.tasks; ++at) {
    first_need_.push_back(static_cast<uint32_t>(forward_.size()));
    const uint32_t p = task(at).processor;
    Known& clock = now_.clocks[p];
    see_reads(at, clock, at, read);
    for (; next < candidates_.size() && candidates_[next].task == at; ++next) {
      const uint32_t set = candidates_[next].set;
      if (is_known(clock, p, at, set) || is_behind(p, at, set)) continue;
      forward_.push_back({set, 0, false, is_late(node, set)});
      if (forward_.back().late) continue;
      if (plan_.encloses(region_of(set), node.region))
        merge(clock, known_of(now_, set));
      else
        behind_.emplace_back(region_of(set), known_of(now_, set));
    }
    behind_.clear();
    now_.known[at] = clock;
  }
  record(index);
}

// Whether a set comes before others that the task at hand waits for, in a region that may not have been
// executed: then it has not been either.
bool Dependencies::is_behind(uint32_t processor, uint32_t at, uint32_t set) const {
  return std::any_of(behind_.begin(), behind_.end(), [&](const auto& other) {
    return plan_.encloses(other.first, region_of(set)) &&
           is_known(other.second, processor, at, set);
  });
}

void Dependencies::forward() {
  for (uint32_t n = 0; n < plan_.nodes.size(); ++n) forward_node(n);
  go_to(0);
  first_need_.push_back(static_cast<uint32_t>(forward_.size()));
}

void Dependencies::backward_node(uint32_t index, uint32_t loop, Walk& walk) {
  const Region& body = plan_.regions[loop];
  const Node& node = plan_.nodes[index];
  const auto is_of_trip_before = [&](const Access& other) {
    // Where an inner loop has both, its trips are what matters, and their waits are there.
    return other.node >= index && other.node < body.end_node &&
           plan_.common_loop(plan_.nodes[other.node].region, node.region) == loop;
  };
  find_candidates(index, is_of_trip_before);
  find_reads(index, is_of_trip_before);
  size_t next = 0;
  size_t read = 0;
  for (uint32_t at = node.first_task; at < node.first_task + node.tasks; ++at) {
    const uint32_t p = task(at).processor;
    Known& clock = walk.clocks[p];
    see_reads(at, clock, body.end_task, read);
    const uint32_t end =
        at + 1 < first_need_.size() ? first_need_[at + 1] : static_cast<uint32_t>(forward_.size());
    for (uint32_t i = first_need_[at]; i < end; ++i) {
      const uint32_t set = forward_[i].set;
      if (forward_[i].late) continue;
      const bool sure = plan_.encloses(region_of(set), node.region);
      if (sure && accesses_.set(set).node >= body.first_node) merge(clock, known_of(walk, set));
    }
    for (; next < candidates_.size() && candidates_[next].task == at; ++next) {
      const uint32_t set = candidates_[next].set;
      if (is_known(clock, p, body.end_task, set)) continue;
      const bool around = plan_.encloses(region_of(set), node.region);
      back_.push_back({at, {set, static_cast<uint8_t>(around ? 1 : 0), true}});
      if (region_of(set) == loop) merge(clock, known_of(now_, set));
    }
    walk.known[at - walk.first_task] = clock;
  }
  if (node.region == loop) each_covered(index, [](uint32_t, uint32_t) { return true; });
}

// The second look at a loop's body, as its next trip: for which tasks of the trip before must each wait?
// Clocks are of the trip before. Called as the loop ends, when the log has what its body left.
void Dependencies::backward(uint32_t loop) {
  const Region& body = plan_.regions[loop];
  Walk walk;
  walk.clocks = now_.clocks;
  walk.known.resize(body.end_task - body.first_task);
  walk.first_task = body.first_task;
  walk.end = body.end_task;
  struct Saved {
    uint32_t region;
    std::vector<Known> clocks;
  };
  std::vector<Saved> saved;
  const auto log = log_;
  for (uint32_t n = body.first_node; n < body.end_node; ++n) {
    const uint32_t region = plan_.nodes[n].region;
    while (!saved.empty() && !plan_.encloses(saved.back().region, region)) {
      walk.clocks = std::move(saved.back().clocks);
      saved.pop_back();
    }
    const uint32_t inner = saved.empty() ? loop : saved.back().region;
    if (region != inner) saved.push_back({region, walk.clocks});
    backward_node(n, loop, walk);
  }
  log_ = log;
}

// Whether the producers are outside the innermost loop around the task, which then need not look again.
bool Dependencies::is_first_trip(const Need& need, uint32_t at) const {
  uint32_t loop = task(at).region;
  if (plan_.regions[loop].kind == RegionKind::rest) loop = plan_.regions[loop].parent;
  return plan_.regions[loop].is_loop() && !plan_.encloses(loop, region_of(need.set));
}

// Whether a set has begun the tiles that a node ends: it wants them behind its products alone.
bool Dependencies::is_late(const Node& node, uint32_t set) const {
  const Node& from = plan_.nodes[accesses_.set(set).node];
  return adds_late(plan_, node) && from.of_runs == OfRuns::begun &&
         plan_.views[from.results[0]].buffer == begun_buffer(plan_, node);
}

// Whether no task raises or waits for too much; else the nodes that are at fault become coarse.
bool Dependencies::few_enough() {
  std::vector<uint8_t> raised(plan_.tasks.size(), 0);
  std::vector<uint32_t> waits(plan_.tasks.size(), 0);
  std::vector<bool> seen(accesses_.size(), false);
  const size_t before = coarse_.size();
  const auto raise = [&](uint32_t set) {
    if (seen[accesses_.slot(set)]) return;
    seen[accesses_.slot(set)] = true;
    accesses_.each_member(set, [&](uint32_t producer) {
      if (raised[producer] <= kMaxSignals) ++raised[producer];
      if (raised[producer] > kMaxSignals) coarse_.insert(task(producer).node);
    });
  };
  for (uint32_t at = 0; at < plan_.tasks.size(); ++at)
    for (uint32_t i = first_need_[at]; i < first_need_[at + 1]; ++i, ++waits[at])
      raise(forward_[i].set);
  for (const auto& [at, need] : back_) {
    raise(need.set);
    ++waits[at];
  }
  const auto coarsen = [&](uint32_t at, const Need& need) {
    const ProducerSet set = accesses_.set(need.set);
    if (waits[at] > kMaxWaits && set.count < plan_.nodes[set.node].tasks) coarse_.insert(set.node);
  };
  for (uint32_t at = 0; at < plan_.tasks.size(); ++at)
    for (uint32_t i = first_need_[at]; i < first_need_[at + 1]; ++i) coarsen(at, forward_[i]);
  for (const auto& [at, need] : back_) coarsen(at, need);
  return coarse_.size() == before;
}

void Dependencies::make_waits() {
  std::sort(back_.begin(), back_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.set) < std::pair(b.first, b.second.set);
  });
  std::vector<uint32_t> counter(accesses_.size(), kNone);
  std::vector<uint32_t> used;  // sets, by counter
  const auto wait = [&](uint32_t at, const Need& need) {
    uint32_t& index = counter[accesses_.slot(need.set)];
    const uint32_t count = accesses_.set(need.set).count;
    if (index == kNone) {
      index = static_cast<uint32_t>(plan_.counters.size());
      plan_.counters.push_back({region_of(need.set), count});
      used.push_back(need.set);
    }
    plan_.waits.push_back({index, count, need.delta, is_first_trip(need, at), need.late});
  };
  size_t next = 0;
  for (uint32_t at = 0; at < plan_.tasks.size(); ++at) {
    Task& t = plan_.tasks[at];
    t.first_wait = static_cast<uint32_t>(plan_.waits.size());
    for (uint32_t i = first_need_[at]; i < first_need_[at + 1]; ++i) wait(at, forward_[i]);
    for (; next < back_.size() && back_[next].first == at; ++next) wait(at, back_[next].second);
    t.waits = static_cast<uint16_t>(plan_.waits.size() - t.first_wait);
  }
  for (uint32_t set : used)
    accesses_.each_member(set, [&](uint32_t producer) { ++plan_.tasks[producer].signals; });
  uint32_t first = 0;
  for (Task& t : plan_.tasks) {
    t.first_signal = first;
    first += std::exchange(t.signals, uint16_t{0});
  }
  plan_.signals.resize(first);
  for (uint32_t c = 0; c < used.size(); ++c)
    accesses_.each_member(used[c], [&](uint32_t producer) {
      Task& t = plan_.tasks[producer];
      plan_.signals[t.first_signal + t.signals++] = c;
    });
}

void Dependencies::run() {
  do {
    reset();
    forward();
  } while (!few_enough());
  make_waits();
  say_standing();
}

}  // namespace

void depend(Plan& plan) { Dependencies(plan).run(); }

}  // namespace trek::plan
