// test_machine() of the tests of emulator/resident, on a GPU: tests/unit/resident linked with this file.
#include <cstdlib>
#include <iostream>

#include "tests/unit/resident/machine.h"

namespace trek::resident::test {
namespace {

[[noreturn]] void skip(const driver::Error& error) {
  std::cout << "trek-skipped: " << error.text() << "\n";
  std::exit(0);  // Catch2's second version cannot skip a case
}

TestMachine open() {
  const auto cuda = driver::Cuda::load();
  if (!cuda) skip(cuda.error());
  Phases phases;
  auto machine = open_gpu(*cuda, 0, phases);
  if (!machine) skip(machine.error());
  return {machine.take(), true, 10'000, 200};
}

}  // namespace

const TestMachine& test_machine() {
  static const TestMachine machine = open();
  return machine;
}

}  // namespace trek::resident::test
