#include "emulator/resident/queues.h"

#include <algorithm>
#include <span>

namespace trek::resident {

using plan::kNone;

Queues::Queues(const plan::Plan& plan)
    : plan_(plan), tasks_(static_cast<size_t>(plan.device.processors)) {
  for (uint32_t t = 0; t < plan.tasks.size(); ++t) tasks_[plan.tasks[t].processor].push_back(t);
}

struct Queues::Giving {
  const plan::Plan& plan;
  std::span<const uint32_t> queue;
  const plan::Wait& wait;
  TaggedNodes& found;
  const std::function<bool(uint32_t task)>& passes;

  // To tasks in [first, end) up to one that is executed for certain where `region` is; whether there is one. A region that
  // is entered again has counted once more.
  bool give(uint32_t first, uint32_t end, uint32_t region, uint8_t again) const {
    const uint32_t producers = plan.counters[wait.counter].region;
    for (auto at = std::ranges::lower_bound(queue, first); at != queue.end() && *at < end; ++at) {
      if (passes(*at)) continue;
      const uint32_t of = plan.tasks[*at].region;
      plan::Wait handed = wait;
      if (plan.encloses(producers, of)) handed.delta = static_cast<uint8_t>(wait.delta + again);
      add_wait(plan, *at, handed, found);
      if (plan.encloses(of, region)) return true;
    }
    return false;
  }
};

void Queues::hand_on(uint32_t processor, Span span, const plan::Wait& wait, TaggedNodes& found,
                     const std::function<bool(uint32_t task)>& passes) const {
  const Giving giving = {plan_, tasks_[processor], wait, found, passes};
  for (;;) {
    const uint32_t loop = plan_.common_loop(span.region, span.region);
    const plan::Region& body = plan_.regions[loop == kNone ? 0 : loop];
    if (giving.give(span.end, body.end_task, span.region, 0) || loop == kNone) return;
    giving.give(body.first_task, span.first, loop, 1);
    span = {body.first_task, body.end_task, body.parent};
  }
}

void add_wait(const plan::Plan& plan, uint32_t task, const plan::Wait& wait, TaggedNodes& found) {
  const auto is_as_good = [&](const plan::Wait& other) {
    return other.counter == wait.counter && other.delta <= wait.delta &&
           other.first_trip <= wait.first_trip && !other.late;
  };
  const plan::Task& of = plan.tasks[task];
  for (uint32_t w = of.first_wait; w < of.first_wait + of.waits; ++w)
    if (!found.left_out[w] && is_as_good(plan.waits[w])) return;
  if (std::ranges::none_of(found.more[task], is_as_good)) found.more[task].push_back(wait);
}

}  // namespace trek::resident
