#include "assembler/stream.h"

#include <fmt/format.h>

namespace trek::assembler {

using isa::ErrorCode;

Token TokenStream::fetch(Frame& frame) {
  Token token = frame.lexer.next();
  if (token.open) compose(frame, token);
  if (!token.is(TokenKind::invalid) || token.error == ErrorCode::UnexpectedToken) return token;
  const isa::SourceRange where{frame.lexer.file(), token.line, token.column, token.length};
  if (token.error == ErrorCode::UnterminatedString)
    reporter_.report(token.error, where, frame.expansion, "a string without its closing quote");
  else if (const auto byte = static_cast<unsigned char>(token.text[0]); byte >= 0x20 && byte < 0x7F)
    reporter_.report(token.error, where, frame.expansion,
                     fmt::format("no token begins with '{}'", token.text));
  else
    reporter_.report(
        token.error, where, frame.expansion,
        fmt::format(
            "no token begins with the byte {:#04x}: outside strings and comments a source is ASCII",
            byte));
  return token;
}

// A name that continues with '{expression}': its pieces, joined. Where that is no name the token becomes
// invalid and the problem is reported.
void TokenStream::compose(Frame& frame, Token& token) {
  const bool is_name = token.is(TokenKind::word) || token.is(TokenKind::tensor) ||
                       token.is(TokenKind::vector) || token.is(TokenKind::scalar);
  if (!is_name) return;
  const std::string_view text = frame.lexer.text();
  std::string name(token.text);
  bool ok = true;
  while (ok) {
    Lexer::Place place = frame.lexer.place();
    if (place.offset >= frame.span.end || text[place.offset] != '{') break;
    ++place.offset;
    frame.lexer.set(place);
    TextSpan span;
    const isa::SourceRange where{frame.lexer.file(), token.line, token.column,
                                 place.offset - token.offset};
    if (!frame.lexer.skip_block(span) || frame.lexer.place().line != place.line) {
      frame.lexer.set(place);
      reporter_.report(ErrorCode::Unclosed, where, frame.expansion,
                       "a substitution without its '}' on the same line",
                       "a block's '{' has a blank before it");
      ok = false;
      break;
    }
    const auto piece = substituter_->substitution(span);
    if (!piece) {
      ok = false;
      break;
    }
    name += *piece;
    place = frame.lexer.place();
    const uint32_t begin = place.offset;
    while (place.offset < frame.span.end && is_name_byte(text[place.offset])) ++place.offset;
    name += text.substr(begin, place.offset - begin);
    frame.lexer.set(place);
  }
  token.length = frame.lexer.place().offset - token.offset;
  token.open = false;
  token.substituted = true;
  const size_t sigil = token.is(TokenKind::word) ? 0 : 1;
  bool valid = ok && name.size() > sigil && !(name[sigil] >= '0' && name[sigil] <= '9');
  for (size_t i = sigil; valid && i < name.size(); ++i)
    valid = is_name_byte(name[i]) || (sigil == 0 && name[i] == '.');
  if (ok && !valid)
    reporter_.report(
        ErrorCode::UnexpectedToken, {frame.lexer.file(), token.line, token.column, token.length},
        frame.expansion,
        fmt::format("the substitution gives '{}', which is no name", name.substr(0, 80)));
  if (!valid) {
    token.kind = TokenKind::invalid;
    token.error = ErrorCode::UnexpectedToken;
  }
  token.text = texts_.keep(std::move(name));
}

const Token& TokenStream::peek(size_t ahead) {
  Frame& frame = *top_;
  if (frame.begin + ahead >= std::size(frame.ahead)) {
    std::move(frame.ahead + frame.begin, frame.ahead + frame.begin + frame.count, frame.ahead);
    frame.begin = 0;
  }
  while (frame.count <= ahead) {
    Token token = fetch(frame);
    frame.ahead[frame.begin + frame.count++] = {token, frame.lexer.place()};
  }
  return frame.ahead[frame.begin + ahead].token;
}

Token TokenStream::next() {
  peek();
  Frame& frame = *top_;
  const Ahead& taken = frame.ahead[frame.begin];
  frame.behind = taken.behind;
  frame.last_end = taken.token.offset + taken.token.length;
  const Token token = taken.token;
  ++frame.begin;
  if (--frame.count == 0) frame.begin = 0;
  return token;
}

bool TokenStream::accept(TokenKind kind) {
  if (!at(kind)) return false;
  next();
  return true;
}

void TokenStream::forget_ahead(Frame& frame) { frame.begin = frame.count = 0; }

void TokenStream::split_percent() {
  Frame& frame = *top_;
  Token token = peek();
  forget_ahead(frame);
  frame.lexer.set_behind_first_byte(token);
  token.kind = TokenKind::percent;
  token.length = 1;
  frame.ahead[0] = {token, frame.lexer.place()};
  frame.count = 1;
}

void TokenStream::push(FrameKind kind, const TextSpan& span, Scope scope, uint32_t expansion) {
  if (frames_.empty()) abandoned_ = false;
  const bool outer_plain = frames_.empty() || top_->plain;
  frames_.push_back(std::make_unique<Frame>());
  top_ = frames_.back().get();
  Frame& frame = *top_;
  frame.kind = kind;
  frame.plain = kind == FrameKind::file ? outer_plain : kind == FrameKind::body;
  frame.lexer = Lexer(sources_.text(span.file), span);
  frame.scope = std::move(scope);
  frame.expansion = expansion;
  frame.span = span;
  frame.behind = frame.lexer.place();
}

void TokenStream::push_repetition(const TextSpan& span, const Repetition& repetition) {
  const Scope outer = scope();
  const uint32_t outer_expansion = expansion();
  push(FrameKind::repetition, span, outer, outer_expansion);
  Frame& frame = *top_;
  frame.repetition = repetition;
  frame.outer = outer;
  frame.outer_expansion = outer_expansion;
  start_repetition(frame);
}

void TokenStream::start_repetition(Frame& frame) {
  frame.lexer = Lexer(sources_.text(frame.span.file), frame.span);
  forget_ahead(frame);
  const Repetition& repetition = frame.repetition;
  frame.scope = std::make_shared<Environment>();
  frame.scope->parent = frame.outer;
  frame.scope->names.emplace_back(repetition.name, Value::of(repetition.value));
  frame.expansion =
      reporter_.expand({Expansion::Kind::repetition, frame.outer_expansion, repetition.name,
                        static_cast<int64_t>(repetition.value), repetition.where});
}

void TokenStream::finish_frame() {
  Frame& frame = *top_;
  if (frame.kind == FrameKind::repetition) {
    Repetition& repetition = frame.repetition;
    repetition.value += repetition.step;
    const bool more = repetition.step > 0 ? repetition.value < repetition.until
                                          : repetition.value > repetition.until;
    if (more && spend()) return start_repetition(frame);
    if (more) return;  // spend() has left all frames
  }
  pop();
}

void TokenStream::pop() {
  frames_.pop_back();
  top_ = frames_.empty() ? nullptr : frames_.back().get();
}

bool TokenStream::is_open_file(uint32_t file) const {
  for (const auto& frame : frames_)
    if (frame->kind == FrameKind::file && frame->lexer.file() == file) return true;
  return false;
}

bool TokenStream::spend() {
  const Frame& frame = *top_;
  if (frame.expansion == 0 || ++expanded_ < kMaxExpanded) return true;
  if (expanded_ == kMaxExpanded)
    reporter_.report(
        ErrorCode::ExpansionLimit, reporter_.expansion(frame.expansion).where,
        reporter_.expansion(frame.expansion).parent,
        fmt::format("macros and repetitions make more than {} statements", kMaxExpanded));
  abandon();
  return false;
}

bool TokenStream::spend_argument() {
  if (is_exhausted() || ++arguments_ <= kMaxArguments) return !is_exhausted();
  reporter_.report(ErrorCode::ExpansionLimit, reporter_.expansion(top_->expansion).where, 0,
                   fmt::format("arguments of macros are read more than {} times", kMaxArguments));
  return false;
}

void TokenStream::abandon() {
  // The outermost frame stays, at its end, so that there is always a token to read.
  abandoned_ = true;
  reporter_.lose_text();
  while (frames_.size() > 1) pop();
  Frame& frame = *frames_.front();
  forget_ahead(frame);
  Lexer::Place place = frame.lexer.place();
  place.offset = frame.span.end;
  frame.lexer.set(place);
}

bool TokenStream::skip_block(TextSpan& body, bool in_declaration) {
  Frame& frame = *top_;
  forget_ahead(frame);
  frame.lexer.set(frame.behind);
  const bool closed = frame.lexer.skip_block(body, in_declaration);
  frame.behind = frame.lexer.place();
  frame.last_end = frame.behind.offset;
  return closed;
}

bool TokenStream::take_argument(TextSpan& span) {
  Frame& frame = *top_;
  const Token first = peek();
  uint32_t end = first.offset;
  int depth = 0;
  for (;;) {
    const Token& token = peek();
    if (token.is(TokenKind::newline) || token.is(TokenKind::end)) break;
    if (depth == 0 && (token.is(TokenKind::comma) || token.is(TokenKind::right_brace))) break;
    switch (token.kind) {
      case TokenKind::left_paren:
      case TokenKind::left_bracket:
      case TokenKind::left_brace:
        ++depth;
        break;
      case TokenKind::right_paren:
      case TokenKind::right_bracket:
      case TokenKind::right_brace:
        --depth;
        break;
      default:
        break;
    }
    end = token.offset + token.length;
    next();
  }
  span = {frame.lexer.file(), first.offset, end, first.line, first.offset + 1 - first.column};
  return end > first.offset;
}

}  // namespace trek::assembler
