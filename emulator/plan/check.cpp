#include "emulator/plan/check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "emulator/plan/runs.h"

namespace trek::plan {

namespace {

// Runs 2i and 2i + 1 of a product are on processors 2j and 2j + 1, with the same k of tiles of a pair.
void check_pairs_of_runs(const Plan& plan, const Node& node, PlanErrors& errors) {
  const MatrixTiles& tiles = plan.tilings[node.tiles];
  const MatrixShape shape = matrix_shape(node);
  if (!may_have_runs(shape, tiles)) return errors.add("a node has runs that cannot be");
  const Runs runs(shape, tiles);
  std::vector<uint32_t> of_run(static_cast<size_t>(tiles.runs), kNone);  // processors
  for (uint32_t i = node.first_task; i < node.first_task + node.tasks; ++i) {
    const Task& task = plan.tasks[i];
    uint32_t& processor = of_run[static_cast<size_t>(runs.run_of(node, task))];
    if (processor != kNone && processor != task.processor)
      errors.add(fmt::format("task {} is apart from others of its run", i));
    processor = task.processor;
  }
  for (size_t run = 0; run + 1 < of_run.size(); run += 2)
    if (of_run[run] != kNone && (of_run[run] % 2 != 0 || of_run[run + 1] != of_run[run] + 1))
      errors.add(fmt::format("runs {} and {} are no pair", run, run + 1));
}

// Tiles that two processors work on together: both have them, and no other pair comes to one of the two alone, since queues
// are in the order of tasks.
void check_pairs(const Plan& plan, PlanErrors& errors) {
  for (const Node& node : plan.nodes) {
    if (pairing_of(plan, node) == Pairing::none) continue;
    const MatrixTiles& tiles = plan.tilings[node.tiles];
    const bool in_runs = node.of_runs != OfRuns::none;
    const bool is_whole = in_runs || node.tasks == tiles.count;
    if (!plan.device.has_pairs || plan.device.processors % 2 != 0 || !is_whole ||
        (tiles.pairing == Pairing::depth &&
         (tiles.transposed ? tiles.down : tiles.across) % 2 != 0))
      return errors.add("a node has tiles for pairs of processors, which there are not");
    if (node.first_task + node.tasks > plan.tasks.size()) return;  // said elsewhere
    if (in_runs) {
      check_pairs_of_runs(plan, node, errors);
      continue;
    }
    for (uint32_t i = 0; i < node.tasks; ++i) {
      const Task& task = plan.tasks[node.first_task + i];
      const int64_t partner = partner_of(tiles, tiles.first + i);
      if (task.first != tiles.first + i)
        errors.add(fmt::format("task {} is of another tile", node.first_task + i));
      if (partner == kNone) continue;
      const int64_t other = partner - tiles.first;
      if (other < 0 || other >= tiles.count) {
        errors.add(fmt::format("task {} is of a pair that two nodes share", node.first_task + i));
        continue;
      }
      if (other < i) continue;
      const Task& with = plan.tasks[node.first_task + static_cast<uint32_t>(other)];
      if (task.processor % 2 != 0 || with.processor != task.processor + 1)
        errors.add(fmt::format("tasks {} and {} are no pair", node.first_task + i,
                               node.first_task + other));
    }
  }
}

}  // namespace

void check_structure(const Plan& plan, PlanErrors& errors) {
  const auto within = [](uint64_t first, uint64_t count, size_t size) {
    return first + count <= size;
  };
  for (uint32_t r = 0; r < plan.regions.size(); ++r) {
    const Region& region = plan.regions[r];
    if (region.first_task > region.end_task || region.end_task > plan.tasks.size() ||
        region.first_node > region.end_node || region.end_node > plan.nodes.size())
      errors.add(fmt::format("region {} is no range", r));
    if (r == 0) continue;
    if (region.parent >= r) return errors.add(fmt::format("region {} precedes its parent", r));
    const Region& parent = plan.regions[region.parent];
    if (region.first_task < parent.first_task || region.end_task > parent.end_task ||
        region.depth != parent.depth + 1)
      errors.add(fmt::format("region {} is not inside its parent", r));
    if (region.decision != kNone && region.decision >= plan.nodes.size())
      errors.add(fmt::format("region {} is decided by no node", r));
    const bool is_static = region.kind == RegionKind::repeat || region.static_trips;
    if (is_static == (region.decision != kNone))
      errors.add(fmt::format("region {} is decided {}", r, is_static ? "twice" : "by nothing"));
    if (region.static_trips && region.kind != RegionKind::loop)
      errors.add(fmt::format("region {} has trips and is no loop", r));
  }
  for (const View& view : plan.views)
    if (view.buffer >= plan.buffers.size()) errors.add("a view of no buffer");
  check_pairs(plan, errors);
  for (uint32_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& task = plan.tasks[i];
    if (task.node >= plan.nodes.size() || task.region >= plan.regions.size() ||
        task.processor >= static_cast<uint32_t>(plan.device.processors) ||
        !within(task.first_box, task.boxes, plan.boxes.size()) ||
        !within(task.first_wait, task.waits, plan.waits.size()) ||
        !within(task.first_signal, task.signals, plan.signals.size())) {
      errors.add(fmt::format("task {} names what is not there", i));
      continue;
    }
    const Region& region = plan.regions[task.region];
    if (i < region.first_task || i >= region.end_task)
      errors.add(fmt::format("task {} is not in its region {}", i, task.region));
    for (const Box& box : plan.boxes_of(task)) {
      if (box.buffer >= plan.buffers.size()) {
        errors.add(fmt::format("task {} has a box of no buffer", i));
        continue;
      }
      const Buffer& buffer = plan.buffers[box.buffer];
      if (!box.empty() && (box.begin < buffer.offset || box.end() > buffer.offset + buffer.bytes ||
                           (box.rows > 1 && box.stride < box.row_bytes)))
        errors.add(fmt::format("task {} leaves {}: bytes {} to {} of {} to {}", i, buffer.name,
                               box.begin, box.end(), buffer.offset, buffer.offset + buffer.bytes));
      if (box.write && buffer.immutable)
        errors.add(fmt::format("task {} writes {}, which is said to be immutable", i, buffer.name));
    }
  }
}

void check_counters(const Plan& plan, PlanErrors& errors) {
  std::vector<uint32_t> raised(plan.counters.size(), 0);
  for (uint32_t i = 0; i < plan.tasks.size(); ++i)
    for (uint32_t counter : plan.signals_of(plan.tasks[i])) {
      if (counter >= plan.counters.size()) {
        errors.add(fmt::format("task {} raises no counter", i));
        continue;
      }
      ++raised[counter];
      if (plan.tasks[i].region != plan.counters[counter].region)
        errors.add(fmt::format("task {} raises counter {} of another region", i, counter));
    }
  for (uint32_t i = 0; i < plan.tasks.size(); ++i)
    for (const Wait& wait : plan.waits_of(plan.tasks[i])) {
      if (wait.counter >= plan.counters.size()) {
        errors.add(fmt::format("task {} waits for no counter", i));
        continue;
      }
      if (wait.count != raised[wait.counter])
        errors.add(
            fmt::format("task {} waits for {} signals of counter {}, which gets {} in a trip", i,
                        wait.count, wait.counter, raised[wait.counter]));
      if (wait.delta > 1 || (wait.delta == 1 && !plan.encloses(plan.counters[wait.counter].region,
                                                               plan.tasks[i].region)))
        errors.add(fmt::format("task {} waits for a trip before of a region it is not in", i));
    }
}

// How long a buffer is needed, as tasks: from its first access to its last, and all of a loop in which it
// is read before the trip has written it.
namespace {

struct Life {
  uint32_t first = kNone;
  uint32_t last = 0;
};

// Whether a trip of `loop` has certainly written a buffer before `task`, given the tasks before it that
// write: one in a region around the task; one that a while executes before its test; one in each branch
// of an `if`.
bool is_fresh(const Plan& plan, const std::vector<uint32_t>& writers, const Region& loop,
              const Task& task) {
  std::vector<uint32_t> regions;
  for (uint32_t w : writers)
    if (w >= loop.first_task) regions.push_back(plan.tasks[w].region);
  for (size_t i = 0; i < regions.size(); ++i) {
    if (plan.encloses(regions[i], task.region)) return true;
    const Region& region = plan.regions[regions[i]];
    const bool other_branch = std::any_of(regions.begin(), regions.end(), [&](uint32_t r) {
      return plan.regions[r].decision == region.decision && plan.regions[r].kind != region.kind;
    });
    const bool branches = region.kind == RegionKind::then || region.kind == RegionKind::otherwise;
    const bool executed = region.kind == RegionKind::repeat || (branches && other_branch);
    const bool is_new = std::find(regions.begin(), regions.end(), region.parent) == regions.end();
    if (executed && is_new) regions.push_back(region.parent);
  }
  return false;
}

std::vector<Life> lives_of(const Plan& plan) {
  std::vector<Life> lives(plan.buffers.size());
  std::vector<std::vector<uint32_t>> writers(plan.buffers.size());
  for (uint32_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& task = plan.tasks[i];
    for (const Box& box : plan.boxes_of(task)) {
      Life& life = lives[box.buffer];
      life.first = std::min(life.first, i);
      life.last = std::max(life.last, i);
      if (box.write) continue;
      for (uint32_t r = task.region; r != kNone; r = plan.regions[r].parent) {
        const Region& region = plan.regions[r];
        if (!region.is_loop()) continue;
        if (is_fresh(plan, writers[box.buffer], region, task)) continue;
        life.first = std::min(life.first, region.first_task);
        life.last = std::max(life.last, region.end_task - 1);
      }
    }
    for (const Box& box : plan.boxes_of(task)) {
      auto& list = writers[box.buffer];
      // One of a node speaks for all of it.
      const bool known = !list.empty() && plan.tasks[list.back()].node == task.node;
      if (box.write && !known) list.push_back(i);
    }
  }
  return lives;
}

}  // namespace

void check_placement(const Plan& plan, PlanErrors& errors) {
  const std::vector<Life> lives = lives_of(plan);
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer& buffer = plan.buffers[i];
    if (buffer.offset < 0 || buffer.bytes < 0 || buffer.offset + buffer.bytes > plan.arena_bytes)
      errors.add(fmt::format("{} lies outside the arena", buffer.name));
    if (buffer.bytes > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return plan.buffers[a].offset < plan.buffers[b].offset;
  });
  for (size_t i = 0; i < order.size(); ++i) {
    const Buffer& a = plan.buffers[order[i]];
    for (size_t j = i + 1; j < order.size() && plan.buffers[order[j]].offset < a.offset + a.bytes;
         ++j) {
      const Buffer& b = plan.buffers[order[j]];
      const Life& x = lives[order[i]];
      const Life& y = lives[order[j]];
      const bool fixed = a.initialised || b.initialised;
      if (x.first == kNone || y.first == kNone) continue;
      if (fixed || (x.first <= y.last && y.first <= x.last))
        errors.add(fmt::format("{} and {} share bytes and are needed at once", a.name, b.name));
    }
  }
}

namespace {

std::vector<std::string> check_parts(const Plan& plan, bool ordered) {
  PlanErrors errors;
  check_structure(plan, errors);
  if (!errors.empty()) return errors.take();
  check_counters(plan, errors);
  check_placement(plan, errors);
  check_written(plan, errors);
  if (ordered)
    check_order(plan, errors);
  else
    check_circles(plan, errors);
  return errors.take();
}

}  // namespace

std::vector<std::string> check_plan(const Plan& plan) { return check_parts(plan, true); }

std::vector<std::string> check_plan_at_load(const Plan& plan) {
  return check_parts(plan, plan.tasks.size() <= kMostTasksOrderedAtLoad);
}

}  // namespace trek::plan
