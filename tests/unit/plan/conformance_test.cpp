// The conformance files, whose expected bits come from the oracle, through plans of several devices.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "assembler/assemble.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
TEST_CASE("every conformance file holds on plans") {
  const std::vector<std::string> files = conformance_files();
  REQUIRE(files.size() > 100);
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
