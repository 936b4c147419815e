// A wait whose producers are all on its own processor says nothing that the queue's order does not.
#include <algorithm>
#include <compare>
#include <vector>

#include "emulator/plan/print.h"

namespace trek::plan {
namespace {

// A chain of tasks that ends somewhere.
struct Chain {
  uint64_t tasks = 0;
  uint64_t hops = 0;
  auto operator<=>(const Chain&) const = default;
};

// Program order has a counter's producers before those that wait for this trip of theirs.
Chain longest_chain(const Plan& plan) {
  std::vector<Chain> queues(static_cast<size_t>(plan.device.processors));
  struct Raised {
    Chain chain;
    uint32_t processor = 0;
  };
  std::vector<Raised> counters(plan.counters.size());
  for (const Task& task : plan.tasks) {
    Chain chain = queues[task.processor];
    for (const Wait& wait : plan.waits_of(task)) {
      if (wait.delta != 0) continue;
      Chain before = counters[wait.counter].chain;
      if (counters[wait.counter].processor != task.processor) ++before.hops;
      chain = std::max(chain, before);
    }
    ++chain.tasks;
    queues[task.processor] = chain;
    for (uint32_t counter : plan.signals_of(task))
      if (chain > counters[counter].chain) counters[counter] = {chain, task.processor};
  }
  return *std::max_element(queues.begin(), queues.end());
}

}  // namespace

Statistics statistics(const Plan& plan) {
  std::vector<std::vector<uint32_t>> producers(plan.counters.size());  // processors
  std::vector<uint64_t> tasks(static_cast<size_t>(plan.device.processors), 0);
  Statistics result;
  for (const Task& task : plan.tasks) {
    ++tasks[task.processor];
    for (uint32_t counter : plan.signals_of(task)) producers[counter].push_back(task.processor);
    result.most_waits = std::max<uint64_t>(result.most_waits, task.waits);
    result.most_signals = std::max<uint64_t>(result.most_signals, task.signals);
  }
  for (auto& list : producers) std::sort(list.begin(), list.end());
  for (const Task& task : plan.tasks)
    for (const Wait& wait : plan.waits_of(task)) {
      const auto& list = producers[wait.counter];
      const auto [begin, end] = std::equal_range(list.begin(), list.end(), task.processor);
      const auto same = static_cast<uint64_t>(end - begin);
      ++result.waits;
      result.first_trip += wait.first_trip ? 1 : 0;
      result.trip_before += wait.delta;
      result.own += same == list.size() ? 1 : 0;
      result.edges_same += same;
      result.edges_others += list.size() - same;
    }
  result.busiest = *std::max_element(tasks.begin(), tasks.end());
  const Chain longest = longest_chain(plan);
  result.longest = longest.tasks;
  result.hops = longest.hops;
  return result;
}

}  // namespace trek::plan
