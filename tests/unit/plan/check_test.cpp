// Plans broken on purpose: the static checks name what is wrong.
#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/unit/plan/programs.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

// Instructions that cannot be fused.
Plan three_steps() {
  return linked(assembled(R"(
.input @x f32[64]
.output @y f32[64]
.output @z f32[64]
.func main() {
  %a = exp @x
  @y = neg %a
  @z = abs %a
}
)"),
                small_device(7));
}

Plan training(int processors = 5) { return linked(assembled(kTraining), small_device(processors)); }

bool finds(const Plan& plan, std::string_view text) {
  return errors_of(plan).find(text) != std::string::npos;
}

// Removes wait i of the plan's list from its task.
void drop_wait(Plan& plan, uint32_t index) {
  for (Task& task : plan.tasks)
    if (index >= task.first_wait && index < task.first_wait + task.waits) {
      plan.waits[index] = plan.waits[task.first_wait + task.waits - 1];
      --task.waits;
      return;
    }
}

}  // namespace

TEST_CASE("a plan of the linker passes") {
  CHECK(errors_of(training()) == "");
  CHECK(errors_of(three_steps()) == "");
}

TEST_CASE("a dropped wait is found, or changes nothing that memory could show") {
  const Plan good = training();
  const isa::Module module = assembled(kTraining);
  const Outcome want = run(module, good, 1);
  size_t found = 0;
  for (uint32_t i = 0; i < good.waits.size(); ++i) {
    Plan bad = good;
    drop_wait(bad, i);
    if (!check_plan(bad).empty()) {
      ++found;
      continue;
    }
    for (uint64_t seed = 1; seed <= 3; ++seed) CHECK(run(module, bad, seed) == want);
  }
  INFO(found << " of " << good.waits.size());
  CHECK(found * 10 >= good.waits.size() * 9);
}

TEST_CASE("at a load a large plan is checked for all but order, a small one for order too") {
  Plan small = training();
  CHECK(check_plan_at_load(small).empty());
  drop_wait(small, 0);
  CHECK_FALSE(check_plan_at_load(small).empty());

  std::string text =
      ".state @x f32[400,4]\n.state @y f32[400,4]\n.func main() {\n  loop $i = 0 until 2 {\n";
  for (int i = 0; i < 420; ++i) text += "    @y = softmax @x\n    @x = cumsum @y, axis=0\n";
  const Plan large = linked(assembled(text + "  }\n}\n"), small_device(70));
  REQUIRE(large.tasks.size() > kMostTasksOrderedAtLoad);
  CHECK(check_plan_at_load(large).empty());
  Plan silent = large;
  const auto signalling = std::find_if(silent.tasks.begin(), silent.tasks.end(),
                                       [](const Task& task) { return task.signals > 0; });
  REQUIRE(signalling != silent.tasks.end());
  --signalling->signals;
  CHECK_FALSE(check_plan_at_load(silent).empty());
  Plan circle = large;
  const auto back = std::find_if(circle.waits.begin(), circle.waits.end(),
                                 [](const Wait& w) { return w.delta == 1; });
  REQUIRE(back != circle.waits.end());
  back->delta = 0;
  CHECK_FALSE(check_plan_at_load(circle).empty());
}

TEST_CASE("a wait for more signals than come is found, and one for fewer") {
  for (const int change : {1, -1}) {
    Plan plan = training();
    plan.waits[plan.waits.size() / 2].count += static_cast<uint32_t>(change);
    CHECK(finds(plan, "signals of counter"));
  }
}

TEST_CASE("a wait for a trip before that becomes one for this trip is a circle") {
  Plan plan = training();
  const auto back = std::find_if(plan.waits.begin(), plan.waits.end(),
                                 [](const Wait& w) { return w.delta == 1; });
  REQUIRE(back != plan.waits.end());
  back->delta = 0;
  CHECK(finds(plan, "in a circle"));
}

TEST_CASE("a wait that is polled once though every trip needs it is found") {
  Plan plan = training();
  const auto wait = std::find_if(plan.waits.begin(), plan.waits.end(), [&](const Wait& w) {
    return !w.first_trip && plan.counters[w.counter].region != 0;
  });
  REQUIRE(wait != plan.waits.end());
  wait->first_trip = true;
  CHECK(finds(plan, "polls counter"));
}

TEST_CASE("two live buffers in one place are found") {
  Plan plan = training();
  std::vector<uint32_t> registers;
  for (uint32_t b = 0; b < plan.buffers.size(); ++b)
    if (plan.buffers[b].kind == BufferKind::tensor_register) registers.push_back(b);
  size_t found = 0;
  size_t tried = 0;
  for (uint32_t a : registers)
    for (uint32_t b : registers) {
      const Buffer& x = plan.buffers[a];
      const Buffer& y = plan.buffers[b];
      if (a >= b || x.last < y.first || y.last < x.first || x.bytes == 0 || y.bytes == 0) continue;
      Plan bad = plan;
      const int64_t shift = bad.buffers[a].offset - bad.buffers[b].offset;
      bad.buffers[b].offset += shift;
      for (Box& box : bad.boxes)
        if (box.buffer == b) box.begin += shift;
      bad.arena_bytes += y.bytes;
      ++tried;
      found += finds(bad, "share bytes and are needed at once") ? 1 : 0;
    }
  CHECK(tried > 3);
  CHECK(found == tried);
}

TEST_CASE("an access outside its buffer is found") {
  Plan plan = training();
  plan.boxes[plan.boxes.size() / 2].row_bytes += int64_t{1} << 20;
  CHECK(finds(plan, "leaves"));
}

TEST_CASE("a read of what nothing has written is found") {
  Plan plan = training();
  const uint32_t node = node_of(plan, isa::Opcode::CrossEntropyWithGrad);
  Task& task = plan.tasks[plan.nodes[node].first_task];
  uint32_t dropped = 0;
  for (uint32_t b = task.first_box; b < task.first_box + task.boxes; ++b)
    if (plan.boxes[b].write) {
      plan.boxes[b].partial = true;
      ++dropped;
    }
  REQUIRE(dropped == 2);
  CHECK(finds(plan, "before it is written"));
}

TEST_CASE("a write to what is said to be immutable is found") {
  Plan plan = training();
  for (const Box& box : plan.boxes)
    if (box.write) plan.buffers[box.buffer].immutable = true;
  CHECK(finds(plan, "said to be immutable"));
}

TEST_CASE("a region that is no range, and a task outside its region, are found") {
  Plan plan = training();
  plan.regions[1].end_task = static_cast<uint32_t>(plan.tasks.size()) + 1;
  CHECK(finds(plan, "is no range"));
  plan = training();
  plan.tasks[0].region = 1;
  plan.regions[1].first_task = 1;
  CHECK(finds(plan, "is not in its region"));
}

TEST_CASE("a plan with a wait that is never fulfilled is reported as stuck, not run for ever") {
  const isa::Module module = assembled(kTraining);
  Plan plan = training();
  for (Wait& wait : plan.waits) wait.count += 1;
  CHECK(run(module, plan, 1).failure.find("stuck") != std::string::npos);
}

TEST_CASE("an access outside a task's boxes is caught while it is executed") {
  const isa::Module module = assembled(kTraining);
  Plan plan = training();
  const uint32_t node = node_of(plan, isa::Opcode::CrossEntropyWithGrad);
  plan.tasks[plan.nodes[node].first_task].boxes = 1;
  CHECK(run(module, plan, 1).failure.find("outside its boxes") != std::string::npos);
}

}  // namespace trek::plan::test
