// The units against the plan's own evaluation, which is isa/semantics applied element by element, and
// against the bits that the conformance files state.
#include "tests/unit/device/units.h"

#include <algorithm>
#include <filesystem>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "assembler/assemble.h"
#include "tests/property/random_module.h"
#include "tests/unit/plan/programs.h"

namespace trek::device::test {
namespace {

using plan::test::Given;
using plan::test::Outcome;

std::vector<std::string> conformance_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/conformance"))
    if (entry.path().extension() == ".trek") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

Given given_by(const isa::Module& module, const isa::Test& test) {
  Given given;
  given.blocks = 0;
  for (const isa::TestBinding& binding : test.given) {
    const bool is_tensor = binding.target.is(isa::RefKind::tensor);
    const uint32_t index = binding.target.index();
    const int64_t size = is_tensor ? module.types[module.tensors[index].type].bytes()
                                   : isa::byte_size(module.params[index].dtype);
    const auto from = module.data.begin() + static_cast<std::ptrdiff_t>(binding.offset);
    (is_tensor ? given.tensors : given.params)[index] = {from, from + size};
  }
  return given;
}

void expect(const isa::Module& module, const isa::Test& test, const Outcome& outcome) {
  if (test.trap != isa::TrapCode::None) {
    CHECK(outcome.trap.starts_with(std::string(isa::name(test.trap)) + " "));
    return;
  }
  REQUIRE(outcome.trap.empty());
  for (const isa::TestBinding& binding : test.expected) {
    const uint32_t tensor = binding.target.index();
    const isa::Type& type = module.types[module.tensors[tensor].type];
    const auto from = module.data.begin() + static_cast<std::ptrdiff_t>(binding.offset);
    std::vector<std::byte> want(from, from + type.bytes());
    plan::test::make_nans_one(type.dtype, want);
    INFO("@" << module.strings[module.tensors[tensor].name] << " " << type.text());
    CHECK(outcome.tensors[tensor] == want);
  }
}

void run_conformance(const std::vector<std::string>& files, uint32_t threads, bool fuse) {
  for (size_t f = 0; f < files.size(); ++f) {
    INFO(files[f]);
    const Assembly assembly = assemble_file(files[f]);
    REQUIRE(assembly.ok());
    const plan::Plan plan =
        plan::test::linked(assembly.module, plan::test::small_device(f % 2 == 0 ? 3 : 17), fuse);
    for (size_t t = 0; t < assembly.module.tests.size(); ++t) {
      const isa::Test& test = assembly.module.tests[t];
      INFO(assembly.module.strings[test.name]);
      Given given = given_by(assembly.module, test);
      const Outcome evaluated = plan::test::run(assembly.module, plan, 1, given);
      given.prepare = with_units(threads);
      const Outcome outcome = plan::test::run(assembly.module, plan, 1, given);
      REQUIRE(outcome.failure == "");
      CHECK(outcome.trap == evaluated.trap);
      expect(assembly.module, test, outcome);
    }
  }
}

}  // namespace

TEST_CASE("every conformance file holds on units") {
  const auto files = conformance_files();
  REQUIRE(files.size() > 100);
  run_conformance(files, 1, true);
}

TEST_CASE("conformance files hold on units without fusion, and with blocks of four threads") {
  auto files = conformance_files();
  std::vector<std::string> some;
  for (size_t f = 0; f < files.size(); f += 3) some.push_back(files[f]);
  run_conformance(some, 4, false);
}

TEST_CASE("random modules give the same bits and traps on units as evaluated") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    property::RandomOptions options;
    options.debug = false;
    options.tests = false;
    options.executable = seed % 4 != 0;
    const isa::Module module = property::random_module(seed, options);
    const plan::Plan plan = plan::test::linked(module, plan::test::small_device(3));
    Given given;
    const Outcome evaluated = plan::test::run(module, plan, seed, given);
    REQUIRE(evaluated.failure == "");
    given.prepare = with_units(seed % 16 == 1 ? 4 : 1);
    const Outcome outcome = plan::test::run(module, plan, seed, given);
    CHECK(outcome == evaluated);
  }
}

TEST_CASE("a training loop gives the same bits on units") {
  for (const char* text : {plan::test::kTraining, plan::test::kControl}) {
    const isa::Module module = plan::test::assembled(text);
    const plan::Plan plan = plan::test::linked(module, plan::test::small_device(5));
    Given given;
    const Outcome evaluated = plan::test::run(module, plan, 3, given);
    for (uint32_t threads : {1u, 4u, 32u}) {
      given.prepare = with_units(threads);
      CHECK(plan::test::run(module, plan, 3, given) == evaluated);
    }
  }
}

}  // namespace trek::device::test
