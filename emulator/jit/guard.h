// LLVM ends the process where its code generator meets what it does not know. Here such an error goes back to
// where the compilation began; what it had allocated is lost. And a compilation that nobody waits for any more.
#pragma once

#include <atomic>
#include <string>

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/Error.h>

namespace trek::jit {

// To be called before anything is guarded.
void guard_against_fatal_errors();

// An error once *cancelled; null is never.
llvm::Error unless_cancelled(const std::atomic<bool>* cancelled);

// Calls body(); the text of what went wrong, or nothing.
std::string guarded(llvm::function_ref<llvm::Error()> body);

}  // namespace trek::jit
