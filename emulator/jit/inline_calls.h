// Partial evaluation, with LLVM's own passes.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/Support/Error.h>

namespace trek::jit {

// Puts everything that `task` calls into it, from the outside to the inside, and folds what has become constant
// before it goes on: so the cases that do not arise are never copied. (LLVM's own order, from the inside to the
// outside, would first make one function of all cases of all units.) Functions that its module has not read yet
// are read; which node a Task is of they then know from `known`, a constant of the module.
llvm::Error inline_calls(llvm::Function& task, llvm::GlobalVariable& known);

}  // namespace trek::jit
