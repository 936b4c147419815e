// Whether conflicting tasks are ordered.
//
// before(c) is the set of tasks that have certainly passed when c begins: executed, or not to be executed
// in this trip. It grows along a queue, through waits and through decisions; what a predecessor knew
// counts only where its region is executed whenever c's is. For the step from one trip of a loop to the
// next there is a second set, of tasks of the trip before. The sets are bits, worked out for a block of
// tasks at a time so that large plans fit in memory.
//
// A wait that is behind a part of a task's work (Wait::late) tells of what the task reads behind it, and of nothing else:
// what it reads before, and who comes behind it, must be in order without.
//
// A predecessor in a region that may not be executed still tells of tasks of that region alone: either they
// passed before it, or they are not executed either.
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emulator/plan/check.h"
#include "emulator/plan/check_conflicts.h"

namespace trek::plan {
namespace {

constexpr size_t kBitsAtOnce = size_t{1} << 29;

using Proof = Conflict::Proof;

class Order {
 public:
  Order(const Plan& plan, PlanErrors& errors);
  void run();
  bool can_end();

 private:
  using Bits = std::vector<uint64_t>;
  using Clock = std::vector<uint32_t>;  // per processor: its tasks before this have passed
  // What a wait for a counter teaches, which is the same for all who wait for it: worked out once.
  struct Learnt {
    Bits sure;       // of a task whose region is executed whenever theirs is
    Bits of_region;  // of another
    Bits before;     // of the trip before
  };
  bool has_cycle();
  void check_first_trips();
  void work_out_clocks();
  bool is_settled(uint32_t early, uint32_t late) const;
  void learn_from_waits(uint32_t task, Bits& mine, std::vector<Learnt>& learnt) const;
  void work_out_before();
  void work_out_previous(uint32_t loop, std::vector<Bits>& sets) const;
  void check_block();
  void check_loop(uint32_t loop);
  void join(Bits& into, const Bits& from) const {
    for (size_t i = 0; i < into.size(); ++i) into[i] |= from[i];
  }
  // Only of the tasks of a region: where it is not executed, they are not either.
  void join_region(Bits& into, const Bits& from, const Region& region) const {
    const uint32_t first = std::max(region.first_task, block_);
    const uint32_t end = std::min(region.end_task, block_ + width_);
    for (uint32_t word = first < end ? (first - block_) / 64 : 1;
         first < end && word <= (end - 1 - block_) / 64; ++word) {
      uint64_t mask = ~uint64_t{0};
      if (word == (first - block_) / 64) mask &= ~uint64_t{0} << (first - block_) % 64;
      if (word == (end - 1 - block_) / 64) mask &= ~uint64_t{0} >> (63 - (end - 1 - block_) % 64);
      into[word] |= from[word] & mask;
    }
  }
  void set(Bits& bits, uint32_t task) const {
    if (task >= block_ && task < block_ + width_)
      bits[(task - block_) / 64] |= uint64_t{1} << (task - block_) % 64;
  }
  bool has(const Bits& bits, uint32_t task) const {
    return (bits[(task - block_) / 64] >> (task - block_) % 64 & 1) != 0;
  }
  bool sure(uint32_t earlier, uint32_t later) const {
    return plan_.encloses(plan_.tasks[earlier].region, plan_.tasks[later].region);
  }
  // Calls f with each task that another waits for behind a part of its work, until one gives true, and says whether one did.
  template <typename F>
  bool any_late(uint32_t task, F&& f) const {
    return std::ranges::any_of(plan_.waits_of(plan_.tasks[task]), [&](const Wait& wait) {
      return wait.late && std::ranges::any_of(producers_[wait.counter], f);
    });
  }
  // Calls f with the first task of every decision that was made for `task` within region `outer`.
  template <typename F>
  void each_decision(uint32_t task, uint32_t outer, F&& f) const {
    for (uint32_t r = plan_.tasks[task].region; r != outer && r != kNone;
         r = plan_.regions[r].parent)
      if (plan_.regions[r].decision != kNone) f(plan_.nodes[plan_.regions[r].decision].first_task);
  }
  std::string describe(uint32_t task) const {
    return fmt::format("t{} ({})", task,
                       isa::info(plan_.nodes[plan_.tasks[task].node].opcode).mnemonic);
  }

  const Plan& plan_;
  PlanErrors& errors_;
  std::vector<uint32_t> previous_;                // per task: the one before it on its queue
  std::vector<std::vector<uint32_t>> producers_;  // per counter
  std::vector<Clock> clocks_;                     // per task, when it begins
  std::vector<Conflict> conflicts_;
  uint32_t block_ = 0;
  uint32_t width_ = 0;
  std::vector<Bits> before_;
};

Order::Order(const Plan& plan, PlanErrors& errors)
    : plan_(plan),
      errors_(errors),
      previous_(plan.tasks.size(), kNone),
      producers_(plan.counters.size()) {
  std::vector<uint32_t> last(static_cast<size_t>(plan.device.processors), kNone);
  for (uint32_t i = 0; i < plan.tasks.size(); ++i) {
    previous_[i] = std::exchange(last[plan.tasks[i].processor], i);
    for (uint32_t counter : plan.signals_of(plan.tasks[i])) producers_[counter].push_back(i);
  }
}

// Queues and the waits within a trip make a graph; all of it can be put in an order, or there is a circle.
bool Order::has_cycle() {
  const size_t n = plan_.tasks.size();
  std::vector<std::vector<uint32_t>> next(n);
  std::vector<uint32_t> open(n, 0);
  const auto edge = [&](uint32_t from, uint32_t to) {
    next[from].push_back(to);
    ++open[to];
  };
  for (uint32_t i = 0; i < n; ++i) {
    if (previous_[i] != kNone) edge(previous_[i], i);
    for (const Wait& wait : plan_.waits_of(plan_.tasks[i]))
      for (uint32_t producer : producers_[wait.counter])
        if (wait.delta == 0 && (producer < i || sure(producer, i))) edge(producer, i);
    each_decision(i, 0, [&](uint32_t decider) { edge(decider, i); });
  }
  std::vector<uint32_t> ready;
  for (uint32_t i = 0; i < n; ++i)
    if (open[i] == 0) ready.push_back(i);
  size_t done = 0;
  while (!ready.empty()) {
    const uint32_t task = ready.back();
    ready.pop_back();
    ++done;
    for (uint32_t to : next[task])
      if (--open[to] == 0) ready.push_back(to);
  }
  if (done == n) return false;
  const auto stuck =
      std::find_if(open.begin(), open.end(), [](uint32_t count) { return count > 0; });
  errors_.add(fmt::format("{} of {} tasks wait for each other in a circle, {} among them", n - done,
                          n, describe(static_cast<uint32_t>(stuck - open.begin()))));
  return true;
}

// A wait that is polled on a loop's first trip only must be for tasks outside that loop, by a task that
// every first trip executes.
void Order::check_first_trips() {
  for (uint32_t i = 0; i < plan_.tasks.size(); ++i)
    for (const Wait& wait : plan_.waits_of(plan_.tasks[i])) {
      if (!wait.first_trip) continue;
      uint32_t loop = plan_.tasks[i].region;
      if (plan_.regions[loop].kind == RegionKind::rest) loop = plan_.regions[loop].parent;
      const auto& producers = producers_[wait.counter];
      const Region& body = plan_.regions[loop];
      const bool good =
          body.is_loop() && std::all_of(producers.begin(), producers.end(), [&](uint32_t p) {
            return p < body.first_task || p >= body.end_task;
          });
      if (!good)
        errors_.add(
            fmt::format("{} polls counter {} once, and needs it again", describe(i), wait.counter));
    }
}

// How far every processor has certainly come when a task begins, as far as that can be said by one number
// each. It settles most conflicts outside loops, so that few are left for the bits.
void Order::work_out_clocks() {
  const auto processors = static_cast<size_t>(plan_.device.processors);
  clocks_.assign(plan_.tasks.size(), {});
  std::vector<Clock> of_counter(plan_.counters.size());
  const auto learn = [&](Clock& clock, uint32_t task) {
    const Clock& known = clocks_[task];
    for (size_t p = 0; p < processors; ++p) clock[p] = std::max(clock[p], known[p]);
    uint32_t& own = clock[plan_.tasks[task].processor];
    own = std::max(own, task + 1);
  };
  for (uint32_t i = 0; i < plan_.tasks.size(); ++i) {
    Clock& clock = clocks_[i];
    clock.assign(processors, 0);
    for (uint32_t p = previous_[i]; p != kNone; p = previous_[p])
      if (sure(p, i)) {
        learn(clock, p);
        break;
      }
    clock[plan_.tasks[i].processor] = i;
    for (const Wait& wait : plan_.waits_of(plan_.tasks[i])) {
      const auto& producers = producers_[wait.counter];
      const bool earlier =
          std::all_of(producers.begin(), producers.end(), [&](uint32_t p) { return p < i; });
      if (wait.delta != 0 || wait.late || producers.empty() || !earlier || !sure(producers[0], i))
        continue;
      Clock& known = of_counter[wait.counter];
      if (known.empty()) {
        known.assign(processors, 0);
        for (uint32_t producer : producers) learn(known, producer);
      }
      for (size_t p = 0; p < processors; ++p) clock[p] = std::max(clock[p], known[p]);
    }
    each_decision(i, 0, [&](uint32_t decider) { learn(clock, decider); });
  }
}

// Whether a conflict needs no further look: in order by the clocks, and not of a loop, whose trips matter.
bool Order::is_settled(uint32_t early, uint32_t late) const {
  const Task& task = plan_.tasks[early];
  return clocks_[late][task.processor] > early &&
         plan_.common_loop(task.region, plan_.tasks[late].region) == kNone;
}

// What the waits of a trip's own tasks teach; `learnt` is what is known of counters, all of whose producers have
// been looked at by then, since waits of a trip point backwards.
void Order::learn_from_waits(uint32_t task, Bits& mine, std::vector<Learnt>& learnt) const {
  for (const Wait& wait : plan_.waits_of(plan_.tasks[task])) {
    const std::vector<uint32_t>& producers = producers_[wait.counter];
    if (wait.delta != 0 || wait.late || producers.empty() || producers.front() >= task) continue;
    const bool is_sure = sure(producers.front(), task);
    Bits scratch;
    const bool all = producers.back() < task;
    Bits& known = !all      ? scratch
                  : is_sure ? learnt[wait.counter].sure
                            : learnt[wait.counter].of_region;
    if (known.empty()) {
      known.assign(mine.size(), 0);
      for (const uint32_t producer : producers) {
        if (producer >= task) break;
        set(known, producer);
        if (is_sure)
          join(known, before_[producer]);
        else
          join_region(known, before_[producer], plan_.regions[plan_.tasks[producer].region]);
      }
    }
    join(mine, known);
  }
}

void Order::work_out_before() {
  before_.assign(plan_.tasks.size(), Bits((width_ + 63) / 64, 0));
  std::vector<Learnt> learnt(plan_.counters.size());
  for (uint32_t i = 0; i < plan_.tasks.size(); ++i) {
    Bits& mine = before_[i];
    const auto after = [&](uint32_t task) {
      set(mine, task);
      if (sure(task, i))
        join(mine, before_[task]);
      else
        join_region(mine, before_[task], plan_.regions[plan_.tasks[task].region]);
    };
    for (uint32_t p = previous_[i]; p != kNone; p = previous_[p]) {
      after(p);
      if (sure(p, i)) break;  // it knows all that came before it
    }
    learn_from_waits(i, mine, learnt);
    each_decision(i, 0, after);
  }
}

// For every task of a loop's body: tasks of the body that have certainly passed in the trip before.
void Order::work_out_previous(uint32_t loop, std::vector<Bits>& sets) const {
  const Region& body = plan_.regions[loop];
  const uint32_t first = body.first_task;
  sets.assign(body.end_task - first, Bits((width_ + 63) / 64, 0));
  // What a queue's own order gives: all its tasks of that trip, and what the last certain one knew.
  std::vector<Bits> queues(static_cast<size_t>(plan_.device.processors),
                           Bits((width_ + 63) / 64, 0));
  for (uint32_t i = first; i < body.end_task; ++i) {
    Bits& queue = queues[plan_.tasks[i].processor];
    set(queue, i);
    if (plan_.tasks[i].region == loop) join(queue, before_[i]);
  }
  std::vector<Learnt> learnt(plan_.counters.size());
  for (uint32_t i = first; i < body.end_task; ++i) {
    Bits& mine = sets[i - first];
    join(mine, queues[plan_.tasks[i].processor]);
    for (uint32_t p = previous_[i]; p != kNone && p >= first; p = previous_[p])
      if (sure(p, i)) {
        join(mine, sets[p - first]);
        break;
      }
    const auto after = [&](uint32_t task) {
      if (task < first || task >= body.end_task) return;
      set(mine, task);
      if (task < i && sure(task, i)) join(mine, sets[task - first]);
    };
    each_decision(i, loop, after);
    for (const Wait& wait : plan_.waits_of(plan_.tasks[i])) {
      const std::vector<uint32_t>& producers = producers_[wait.counter];
      const auto inside = [&](uint32_t p) { return p >= first && p < body.end_task; };
      if (wait.late || producers.empty() || !inside(producers.front()) || !inside(producers.back()))
        continue;
      const bool is_sure = sure(producers.front(), i) && producers.back() < i;
      if (wait.delta == 0 && !is_sure) {
        for (const uint32_t producer : producers) after(producer);
        continue;
      }
      Bits& known = wait.delta == 0 ? learnt[wait.counter].sure : learnt[wait.counter].before;
      if (known.empty()) {
        known.assign(mine.size(), 0);
        for (const uint32_t producer : producers) {
          set(known, producer);
          if (wait.delta == 0)
            join(known, sets[producer - first]);
          else if (plan_.tasks[producer].region == loop)
            join(known, before_[producer]);
        }
      }
      join(mine, known);
    }
  }
}

void Order::check_loop(uint32_t loop) {
  const Region& body = plan_.regions[loop];
  std::vector<Bits> sets;
  work_out_previous(loop, sets);
  const auto expect = [&](uint32_t task, uint32_t before, bool is_late) {
    if (before < block_ || before >= block_ + width_) return;
    const auto is_before = [&](uint32_t other) {
      return other >= body.first_task && other < body.end_task &&
             has(sets[other - body.first_task], before);
    };
    if (!is_before(task) && !(is_late && any_late(task, is_before)))
      errors_.add(fmt::format("{} does not wait for {} of the trip before (region {})",
                              describe(task), describe(before), loop));
  };
  for (const auto [early, late, proof, early_is_late, late_is_late] : conflicts_) {
    if (proof == Proof::within || early < body.first_task || late >= body.end_task) continue;
    if (plan_.common_loop(plan_.tasks[early].region, plan_.tasks[late].region) != loop) continue;
    expect(early, late, early_is_late);
    if (proof == Proof::between) expect(late, early, late_is_late);
  }
}

void Order::check_block() {
  work_out_before();
  const auto is_proved = [&](const Conflict& conflict) {
    if (has(before_[conflict.second], conflict.first)) return true;
    return conflict.second_is_late && any_late(conflict.second, [&](uint32_t producer) {
             return producer == conflict.first || has(before_[producer], conflict.first);
           });
  };
  for (const Conflict& conflict : conflicts_)
    if (conflict.proof == Proof::within && conflict.first >= block_ &&
        conflict.first < block_ + width_ && !is_proved(conflict))
      errors_.add(fmt::format("{} does not wait for {}, with which it shares memory",
                              describe(conflict.second), describe(conflict.first)));
  for (uint32_t r = 0; r < plan_.regions.size(); ++r)
    if (plan_.regions[r].is_loop()) check_loop(r);
}

bool Order::can_end() {
  if (has_cycle()) return false;
  check_first_trips();
  return true;
}

void Order::run() {
  if (!can_end()) return;
  work_out_clocks();
  conflicts_ = find_conflicts(
      plan_, [this](uint32_t early, uint32_t late) { return is_settled(early, late); });
  clocks_.clear();
  if (conflicts_.empty()) return;
  const auto n = static_cast<uint32_t>(plan_.tasks.size());
  width_ = static_cast<uint32_t>(std::max<size_t>(64, kBitsAtOnce / (n + 1) / 64 * 64));
  width_ = std::min(width_, n);
  for (block_ = 0; block_ < n; block_ += width_) check_block();
}

}  // namespace

void check_order(const Plan& plan, PlanErrors& errors) { Order(plan, errors).run(); }
void check_circles(const Plan& plan, PlanErrors& errors) { Order(plan, errors).can_end(); }

}  // namespace trek::plan
