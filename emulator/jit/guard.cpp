#include "emulator/jit/guard.h"

#include <csetjmp>

#include <llvm/Support/ErrorHandling.h>

namespace trek::jit {
namespace {

thread_local std::jmp_buf* recovery = nullptr;
thread_local std::string* recovered_from = nullptr;

void on_fatal_error(void*, const char* reason, bool) {
  if (recovery == nullptr) return;
  *recovered_from = reason;
  std::longjmp(*recovery, 1);  // NOLINT(cert-err52-cpp): LLVM is built to throw nothing
}

}  // namespace

void guard_against_fatal_errors() {
  static const bool once = [] {
    llvm::install_fatal_error_handler(on_fatal_error);
    return true;
  }();
  static_cast<void>(once);
}

llvm::Error unless_cancelled(const std::atomic<bool>* cancelled) {
  if (cancelled == nullptr || !cancelled->load()) return llvm::Error::success();
  return llvm::createStringError("cancelled");
}

std::string guarded(llvm::function_ref<llvm::Error()> body) {
  std::string fatal;
  std::jmp_buf place;
  recovered_from = &fatal;
  recovery = &place;
  std::string text;
  if (setjmp(place) == 0) {  // NOLINT(cert-err52-cpp)
    if (llvm::Error error = body()) text = llvm::toString(std::move(error));
  } else {
    text = "LLVM: " + fatal;
  }
  recovery = nullptr;
  recovered_from = nullptr;
  return text;
}

}  // namespace trek::jit
