// The directives that may stand anywhere, and macro calls.
#include <algorithm>

#include <fmt/format.h>

#include "assembler/statements.h"
#include "isa/verifier.h"

namespace trek::assembler {

using isa::ErrorCode;

namespace {

// Names of a macro or an expansion are looked up one by one.
constexpr size_t kMaxParameters = 256;
constexpr size_t kMaxLocalConstants = 1024;

}  // namespace

Outcome Statements::parse_include() {
  core_.stream.next();
  const Token path = core_.stream.peek();
  if (!core_.expect(TokenKind::string, "the file's path in quotes")) return Outcome::failed;
  const auto text = core_.string_value(path);
  if (!text) return Outcome::failed;
  if (!core_.stream.peek().ends_statement()) return Outcome::done;  // reported by the loop
  if (core_.stream.at(TokenKind::newline)) core_.stream.next();
  include(std::string(*text), core_.stream.where(path));
  return Outcome::opened;
}

// Whether another frame would be one too many. One message: what led here would fail again and again.
bool Statements::is_nested_too_deep(const isa::SourceRange& where) {
  if (core_.stream.depth() < kMaxFrames) return false;
  core_.fail(ErrorCode::ExpansionLimit, where,
             fmt::format("includes, macros and repetitions nest at most {} deep", kMaxFrames));
  core_.stream.abandon();
  return true;
}

bool Statements::include(const std::string& path, const isa::SourceRange& where) {
  if (is_nested_too_deep(where)) return false;
  std::vector<std::string> places;
  if (path.starts_with('/')) {
    places.push_back(path);
  } else {
    places.push_back(core_.sources.folder(where.file) + path);
    for (const std::string& folder : core_.include_dirs)
      places.push_back(fmt::format("{}/{}", folder, path));
  }
  std::string reason;
  for (const std::string& place : places) {
    const auto file =
        path == "-" ? isa::Result<uint32_t>(isa::Problem{}) : core_.sources.read(place);
    if (!file) {
      if (reason.empty()) reason = file.problems()[0].message;
      continue;
    }
    if (core_.stream.is_open_file(*file))
      return core_.fail(ErrorCode::IncludeCycle, where,
                        fmt::format("'{}' is included while it is being read", path));
    if (const auto problem = not_text(core_.sources.text(*file), *file)) {
      core_.fail(ErrorCode::IncludeFailed, where, fmt::format("'{}': {}", place, problem->message),
                 problem->help);
      core_.reporter.lose_text();
      return false;
    }
    const uint32_t expansion =
        core_.reporter.expand({Expansion::Kind::include, core_.stream.expansion(), "", 0, where});
    TextSpan span;
    span.file = *file;
    span.end = static_cast<uint32_t>(core_.sources.text(*file).size());
    const Scope scope = core_.stream.scope();
    core_.stream.push(TokenStream::FrameKind::file, span, scope, expansion);
    return true;
  }
  core_.fail(ErrorCode::IncludeFailed, where,
             reason.empty() ? fmt::format("cannot read '{}'", path) : reason,
             places.size() > 1 ? "the folders of -I were tried too" : "");
  core_.reporter.lose_text();
  return false;
}

Outcome Statements::parse_error() {
  const Token directive = core_.stream.next();
  const auto message = expressions_.parse();
  if (!message) return Outcome::failed;
  core_.fail(ErrorCode::ConstantExpression, core_.range_from(directive), text_of(*message));
  return Outcome::done;
}

// Behind `.if`, at its condition.
Outcome Statements::parse_if(const Token& directive) {
  const auto condition = expressions_.parse_condition();
  if (!condition) return Outcome::failed;
  if (*condition) {
    if (!core_.expect(TokenKind::left_brace)) return Outcome::failed;
    blocks_.push_back({directive, core_.stream.where(directive), core_.stream.depth(), true});
    return Outcome::opened;
  }
  TextSpan body;
  return take_body(body) ? parse_else_chain(false) : Outcome::failed;
}

// Behind the '}' of a branch: `.else` and `.else .if` branches, as many as there are. Once one is
// `taken`, the others are passed over.
Outcome Statements::parse_else_chain(bool taken) {
  const auto at_directive = [&](std::string_view name) {
    return core_.stream.at(TokenKind::directive) && core_.stream.peek().text == name;
  };
  while (at_directive("else")) {
    const Token directive = core_.stream.next();
    bool holds = true;
    const bool is_last = !at_directive("if");
    if (!is_last) {
      core_.stream.next();
      const auto condition = expressions_.parse_condition();
      if (!condition) return Outcome::failed;
      holds = *condition;
    }
    if (!taken && holds) {
      if (!core_.expect(TokenKind::left_brace)) return Outcome::failed;
      blocks_.push_back({directive, core_.stream.where(directive), core_.stream.depth(), true});
      return Outcome::opened;
    }
    TextSpan body;
    if (!take_body(body)) return Outcome::failed;
    if (is_last) break;
  }
  return Outcome::done;
}

Outcome Statements::parse_repeat() {
  core_.stream.next();
  const Token name = core_.stream.peek();
  TokenStream::Repetition repetition;
  if (!core_.expect(TokenKind::word, "the name of the repetition's constant") ||
      !core_.expect(TokenKind::assign))
    return Outcome::failed;
  repetition.name = name.text;
  repetition.where = core_.stream.where(name);
  const auto from = expressions_.parse_integer("the first value");
  if (!from) return Outcome::failed;
  if (!core_.stream.peek().is_word("until")) return core_.unexpected("'until'"), Outcome::failed;
  core_.stream.next();
  const auto until = expressions_.parse_integer("the bound");
  if (!until) return Outcome::failed;
  int64_t step = 1;
  if (core_.stream.peek().is_word("step")) {
    core_.stream.next();
    const Token place = core_.stream.peek();
    const auto given = expressions_.parse_integer("the step");
    if (!given) return Outcome::failed;
    step = *given;
    if (step == 0)
      return core_.fail(ErrorCode::ExpansionLimit, place, "a repetition by steps of 0 never ends"),
             Outcome::failed;
  }
  repetition.value = *from;
  repetition.until = *until;
  repetition.step = step;
  TextSpan body;
  if (!take_body(body)) return Outcome::failed;
  if (is_nested_too_deep(repetition.where)) return Outcome::opened;
  if (core_.stream.at(TokenKind::newline)) core_.stream.next();
  const bool any = step > 0 ? *from < *until : *from > *until;
  if (any) core_.stream.push_repetition(body, repetition);
  return Outcome::opened;
}

Outcome Statements::parse_macro() {
  core_.stream.next();
  const Token name = core_.stream.peek();
  if (!core_.expect(TokenKind::word, "the macro's name")) return Outcome::failed;
  Macro macro;
  macro.where = core_.stream.where(name);
  macro.scope = core_.stream.scope();
  if (!parse_parameters(macro)) return Outcome::failed;
  if (!core_.stream.at(TokenKind::left_brace))
    return core_.unexpected("',' or '{'"), Outcome::failed;
  if (!take_body(macro.body)) return Outcome::failed;
  if (isa::find_op(name.text) != nullptr) {
    core_.fail(ErrorCode::Redefined, name, fmt::format("'{}' is an instruction", name.text));
    return Outcome::done;
  }
  const auto [entry, added] = macros_.try_emplace(name.text, macro);
  if (!added) {
    core_.fail(ErrorCode::Redefined, name, fmt::format("macro '{}' is defined already", name.text));
    core_.reporter.last().notes.push_back(
        {fmt::format("'{}' is first defined here", name.text), entry->second.where});
  }
  return Outcome::done;
}

bool Statements::parse_parameters(Macro& macro) {
  if (!core_.stream.at(TokenKind::word)) return true;
  do {
    Parameter parameter;
    parameter.name = core_.stream.peek();
    if (!core_.expect(TokenKind::word, "the name of a parameter")) return false;
    for (const Parameter& other : macro.parameters)
      if (other.name.text == parameter.name.text)
        return core_.fail(ErrorCode::Redefined, parameter.name,
                          fmt::format("the macro has two parameters '{}'", parameter.name.text));
    if (core_.stream.accept(TokenKind::assign)) {
      const Token first = core_.stream.peek();
      while (!core_.stream.peek().ends_statement() && !core_.stream.at(TokenKind::comma) &&
             !core_.stream.at(TokenKind::left_brace))
        core_.stream.next();
      if (core_.stream.last_end() <= first.offset)
        return core_.unexpected("the parameter's default");
      parameter.fallback.span = {core_.stream.file(), first.offset, core_.stream.last_end(),
                                 first.line, first.offset + 1 - first.column};
      parameter.fallback.scope = core_.stream.scope();
      parameter.fallback.expansion = core_.stream.expansion();
      parameter.has_fallback = true;
    }
    if (macro.parameters.size() == kMaxParameters)
      return core_.fail(ErrorCode::MacroArguments, parameter.name,
                        fmt::format("a macro has at most {} parameters", kMaxParameters));
    macro.parameters.push_back(std::move(parameter));
  } while (core_.stream.accept(TokenKind::comma));
  return true;
}

Outcome Statements::call_macro(const Macro& macro, StatementHandler& handler) {
  const Token name = core_.stream.next();
  const isa::SourceRange where = core_.stream.where(name);
  auto environment = std::make_shared<Environment>();
  environment->parent = macro.scope;
  if (!take_arguments(macro, name, *environment)) return Outcome::failed;
  if (is_nested_too_deep(where)) return Outcome::opened;
  if (core_.stream.at(TokenKind::newline)) {
    const Token end = core_.stream.next();
    if (!end.text.empty() && core_.stream.is_plain()) handler.comment(end.text);
  }
  const uint32_t expansion = core_.reporter.expand(
      {Expansion::Kind::macro, core_.stream.expansion(), name.text, 0, where});
  core_.stream.push(TokenStream::FrameKind::macro, macro.body, std::move(environment), expansion);
  return Outcome::opened;
}

bool Statements::take_arguments(const Macro& macro, const Token& name, Environment& environment) {
  std::vector<bool> given(macro.parameters.size());
  const auto bind = [&](size_t i, Argument argument) {
    given[i] = true;
    environment.names.emplace_back(macro.parameters[i].name.text, std::move(argument));
  };
  size_t position = 0;
  while (!core_.stream.peek().ends_statement()) {
    size_t target = position;
    if (core_.stream.at(TokenKind::word) && core_.stream.peek(1).is(TokenKind::assign)) {
      const Token parameter = core_.stream.peek();
      std::vector<std::string_view> names;
      for (target = 0;
           target < macro.parameters.size() && macro.parameters[target].name.text != parameter.text;
           ++target)
        names.push_back(macro.parameters[target].name.text);
      if (target == macro.parameters.size())
        return core_.fail(
            ErrorCode::MacroArguments, parameter,
            fmt::format("macro '{}' has no parameter '{}'", name.text, parameter.text),
            suggest(parameter.text, names));
      core_.stream.next();
      core_.stream.next();
    } else if (position++ >= macro.parameters.size()) {
      return core_.fail(
          ErrorCode::MacroArguments, core_.stream.peek(),
          fmt::format("macro '{}' takes {} argument{}", name.text, macro.parameters.size(),
                      macro.parameters.size() == 1 ? "" : "s"));
    }
    if (given[target])
      return core_.fail(ErrorCode::MacroArguments, core_.stream.peek(),
                        fmt::format("'{}' is given twice", macro.parameters[target].name.text));
    Argument argument;
    argument.scope = core_.stream.scope();
    argument.expansion = core_.stream.expansion();
    if (!core_.stream.take_argument(argument.span)) return core_.unexpected("an argument");
    bind(target, std::move(argument));
    if (!core_.stream.accept(TokenKind::comma)) break;
    if (core_.stream.peek().ends_statement()) return core_.unexpected("an argument");
  }
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    if (given[i]) continue;
    if (!macro.parameters[i].has_fallback)
      return core_.fail(ErrorCode::MacroArguments, name,
                        fmt::format("macro '{}' wants an argument for '{}'", name.text,
                                    macro.parameters[i].name.text));
    bind(i, macro.parameters[i].fallback);
  }
  return true;
}

Outcome Statements::parse_const(StatementHandler& handler) {
  core_.stream.next();
  const Token name = core_.stream.peek();
  if (!core_.expect(TokenKind::word, "the constant's name")) return Outcome::failed;
  if (const auto known = core_.constants.find(name.text); known != core_.constants.end())
    known->second.wanted = true;
  if (!core_.expect(TokenKind::assign)) return Outcome::failed;
  const Token first = core_.stream.peek();
  const auto value = expressions_.parse();
  if (!value) return Outcome::failed;
  std::string text(core_.stream.slice(first.offset, core_.stream.last_end()));
  if (!expressions_.is_portable() || text.find('\n') != std::string::npos) text = source_of(*value);
  define_constant(name, *value, std::move(text), handler);
  return Outcome::done;
}

// In a macro or a repetition a constant is the expansion's own.
void Statements::define_constant(const Token& name, const Value& value, std::string text,
                                 StatementHandler& handler) {
  const auto redefined = [&](std::string_view what) {
    core_.fail(ErrorCode::Redefined, name,
               fmt::format("{} '{}' is defined already", what, name.text));
  };
  if (!isa::is_identifier(name.text) || is_expression_word(name.text)) {
    core_.fail(ErrorCode::Redefined, name,
               fmt::format("'{}' is a word of the language", name.text));
    return;
  }
  if (Environment* scope = core_.stream.scope().get(); scope != nullptr) {
    for (const auto& [known, what] : scope->names)
      if (known == name.text) return redefined("parameter or constant");
    if (scope->names.size() >= kMaxLocalConstants) {
      core_.fail(
          ErrorCode::ExpansionLimit, name,
          fmt::format("an expansion has at most {} constants of its own", kMaxLocalConstants));
      return;
    }
    scope->names.emplace_back(name.text, value);
    return;
  }
  const auto [entry, added] = core_.constants.try_emplace(name.text);
  NamedConstant& constant = entry->second;
  if (!added && !constant.from_command) {
    redefined("constant");
    core_.reporter.last().notes.push_back(
        {fmt::format("'{}' is first defined here", name.text), constant.where});
    return;
  }
  if (added) {
    constant.value = value;
  } else {
    text = source_of(constant.value);
    constant.from_command = false;
  }
  constant.where = core_.stream.where(name);
  constant.listed = core_.stream.is_plain() && handler.constant(name.text, text);
}

}  // namespace trek::assembler
