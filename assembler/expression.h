// Constant expressions: parsed and evaluated in one go.
//
// Precedence climbing over the token stream. Errors of arithmetic are reported at the operator; in the
// branch of a condition that is not taken they do not count.
#pragma once

#include "assembler/core.h"

namespace trek::assembler {

inline constexpr int kMaxExpressionDepth = 256;

class Expressions final : public TokenStream::Substituter {
 public:
  explicit Expressions(Core& core) : core_(core) { core.stream.set_substituter(this); }

  // The value of the expression at the next token; nothing where that fails, which is reported.
  std::optional<Value> parse();
  // One that must be an i64.
  std::optional<int64_t> parse_integer(std::string_view what);
  std::optional<bool> parse_condition();
  // How the expression parsed last was written, if a disassembly should write it so again: it was more
  // than a plain decimal number and uses no names but listed constants. Else "".
  std::string_view spelling() const { return spelling_; }
  // Whether it used no names but listed constants.
  bool is_portable() const { return portable_; }

  // At '{' of an operand: if it is '{NAME}' of a parameter whose argument is no expression but, say, a
  // register, goes into the argument's text; leave_argument() goes back. False otherwise.
  bool enter_argument();
  // Reports what is left in the argument.
  bool leave_argument();

  std::optional<std::string> substitution(const TextSpan& span) override;

 private:
  std::optional<Value> parse_choice();
  std::optional<Value> parse_binary(int least_precedence);
  std::optional<Value> parse_unary();
  std::optional<Value> parse_primary();
  std::optional<Value> parse_braces();
  std::optional<Value> parse_name();
  std::optional<Value> parse_call(const Token& name);
  std::optional<Value> parse_dim(const Token& name);
  std::optional<Value> name_value(const Token& name);
  std::optional<Value> argument_value(const Argument& argument, const Token& name);
  std::optional<Value> settle(Computed computed, const Token& at);
  std::optional<Value> unknown_name(const Token& name);
  std::optional<std::string> frame_text(bool is_argument);
  bool is_plain_word(const Token& token) const;
  bool deeper(const Token& at);

  Core& core_;
  int depth_ = 0;
  int dead_ = 0;            // inside a branch that is not taken
  bool composite_ = false;  // more than a plain number
  bool portable_ = true;    // no names but listed constants
  std::string_view spelling_;
};

// Whether a word in the place of an operand begins an expression whatever names exist: a function, a
// type, true, inf ...
bool is_expression_word(std::string_view word);

}  // namespace trek::assembler
