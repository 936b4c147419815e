// The parts of the verifier, one per file: tables, functions, calls. Not for others to include.
#pragma once

#include <fmt/format.h>

#include "isa/verifier.h"

namespace trek::isa::verifier {

// Where problems are collected; full() ends the work.
class Report {
 public:
  explicit Report(const Module& module) : module_(module) {}
  bool full() const { return problems_.size() >= kMaxProblems; }
  bool empty() const { return problems_.empty(); }
  Problems take() { return std::move(problems_); }

  // A problem of the module as a whole, or of what `place` names.
  void add(ErrorCode code, std::string place, std::string message);
  // A problem of an instruction; `function` may be the module's init.
  void add(ErrorCode code, const Function& function, size_t instruction, std::string message);

 private:
  const Module& module_;
  Problems problems_;
};

// Strings, types, constants, declarations, tests: everything that functions refer to. Functions are
// checked only where this finds nothing.
void check_tables(const Module& module, Report& report);
void check_tests(const Module& module, Report& report);
// One function's instructions.
void check_function(const Module& module, const Function& function, Report& report);
// The initialisers: one instruction per initialised tensor.
void check_init(const Module& module, Report& report);
// Recursion, and tensors that a call hands over in place while the callee reaches them directly. Only
// for modules whose functions are right.
void check_calls(const Module& module, Report& report);

// Whether a Ref's index lies within its table (lists with their items).
bool in_range(const Module& module, const Function& function, Ref ref);

}  // namespace trek::isa::verifier
