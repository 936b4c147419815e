// The conformance files, whose expected bits come from the oracle, through plans of several devices.
#include <algorithm>
#include <filesystem>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "assembler/assemble.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

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
    make_nans_one(type.dtype, want);
    INFO("@" << module.strings[module.tensors[tensor].name] << " " << type.text());
    CHECK(outcome.tensors[tensor] == want);
  }
}

}  // namespace

TEST_CASE("every conformance file holds on plans") {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/conformance"))
    if (entry.path().extension() == ".trek") files.push_back(entry.path().string());
  REQUIRE(files.size() > 100);
  std::sort(files.begin(), files.end());
  for (size_t f = 0; f < files.size(); ++f) {
    INFO(files[f]);
    const Assembly assembly = assemble_file(files[f]);
    REQUIRE(assembly.ok());
    const Device device = small_device(f % 2 == 0 ? 3 : 17);
    const Plan plan = linked(assembly.module, device);
    REQUIRE(errors_of(plan) == "");
    for (size_t t = 0; t < assembly.module.tests.size(); ++t) {
      const isa::Test& test = assembly.module.tests[t];
      INFO(assembly.module.strings[test.name]);
      const Outcome outcome = run(assembly.module, plan, f + t, given_by(assembly.module, test));
      REQUIRE(outcome.failure == "");
      expect(assembly.module, test, outcome);
    }
  }
}

}  // namespace trek::plan::test
