// What is specialised: the module of one node. It is the same for every target that the JIT compiles for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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

  // How many threads of a block execute units; of a device.
  void give_block_threads(uint32_t threads);

  // Makes the function `name`, a TaskFunction: the unit of the node's kind, called with the descriptor as a
  // constant, with the node's programs, and all of it in one function from which the cases that do not arise
  // have gone. It has passed LLVM's verifier.
  llvm::Error specialise(const Request& request, const std::string& name);
  // The functions made since the last time, as a module of this object's context.
  std::unique_ptr<llvm::Module> take();

 private:
  struct Made {
    llvm::Function* task;
    llvm::GlobalVariable* record;
  };
  Units() = default;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::Module> units_;
  llvm::GlobalVariable* known_ = nullptr;  // points to the node at hand
  std::vector<Made> made_;
};

// Defines a function of units or frame that gives one number, wherever it is called.
void define_number(llvm::Module& module, llvm::StringRef name, uint32_t number);
inline constexpr const char* kBlockThreadsGiven = "trek_block_threads";

}  // namespace trek::jit
