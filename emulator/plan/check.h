// The proof of a plan before it is launched. It trusts nothing of the linker: what must hold is worked out
// again from tasks, boxes, waits and regions alone.
//
//   - everything that is named exists; regions nest; boxes lie inside their buffers, buffers in the arena
//   - a wait asks for exactly as many signals as its counter gets in a trip, so it can be fulfilled and
//     cannot be fulfilled early; no tasks wait for each other in a circle
//   - two tasks whose boxes share bytes, one of them writing, are ordered: within a trip, and from each
//     trip of a loop to the next
//   - two buffers that share bytes are never both needed
//   - what is read has been written, on every way that leads there
//
// What is not checked here: that a task's boxes are all it touches (interpret() holds every access to
// them), and that the nodes compute what the module says.
#pragma once

#include <string>
#include <vector>

#include "emulator/plan/plan.h"

namespace trek::plan {

// What is wrong, one line each, at most kMaxPlanErrors; empty for a good plan.
inline constexpr size_t kMaxPlanErrors = 50;
std::vector<std::string> check_plan(const Plan& plan);
// What an engine asks before it launches a plan: check_plan(), and of a plan of more than so many tasks all of it but
// that conflicting tasks are ordered, whose proof would take longer than everything else at a load.
inline constexpr size_t kMostTasksOrderedAtLoad = 20'000;
std::vector<std::string> check_plan_at_load(const Plan& plan);

// Its parts, in the order in which they rely on each other.
class PlanErrors {
 public:
  void add(std::string text) {
    if (list_.size() < kMaxPlanErrors) list_.push_back(std::move(text));
  }
  bool empty() const { return list_.empty(); }
  std::vector<std::string>&& take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};
void check_structure(const Plan& plan, PlanErrors& errors);
void check_counters(const Plan& plan, PlanErrors& errors);
void check_placement(const Plan& plan, PlanErrors& errors);
void check_written(const Plan& plan, PlanErrors& errors);
void check_order(const Plan& plan, PlanErrors& errors);
// The part of check_order() that every plan must stand: no tasks wait for each other in a circle, no wait is polled
// too seldom.
void check_circles(const Plan& plan, PlanErrors& errors);

}  // namespace trek::plan
