// Edges taken out of plans: whoever drops one hears of it before anything is launched.
#include <algorithm>
#include <filesystem>
#include <optional>

#include <catch2/catch.hpp>

#include "assembler/assemble.h"
#include "emulator/plan/print.h"
#include "tests/property/random_module.h"
#include "tests/unit/plan/programs.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

// A copy of the plan in which task `t` does not have its wait `w`.
Plan without_wait(const Plan& plan, uint32_t t, uint32_t w) {
  Plan bad = plan;
  Task& task = bad.tasks[t];
  std::swap(bad.waits[task.first_wait + w], bad.waits[task.first_wait + task.waits - 1u]);
  --task.waits;
  return bad;
}

Plan without_signal(const Plan& plan, uint32_t t, uint32_t s) {
  Plan bad = plan;
  Task& task = bad.tasks[t];
  std::swap(bad.signals[task.first_signal + s], bad.signals[task.first_signal + task.signals - 1u]);
  --task.signals;
  return bad;
}

struct Found {
  size_t edges = 0;
  size_t silent = 0;  // waits that check_plan() does not miss
};

// Every wait and every signal, or each `stride`-th. Calls silent(plan) for each one without a wait that
// check_plan() does not miss.
template <typename F>
Found drop_edges(const Plan& plan, size_t stride, F&& silent) {
  Found found;
  size_t turn = 0;
  for (uint32_t t = 0; t < plan.tasks.size(); ++t) {
    for (uint32_t w = 0; w < plan.tasks[t].waits; ++w) {
      if (turn++ % stride != 0) continue;
      ++found.edges;
      const Plan bad = without_wait(plan, t, w);
      if (!check_plan(bad).empty()) continue;
      ++found.silent;
      silent(bad);
    }
    for (uint32_t s = 0; s < plan.tasks[t].signals; ++s) {
      if (turn++ % stride != 0) continue;
      ++found.edges;
      CHECK(!check_plan(without_signal(plan, t, s)).empty());
    }
  }
  return found;
}

}  // namespace

TEST_CASE("every edge that is dropped from a training loop's plan is missed") {
  for (const int processors : {3, 5, 11}) {
    const Found found =
        drop_edges(linked(assembled(kTraining), small_device(processors)), 1, [](const Plan&) {});
    CHECK(found.edges > 10);
    CHECK(found.silent == 0);
  }
}

TEST_CASE("an edge that is dropped from a random plan is missed, or was not needed") {
  property::RandomOptions options;
  options.executable = true;
  options.debug = false;
  options.tests = false;
  options.elements = 100;
  size_t edges = 0;
  size_t silent = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const isa::Module module = property::random_module(seed, options);
    const Plan plan = linked(module, small_device(6));
    std::optional<Outcome> want;
    // What the proof does without, memory does without too: another wait says the same, most of all behind
    // branches, of which the linker forgets what they taught.
    const Found found = drop_edges(plan, 1 + plan.waits.size() / 20, [&](const Plan& bad) {
      if (!want) want = run(module, plan, 1);
      for (uint64_t order = 1; order <= 3; ++order) CHECK(run(module, bad, order) == *want);
    });
    edges += found.edges;
    silent += found.silent;
  }
  CHECK(edges > 300);
  CHECK(silent * 2 < edges);
}

TEST_CASE("edges that are dropped from the samples' plans are missed") {
  for (const auto& entry : std::filesystem::directory_iterator("samples")) {
    if (entry.path().extension() != ".trek") continue;
    INFO(entry.path().string());
    const Assembly assembly = assemble_file(entry.path().string());
    REQUIRE(assembly.ok());
    auto plan = link(assembly.module, *find_device("generic"), {});
    REQUIRE(plan.ok());
    REQUIRE(errors_of(*plan) == "");
    const Found found =
        drop_edges(*plan, 1 + (plan->waits.size() + plan->signals.size()) / 60, [](const Plan&) {});
    CHECK(found.edges > 0);
    CHECK(found.silent * 4 <= found.edges);
  }
}

TEST_CASE("no wait of a linked plan is for its own processor alone") {
  property::RandomOptions options;
  options.executable = true;
  options.debug = false;
  options.tests = false;
  for (uint64_t seed = 300; seed < 340; ++seed) {
    const Plan plan = linked(property::random_module(seed, options), small_device(4));
    CHECK(statistics(plan).own == 0);
  }
}

}  // namespace trek::plan::test
