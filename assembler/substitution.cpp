// Substitutions: `{...}` in names, strings and operands, and the arguments of macros that they stand for.
#include <fmt/format.h>

#include "assembler/expression.h"

namespace trek::assembler {

using isa::ErrorCode;

namespace {

bool is_register(const Token& token) {
  return token.is(TokenKind::tensor) || token.is(TokenKind::vector) || token.is(TokenKind::scalar);
}

}  // namespace

bool Expressions::enter_argument() {
  TokenStream& stream = core_.stream;
  if (!stream.at(TokenKind::left_brace) || !stream.peek(1).is(TokenKind::word)) return false;
  const Token name = stream.peek(1);
  if (!stream.peek(2).is(TokenKind::right_brace)) return false;
  const auto* local = core_.find_local(name.text);
  if (local == nullptr || !std::holds_alternative<Argument>(*local)) return false;
  const Argument argument = std::get<Argument>(*local);
  // Where these fail it is reported, by the expression that this then is.
  if (depth_ >= kMaxExpressionDepth || !stream.spend_argument()) return false;
  stream.push(TokenStream::FrameKind::argument, argument.span, argument.scope, argument.expansion);
  const Token first = stream.peek();
  const bool is_type = first.is(TokenKind::word) && isa::dtype_from_name(first.text) &&
                       stream.peek(1).is(TokenKind::end);
  const bool nested = first.is(TokenKind::left_brace) && stream.peek(1).is(TokenKind::word) &&
                      stream.peek(2).is(TokenKind::right_brace);
  const bool is_text = (is_plain_word(first) && !stream.peek(1).is(TokenKind::left_paren)) ||
                       is_type || nested || is_register(first) ||
                       first.is(TokenKind::left_bracket) || first.is(TokenKind::string);
  stream.finish_frame();
  if (!is_text) return false;
  for (int i = 0; i < 3; ++i) stream.next();
  stream.push(TokenStream::FrameKind::argument, argument.span, argument.scope, argument.expansion);
  ++depth_;
  return true;
}

bool Expressions::leave_argument() {
  const bool finished =
      core_.stream.at(TokenKind::end) || core_.unexpected("the end of the argument");
  core_.stream.finish_frame();
  --depth_;
  return finished;
}

std::optional<std::string> Expressions::substitution(const TextSpan& span) {
  TokenStream& stream = core_.stream;
  const bool composite = composite_;
  const bool portable = portable_;
  const Scope scope = stream.scope();
  stream.push(TokenStream::FrameKind::argument, span, scope, stream.expansion());
  auto text = frame_text(false);
  stream.finish_frame();
  composite_ = composite;
  portable_ = portable;
  return text;
}

// What the innermost frame stands for: of an argument that is a single word or register its text, else
// the value of the expression.
std::optional<std::string> Expressions::frame_text(bool is_argument) {
  TokenStream& stream = core_.stream;
  const Token first = stream.peek();
  if (first.is(TokenKind::end)) {
    core_.fail(ErrorCode::ConstantExpression, first, "a substitution of nothing");
    return std::nullopt;
  }
  if (!deeper(first) || !stream.spend_argument()) return std::nullopt;
  ++depth_;
  std::optional<std::string> text;
  const bool is_single = stream.peek(1).is(TokenKind::end);
  const auto* local =
      is_single && first.is(TokenKind::word) ? core_.find_local(first.text) : nullptr;
  if (local != nullptr && std::holds_alternative<Argument>(*local)) {
    const Argument argument = std::get<Argument>(*local);
    stream.push(TokenStream::FrameKind::argument, argument.span, argument.scope,
                argument.expansion);
    text = frame_text(true);
    stream.finish_frame();
  } else if (is_argument && is_single && is_plain_word(first)) {
    text = std::string(first.text);
  } else if (is_argument && is_single && is_register(first)) {
    text = std::string(first.name());
  } else if (const auto value = parse_choice();
             value && (stream.at(TokenKind::end) || core_.unexpected("'}'"))) {
    text = text_of(*value);
  }
  --depth_;
  return text;
}

// A word that no constant and no expression claims: relu, f32, the name of a function.
bool Expressions::is_plain_word(const Token& token) const {
  return token.is(TokenKind::word) && !is_expression_word(token.text) &&
         core_.find_local(token.text) == nullptr && !core_.constants.contains(token.text);
}

// Escapes and substitutions of a string.
std::optional<std::string_view> Core::string_value(const Token& token) {
  if (token.text.find_first_of("\\{") == std::string_view::npos) return token.text;
  std::string out;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
  };
  const std::string_view text = token.text;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto range = [&](size_t length) {
      return isa::SourceRange{stream.file(), token.line,
                              token.column + 1 + static_cast<uint32_t>(i),
                              static_cast<uint32_t>(length)};
    };
    if (text[i] == '{') {
      const size_t close = text.find('}', i);
      if (close == std::string_view::npos) {
        fail(ErrorCode::Unclosed, range(1), "a substitution without its '}'",
             "a brace itself is written '\\{'");
        return std::nullopt;
      }
      const auto begin = static_cast<uint32_t>(token.offset + 1 + i + 1);
      const auto end = static_cast<uint32_t>(token.offset + 1 + close);
      const auto piece = stream.substitute(
          {stream.file(), begin, end, token.line, token.offset + 1 - token.column});
      if (!piece) return std::nullopt;
      out += *piece;
      i = close;
      continue;
    }
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char c = text[i + 1];  // the lexer ends no string behind a backslash
    const int high = c == 'x' && i + 3 < text.size() ? digit(text[i + 2]) : -1;
    const int low = high >= 0 ? digit(text[i + 3]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 3;
      continue;
    }
    const size_t known = std::string_view("nrt\"\\{").find(c);
    if (known == std::string_view::npos) {
      fail(ErrorCode::UnexpectedToken, range(2), fmt::format("'\\{}' is no escape", c),
           "escapes are \\n \\r \\t \\\" \\\\ \\{ \\xHH");
      return std::nullopt;
    }
    out += "\n\r\t\"\\{"[known];
    ++i;
  }
  return texts.keep(std::move(out));
}

}  // namespace trek::assembler
