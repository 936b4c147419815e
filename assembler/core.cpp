#include "assembler/core.h"

#include <algorithm>
#include <ranges>

#include <fmt/format.h>

namespace trek::assembler {

using isa::ErrorCode;

bool Core::fail(ErrorCode code, const isa::SourceRange& where, std::string message,
                std::string help) {
  reporter.report(code, where, stream.expansion(), std::move(message), std::move(help));
  return false;
}

bool Core::fail(ErrorCode code, const Token& token, std::string message, std::string help) {
  return fail(code, stream.where(token), std::move(message), std::move(help));
}

bool Core::unexpected(std::string_view wanted) {
  const Token token = stream.peek();
  if (token.is(TokenKind::invalid)) return false;
  if (token.offset == line_break.next && stream.file() == line_break.file) {
    const std::string_view before = sources.text(stream.file()).substr(0, line_break.end);
    const auto column = static_cast<uint32_t>(line_break.end - (before.rfind('\n') + 1));
    return fail(ErrorCode::UnexpectedToken, {stream.file(), line_break.line, column + 1, 1},
                fmt::format("expected {}, found the end of the line", wanted));
  }
  return fail(ErrorCode::UnexpectedToken, token,
              fmt::format("expected {}, found {}", wanted, describe(token)));
}

bool Core::expect(TokenKind kind, std::string_view wanted) {
  if (stream.accept(kind)) return true;
  return unexpected(wanted.empty() ? describe(kind) : wanted);
}

void Core::skip_newlines() {
  if (!stream.at(TokenKind::newline)) return;
  const uint32_t end = stream.last_end();
  const uint32_t line = stream.peek().line;
  while (stream.at(TokenKind::newline)) {
    const Token token = stream.next();
    if (!token.text.empty()) inner_comments.push_back(token.text);
  }
  line_break = {stream.file(), end, line, stream.peek().offset};
}

const std::variant<Value, Argument>* Core::find_local(std::string_view name) const {
  for (const Environment* scope = stream.scope().get(); scope != nullptr;
       scope = scope->parent.get())
    for (const auto& [known, what] : std::views::reverse(scope->names))
      if (known == name) return &what;
  return nullptr;
}

isa::SourceRange Core::range_from(const Token& first) const {
  const uint32_t end = std::max(stream.last_end(), first.offset + 1);
  return {stream.file(), first.line, first.column, end - first.offset};
}

std::vector<std::string_view> sorted_names(
    const std::unordered_map<std::string_view, NamedPlace>& table) {
  std::vector<std::string_view> names;
  for (const auto& [name, place] : table) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string suggest(std::string_view word, const std::vector<std::string_view>& candidates,
                    std::string_view sigil) {
  const std::string found = isa::nearest(word, candidates);
  // Any letter is near to any other.
  const bool is_short =
      word.size() == 1 && (found.size() != 1 || (found[0] | 0x20) != (word[0] | 0x20));
  return found.empty() || is_short ? "" : fmt::format("did you mean '{}{}'?", sigil, found);
}

}  // namespace trek::assembler
