// Whether conflicting tasks are ordered.
//
// before(c) is the set of tasks that have certainly passed when c begins: executed, or not to be executed
// in this trip. It grows along a queue, through waits and through decisions; what a predecessor knew
// counts only where its region is executed whenever c's is. For the step from one trip of a loop to the
// next there is a second set, of tasks of the trip before. The sets are bits, worked out for a block of
// tasks at a time so that large plans fit in memory.
//
// A predecessor in a region that may not be executed still tells of tasks of that region alone: either they
// passed before it, or they are not executed either.
//
// Not all pairs of tasks that share bytes are looked at, or the proof would take the square of a program's
// length. Accesses of equal boxes by one processor make a class, in the order of its queue; what a task is known
// to wait for holds for all that is before that on its queue. So of a class the last task before another speaks
// for those before it, and from one trip of a loop to the next the last task of a class for all of it, and the
// first of the other class (see pair_up()).
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emulator/plan/check.h"

namespace trek::plan {
namespace {

constexpr size_t kBitsAtOnce = size_t{1} << 29;

// Two tasks that share bytes, in program order, and what is to be proved of them.
struct Conflict {
  enum class Proof : uint8_t {
    within,  // the second begins after the first
    across,  // the first begins after the second of the trip before
    between,  // each begins after the other of the trip before: two partial writes of one node, of different
    // elements, in any order within a trip. That they are different is interpret()'s to see.
  };
  uint32_t first = 0;
  uint32_t second = 0;
  Proof proof = Proof::within;
};
using Proof = Conflict::Proof;

// Accesses of one processor to the same bytes in the same way.
struct AccessClass {
  Box box;
  uint32_t processor = 0;
  std::vector<uint32_t> tasks;  // in program order
  std::vector<uint32_t> loops;  // that are around any of them
};

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
  std::vector<AccessClass> classes() const;
  void find_conflicts();
  void pair_up(const AccessClass& early, const AccessClass& late);
  void pair_up_tiles(const AccessClass& a, const AccessClass& b);
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
  // Calls f with the first task of every decision that was made for `task` within region `outer`.
  template <typename F>
  void each_decision(uint32_t task, uint32_t outer, F&& f) const {
    for (uint32_t r = plan_.tasks[task].region; r != outer && r != kNone;
         r = plan_.regions[r].parent)
      if (plan_.regions[r].decision != kNone) f(plan_.nodes[plan_.regions[r].decision].first_task);
  }
  uint32_t node_of(uint32_t task) const { return plan_.tasks[task].node; }
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

std::vector<AccessClass> Order::classes() const {
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
  const auto key = [&](const Access& a) {
    const Box& box = plan_.boxes[a.box];
    return std::tuple(box.begin, box.row_bytes, box.rows, box.stride, box.write, box.partial,
                      plan_.tasks[a.task].processor);
  };
  std::sort(order.begin(), order.end(), [&](const Access& a, const Access& b) {
    return std::pair(key(a), a.task) < std::pair(key(b), b.task);
  });
  std::vector<AccessClass> made;
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t task = order[i].task;
    if (i == 0 || key(order[i]) != key(order[i - 1]))
      made.push_back({plan_.boxes[order[i].box], plan_.tasks[task].processor, {}, {}});
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
void Order::find_conflicts() {
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
void Order::pair_up(const AccessClass& early, const AccessClass& late) {
  const auto region = [&](uint32_t task) { return plan_.tasks[task].region; };
  auto next = early.tasks.begin();
  for (const uint32_t c : late.tasks) {
    while (next != early.tasks.end() && *next < c) ++next;
    for (auto a = next; a != early.tasks.begin();) {
      --a;
      if (is_settled(*a, c)) break;
      conflicts_.push_back({*a, c, Proof::within});
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
          conflicts_.push_back({*a, *c, Proof::across});
      if (a == a_last) break;
    }
  }
}

void Order::pair_up_tiles(const AccessClass& a, const AccessClass& b) {
  for (const uint32_t x : a.tasks)
    for (const uint32_t y : b.tasks) {
      const auto [first, second] = std::minmax(x, y);
      const bool tiles = node_of(x) == node_of(y);
      const bool repeated =
          plan_.common_loop(plan_.tasks[x].region, plan_.tasks[y].region) != kNone;
      if (!tiles && !is_settled(first, second))
        conflicts_.push_back({first, second, Proof::within});
      if (repeated) conflicts_.push_back({first, second, tiles ? Proof::between : Proof::across});
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
      if (wait.delta != 0 || producers.empty() || !earlier || !sure(producers[0], i)) continue;
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
    if (wait.delta != 0 || producers.empty() || producers.front() >= task) continue;
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
      if (producers.empty() || !inside(producers.front()) || !inside(producers.back())) continue;
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
  const auto expect = [&](uint32_t task, uint32_t before) {
    if (before < block_ || before >= block_ + width_) return;
    if (!has(sets[task - body.first_task], before))
      errors_.add(fmt::format("{} does not wait for {} of the trip before (region {})",
                              describe(task), describe(before), loop));
  };
  for (const auto [early, late, proof] : conflicts_) {
    if (proof == Proof::within || early < body.first_task || late >= body.end_task) continue;
    if (plan_.common_loop(plan_.tasks[early].region, plan_.tasks[late].region) != loop) continue;
    expect(early, late);
    if (proof == Proof::between) expect(late, early);
  }
}

void Order::check_block() {
  work_out_before();
  for (const Conflict& conflict : conflicts_)
    if (conflict.proof == Proof::within && conflict.first >= block_ &&
        conflict.first < block_ + width_ && !has(before_[conflict.second], conflict.first))
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
  find_conflicts();
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
