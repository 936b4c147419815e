// Regions, calls and returns: what opens is closed, what is carried or returned has one type on both
// sides.
#include <algorithm>
#include <utility>

#include "isa/verifier_function.h"

namespace trek::isa::verifier {

bool FunctionVerifier::check_control(bool ok) {
  switch (op_->opcode) {
    case Opcode::Loop:
      open_carrying(3, ok);
      return true;
    case Opcode::While:
      open_carrying(0, ok);
      return true;
    case Opcode::If:
      open_if(ok);
      return true;
    case Opcode::Else:
      open_else();
      return true;
    case Opcode::Yield:
      close(ok);
      return true;
    case Opcode::Test:
      check_test(ok);
      return true;
    case Opcode::Call:
      check_call(ok);
      return true;
    case Opcode::Return:
      check_return(ok);
      return true;
    default:
      return false;
  }
}

void FunctionVerifier::push_region() {
  if (regions_.size() >= kMaxNesting) {
    fail(ErrorCode::NestingLimit, fmt::format("regions nest at most {} deep", kMaxNesting));
    fatal_ = true;
  }
  Region region;
  region.opener = at_;
  region.owner = at_;
  region.watermark = visible_.size();
  regions_.push_back(region);
}

void FunctionVerifier::open_carrying(size_t fixed, bool ok) {
  for (size_t i = 0; ok && i < std::min(fixed, operands_.size()); ++i) {
    const Type found = module_.type_of(function_, operands_[i]);
    if (found != Type::make_scalar(DType::i64))
      fail(ErrorCode::OperandType, fmt::format("operand '{}' of 'loop' is of type i64, found {}",
                                               op_->operands[i].name, found.text()));
  }
  const auto defined =
      attributes_[0].is(RefKind::list) ? module_.list(attributes_[0]) : std::span<const Ref>();
  const size_t counter = fixed == 0 ? 0 : 1;
  if (operands_.size() < fixed || results_.size() != operands_.size() - fixed ||
      defined.size() != results_.size() + counter) {
    fail(ErrorCode::OperandCount,
         fmt::format("'{}' carries {} values in, {} inside and {} out", op_->mnemonic,
                     operands_.size() < fixed ? 0 : operands_.size() - fixed,
                     defined.size() < counter ? 0 : defined.size() - counter, results_.size()));
    fatal_ = true;
    return;
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!operands_[fixed + i]) {
      fail(ErrorCode::OperandCount, "a carried value is missing");
      continue;
    }
    const Type want = module_.type_of(function_, operands_[fixed + i]);
    for (Ref ref : {results_[i], defined[counter + i]}) {
      if (!ref.is(RefKind::value)) {
        fail(ErrorCode::ResultType, "what a region carries are registers");
        fatal_ = true;
        return;
      }
      if (const Type found = module_.type_of(function_, ref); found != want)
        fail(ErrorCode::ResultType,
             fmt::format("{} is {}, and starts as {}", describe(ref), found.text(), want.text()));
    }
  }
  for (Ref result : results_) take_register(result);
  push_region();
  for (size_t i = 0; i < defined.size() && !fatal_; ++i) {
    if (!defined[i].is(RefKind::value) || !take_register(defined[i])) {
      fatal_ = true;
      return;
    }
    make_visible(defined[i].index());
  }
  if (counter == 1 && !fatal_ &&
      module_.type_of(function_, defined[0]) != Type::make_scalar(DType::i64))
    fail(ErrorCode::ResultType, "the counter of a loop is a scalar i64");
}

bool FunctionVerifier::check_condition(bool ok) {
  if (operands_.size() != 1 || !operands_[0]) {
    fail(ErrorCode::OperandCount, fmt::format("'{}' takes one condition", op_->mnemonic));
    return false;
  }
  const Type found = module_.type_of(function_, operands_[0]);
  if (ok && found != Type::make_scalar(DType::boolean))
    fail(ErrorCode::OperandType, fmt::format("operand 'c' of '{}' is a scalar bool, found {}",
                                             op_->mnemonic, found.text()));
  return true;
}

void FunctionVerifier::open_if(bool ok) {
  check_condition(ok);
  for (Ref result : results_)
    if (!result.is(RefKind::value) || !take_register(result)) {
      fatal_ = true;
      return;
    }
  push_region();
}

void FunctionVerifier::open_else() {
  if (at_ == 0 || !pending_if_) {
    fail(ErrorCode::Structure, "'else' follows the region of an 'if'");
    fatal_ = true;
    return;
  }
  pending_if_ = false;
  push_region();
  regions_.back().owner = closed_if_;
}

void FunctionVerifier::check_test(bool ok) {
  check_condition(ok);
  if (!results_.empty()) fail(ErrorCode::ResultCount, "'test' has no result");
  if (regions_.empty() || function_.code[regions_.back().opener].opcode != Opcode::While)
    return fail(ErrorCode::Structure,
                "'test' stands in the region of a 'while', not inside an inner region");
  if (std::exchange(regions_.back().has_test, true))
    fail(ErrorCode::Structure, "a 'while' has one 'test'");
}

void FunctionVerifier::close(bool ok) {
  if (!results_.empty()) fail(ErrorCode::ResultCount, "'yield' has no result");
  if (regions_.empty()) {
    fail(ErrorCode::Structure, "'yield' outside a region");
    fatal_ = true;
    return;
  }
  const Region region = regions_.back();
  regions_.pop_back();
  const Opcode opener = function_.code[region.opener].opcode;
  if (opener == Opcode::While && !region.has_test)
    fail(ErrorCode::Structure, "a 'while' without 'test' never ends");
  const auto results = module_.results(function_.code[region.owner]);
  if (ok) check_yielded(results);
  while (visible_.size() > region.watermark) {
    registers_[visible_.back()] = Visibility::gone;
    visible_.pop_back();
  }
  if (opener == Opcode::If) {
    const bool has_else =
        at_ + 1 < function_.code.size() && function_.code[at_ + 1].opcode == Opcode::Else;
    if (has_else) {
      pending_if_ = true;
      closed_if_ = region.opener;
      return;
    }
    if (!results.empty()) fail(ErrorCode::Structure, "an 'if' with results needs an 'else'");
  }
  for (Ref result : results) make_visible(result.index());
}

void FunctionVerifier::check_yielded(std::span<const Ref> results) {
  if (results.size() != operands_.size())
    return fail(ErrorCode::YieldMismatch,
                fmt::format("the region hands on {} value{}, and 'yield' gives {}", results.size(),
                            results.size() == 1 ? "" : "s", operands_.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    const Type want = module_.type_of(function_, results[i]);
    const Type found = module_.type_of(function_, operands_[i]);
    if (!operands_[i] || found != want)
      fail(ErrorCode::YieldMismatch,
           fmt::format("value {} of the region is {}, and 'yield' gives {}", i + 1, want.text(),
                       found.text()));
  }
}

void FunctionVerifier::check_call(bool ok) {
  if (!attributes_[0].is(RefKind::function)) {
    fail(ErrorCode::BadEncoding, "a call without a function");
    return define_results();
  }
  const Function& callee = module_.functions[attributes_[0].index()];
  const std::string& name = module_.strings[callee.name];
  if (operands_.size() != callee.parameters)
    fail(ErrorCode::CallMismatch,
         fmt::format("'{}' takes {} argument{}, found {}", name, callee.parameters,
                     callee.parameters == 1 ? "" : "s", operands_.size()));
  else if (ok)
    for (uint32_t i = 0; i < callee.parameters; ++i) check_argument(callee, i);
  if (results_.size() != callee.results.size())
    fail(ErrorCode::CallMismatch,
         fmt::format("'{}' gives {} result{}, found {}", name, callee.results.size(),
                     callee.results.size() == 1 ? "" : "s", results_.size()));
  else
    for (size_t i = 0; i < results_.size(); ++i) check_call_result(callee, i);
  define_results();
}

void FunctionVerifier::check_argument(const Function& callee, uint32_t i) {
  const Type& want = module_.types[callee.values[i].type];
  const Type found = module_.type_of(function_, operands_[i]);
  if (!operands_[i] || found != want)
    return fail(ErrorCode::CallMismatch,
                fmt::format("argument {} of '{}' is {}, found {}", i + 1,
                            module_.strings[callee.name], want.text(), found.text()));
  if (callee.inplace[i] == 0 || !check_writable(operands_[i])) return;
  const bool twice = std::count(operands_.begin(), operands_.end(), operands_[i]) > 1 ||
                     std::count(results_.begin(), results_.end(), operands_[i]) > 0;
  if (twice)
    fail(ErrorCode::Alias, fmt::format("{} is handed over in place and used elsewhere in the call",
                                       describe(operands_[i])));
}

void FunctionVerifier::check_call_result(const Function& callee, size_t i) {
  const Type& want = module_.types[callee.results[i]];
  const Type found = module_.type_of(function_, results_[i]);
  if (found != want)
    fail(ErrorCode::ResultType, fmt::format("result {} of the call is {}, and {} is {}", i + 1,
                                            want.text(), describe(results_[i]), found.text()));
  if (!is_destination(results_[i])) return;
  check_writable(results_[i]);
  if (std::count(results_.begin(), results_.end(), results_[i]) > 1)
    fail(ErrorCode::Alias, fmt::format("{} is written twice", describe(results_[i])));
}

void FunctionVerifier::check_return(bool ok) {
  returned_ = true;
  if (!results_.empty()) fail(ErrorCode::ResultCount, "'return' has no result");
  if (!regions_.empty()) {
    fail(ErrorCode::Structure,
         fmt::format("'return' inside the region of '{}'", mnemonic(regions_.back().opener)));
    fatal_ = true;
    return;
  }
  if (operands_.size() != function_.results.size())
    return fail(
        ErrorCode::YieldMismatch,
        fmt::format("the function gives {} result{}, and 'return' {}", function_.results.size(),
                    function_.results.size() == 1 ? "" : "s", operands_.size()));
  for (size_t i = 0; ok && i < operands_.size(); ++i) {
    const Type& want = module_.types[function_.results[i]];
    const Type found = module_.type_of(function_, operands_[i]);
    if (!operands_[i] || found != want)
      fail(ErrorCode::YieldMismatch,
           fmt::format("result {} of the function is {}, and 'return' gives {}", i + 1, want.text(),
                       found.text()));
  }
}

}  // namespace trek::isa::verifier
