#include "assembler/statements.h"

#include <algorithm>

#include <fmt/format.h>

namespace trek::assembler {

using isa::ErrorCode;

void Statements::run(StatementHandler& handler) {
  const size_t base = core_.stream.depth();
  const size_t outer_blocks = blocks_.size();
  while (core_.stream.depth() >= base) {
    if (core_.reporter.full()) core_.stream.abandon();
    const Token& token = core_.stream.peek();
    if (token.is(TokenKind::end)) {
      end_frame(handler);
    } else if (token.is(TokenKind::newline)) {
      newline(handler);
    } else if (core_.stream.spend()) {
      const uint32_t begin = token.offset;
      finish(handler, statement(handler), begin);
    }
    if (core_.stream.depth() == 0) break;
  }
  blocks_.resize(std::min(blocks_.size(), outer_blocks));
}

void Statements::newline(StatementHandler& handler) {
  const Token token = core_.stream.next();
  if (!core_.stream.is_plain()) return;
  if (token.first) {
    handler.comment(token.text);
  } else if (!token.text.empty()) {
    handler.trailing(token.text);
  }
}

// At the end of a frame: blocks that began in it end with it.
void Statements::end_frame(StatementHandler& handler) {
  const Token token = core_.stream.peek();
  if (!token.text.empty() && core_.stream.is_plain()) {
    if (token.first) {
      handler.comment(token.text);
    } else {
      handler.trailing(token.text);
    }
  }
  bool reported = core_.stream.is_abandoned();
  while (!blocks_.empty() && blocks_.back().depth == core_.stream.depth()) {
    const Block block = blocks_.back();
    blocks_.pop_back();
    if (!reported && !core_.reporter.full())
      core_.fail(ErrorCode::Unclosed, block.where,
                 fmt::format("the block of {} has no '}}'", describe(block.opener)));
    reported = true;
    if (!block.is_condition) handler.abandon();
  }
  core_.stream.finish_frame();
}

void Statements::finish(StatementHandler& handler, Outcome outcome, uint32_t begin) {
  if (core_.stream.is_exhausted()) core_.stream.abandon();
  if (outcome == Outcome::done) {
    const Token& token = core_.stream.peek();
    if (token.ends_statement()) {
      if (token.is(TokenKind::newline)) newline(handler);
      return;
    }
    core_.unexpected("the end of the line");
    outcome = Outcome::failed;
  }
  if (outcome == Outcome::failed) recover(begin);
}

// Passes over what is left of a statement that failed: to the end of the line, over the blocks that begin
// in it. Where the offending token begins another line (a bracket was left open in the line before), that
// line is a statement of its own. `begin`: where this one began.
void Statements::recover(uint32_t begin) {
  TokenStream& stream = core_.stream;
  if (stream.peek().first && !stream.at(TokenKind::newline) && stream.peek().offset != begin)
    return;
  for (;;) {
    const Token token = stream.peek();
    if (token.ends_statement()) break;
    stream.next();
    if (!token.is(TokenKind::left_brace)) continue;
    TextSpan body;
    stream.skip_block(body);
  }
  if (stream.at(TokenKind::newline)) stream.next();
}

Outcome Statements::statement(StatementHandler& handler) {
  const Token token = core_.stream.peek();
  if (token.is(TokenKind::right_brace)) return close(handler);
  if (token.is(TokenKind::directive)) {
    if (token.text == "include") return parse_include();
    if (token.text == "const") return parse_const(handler);
    if (token.text == "macro") return parse_macro();
    if (token.text == "repeat") return parse_repeat();
    if (token.text == "if") return core_.stream.next(), parse_if(token);
    if (token.text == "error") return parse_error();
    if (token.text == "else") {
      core_.fail(ErrorCode::Structure, token, "'.else' follows the '}' of an '.if', in its line");
      core_.stream.next();
      return Outcome::failed;
    }
  }
  if (token.is(TokenKind::word) && !macros_.empty())
    if (const auto macro = macros_.find(token.text); macro != macros_.end())
      return call_macro(macro->second, handler);
  return handler.statement();
}

std::vector<std::string_view> Statements::macro_names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, macro] : macros_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void Statements::open_block(const Token& opener) {
  blocks_.push_back({opener, core_.stream.where(opener), core_.stream.depth(), false});
}

Outcome Statements::close(StatementHandler& handler) {
  const Token brace = core_.stream.next();
  if (blocks_.empty() || blocks_.back().depth != core_.stream.depth()) {
    if (!core_.reporter.is_unclosed())
      core_.fail(ErrorCode::UnexpectedToken, brace, "a '}' that closes nothing");
    return Outcome::opened;
  }
  const Block block = blocks_.back();
  blocks_.pop_back();
  if (!block.is_condition) return handler.close(brace);
  return parse_else_chain(true);
}

// A block that is not read now: its text.
bool Statements::take_body(TextSpan& body) {
  const Token open = core_.stream.peek();
  if (!core_.expect(TokenKind::left_brace, "'{'")) return false;
  if (core_.stream.skip_block(body)) return true;
  core_.fail(ErrorCode::Unclosed, open, "a block without its '}'");
  core_.reporter.lose_text();
  return false;
}

}  // namespace trek::assembler
