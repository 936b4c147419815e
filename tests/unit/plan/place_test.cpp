// Placement, and what linking a large program costs.
#include <chrono>
#include <filesystem>
#include <functional>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "assembler/assemble.h"
#include "tests/unit/plan/programs.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// main: `count` instructions, each of the result of the one before, then a copy to the output.
isa::Module chain(int count, const char* declarations, const char* instruction) {
  std::string text = declarations;
  text += ".func main() {\n  %x0 = copy @a\n";
  for (int i = 1; i < count; ++i)
    text += fmt::format(fmt::runtime(instruction), fmt::arg("to", i), fmt::arg("from", i - 1));
  text += fmt::format("  @c = copy %x{}\n}}\n", count - 1);
  return assembled(text);
}

}  // namespace

TEST_CASE("registers lie within a tenth of the lower bound") {
  for (const char* text : {kTraining, kControl}) {
    const Plan plan = linked(assembled(text), small_device(4));
    CHECK(plan.lower_bound > 0);
    CHECK(plan.peak_bytes * 10 <= plan.lower_bound * 11);
  }
}

TEST_CASE("registers of the samples lie within a tenth of the lower bound") {
  size_t samples = 0;
  for (const auto& entry : std::filesystem::directory_iterator("samples")) {
    if (entry.path().extension() != ".trek") continue;
    INFO(entry.path().string());
    const Assembly assembly = assemble_file(entry.path().string());
    REQUIRE(assembly.ok());
    for (const char* device : {"generic", "a100", "one"}) {
      const auto plan = link(assembly.module, *find_device(device), {});
      REQUIRE(plan.ok());
      CHECK(plan->peak_bytes * 10 <= plan->lower_bound * 11);
    }
    ++samples;
  }
  CHECK(samples >= 3);
}

// The limits are many times what it takes, for a machine that is busy or slow; what they catch is a pass
// that is quadratic.
TEST_CASE("a million tasks of large products are linked in seconds") {
  const isa::Module module = chain(1000,
                                   ".input @a f32[4096,4096]\n.input @b f32[4096,4096]\n.output @c "
                                   "f32[4096,4096]\n",
                                   "  %x{to} = matmul %x{from}, @b\n");
  size_t tasks = 0;
  const double seconds = seconds_of([&] {
    const auto plan = link(module, *find_device("h200"), {});
    REQUIRE(plan.ok());
    tasks = plan->tasks.size();
  });
  CHECK(tasks > 1000000);
  CHECK(seconds < 30);
}

TEST_CASE("a long program of small tensors that live in turns is linked in seconds") {
  const isa::Module module =
      chain(20000, ".input @a f32[1000]\n.output @c f32[1000]\n", "  %x{to} = softmax %x{from}\n");
  const double seconds = seconds_of([&] {
    const auto plan = link(module, *find_device("h200"), {});
    REQUIRE(plan.ok());
    CHECK(plan->peak_bytes <= plan->lower_bound);
  });
  CHECK(seconds < 30);
}

TEST_CASE("a program of more instructions than a plan may have is refused by its number") {
  std::string text = ".output @c i64[]\n.func leaf() -> (i64) {\n";
  for (int i = 0; i < 64; ++i) text += fmt::format("  $a{} = add {}, 1\n", i, i);
  text += "  return $a63\n}\n";
  for (int level = 0; level < 3; ++level) {
    text += fmt::format(".func level{}() -> (i64) {{\n", level);
    for (int i = 0; i < 64; ++i)
      text += fmt::format("  $b{} = call {}()\n", i,
                          level == 0 ? std::string("leaf") : fmt::format("level{}", level - 1));
    text += "  return $b63\n}\n";
  }
  text += ".func main() {\n  $x = call level2()\n  store! @c, $x, at=[]\n}\n";
  const auto plan = link(assembled(text), *find_device("h200"), {});
  REQUIRE(!plan.ok());
  CHECK(plan.problems()[0].message.find("with its calls inlined") != std::string::npos);
}

}  // namespace trek::plan::test
