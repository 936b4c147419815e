// What is specialised: the module of one node. It is the same for every target that the JIT compiles for.
#pragma once

#include <memory>
#include <string>

#include <llvm/ADT/StringRef.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/Error.h>

#include "emulator/jit/compiler.h"

namespace trek::jit {

// The bitcode of units.cpp, of which functions are read when they are first wanted. For one thread.
class Units {
 public:
  static llvm::Expected<std::unique_ptr<Units>> open(llvm::StringRef bitcode);

  // A module with one function, `name`, a TaskFunction: the unit of the node's kind, called with the descriptor
  // as a constant, with the node's programs, and all of it in one function from which the cases that do not
  // arise have gone. It has passed LLVM's verifier. It lives in this object's context.
  llvm::Expected<std::unique_ptr<llvm::Module>> specialise(const Request& request,
                                                           const std::string& name);

 private:
  Units() = default;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::Module> units_;
};

}  // namespace trek::jit
