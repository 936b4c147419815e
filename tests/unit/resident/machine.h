// The machine that the tests of the resident emulator run on: this computer's threads, or a GPU
// (tests/gpu/resident_on_gpu.cpp).
#pragma once

#include <memory>

#include "emulator/resident/machine.h"

namespace trek::resident::test {

struct TestMachine {
  std::shared_ptr<const Machine> machine;
  bool exact_memory = false;  // its free_memory() changes by what this process does alone
  int runs = 0;               // of one program, that are to hold memory flat
  int loads = 0;              // and loads
};

// Skips the test where there is none.
const TestMachine& test_machine();

}  // namespace trek::resident::test
