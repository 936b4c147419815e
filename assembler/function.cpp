#include "assembler/function.h"

#include <algorithm>

#include <fmt/format.h>

namespace trek::assembler {

using isa::ErrorCode;
using isa::Opcode;
using isa::Ref;

void FunctionParser::parse(const Body& body) {
  function_ = body.function;
  regions_.clear();
  returned_ = false;
  has_pending_ = false;
  pending_.clear();
  core_.build.resume_function(body.function);
  scopes_.begin(body.function);
  sources_.resize(std::max<size_t>(sources_.size(), body.function + 1));
  for (uint32_t i = 0; i < body.parameters.size(); ++i)
    scopes_.define(body.parameters[i], Ref{isa::RefKind::value, i});

  core_.stream.push(body.plain ? TokenStream::FrameKind::body : TokenStream::FrameKind::macro,
                    body.span, body.scope, body.expansion);
  core_.reporter.set_unclosed(!body.is_closed);
  statements_.run(*this);

  const isa::Function& function = core_.build.function();
  if (!returned_ && !function.results.empty())
    core_.reporter.report(
        ErrorCode::YieldMismatch,
        {body.span.file, body.opener.line, body.opener.column, body.opener.length}, body.expansion,
        fmt::format("the function gives {} result{}, and its body ends without 'return'",
                    function.results.size(), function.results.size() == 1 ? "" : "s"));
  core_.reporter.set_unclosed(false);
  core_.build.end_function();
  auto& lines = core_.module.debug.lines[function_].code;
  const auto& code = core_.module.functions[function_].code;
  while (lines.size() < code.size()) {
    lines.push_back({body.span.file, body.opener.line, body.opener.column});
    sources_[function_].push_back({body.opener.length, body.expansion});
  }
  flush_comments();
  auto& names = core_.module.debug.names[function_].values;
  names.resize(core_.module.functions[function_].values.size());
}

// Comments and blank lines are gathered as lines of one text; several blank lines count as one.
void FunctionParser::comment(std::string_view text) {
  const bool after_blank = has_pending_ && (pending_.empty() || pending_.ends_with('\n'));
  if (text.empty() && after_blank) return;
  if (has_pending_) pending_ += '\n';
  pending_ += text;
  has_pending_ = true;
}

void FunctionParser::trailing(std::string_view text) {
  const size_t count = core_.build.function().code.size();
  if (count == 0) return;  // of the line that opens the function: an item's comment
  auto& comments = core_.module.debug.comments;
  const auto instruction = static_cast<uint32_t>(count - 1);
  const bool taken = !comments.empty() && comments.back().function == function_ &&
                     comments.back().instruction == instruction && comments.back().trailing;
  if (taken) return comment(text);
  comments.push_back({function_, instruction, true, core_.build.string(text)});
}

// At the end of a body: what is left stands before its last instruction.
void FunctionParser::flush_comments() {
  while (pending_.ends_with('\n')) pending_.pop_back();
  if (!has_pending_ || pending_.empty()) return;
  const auto last = static_cast<uint32_t>(core_.module.functions[function_].code.size() - 1);
  auto& comments = core_.module.debug.comments;
  auto place = comments.end();
  while (place != comments.begin() && (place - 1)->function == function_ &&
         (place - 1)->instruction == last && (place - 1)->trailing)
    --place;
  const bool merges = place != comments.begin() && (place - 1)->function == function_ &&
                      (place - 1)->instruction == last;
  if (merges) {
    (place - 1)->text =
        core_.build.string(core_.module.string((place - 1)->text) + "\n" + pending_);
  } else {
    comments.insert(place, {function_, last, false, core_.build.string(pending_)});
  }
}

Outcome FunctionParser::refused() {
  if (!regions_.empty()) regions_.back().broken = true;
  return Outcome::failed;
}

// Instructions that a statement has added get its place, and the first the comments before it.
void FunctionParser::record(const Token& first) {
  const auto& code = core_.build.function().code;
  auto& lines = core_.module.debug.lines[function_].code;
  if (lines.size() == code.size()) return;
  for (std::string_view text : core_.inner_comments) comment(text);
  core_.inner_comments.clear();
  if (has_pending_) {
    core_.module.debug.comments.push_back(
        {function_, static_cast<uint32_t>(lines.size()), false, core_.build.string(pending_)});
    pending_.clear();
    has_pending_ = false;
  }
  const isa::SourceRange where = core_.range_from(first);
  while (lines.size() < code.size()) {
    lines.push_back({where.file, where.line, where.column});
    sources_[function_].push_back({where.length, core_.stream.expansion()});
  }
}

Outcome FunctionParser::statement() {
  const Token first = core_.stream.peek();
  core_.inner_comments.clear();
  const Outcome outcome = parse_statement(first);
  record(first);
  return outcome == Outcome::failed ? refused() : outcome;
}

Outcome FunctionParser::parse_statement(const Token& first) {
  if (!regions_.empty() && regions_.back().yielded) {
    core_.fail(ErrorCode::Structure, first, "a statement behind the 'yield' that ends its region");
    return Outcome::failed;
  }
  if (returned_) {
    core_.fail(ErrorCode::Structure, first,
               "a statement behind the 'return' that ends the function");
    return Outcome::failed;
  }
  results_.clear();
  if (!first.is(TokenKind::word)) {
    if (first.is(TokenKind::directive)) {
      core_.fail(
          ErrorCode::UnknownDirective, first,
          fmt::format("no directive of a function is named '.{}'", first.text.substr(0, 40)),
          suggest(first.text, {"const", "include", "macro", "repeat", "if", "else", "error"}, "."));
      return Outcome::failed;
    }
    if (!parse_results()) {
      instructions_.define_broken(results_);
      return Outcome::failed;
    }
  }
  Token word;
  if (!parse_mnemonic(word)) {
    instructions_.define_broken(results_);
    return Outcome::failed;
  }
  bool taken = false;
  const Outcome outcome = parse_keyword(word, taken);
  if (!taken) return unknown_instruction(word);
  if (outcome == Outcome::failed) instructions_.define_broken(results_);
  return outcome;
}

// A word, or a macro's parameter that stands for one.
bool FunctionParser::parse_mnemonic(Token& word) {
  if (core_.stream.at(TokenKind::left_brace) && expressions_.enter_argument()) {
    const bool ok = parse_mnemonic(word);
    return expressions_.leave_argument() && ok;
  }
  word = core_.stream.peek();
  return core_.expect(TokenKind::word, "an instruction");
}

bool FunctionParser::parse_results() {
  do {
    Name name;
    if (!operands_.parse_name(name, "an instruction, or a name for its result")) return false;
    results_.push_back(name);
  } while (core_.stream.accept(TokenKind::comma));
  return core_.expect(TokenKind::assign, "',' or '='");
}

Outcome FunctionParser::parse_keyword(const Token& word, bool& taken) {
  const isa::OpInfo* op = isa::find_op(word.text);
  taken = op != nullptr;
  if (!taken) return Outcome::failed;
  switch (op->opcode) {
    case Opcode::Loop:
      return parse_loop(word);
    case Opcode::While:
      return parse_while(word);
    case Opcode::If:
      return parse_if(word);
    case Opcode::Yield:
      return parse_yield(word);
    case Opcode::Return:
      return parse_return(word);
    case Opcode::Call:
      return parse_call(word);
    case Opcode::Else:
      core_.fail(ErrorCode::Structure, word, "'else' follows the '}' of an 'if', in its line");
      return Outcome::failed;
    default:
      break;
  }
  if (!instructions_.parse(word, *op, results_)) return Outcome::failed;
  instructions_.keep_spellings(function_);
  return Outcome::done;
}

// A word that is no instruction.
Outcome FunctionParser::unknown_instruction(const Token& mnemonic) {
  instructions_.define_broken(results_);
  const auto find_help = [&] {
    std::vector<std::string_view> names = statements_.macro_names();
    for (const isa::OpInfo& op : isa::all_ops()) names.push_back(op.mnemonic);
    return suggest(mnemonic.text, names);
  };
  core_.fail(ErrorCode::UnknownInstruction, mnemonic,
             fmt::format("no instruction or macro is named '{}'", mnemonic.text.substr(0, 80)),
             find_help);
  return Outcome::failed;
}

bool FunctionParser::parse_values(std::vector<Operand>& values, TokenKind stop) {
  values.clear();
  const bool in_parens = stop == TokenKind::right_paren;
  std::optional<InBrackets> brackets;
  if (in_parens) {
    brackets.emplace(core_);
    core_.skip_newlines();
  }
  const auto at_stop = [&] {
    return in_parens ? core_.stream.at(stop) : core_.stream.peek().ends_statement();
  };
  if (at_stop()) return true;
  do {
    if (in_parens) core_.skip_newlines();
    if (!operands_.parse(values.emplace_back())) return false;
    if (in_parens) core_.skip_newlines();
  } while (core_.stream.accept(TokenKind::comma));
  return at_stop() || core_.unexpected(in_parens ? "',' or ')'" : "',' or the end of the line");
}

// Refs of values; immediates take the type wanted at their position, or their own. False, maybe
// silently, where a value is broken or does not fit.
bool FunctionParser::resolve_values(std::span<const Operand> values,
                                    std::span<const isa::Type> types, std::vector<Ref>& refs) {
  refs.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    const Operand& value = values[i];
    if (value.kind == Operand::Kind::broken) return false;
    const bool is_known = i < types.size();
    if (value.is_value() && is_known && !types[i].scalar)
      return core_.fail(
          ErrorCode::OperandKind, value.where,
          fmt::format("{} where a tensor {} is wanted", describe(value.value), types[i].text()));
    isa::DType wanted = isa::DType::none;
    if (value.is_value()) {
      const isa::DType natural = natural_type(value.value);
      wanted = is_known ? types[i].dtype : natural;
      if (!isa::is_scalar_type(wanted) || wanted == isa::DType::none)
        return core_.fail(ErrorCode::OperandType, value.where,
                          fmt::format("a scalar is of type i64, f32, f64 or bool, found {}",
                                      describe(value.value)));
    }
    const auto ref = operands_.resolve(value, wanted);
    if (!ref) return false;
    refs.push_back(*ref);
    instructions_.spell(value, static_cast<uint32_t>(i));
  }
  return true;
}

Outcome FunctionParser::parse_return(const Token& word) {
  if (regions_.empty()) returned_ = true;
  if (!results_.empty())
    return core_.fail(ErrorCode::ResultCount, results_[0].where, "'return' has no result"),
           Outcome::failed;
  if (!regions_.empty())
    return core_.fail(ErrorCode::Structure, word,
                      "'return' inside a region: only a function's end returns"),
           Outcome::failed;
  if (!parse_values(values_, TokenKind::newline)) return Outcome::failed;
  const isa::Function& function = core_.build.function();
  std::vector<isa::Type> types;
  for (uint32_t type : function.results) types.push_back(core_.module.types[type]);
  if (values_.size() != types.size()) {
    core_.fail(ErrorCode::YieldMismatch, word,
               fmt::format("the function gives {} result{}, and 'return' {}", types.size(),
                           types.size() == 1 ? "" : "s", values_.size()));
    return Outcome::failed;
  }
  if (!resolve_values(values_, types, refs_)) return Outcome::failed;
  for (size_t i = 0; i < refs_.size(); ++i)
    if (const isa::Type found = core_.build.type_of(refs_[i]); found != types[i]) {
      core_.fail(ErrorCode::YieldMismatch, values_[i].where,
                 fmt::format("result {} of the function is {}, and 'return' gives {}", i + 1,
                             types[i].text(), found.text()));
      return Outcome::failed;
    }
  core_.build.return_values(refs_);
  instructions_.keep_spellings(function_);
  return Outcome::done;
}

Outcome FunctionParser::parse_call(const Token& word) {
  const Token name = core_.stream.peek();
  if (!core_.expect(TokenKind::word, "the function's name") || !core_.expect(TokenKind::left_paren))
    return Outcome::failed;
  const auto found = core_.functions.find(name.text);
  if (!parse_values(values_, TokenKind::right_paren) || !core_.expect(TokenKind::right_paren))
    return Outcome::failed;
  if (found == core_.functions.end()) {
    core_.fail(ErrorCode::UnknownName, name,
               fmt::format("no function is named '{}'", name.text.substr(0, 80)),
               [&] { return suggest(name.text, sorted_names(core_.functions)); });
    return Outcome::failed;
  }
  const uint32_t callee = found->second.index;
  if (!check_arguments(core_.module.functions[callee], name.text, name)) return Outcome::failed;
  destinations_.clear();
  for (const Name& result : results_) destinations_.push_back(instructions_.destination(result));
  const size_t wanted = core_.module.functions[callee].results.size();
  if (results_.size() != wanted) {
    core_.fail(
        ErrorCode::CallMismatch, word,
        fmt::format("'{}' gives {} result{}, found {} name{}", name.text, wanted,
                    wanted == 1 ? "" : "s", results_.size(), results_.size() == 1 ? "" : "s"));
    return Outcome::failed;
  }
  if (const auto fault = core_.build.call(callee, refs_, destinations_)) {
    const auto i = static_cast<size_t>(fault->index);
    core_.fail(fault->code, i < results_.size() ? results_[i].where : core_.stream.where(word),
               fault->message);
    return Outcome::failed;
  }
  instructions_.keep_spellings(function_);
  return instructions_.define_results(word, name.text, results_, core_.build.results(),
                                      destinations_)
             ? Outcome::done
             : Outcome::failed;
}

bool FunctionParser::check_arguments(const isa::Function& callee, std::string_view name,
                                     const Token& at) {
  if (values_.size() != callee.parameters)
    return core_.fail(ErrorCode::CallMismatch, at,
                      fmt::format("'{}' takes {} argument{}, found {}", name, callee.parameters,
                                  callee.parameters == 1 ? "" : "s", values_.size()));
  std::vector<isa::Type> types;
  for (uint32_t i = 0; i < callee.parameters; ++i)
    types.push_back(core_.module.types[callee.values[i].type]);
  if (!resolve_values(values_, types, refs_)) return false;
  for (size_t i = 0; i < refs_.size(); ++i)
    if (const isa::Type found = core_.build.type_of(refs_[i]); found != types[i])
      return core_.fail(ErrorCode::CallMismatch, values_[i].where,
                        fmt::format("argument {} of '{}' is {}, found {}", i + 1, name,
                                    types[i].text(), found.text()));
  return true;
}

}  // namespace trek::assembler
