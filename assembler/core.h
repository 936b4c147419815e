// What the parsers of an assembly share: its texts, problems, tokens, names, module and constants.
//
// Parsers take a Core& and work on it; none of them keeps state of another's. Every check that fails is
// reported once, and the function that failed says so by its result; the statement loop (statements.h)
// then goes on at the next statement.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "assembler/names.h"
#include "assembler/reporter.h"
#include "assembler/source.h"
#include "assembler/stream.h"
#include "isa/builder.h"

namespace trek::assembler {

struct NamedConstant {
  Value value;
  isa::SourceRange where;
  bool listed = false;        // part of the module's debug constants: spellings may use it
  bool from_command = false;  // -D, which `.const` may name without defining it twice
  bool wanted = false;        // a `.const` names it, or an expression
};

struct NamedPlace {
  uint32_t index = 0;
  isa::SourceRange where;
};

struct Core {
  Core(SourceManager& the_sources, isa::Module& the_module)
      : sources(the_sources),
        module(the_module),
        build(the_module),
        stream(the_sources, reporter, texts) {}

  SourceManager& sources;
  isa::Module& module;
  isa::Builder build;
  Reporter reporter;
  Texts texts;
  NameTable names;
  TokenStream stream;
  std::vector<std::string> include_dirs;
  std::vector<std::string> supplied;  // AssembleOptions::supplied

  std::unordered_map<std::string_view, NamedConstant> constants;
  std::unordered_map<std::string_view, NamedPlace> tensors;
  std::unordered_map<std::string_view, NamedPlace> params;
  std::unordered_map<std::string_view, NamedPlace> functions;

  // Reports at a place of the innermost frame; false, so that a parser can return it.
  bool fail(isa::ErrorCode code, const isa::SourceRange& where, std::string message,
            std::string help = "");
  bool fail(isa::ErrorCode code, const Token& token, std::string message, std::string help = "");
  // The same with help that is looked for among names of the program: a repetition may fail again and again, and what it
  // says then is known.
  template <std::invocable FindHelp>
  bool fail(isa::ErrorCode code, const Token& token, std::string message, FindHelp find_help) {
    const isa::SourceRange where = stream.where(token);
    std::string help = reporter.is_news(code, where, message) ? find_help() : std::string();
    return fail(code, where, std::move(message), std::move(help));
  }
  // "expected ..., found ..." at the next token; says nothing where that is invalid, thus reported.
  bool unexpected(std::string_view wanted);
  // Takes a token of this kind, or fails. `wanted` is put in words from the kind if empty.
  bool expect(TokenKind kind, std::string_view wanted = "");
  // Inside brackets a statement goes on in the next line.
  void skip_newlines();
  void skip_newlines_in_brackets() {
    if (brackets > 0) skip_newlines();
  }
  // The bytes of a string token: escapes and substitutions replaced; nothing, reported, if that fails.
  std::optional<std::string_view> string_value(const Token& token);
  // The innermost meaning of a name in the expansions, or null: then it may be one of `constants`.
  const std::variant<Value, Argument>* find_local(std::string_view name) const;
  // A range from a token to the last one that was taken.
  isa::SourceRange range_from(const Token& first) const;

  int brackets = 0;  // ( and [ that are open
  // Comments that were met inside a statement, and where they stand now: before it.
  std::vector<std::string_view> inner_comments;
  // Where brackets were open at the end of a line, the last time: what is missing is said there and not at the token
  // that begins the next one.
  struct LineBreak {
    uint32_t file = 0;
    uint32_t end = 0;  // behind the line's last token
    uint32_t line = 0;
    uint32_t next = UINT32_MAX;  // the offset of the token that follows
  };
  LineBreak line_break;
};

// While it lives, a newline does not end the statement.
class InBrackets {
 public:
  explicit InBrackets(Core& core) : core_(core) { ++core_.brackets; }
  ~InBrackets() { --core_.brackets; }
  InBrackets(const InBrackets&) = delete;
  InBrackets& operator=(const InBrackets&) = delete;

 private:
  Core& core_;
};

// The names of a table, in order.
std::vector<std::string_view> sorted_names(
    const std::unordered_map<std::string_view, NamedPlace>& table);

// "did you mean '...'?", or "".
std::string suggest(std::string_view word, const std::vector<std::string_view>& candidates,
                    std::string_view sigil = "");

}  // namespace trek::assembler
