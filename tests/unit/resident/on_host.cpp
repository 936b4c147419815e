#include "tests/unit/resident/machine.h"

namespace trek::resident::test {

const TestMachine& test_machine() {
  static const TestMachine machine = {open_host(4), false, 100, 50};
  return machine;
}

}  // namespace trek::resident::test
