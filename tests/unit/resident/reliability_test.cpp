// What the resident emulator promises whatever happens: a launch in which nothing moves is ended and says who
// waits for what, a program that does not fit is refused with the numbers, and memory is given back.
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include "emulator/plan/check.h"
#include "emulator/resident/program.h"
#include "tests/unit/plan/programs.h"
#include "tests/unit/plan/run.h"
#include "tests/unit/resident/machine.h"

namespace trek::resident::test {
namespace {

using plan::test::assembled;

template <class T>
T must(driver::Result<T> result) {
  if (!result) FAIL(result.error().text());
  return result.take();
}

std::unique_ptr<Program> must_load(const isa::Module& module) {
  auto program = load_program(test_machine().machine, module, {}, {});
  if (!program) FAIL(program.problems()[0].message);
  return program.take();
}

// The plan of `main` for the machine, without the first signal of the n-th task that has one.
plan::Plan without_signal(const plan::Plan& plan, uint32_t n) {
  plan::Plan bad = plan;
  for (plan::Task& task : bad.tasks) {
    if (task.signals == 0 || n-- > 0) continue;
    ++task.first_signal;
    --task.signals;
    return bad;
  }
  FAIL("so many tasks have no signal");
  return bad;
}

// Launches a plan over an arena of zeros.
Ended launch(const plan::Plan& plan) {
  const auto& machine = test_machine().machine;
  auto image = encode(plan);
  REQUIRE(image.ok());
  const Memory arena = must(machine->allocate(image->arena_bytes + 256));
  must(machine->zero(arena.address, arena.bytes));
  auto executable = must(Executable::create(machine, plan, image.take()));
  return must(executable->run(arena, 0, {}));
}

uint64_t resident_set() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// What is allocated, as the allocator counts it.
uint64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// What this process and the machine have; differences are what something kept.
struct Held {
  uint64_t heap = heap_bytes();
  uint64_t pages = resident_set();
  uint64_t device = must(test_machine().machine->free_memory());
};

void expect_flat(const Held& before) {
  [[maybe_unused]] constexpr uint64_t kHeap = 64 << 10;
  [[maybe_unused]] constexpr uint64_t kPages =
      16 << 20;  // the allocator keeps some, and so does a driver
  const Held after;
  INFO(fmt::format("heap {} -> {}, pages {} -> {}, free on the device {} -> {}", before.heap,
                   after.heap, before.pages, after.pages, before.device, after.device));
#ifndef TREK_SANITIZED  // sanitizers keep what is freed
  CHECK(after.heap <= before.heap + kHeap);
  CHECK(after.pages <= before.pages + kPages);
#endif
  if (test_machine().exact_memory) CHECK(after.device == before.device);
}

}  // namespace

TEST_CASE("a lost signal: the checker finds it, the watchdog ends the launch and says who waits") {
  // Tiles on all processors, and edges within and between the trips of a loop.
  const isa::Module module = assembled(R"(
.state @x f32[200000]
.func main() {
  loop $i = 0 until 3 {
    %s = sum @x
    @x = sub @x, %s
  }
}
)");
  const plan::Device device = plan_device(*test_machine().machine, uint64_t{1} << 30);
  const plan::Plan good = plan::test::linked(module, device);
  CHECK(plan::check_plan(good).empty());
  for (const uint32_t n : {0u, 5u}) {
    const plan::Plan bad = without_signal(good, n);
    CHECK_FALSE(plan::check_plan(bad).empty());
    const auto began = std::chrono::steady_clock::now();
    const Ended ended = launch(bad);
    const auto took = std::chrono::steady_clock::now() - began;
    CHECK(ended.ending == Ending::aborted);
    INFO(ended.dump);
    CHECK(ended.dump.find(", waiting, node ") != std::string::npos);
    CHECK(ended.dump.find(", wanted ") != std::string::npos);
    CHECK(took >= watchdog_time());
    CHECK(took < 2 * watchdog_time());
  }
  // The machine is as good as before.
  const Ended ended = launch(good);
  CHECK(ended.ending == Ending::done);
  CHECK(ended.dump.empty());
}

TEST_CASE("a launch that waits for its host for longer than the watchdog's time is not ended") {
  const isa::Module module = assembled(R"(
.stream @blocks f32[10]
.output @sum f32[10]
.func main() {
  while {
    %block, $more = next @blocks
    test $more
    @sum = add @sum, %block
  }
}
)");
  const auto program = must_load(module);
  int given = 0;
  const StreamSource slow = [&](std::span<std::byte> block) {
    if (given == 3) return false;
    ++given;
    if (given == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2500));
    const std::vector<float> ones(10, 1);
    std::memcpy(block.data(), ones.data(), block.size());
    return true;
  };
  REQUIRE(program->bind_stream(0, slow).empty());
  const RunResult result = program->run({});
  INFO(result.detail);
  CHECK(result.outcome == Outcome::done);
  CHECK(given == 3);
  float sum = 0;
  std::memcpy(&sum, program->read(1).data(), sizeof sum);
  CHECK(sum == 3);
}

TEST_CASE("a program that does not fit is refused with what it needs and what there is") {
  const auto& machine = test_machine().machine;
  const uint64_t free = must(machine->free_memory());
  const uint64_t elements = (free / 4 + (1u << 28)) / 1024 * 1024;
  const isa::Module large = assembled(
      fmt::format(".state @x f32[{}]\n.func main() {{\n  @x = add @x, 1\n}}\n", elements));
  const auto refused = load_program(machine, large, {}, {});
  REQUIRE_FALSE(refused.ok());
  REQUIRE(refused.problems().size() == 1);
  const isa::Problem& problem = refused.problems()[0];
  INFO(problem.message);
  CHECK(problem.code == isa::ErrorCode::ShapeLimit);
  CHECK(problem.message.starts_with(fmt::format("the program needs {} bytes ", 4 * elements)));
  CHECK(problem.message.find(fmt::format(" and {} has ", machine->name())) != std::string::npos);
  CHECK(problem.message.ends_with(fmt::format("the largest: @x {} bytes", 4 * elements)));

  LoadOptions options;
  options.memory_limit = 1 << 20;
  const isa::Module small = assembled(
      ".state @x f32[1000000]\n.state @y f32[500]\n.func main() {\n  @x = add @x, 1\n}\n");
  const auto limited = load_program(machine, small, options, {});
  REQUIRE_FALSE(limited.ok());
  CHECK(limited.problems()[0].message.ends_with(
      "has 1048576 for it; the largest: @x 4000000 bytes, @y 2000 bytes"));
  must_load(small);
}

TEST_CASE("outputs are zero when a run begins, states without data when they are loaded") {
  const isa::Module module = assembled(R"(
.param  $go bool = true
.state  @s f32[3000]
.output @y f32[3000]
.func main() {
  if $go {
    @y = add @s, 1
    @s = copy @y
  }
}
)");
  const auto program = must_load(module);
  const auto first = [&](uint32_t tensor) {
    const auto bytes = program->read(tensor);
    REQUIRE(bytes.size() == 12000);
    return std::vector<float>(reinterpret_cast<const float*>(bytes.data()),
                              reinterpret_cast<const float*>(bytes.data()) + 3000);
  };
  CHECK(first(0) == std::vector<float>(3000, 0));
  CHECK(program->run({}).outcome == Outcome::done);
  CHECK(first(0) == std::vector<float>(3000, 1));
  CHECK(first(1) == std::vector<float>(3000, 1));
  program->set(0, 0);
  CHECK(program->run({}).outcome == Outcome::done);
  CHECK(first(0) == std::vector<float>(3000, 1));
  CHECK(first(1) == std::vector<float>(3000, 0));
}

TEST_CASE("many runs of one program hold memory flat") {
  const isa::Module module = assembled(plan::test::kTraining);
  const auto program = must_load(module);
  uint64_t emitted = 0;
  RunOptions options;
  options.emit = [&](const Emitted& value) { emitted += value.bytes.size() / 4; };
  const auto runs = [&](int count) {
    for (int i = 0; i < count; ++i) REQUIRE(program->run(options).outcome == Outcome::done);
  };
  runs(50);
  const Held before;
  runs(test_machine().runs);
  expect_flat(before);
  CHECK(emitted == 4 * static_cast<uint64_t>(50 + test_machine().runs));
}

TEST_CASE("many loads hold memory flat") {
  const isa::Module module = assembled(plan::test::kTraining);
  const auto loads = [&](int count) {
    for (int i = 0; i < count; ++i) REQUIRE(must_load(module)->run({}).outcome == Outcome::done);
  };
  loads(10);
  const Held before;
  loads(test_machine().loads);
  expect_flat(before);
}

}  // namespace trek::resident::test
