// Plans against the reference, which shares only the meaning of single elements with them: the same bits,
// the same traps, and as many instructions.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/property/random_module.h"
#include "tests/unit/plan/programs.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
TEST_CASE("a training loop leaves what the reference leaves, by as many instructions") {
  expect_as_reference(assembled(kTraining));
}

TEST_CASE("carried values, branches, whiles and calls leave what the reference leaves") {
  expect_as_reference(assembled(kControl));
}

TEST_CASE("cells of thin products leave what the reference leaves") {
  for (const auto& [rows, hidden] :
       {std::pair(1, 32), std::pair(1, 70), std::pair(4, 24), std::pair(3, 65)})
    expect_as_reference(assembled(fmt::format(kCells, rows, hidden)));
}

TEST_CASE("random modules leave what the reference leaves, or trap where it traps") {
  property::RandomOptions options;
  options.executable = true;
  options.debug = false;
  options.tests = false;
  options.elements = 300;
  for (uint64_t seed = 1000; seed < 1150; ++seed) {
    INFO("seed " << seed);
    expect_as_reference(property::random_module(seed, options));
  }
}

TEST_CASE("a run ends at a back-edge once its instructions are more than allowed") {
  const isa::Module module = assembled(R"(
.output @n i64[]
.func main() {
  loop $i = 0 until 1000000000000 {
    store! @n, $i, at=[]
  }
}
)");
  const Plan plan = linked(module, small_device(2));
  InterpretOptions options;
  options.instruction_limit = 1000;
  std::vector<std::byte> arena(static_cast<size_t>(plan.arena_bytes));
  const Interpreted result = interpret(plan, arena, options);
  CHECK(result.failure == "instruction limit");
  CHECK(result.instructions > 1000);
  CHECK(result.instructions < 1010);
}

}  // namespace trek::plan::test
