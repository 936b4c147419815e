// From the module of a node to code for a target.
#pragma once

#include <memory>
#include <string>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/Error.h>
#include <llvm/Target/TargetMachine.h>

namespace trek::jit {

// Runs LLVM's own pipeline at O3 on a module of specialise(), with everything put into its one function.
// Without contraction and without fast-math flags it changes no bit.
void optimise(llvm::Module& module, llvm::TargetMachine& machine);

// Puts calls of functions that ask for it in line, and drops what is then not used.
void inline_always(llvm::Module& module, llvm::TargetMachine& machine);

// An object file, or assembly text.
llvm::Expected<llvm::SmallVector<char, 0>> generate(llvm::Module& module,
                                                    llvm::TargetMachine& machine,
                                                    llvm::CodeGenFileType type);

// A level of GPUs, "sm_90a" or "sm_80".
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> gpu_machine(llvm::StringRef level);

// The processor of this machine, for code that is run in this process.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> host_machine();

}  // namespace trek::jit
