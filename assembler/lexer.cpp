#include "assembler/lexer.h"

#include <array>
#include <cstring>

#include <fmt/format.h>

namespace trek::assembler {
namespace {

enum Class : uint8_t { kOther = 0, kBlank = 1, kLetter = 2, kDigit = 4 };

constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[static_cast<size_t>(c)] = kLetter;
  for (int c = 'A'; c <= 'Z'; ++c) classes[static_cast<size_t>(c)] = kLetter;
  for (int c = '0'; c <= '9'; ++c) classes[static_cast<size_t>(c)] = kDigit;
  classes['_'] = kLetter;
  classes[' '] = classes['\t'] = classes['\r'] = kBlank;
  return classes;
}();

bool has(char c, int which) { return (kClasses[static_cast<unsigned char>(c)] & which) != 0; }

// Whether a text begins with a directive that declares something of its own.
bool begins_declaration(std::string_view text) {
  if (!text.starts_with('.')) return false;
  text.remove_prefix(1);
  for (const std::string_view word :
       {"func", "test", "input", "output", "state", "data", "stream", "param"})
    if (text.starts_with(word) &&
        !has(text.size() > word.size() ? text[word.size()] : ' ', kLetter | kDigit))
      return true;
  return false;
}

}  // namespace

bool is_name_byte(char c) { return has(c, kLetter | kDigit); }

Lexer::Lexer(std::string_view text, const TextSpan& span)
    : text_(text),
      file_(span.file),
      at_(span.begin),
      end_(span.end),
      line_(span.line),
      line_start_(span.line_start) {
  fresh_ = at_ == line_start_;
  if (at_ == 0 && text_.substr(0, end_).starts_with("\xEF\xBB\xBF")) at_ = line_start_ = 3;
}

void Lexer::set(const Place& place) {
  at_ = place.offset;
  line_ = place.line;
  line_start_ = place.line_start;
  fresh_ = place.fresh;
}

void Lexer::set_behind_first_byte(const Token& token) {
  set({token.offset + 1, token.line, token.offset + 1 - token.column, false});
}

void Lexer::skip_blanks() {
  const uint32_t before = at_;
  while (more() && has(text_[at_], kBlank)) ++at_;
  spaced_ = fresh_ || at_ != before;
}

Token Lexer::make(TokenKind kind, uint32_t length) {
  Token token;
  token.kind = kind;
  token.spaced = spaced_;
  token.first = fresh_;
  token.offset = at_;
  token.length = length;
  token.line = line_;
  token.column = at_ - line_start_ + 1;
  token.text = text_.substr(at_, length);
  at_ += length;
  fresh_ = false;
  return token;
}

Token Lexer::newline(std::string_view comment) {
  const bool at_end = !more();
  Token token = make(at_end ? TokenKind::end : TokenKind::newline, at_end ? 0 : 1);
  token.text = comment;
  if (!at_end) {
    ++line_;
    line_start_ = at_;
    fresh_ = true;
  }
  return token;
}

Token Lexer::next() {
  skip_blanks();
  if (!more()) return newline("");
  const char c = text_[at_];
  if (has(c, kLetter)) return word();
  switch (c) {
    case '\n':
      return newline("");
    case ';': {
      const void* found = std::memchr(text_.data() + at_, '\n', end_ - at_);
      const auto stop = found == nullptr
                            ? end_
                            : static_cast<uint32_t>(static_cast<const char*>(found) - text_.data());
      std::string_view comment = text_.substr(at_, stop - at_);
      while (has(comment.back(), kBlank)) comment.remove_suffix(1);
      at_ = stop;
      return newline(comment);
    }
    case '%':
      if (has(at(at_ + 1), kLetter) || at(at_ + 1) == '{') return name(TokenKind::vector, 1);
      return punctuation();
    case '$':
      if (has(at(at_ + 1), kLetter) || at(at_ + 1) == '{') return name(TokenKind::scalar, 1);
      return invalid();
    case '@':
      if (has(at(at_ + 1), kLetter) || at(at_ + 1) == '{') return name(TokenKind::tensor, 1);
      return invalid();
    case '.':
      if (!has(at(at_ + 1), kLetter)) return invalid();
      {
        Token token = name(TokenKind::directive, 1);
        token.text.remove_prefix(1);
        token.open = false;
        return token;
      }
    case '"':
      return string();
    default:
      return has(c, kDigit) ? number() : punctuation();
  }
}

Token Lexer::name(TokenKind kind, uint32_t prefix) {
  uint32_t stop = at_ + prefix;
  while (stop < end_ && is_name_byte(text_[stop])) ++stop;
  Token token = make(kind, stop - at_);
  token.open = at(at_) == '{';
  return token;
}

Token Lexer::word() {
  uint32_t stop = at_ + 1;
  for (;;) {
    while (stop < end_ && is_name_byte(text_[stop])) ++stop;
    if (at(stop) != '.' || !has(at(stop + 1), kLetter)) break;
    ++stop;
  }
  Token token = make(TokenKind::word, stop - at_);
  token.open = at(at_) == '{';
  return token;
}

// Everything that could belong to a number; whether it is one is decided where its value is wanted.
Token Lexer::number() {
  const bool hexadecimal = at(at_) == '0' && (at(at_ + 1) | 0x20) == 'x';
  uint32_t stop = at_;
  while (stop < end_) {
    const char c = text_[stop];
    const char before = static_cast<char>(at(stop - 1) | 0x20);
    const bool is_sign =
        (c == '+' || c == '-') && stop > at_ && before == (hexadecimal ? 'p' : 'e');
    if (!is_name_byte(c) && c != '.' && !is_sign) break;
    ++stop;
  }
  return make(TokenKind::number, stop - at_);
}

Token Lexer::string() {
  uint32_t stop = at_ + 1;
  while (stop < end_ && text_[stop] != '"' && text_[stop] != '\n') {
    if (text_[stop] == '\\' && stop + 1 < end_ && text_[stop + 1] != '\n') ++stop;
    ++stop;
  }
  if (at(stop) != '"') {
    const uint32_t start = at_;
    Token token = make(TokenKind::invalid, stop - start);
    token.error = isa::ErrorCode::UnterminatedString;
    return token;
  }
  Token token = make(TokenKind::string, stop + 1 - at_);
  token.text = token.text.substr(1, token.text.size() - 2);
  return token;
}

Token Lexer::punctuation() {
  const char second = at(at_ + 1);
  const auto pick = [&](char want, TokenKind two, TokenKind one) {
    return second == want ? make(two, 2) : make(one, 1);
  };
  switch (text_[at_]) {
    case '(':
      return make(TokenKind::left_paren, 1);
    case ')':
      return make(TokenKind::right_paren, 1);
    case '[':
      return make(TokenKind::left_bracket, 1);
    case ']':
      return make(TokenKind::right_bracket, 1);
    case '{':
      return make(TokenKind::left_brace, 1);
    case '}':
      return make(TokenKind::right_brace, 1);
    case ',':
      return make(TokenKind::comma, 1);
    case ':':
      return make(TokenKind::colon, 1);
    case '?':
      return make(TokenKind::question, 1);
    case '~':
      return make(TokenKind::tilde, 1);
    case '+':
      return make(TokenKind::plus, 1);
    case '%':
      return make(TokenKind::percent, 1);
    case '^':
      return make(TokenKind::caret, 1);
    case '-':
      return pick('>', TokenKind::arrow, TokenKind::minus);
    case '*':
      return pick('*', TokenKind::star_star, TokenKind::star);
    case '/':
      return pick('/', TokenKind::slash_slash, TokenKind::slash);
    case '&':
      return pick('&', TokenKind::and_and, TokenKind::ampersand);
    case '|':
      return pick('|', TokenKind::or_or, TokenKind::bar);
    case '=':
      return pick('=', TokenKind::equal, TokenKind::assign);
    case '!':
      return pick('=', TokenKind::not_equal, TokenKind::bang);
    case '<':
      return second == '<' ? make(TokenKind::shift_left, 2)
                           : pick('=', TokenKind::less_equal, TokenKind::less);
    case '>':
      return second == '>' ? make(TokenKind::shift_right, 2)
                           : pick('=', TokenKind::greater_equal, TokenKind::greater);
    default:
      return invalid();
  }
}

// The range is the offending byte, or the whole of a UTF-8 sequence; the rest of the line, which hardly
// means anything, is passed over.
Token Lexer::invalid() {
  uint32_t length = 1;
  while (at_ + length < end_ && (static_cast<unsigned char>(text_[at_ + length]) & 0xC0) == 0x80)
    ++length;
  Token token = make(TokenKind::invalid, length);
  token.error = isa::ErrorCode::InvalidCharacter;
  while (more() && text_[at_] != '\n') ++at_;
  return token;
}

bool Lexer::skip_block(TextSpan& body, bool in_declaration) {
  body = {file_, at_, at_, line_, line_start_};
  const std::string_view text = text_;
  if (in_declaration && fresh_ && begins_declaration(text.substr(at_))) return false;
  uint32_t depth = 1;
  for (; at_ < end_; ++at_) {
    switch (text[at_]) {
      case '{':
        ++depth;
        break;
      case '}':
        if (--depth > 0) break;
        body.end = at_++;
        fresh_ = false;
        return true;
      case ';':
        while (at_ + 1 < end_ && text[at_ + 1] != '\n') ++at_;
        break;
      case '"':
        for (++at_; at_ < end_ && text[at_] != '"' && text[at_] != '\n'; ++at_)
          if (text[at_] == '\\' && at_ + 1 < end_ && text[at_ + 1] != '\n') ++at_;
        // An unterminated string ends with its line, or with the text.
        if (at_ == end_ || text[at_] == '\n') --at_;
        break;
      case '\n':
        ++line_;
        line_start_ = at_ + 1;
        fresh_ = true;
        if (in_declaration && begins_declaration(text.substr(at_ + 1))) {
          body.end = ++at_;
          return false;
        }
        break;
      default:
        break;
    }
  }
  body.end = at_;
  return false;
}

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::end:
      return "the end of the text";
    case TokenKind::newline:
      return "the end of the line";
    case TokenKind::string:
      return fmt::format("the string \"{}\"", token.text.substr(0, 40));
    case TokenKind::directive:
      return fmt::format("'.{}'", token.text.substr(0, 40));
    default:
      return fmt::format("'{}'", token.text.substr(0, 40));
  }
}

std::string_view describe(TokenKind kind) {
  switch (kind) {
    case TokenKind::end:
      return "the end of the text";
    case TokenKind::newline:
      return "the end of the line";
    case TokenKind::word:
      return "a name";
    case TokenKind::directive:
      return "a directive";
    case TokenKind::tensor:
      return "a tensor such as @x";
    case TokenKind::vector:
      return "a register such as %x";
    case TokenKind::scalar:
      return "a scalar such as $x";
    case TokenKind::number:
      return "a number";
    case TokenKind::string:
      return "a string";
    case TokenKind::left_paren:
      return "'('";
    case TokenKind::right_paren:
      return "')'";
    case TokenKind::left_bracket:
      return "'['";
    case TokenKind::right_bracket:
      return "']'";
    case TokenKind::left_brace:
      return "'{'";
    case TokenKind::right_brace:
      return "'}'";
    case TokenKind::comma:
      return "','";
    case TokenKind::colon:
      return "':'";
    case TokenKind::assign:
      return "'='";
    case TokenKind::arrow:
      return "'->'";
    default:
      return "an operator";
  }
}

}  // namespace trek::assembler
