// Which slot of a warp a register of a function has. Registers of which never two are alive have one slot: a function
// of the resident kernel names fifty thousand, of which some hundreds are alive at a time.
#pragma once

#include "tests/ptx/code.h"
#include "tests/ptx/text.h"

namespace trek::ptx {

struct Slots {
  std::vector<Operand> of;  // of each register, in its class
  uint32_t predicates = 0;
  uint32_t words = 0;
  uint32_t longs = 0;
};

// How many of a statement's first operands it defines.
size_t definitions(const Statement& statement);

// The statement that each label of a function stands before.
std::map<std::string_view, uint32_t> label_places(const FunctionText& function);

Slots allot_slots(const FunctionText& function);

}  // namespace trek::ptx
