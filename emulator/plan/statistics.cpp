// A wait whose producers are all on its own processor says nothing that the queue's order does not.
#include <algorithm>

#include "emulator/plan/print.h"

namespace trek::plan {

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
  return result;
}

}  // namespace trek::plan
