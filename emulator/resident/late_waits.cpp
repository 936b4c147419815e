#include "emulator/resident/late_waits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "emulator/resident/queues.h"

namespace trek::resident {
namespace {

using plan::kNone;
using plan::Wait;

class Settling {
 public:
  Settling(const plan::Plan& plan, TaggedNodes& found)
      : plan_(plan), found_(found), queues_(plan), late_(plan.nodes.size()) {}

  void run() {
    find_late_nodes();
    for (uint32_t r = 0; r < plan_.regions.size(); ++r) {
      const std::vector<uint32_t> nodes = late_nodes_of(r);
      if (const std::optional<Stand> stand = may_leave_out(r, nodes))
        leave_out(*stand);
      else
        forget(nodes);
    }
    if (plan_.device.interprets) forget_unread();
    for (uint32_t t = 0; t < plan_.tasks.size(); ++t)
      each_late_wait(t, [&](uint32_t w) {
        queues_.hand_on(plan_.tasks[t].processor, {t, t + 1, plan_.tasks[t].region}, plan_.waits[w],
                        found_, [&](uint32_t at) { return is_late(at); });
      });
  }

 private:
  // Counters that a node's tasks stand for, were the waits not left out, and of how many trips before.
  using Behind = std::map<uint32_t, uint32_t>;
  using Stand = std::map<uint32_t, Behind>;  // per node

  void find_late_nodes() {
    raisers_.resize(plan_.counters.size());
    for (uint32_t t = 0; t < plan_.tasks.size(); ++t) {
      for (const uint32_t counter : plan_.signals_of(plan_.tasks[t]))
        raisers_[counter].insert(plan_.tasks[t].node);
      each_late_wait(t, [&](uint32_t w) {
        late_[plan_.tasks[t].node][plan_.waits[w].counter] = plan_.waits[w].delta;
      });
    }
  }
  std::span<const plan::Task> tasks_of(uint32_t node) const {
    return {plan_.tasks.data() + plan_.nodes[node].first_task, plan_.nodes[node].tasks};
  }
  std::vector<uint32_t> late_nodes_of(uint32_t region) const {
    std::vector<uint32_t> nodes;
    const plan::Region& of = plan_.regions[region];
    for (uint32_t n = of.first_node; n < of.end_node; ++n)
      if (plan_.nodes[n].region == region && !late_[n].empty()) nodes.push_back(n);
    return nodes;
  }

  // Goes back from a node by the waits that are left out, through `nodes`.
  void reach(uint32_t node, uint32_t trips, const std::vector<uint32_t>& nodes, Behind& to) const {
    for (const auto& [counter, before] : late_[node]) {
      const auto [at, is_new] = to.emplace(counter, trips + before);
      if (!is_new && at->second <= trips + before) continue;
      at->second = trips + before;
      const uint32_t maker = *raisers_[counter].begin();
      if (std::ranges::find(nodes, maker) != nodes.end()) reach(maker, trips + before, nodes, to);
    }
  }
  bool is_of_one_node(uint32_t counter) const { return raisers_[counter].size() == 1; }

  // What the late nodes of a region stand for, where their waits can be left out. A task stands for those before it on its
  // processor, too: so of two of these nodes that share one each stands for what the other does.
  std::optional<Stand> may_leave_out(uint32_t region, const std::vector<uint32_t>& nodes) const {
    if (nodes.empty() || plan_.regions[region].kind != plan::RegionKind::loop) return std::nullopt;
    std::map<uint32_t, std::set<uint32_t>> nodes_of;  // by processor
    for (const uint32_t n : nodes) {
      for (const auto& [counter, before] : late_[n])
        if (!is_of_one_node(counter)) return std::nullopt;
      for (const plan::Task& task : tasks_of(n)) {
        nodes_of[task.processor].insert(n);
        if (!std::ranges::all_of(plan_.signals_of(task),
                                 [&](uint32_t counter) { return is_of_one_node(counter); }))
          return std::nullopt;
      }
    }
    Stand stand;
    for (const uint32_t n : nodes) reach(n, 0, nodes, stand[n]);
    for (const auto& [processor, here] : nodes_of)
      for (const uint32_t n : here)
        for (const uint32_t other : here)
          if (n != other && !stands_for(n, other, stand.at(n))) return std::nullopt;
    return stand;
  }
  // Whether what is behind `node` is behind `other`, too, which comes before it, in the same trip or in the one before.
  bool stands_for(uint32_t node, uint32_t other, const Behind& behind_node) const {
    return std::ranges::all_of(late_[other], [&](const auto& wait) {
      const auto found = behind_node.find(wait.first);
      return found != behind_node.end() && found->second <= wait.second + (other > node ? 1 : 0);
    });
  }

  Wait wait_for(uint32_t counter, uint32_t trips) const {
    return {counter, plan_.counters[counter].producers, static_cast<uint8_t>(trips), false, false};
  }
  void leave_out(const Stand& stand) {
    std::map<uint32_t, const Behind*> by_counter;  // of each that these nodes raise
    for (const auto& [n, all] : stand) {
      const plan::Node& of = plan_.nodes[n];
      for (uint32_t t = of.first_task; t < of.first_task + of.tasks; ++t) {
        for (const uint32_t counter : plan_.signals_of(plan_.tasks[t])) by_counter[counter] = &all;
        for (const auto& [counter, trips] : all)
          queues_.hand_on(plan_.tasks[t].processor, {t, t + 1, plan_.tasks[t].region},
                          wait_for(counter, trips), found_,
                          [&](uint32_t at) { return stand.contains(plan_.tasks[at].node); });
        each_late_wait(t, [&](uint32_t w) {
          found_.late[w] = false;
          found_.left_out[w] = true;
        });
      }
    }
    for (uint32_t t = 0; t < plan_.tasks.size(); ++t) {
      const plan::Task& task = plan_.tasks[t];
      std::vector<Wait> waits = found_.more[t];
      for (uint32_t w = task.first_wait; w < task.first_wait + task.waits; ++w)
        if (!found_.left_out[w]) waits.push_back(plan_.waits[w]);
      for (const Wait& wait : waits) {
        const auto stood_for = by_counter.find(wait.counter);
        if (stood_for == by_counter.end()) continue;
        for (const auto& [counter, trips] : *stood_for->second) {
          Wait more = wait_for(counter, wait.delta + trips);
          more.first_trip = wait.first_trip;
          add_wait(plan_, t, more, found_);
        }
      }
    }
  }

  // A kernel that interprets has late waits of few kinds of tasks: other nodes that would have some have no words.
  void forget(const std::vector<uint32_t>& nodes) {
    for (const uint32_t n : nodes) {
      if (found_.may_be_late[n]) continue;
      found_.nodes[n].left = found_.nodes[n].beside = found_.nodes[n].line = kNone;
      found_.nodes[n].is_carried = false;
      found_.nodes[n].left_begin = found_.nodes[n].left_words = 0;
      const plan::Node& of = plan_.nodes[n];
      for (uint32_t t = of.first_task; t < of.first_task + of.tasks; ++t)
        each_late_wait(t, [&](uint32_t w) { found_.late[w] = false; });
    }
  }
  // And those that nobody reads are not given.
  void forget_unread() {
    std::set<uint32_t> read;
    for (const TaggedNode& node : found_.nodes) {
      read.insert(node.left);
      read.insert(node.beside);
      read.insert(node.line);
    }
    for (uint32_t n = 0; n < found_.nodes.size(); ++n)
      if (!read.contains(n)) found_.nodes[n].bytes = 0;
  }

  template <class Act>
  void each_late_wait(uint32_t t, Act act) const {
    const plan::Task& task = plan_.tasks[t];
    for (uint32_t w = task.first_wait; w < task.first_wait + task.waits; ++w)
      if (found_.late[w]) act(w);
  }
  bool is_late(uint32_t t) const {
    bool is = false;
    each_late_wait(t, [&](uint32_t) { is = true; });
    return is;
  }

  const plan::Plan& plan_;
  TaggedNodes& found_;
  Queues queues_;
  std::vector<std::map<uint32_t, uint32_t>>
      late_;                                 // per node: counters, and of how many trips before
  std::vector<std::set<uint32_t>> raisers_;  // per counter: nodes
};

}  // namespace

void settle_late_waits(const plan::Plan& plan, TaggedNodes& found) {
  if (std::ranges::any_of(found.late, [](bool is) { return is; })) Settling(plan, found).run();
}

}  // namespace trek::resident
