// LLVM ends the process where its code generator meets what it does not know. Here such an error goes back to
// where the compilation began; what it had allocated is lost.
#pragma once

#include <string>

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

namespace trek::jit {

// To be called before anything is guarded.
void guard_against_fatal_errors();

// Calls body(); the text of what went wrong, or nothing.
std::string guarded(llvm::function_ref<llvm::Error()> body);

}  // namespace trek::jit
