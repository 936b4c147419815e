#include "emulator/resident/steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emulator/loading.h"
#include "isa/ops.h"

namespace trek::resident {
namespace {

using plan::kNone;
using plan::Plan;
using plan::Region;
using plan::RegionKind;

class Unroller {
 public:
  Unroller(const Plan& plan, const Image& image) : plan_(plan), from_(image) {}
  isa::Result<Steps> run();

 private:
  struct Place {
    uint32_t processor;
    uint32_t record;
  };

  void find_tasks();
  void find_raisers();
  void walk(uint32_t region);
  void walk_nodes(uint32_t first, uint32_t end);
  void walk_inner(uint32_t index);
  void repeat(uint32_t region);
  bool joins(uint32_t first, uint32_t node) const;
  void add_step(uint32_t first, uint32_t end);
  void add_queue(const std::vector<uint32_t>& records);
  void add_counter(uint16_t region);
  void begin_passage(uint32_t decides);
  void end_passage();
  void refuse(uint32_t node, const std::string& what);

  const Plan& plan_;
  const Image& from_;
  Steps steps_;
  isa::Problems problems_;
  std::vector<std::vector<Place>> tasks_;        // per node, its records by processor
  std::vector<std::set<uint32_t>> raisers_;      // per counter, the nodes whose tasks raise it
  std::vector<std::vector<uint32_t>> children_;  // per region, in program order
  std::map<uint16_t, int64_t> counters_;         // of loops that are being unrolled
  Passage passage_;
};

void Unroller::refuse(uint32_t node, const std::string& what) {
  if (!problems_.empty()) return;
  isa::Problem refusal =
      problem(isa::ErrorCode::UnknownInstruction, "a graph of kernels cannot hold this: " + what);
  const plan::Node& at = plan_.nodes[node];
  refusal.place = fmt::format("function {}, instruction {} ({})", at.function, at.instruction,
                              isa::info(at.opcode).mnemonic);
  problems_.push_back(std::move(refusal));
}

void Unroller::find_tasks() {
  tasks_.resize(plan_.nodes.size());
  for (uint32_t p = 0; p < from_.processors; ++p)
    for (uint32_t r = from_.queues[p]; from_.records[r].kind != Kind::halt; ++r)
      if (from_.records[r].kind < Kind::decision) tasks_[from_.records[r].node].push_back({p, r});
  children_.resize(plan_.regions.size());
  for (uint32_t r = 1; r < plan_.regions.size(); ++r)
    children_[plan_.regions[r].parent].push_back(r);
}

void Unroller::find_raisers() {
  raisers_.resize(plan_.counters.size());
  for (const plan::Task& task : plan_.tasks)
    for (const uint32_t counter : plan_.signals_of(task)) raisers_[counter].insert(task.node);
}

// Whether `node` can be of a step of [first, node): all of one level, and none waits for another.
bool Unroller::joins(uint32_t first, uint32_t node) const {
  if (plan_.nodes[first].level != plan_.nodes[node].level || plan_.nodes[node].decides != kNone)
    return false;
  const plan::Node& last = plan_.nodes[node];
  for (uint32_t t = last.first_task; t < last.first_task + last.tasks; ++t)
    for (const plan::Wait& wait : plan_.waits_of(plan_.tasks[t])) {
      const auto found = raisers_[wait.counter].lower_bound(first);
      if (wait.delta == 0 && found != raisers_[wait.counter].end() && *found < node) return false;
    }
  return true;
}

void Unroller::begin_passage(uint32_t decides) {
  passage_ = {};
  passage_.first = static_cast<uint32_t>(steps_.steps.size());
  passage_.decides = decides;
}

void Unroller::end_passage() {
  passage_.end = static_cast<uint32_t>(steps_.steps.size());
  steps_.passages.push_back(passage_);
}

// What the records behind it find as the counter of `region`.
void Unroller::add_counter(uint16_t region) {
  Record enter;
  enter.kind = Kind::enter;
  enter.region = region;
  const auto unrolled = counters_.find(region);
  if (unrolled != counters_.end()) {
    enter.jump = {0, 1, 1};
    enter.first = unrolled->second;
  } else {
    Record decision;
    decision.kind = Kind::decision;
    decision.region = region;
    steps_.image.records.push_back(decision);
    passage_.reads_counter = true;
  }
  steps_.image.records.push_back(enter);
}

void Unroller::add_queue(const std::vector<uint32_t>& records) {
  Image& image = steps_.image;
  image.queues.push_back(static_cast<uint32_t>(image.records.size()));
  std::set<uint16_t> read;
  for (const uint32_t r : records) {
    const Record& record = from_.records[r];
    read.insert(record.read, record.read + record.reads);
  }
  for (const uint16_t region : read) add_counter(region);
  for (const uint32_t r : records) {
    Record record = from_.records[r];
    record.waits = record.signals = 0;
    record.loop = kNoRegion;
    image.records.push_back(record);
  }
  image.records.emplace_back();  // halt
}

// The nodes [first, end) as one launch.
void Unroller::add_step(uint32_t first, uint32_t end) {
  std::map<uint32_t, std::vector<uint32_t>> queues;
  for (uint32_t n = first; n < end; ++n)
    for (const Place& place : tasks_[n]) queues[place.processor].push_back(place.record);
  if (queues.empty()) return;
  steps_.steps.push_back(
      {static_cast<uint32_t>(steps_.image.queues.size()), static_cast<uint32_t>(queues.size())});
  for (const auto& [processor, records] : queues) add_queue(records);
  if (steps_.image.records.size() > kMaxUnrolled)
    refuse(first, fmt::format("it has more than {} records with its loops unrolled", kMaxUnrolled));
}

void Unroller::walk_nodes(uint32_t first, uint32_t end) {
  while (first < end && problems_.empty()) {
    const plan::Node& node = plan_.nodes[first];
    if (node.opcode == isa::Opcode::Emit || node.opcode == isa::Opcode::Next)
      refuse(first, "values and streams pass between the host and a launch that runs through");
    uint32_t next = first + 1;
    if (node.decides == kNone)
      while (next < end && joins(first, next)) ++next;
    // Who decides has a step of its own, which is launched before its loop.
    if (node.decides == kNone) add_step(first, next);
    first = next;
  }
}

// A loop of the root whose trips are decided.
void Unroller::repeat(uint32_t region) {
  const auto decides = static_cast<uint32_t>(steps_.steps.size());
  end_passage();
  add_step(plan_.regions[region].decision, plan_.regions[region].decision + 1);
  begin_passage(decides);
  walk(region);
  end_passage();
  begin_passage(kNone);
}

void Unroller::walk_inner(uint32_t index) {
  const Region& region = plan_.regions[index];
  if (region.kind != RegionKind::loop)
    return refuse(region.decision != kNone ? region.decision : region.first_node,
                  "a branch, or a loop that goes on while something holds");
  if (!region.static_trips) {
    if (region.parent != 0)
      return refuse(region.decision, "a loop within a loop has trips that are not constant");
    return repeat(index);
  }
  for (uint64_t trip = 0; trip < region.trips && problems_.empty(); ++trip) {
    counters_[static_cast<uint16_t>(index)] = static_cast<int64_t>(
        static_cast<uint64_t>(region.from) + trip * static_cast<uint64_t>(region.step));
    walk(index);
  }
  counters_.erase(static_cast<uint16_t>(index));
}

void Unroller::walk(uint32_t index) {
  const Region& region = plan_.regions[index];
  passage_.instructions += region.instructions;
  uint32_t next = region.first_node;
  for (const uint32_t child : children_[index]) {
    walk_nodes(next, plan_.regions[child].first_node);
    walk_inner(child);
    next = plan_.regions[child].end_node;
    if (!problems_.empty()) return;
  }
  walk_nodes(next, region.end_node);
}

isa::Result<Steps> Unroller::run() {
  find_tasks();
  find_raisers();
  Image& image = steps_.image;
  image.descriptors = from_.descriptors;
  image.maps = from_.maps;
  image.processors = from_.processors;
  image.regions = from_.regions;
  image.arena_bytes = from_.arena_bytes;
  begin_passage(kNone);
  walk(0);
  end_passage();
  if (!problems_.empty()) return std::move(problems_);
  image.records.resize(image.records.size() + kRecordsBehind);
  return std::move(steps_);
}

}  // namespace

isa::Result<Steps> unroll(const Plan& plan, const Image& image) {
  return Unroller(plan, image).run();
}

}  // namespace trek::resident
