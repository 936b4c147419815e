// The tests that a module carries (`.test` blocks): each runs `main` in a fresh program with what the
// test gives, and holds what comes out to what it expects, bit for bit with all NaNs equal.
#pragma once

#include <string>
#include <vector>

#include "emulator/engine.h"
#include "hostlib/module_file.h"

namespace trek {

struct TestReport {
  std::string name;
  std::vector<std::string> failures;  // a line each; empty where the test passed
};

// Runs Module::tests[index]. A stop request ends it with a failure that says so.
TestReport run_test(const ModuleFile& file, uint32_t index, Engine& engine, const LoadOptions& load,
                    const RunOptions& run);

}  // namespace trek
