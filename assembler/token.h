// Tokens: views into a source text, with their place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "isa/result.h"

namespace trek::assembler {

enum class TokenKind : uint8_t {
  end,        // of the text
  newline,    // of a line; `text` is the comment that ends it, from its ';', or empty
  word,       // a name, a mnemonic, a keyword: letters, digits, '_', and dots before a letter
  directive,  // .const; `text` has no dot
  tensor,     // @x
  vector,     // %x, a tensor register
  scalar,     // $x
  number,
  string,  // `text` is what stands between the quotes, escapes untouched
  // Punctuation.
  left_paren,
  right_paren,
  left_bracket,
  right_bracket,
  left_brace,
  right_brace,
  comma,
  colon,
  question,
  assign,
  arrow,
  bang,
  tilde,
  plus,
  minus,
  star,
  star_star,
  slash,
  slash_slash,
  percent,
  shift_left,
  shift_right,
  ampersand,
  caret,
  bar,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  and_and,
  or_or,
  invalid,  // already reported, or to be reported by its reader: see Token::error
};

struct Token {
  TokenKind kind = TokenKind::end;
  bool spaced = false;       // a blank or a line's beginning stands before it
  bool first = false;        // the first of its line
  bool open = false;         // a name with a '{' glued to it: a substitution follows
  bool substituted = false;  // a name that a substitution made
  isa::ErrorCode error{};    // of an invalid token
  uint32_t offset = 0;       // in the text
  uint32_t length = 0;       // in the text
  uint32_t line = 0;
  uint32_t column = 0;
  std::string_view text;

  bool is(TokenKind k) const { return kind == k; }
  bool is_word(std::string_view word) const { return kind == TokenKind::word && text == word; }
  // The name of a tensor, vector or scalar without its sigil.
  std::string_view name() const { return text.substr(1); }
  bool ends_statement() const {
    return kind == TokenKind::newline || kind == TokenKind::end || kind == TokenKind::right_brace;
  }
};

// What a token is called in a message: "'='", "the end of the line", "string \"...\"".
std::string describe(const Token& token);
std::string_view describe(TokenKind kind);

}  // namespace trek::assembler
