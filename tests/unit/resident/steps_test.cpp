// A program whose nodes are launched one after the other leaves what it leaves where one launch runs through.
#include "emulator/resident/steps.h"

#include <atomic>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/link.h"
#include "emulator/resident/program.h"
#include "tests/unit/plan/run.h"
#include "tests/unit/resident/machine.h"

namespace trek::resident::test {
namespace {

using plan::test::assembled;

std::unique_ptr<Program> loaded(const isa::Module& module, Launching launching) {
  auto program = load_program(test_machine().machine, module, {}, {}, {}, launching);
  if (!program) FAIL(program.problems()[0].message);
  return program.take();
}

std::vector<std::vector<std::byte>> tensors_of(Program& program) {
  std::vector<std::vector<std::byte>> tensors;
  for (uint32_t t = 0; t < program.module().tensors.size(); ++t) {
    const auto bytes = program.read(t);
    tensors.emplace_back(bytes.begin(), bytes.end());
  }
  return tensors;
}

// Both ways, twice each: the second run goes on with what the first left, and with what was recorded.
void check_same(const isa::Module& module, const std::vector<uint64_t>& params) {
  const auto through = loaded(module, Launching::through);
  const auto in_steps = loaded(module, Launching::in_steps);
  for (const uint64_t param : params) {
    INFO("parameter " << param);
    for (Program* program : {through.get(), in_steps.get()}) {
      if (!module.params.empty()) program->set(0, param);
      const RunResult result = program->run({});
      INFO(result.detail);
      REQUIRE(result.outcome == Outcome::done);
    }
    CHECK(tensors_of(*in_steps) == tensors_of(*through));
    CHECK(in_steps->counters().instructions == through->counters().instructions);
  }
}

Steps steps_of(const isa::Module& module) {
  auto plan = plan::link(module, plan_device(*test_machine().machine, uint64_t{1} << 30), {});
  REQUIRE(plan);
  auto image = encode(*plan);
  REQUIRE(image);
  auto steps = unroll(*plan, *image);
  REQUIRE(steps);
  return steps.take();
}

std::string refusal_of(const isa::Module& module) {
  auto program = load_program(test_machine().machine, module, {}, {}, {}, Launching::in_steps);
  return program ? "" : program.problems()[0].message;
}

// A training step: products, a loss, optimizers that read the loop's counter, whose bounds a launch works out.
constexpr const char* kTraining = R"(
.param $trips i64 = 3
.state @done i64[] = 0
.state @x f32[8,20] = normal(0, 1, key=1)
.state @w f32[20,6] = normal(0, 1, key=2)
.state @m f32[20,6]
.state @v f32[20,6]
.state @loss f32[]
.func main() {
  %i = iota shape=[8], to=i64, axis=0
  %t = mod %i, 6
  $done = load @done, at=[]
  $first = add $done, 1
  $until = add $first, $trips
  loop $step = $first until $until {
    %z = matmul @x, @w
    %loss, %dz = cross_entropy.with_grad %z, %t, mean
    @loss = copy %loss
    %dw = matmul @x, %dz, ta
    adam! @w, @m, @v, %dw, lr=1e-1, step=$step
  }
  $now = add $done, $trips
  store! @done, $now, at=[]
}
)";

// Loops in loops, whose counters are read, and one that is not entered.
constexpr const char* kLoops = R"(
.param $trips i64 = 2
.state @x f32[3000] = normal(0, 1, key=1)
.state @y f32[4,3000]
.func main() {
  loop $never = 0 until 0 {
    @x = mul @x, 0.0
  }
  loop $i = 0 until $trips {
    loop $j = 0 until 4 {
      %h = mul @x, 0.5
      %k = add %h, 1.0
      @x = sub %k, 0.25
      %row = reshape %k, shape=[1,3000]
      update! @y, %row, at=[$j,0]
    }
  }
  @x = neg @x
}
)";

}  // namespace

TEST_CASE("a program in steps leaves what it leaves launched through") {
  check_same(assembled(kTraining), {3, 0, 1, 700});
  check_same(assembled(kLoops), {2, 5, 0, 130});
}

TEST_CASE("a step has one node, or neighbours that are independent") {
  const Steps steps = steps_of(assembled(R"(
.state @a f32[64,64] = normal(0, 1, key=1)
.state @b f32[64,64]
.state @c f32[64,64]
.state @d f32[64,64]
.func main() {
  @b = matmul @a, @a
  @c = matmul @a, @a, ta
  @d = matmul @b, @c
}
)"));
  REQUIRE(steps.passages.size() == 1);
  CHECK(steps.steps.size() == 2);
}

TEST_CASE("what only one launch can do is refused by name") {
  CHECK(refusal_of(assembled(R"(
.state @x f32[4]
.func main() {
  emit "x", @x
}
)"))
            .find("pass between the host") != std::string::npos);
  CHECK(refusal_of(assembled(R"(
.param $n i64 = 1
.state @x f32[4]
.func main() {
  $is = gt $n, 0
  if $is {
    @x = add @x, 1.0
  }
}
)"))
            .find("a branch") != std::string::npos);
  CHECK(refusal_of(assembled(R"(
.param $n i64 = 1
.state @x f32[4]
.func main() {
  loop $i = 0 until 3 {
    loop $j = 0 until $n {
      @x = add @x, 1.0
    }
  }
}
)"))
            .find("not constant") != std::string::npos);
}

TEST_CASE("a trap in steps ends the run with its place") {
  const isa::Module module = assembled(R"(
.param $at i64 = 9
.state @x f32[4]
.state @y f32[1]
.func main() {
  @y = slice @x, at=[$at], size=[1]
}
)");
  const auto program = loaded(module, Launching::in_steps);
  const RunResult result = program->run({});
  REQUIRE(result.outcome == Outcome::trapped);
  CHECK(result.trap->code == isa::TrapCode::IndexOutOfRange);
  program->set(0, 2);
  CHECK(program->run({}).outcome == Outcome::done);
}

TEST_CASE("a stop ends a program in steps, a limit is refused") {
  const auto program = loaded(assembled(kLoops), Launching::in_steps);
  program->set(0, uint64_t{1} << 40);
  std::atomic<bool> stop = true;
  RunOptions options;
  options.stop = &stop;
  CHECK(program->run(options).outcome == Outcome::stopped);
  RunOptions limited;
  limited.instruction_limit = 5;
  const RunResult result = program->run(limited);
  CHECK(result.outcome == Outcome::limit);
  CHECK(result.detail.find("limited") != std::string::npos);
}

}  // namespace trek::resident::test
