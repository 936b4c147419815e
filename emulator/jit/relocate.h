// From a function of specialise(), in which an address is an offset from the arena, to a TaskFunction, which is told
// where its places are.
#pragma once

#include <cstddef>

#include <llvm/IR/Function.h>

namespace trek::jit {

// Whether all that a function made from a descriptor without addresses (places.h) does with the arena is to go to
// places by constant offsets. Where an operand is chosen while it runs, as by concat, that is not so.
bool goes_to_places(const llvm::Function& task, size_t places);

// Makes the TaskFunction of the same name, which calls what was in `task` with a pointer to each place; these
// never overlap. Without places, with the arena.
void give_places(llvm::Function& task, size_t places, size_t first_number);

}  // namespace trek::jit
