// Bytes to tokens, one at a time, without allocating.
//
// A lexer goes over a part of a text: a file, the body of a macro, an argument. It can be set back to a
// place where it was, so a body is replayed by lexing it again and no list of tokens is ever kept.
// Outside strings and comments a text is ASCII; what is not comes back as an invalid token, once per
// line.
#pragma once

#include "assembler/token.h"

namespace trek::assembler {

// A part of a source text, with what is needed to number its lines.
struct TextSpan {
  uint32_t file = 0;
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t line = 1;        // of begin
  uint32_t line_start = 0;  // the offset where that line begins
};

class Lexer {
 public:
  Lexer() = default;
  // `text` is the whole text of the span's file.
  Lexer(std::string_view text, const TextSpan& span);

  Token next();

  struct Place {
    uint32_t offset = 0;
    uint32_t line = 1;
    uint32_t line_start = 0;
    bool fresh = true;  // nothing but blanks stands before it on its line
  };
  Place place() const { return {at_, line_, line_start_, fresh_}; }
  void set(const Place& place);
  // Sets back to right behind the first byte of a token that has just been read.
  void set_behind_first_byte(const Token& token);

  // From right behind a '{': the place of its '}', the lexer behind it. False at the end of the text.
  // With `in_declaration`, a line that begins with the directive of another declaration ends the search
  // too, unread: functions and tests hold none, so the brace is missing.
  bool skip_block(TextSpan& body, bool in_declaration = false);
  const std::string_view& text() const { return text_; }
  uint32_t file() const { return file_; }

 private:
  char at(uint32_t offset) const { return offset < end_ ? text_[offset] : '\0'; }
  bool more() const { return at_ < end_; }
  void skip_blanks();
  Token make(TokenKind kind, uint32_t length);
  Token newline(std::string_view comment);
  Token name(TokenKind kind, uint32_t prefix);
  Token word();
  Token number();
  Token string();
  Token punctuation();
  Token invalid();

  std::string_view text_;
  uint32_t file_ = 0;
  uint32_t at_ = 0;
  uint32_t end_ = 0;
  uint32_t line_ = 1;
  uint32_t line_start_ = 0;
  bool fresh_ = true;
  bool spaced_ = true;
};

// Whether a byte may stand in a name.
bool is_name_byte(char c);

}  // namespace trek::assembler
