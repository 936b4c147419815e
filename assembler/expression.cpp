#include "assembler/expression.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numbers>

namespace trek::assembler {

using isa::ErrorCode;

namespace {

int precedence(TokenKind kind) {
  switch (kind) {
    case TokenKind::or_or: return 1;
    case TokenKind::and_and: return 2;
    case TokenKind::equal:
    case TokenKind::not_equal:
    case TokenKind::less:
    case TokenKind::less_equal:
    case TokenKind::greater:
    case TokenKind::greater_equal: return 3;
    case TokenKind::bar: return 4;
    case TokenKind::caret: return 5;
    case TokenKind::ampersand: return 6;
    case TokenKind::shift_left:
    case TokenKind::shift_right: return 7;
    case TokenKind::plus:
    case TokenKind::minus: return 8;
    case TokenKind::star:
    case TokenKind::slash:
    case TokenKind::slash_slash:
    case TokenKind::percent: return 9;
    default: return 0;
  }
}

std::optional<Value> named_value(std::string_view word) {
  if (word == "true") return Value::of(true);
  if (word == "false") return Value::of(false);
  if (word == "inf") return Value::of(std::numeric_limits<double>::infinity());
  if (word == "nan") return Value::of(std::numeric_limits<double>::quiet_NaN());
  if (word == "pi") return Value::of(std::numbers::pi);
  if (word == "e") return Value::of(std::numbers::e);
  return std::nullopt;
}

bool is_register(const Token& token) {
  return token.is(TokenKind::tensor) || token.is(TokenKind::vector) || token.is(TokenKind::scalar);
}

bool is_plain_decimal(std::string_view text) {
  for (char c : text)
    if (!(c >= '0' && c <= '9') && c != '.') return false;
  return true;
}

}  // namespace

bool is_expression_word(std::string_view word) {
  return named_value(word).has_value() || is_function(word) || word == "dim" || isa::dtype_from_name(word).has_value();
}

std::optional<Value> Expressions::settle(Computed computed, const Token& at) {
  if (computed.value) return computed.value;
  if (dead_ > 0) return Value::of(Wide{0});
  core_.fail(ErrorCode::ConstantExpression, at, std::move(computed.error));
  return std::nullopt;
}

bool Expressions::deeper(const Token& at) {
  if (depth_ < kMaxExpressionDepth) return true;
  return core_.fail(ErrorCode::ConstantExpression, at, fmt::format("expressions nest at most {} deep", kMaxExpressionDepth));
}

std::optional<Value> Expressions::parse() {
  spelling_ = "";
  if (depth_ > 0) return parse_choice();  // within an argument
  composite_ = false;
  portable_ = core_.stream.is_plain();
  const Token first = core_.stream.peek();
  auto value = parse_choice();
  if (value && composite_ && portable_) spelling_ = core_.stream.slice(first.offset, core_.stream.last_end());
  if (spelling_.find('\n') != std::string_view::npos) spelling_ = "";
  return value;
}

std::optional<int64_t> Expressions::parse_integer(std::string_view what) {
  const Token first = core_.stream.peek();
  const auto value = parse();
  if (!value) return std::nullopt;
  const Bits bits = to_bits(*value, isa::DType::i64);
  if (bits.bits) return static_cast<int64_t>(*bits.bits);
  core_.fail(bits.wrong_type ? ErrorCode::ConstantExpression : ErrorCode::InvalidNumber, core_.range_from(first),
             fmt::format("{} is an integer: {}", what, bits.error));
  return std::nullopt;
}

std::optional<bool> Expressions::parse_condition() {
  const Token first = core_.stream.peek();
  const auto value = parse();
  if (!value) return std::nullopt;
  if (value->kind == Value::Kind::boolean || value->is_integer()) return value->integer != 0;
  core_.fail(ErrorCode::ConstantExpression, core_.range_from(first),
             fmt::format("a condition is true, false or an integer, found {}", describe(*value)));
  return std::nullopt;
}

std::optional<Value> Expressions::parse_choice() {
  const Token first = core_.stream.peek();
  if (!deeper(first)) return std::nullopt;
  ++depth_;
  auto value = [&]() -> std::optional<Value> {
    auto condition = parse_binary(1);
    if (!condition || !core_.stream.at(TokenKind::question)) return condition;
    const Token question = core_.stream.next();
    composite_ = true;
    if (condition->kind != Value::Kind::boolean) {
      core_.fail(ErrorCode::ConstantExpression, question, fmt::format("the condition of '?' is true or false, found {}", describe(*condition)));
      return std::nullopt;
    }
    const bool taken = condition->integer != 0;
    dead_ += taken ? 0 : 1;
    auto yes = parse_choice();
    dead_ -= taken ? 0 : 1;
    if (!yes || !core_.expect(TokenKind::colon)) return std::nullopt;
    dead_ += taken ? 1 : 0;
    auto no = parse_choice();
    dead_ -= taken ? 1 : 0;
    if (!no) return std::nullopt;
    return taken ? yes : no;
  }();
  --depth_;
  return value;
}

std::optional<Value> Expressions::parse_binary(int least) {
  auto left = parse_unary();
  while (left) {
    // Behind an operand '%name' can only be a remainder.
    if (core_.stream.at(TokenKind::vector)) core_.stream.split_percent();
    const int level = precedence(core_.stream.peek().kind);
    if (level == 0 || level < least) break;
    const Token op = core_.stream.next();
    composite_ = true;
    const bool skips = left->kind == Value::Kind::boolean &&
                       ((op.is(TokenKind::and_and) && left->integer == 0) || (op.is(TokenKind::or_or) && left->integer != 0));
    dead_ += skips ? 1 : 0;
    auto right = parse_binary(level + 1);
    dead_ -= skips ? 1 : 0;
    if (!right) return std::nullopt;
    if (!skips) left = settle(apply_binary(op.kind, *left, *right), op);
  }
  return left;
}

std::optional<Value> Expressions::parse_unary() {
  const Token op = core_.stream.peek();
  const bool is_unary = op.is(TokenKind::minus) || op.is(TokenKind::tilde) || op.is(TokenKind::bang);
  if (!is_unary) {
    auto base = parse_primary();
    if (!base || !core_.stream.at(TokenKind::star_star)) return base;
    // a ** b ** c is a ** (b ** c), and the exponent may have a sign.
    const Token power = core_.stream.next();
    composite_ = true;
    if (!deeper(power)) return std::nullopt;
    ++depth_;
    auto exponent = parse_unary();
    --depth_;
    if (!exponent) return std::nullopt;
    return settle(apply_binary(power.kind, *base, *exponent), power);
  }
  if (!deeper(op)) return std::nullopt;
  core_.stream.next();
  ++depth_;
  auto operand = parse_unary();
  --depth_;
  if (!operand) return std::nullopt;
  composite_ = composite_ || !op.is(TokenKind::minus);
  return settle(apply_unary(op.kind, *operand), op);
}

std::optional<Value> Expressions::parse_primary() {
  TokenStream& stream = core_.stream;
  const Token token = stream.peek();
  switch (token.kind) {
    case TokenKind::number: {
      stream.next();
      composite_ = composite_ || !is_plain_decimal(token.text);
      Computed number = parse_number(token.text);
      if (number.value) return number.value;
      core_.fail(ErrorCode::InvalidNumber, token, std::move(number.error));
      return std::nullopt;
    }
    case TokenKind::string: {
      stream.next();
      const auto text = core_.string_value(token);
      return text ? std::optional(Value::of(*text)) : std::nullopt;
    }
    case TokenKind::word: return parse_name();
    case TokenKind::left_paren:
    case TokenKind::left_brace: {
      const bool is_brace = token.is(TokenKind::left_brace);
      stream.next();
      composite_ = true;
      portable_ = portable_ && !is_brace;
      if (!is_brace) core_.skip_newlines();
      auto value = parse_choice();
      if (!is_brace) core_.skip_newlines();
      if (!value || !core_.expect(is_brace ? TokenKind::right_brace : TokenKind::right_paren)) return std::nullopt;
      return value;
    }
    default: core_.unexpected("a constant expression"); return std::nullopt;
  }
}

std::optional<Value> Expressions::parse_name() {
  const Token name = core_.stream.next();
  if (core_.stream.at(TokenKind::left_paren)) {
    composite_ = true;
    return name.text == "dim" ? parse_dim(name) : parse_call(name);
  }
  if (auto value = named_value(name.text)) {
    composite_ = composite_ || name.text == "pi" || name.text == "e";
    return value;
  }
  composite_ = true;
  return name_value(name);
}

std::optional<Value> Expressions::name_value(const Token& name) {
  if (const auto* local = core_.find_local(name.text)) {
    portable_ = false;
    if (const auto* value = std::get_if<Value>(local)) return *value;
    return argument_value(std::get<Argument>(*local), name);
  }
  const auto found = core_.constants.find(name.text);
  if (found == core_.constants.end()) return unknown_name(name);
  portable_ = portable_ && found->second.listed;
  return found->second.value;
}

std::optional<Value> Expressions::unknown_name(const Token& name) {
  std::vector<std::string_view> candidates;
  for (const auto& [known, constant] : core_.constants) candidates.push_back(known);
  for (const Environment* scope = core_.stream.scope().get(); scope != nullptr; scope = scope->parent.get())
    for (const auto& [known, what] : scope->names) candidates.push_back(known);
  std::sort(candidates.begin(), candidates.end());
  core_.fail(ErrorCode::UnknownName, name, fmt::format("no constant is named '{}'", name.text.substr(0, 80)),
             suggest(name.text, candidates));
  return std::nullopt;
}

// An argument is evaluated where it was written.
std::optional<Value> Expressions::argument_value(const Argument& argument, const Token& name) {
  if (!deeper(name) || !core_.stream.spend_argument()) return std::nullopt;
  ++depth_;
  core_.stream.push(TokenStream::FrameKind::argument, argument.span, argument.scope, argument.expansion);
  auto value = parse_choice();
  if (value && !core_.stream.at(TokenKind::end)) {
    core_.unexpected("the end of the argument");
    value.reset();
  }
  core_.stream.finish_frame();
  --depth_;
  return value;
}

std::optional<Value> Expressions::parse_call(const Token& name) {
  const auto dtype = isa::dtype_from_name(name.text);
  if (!dtype && !is_function(name.text)) {
    core_.fail(ErrorCode::UnknownName, name, fmt::format("no function of constants is named '{}'", name.text.substr(0, 80)),
               suggest(name.text, {"min", "max", "abs", "floor", "ceil", "round", "sqrt", "exp", "log", "len", "dim"}));
    return std::nullopt;
  }
  core_.stream.next();
  std::vector<Value> arguments;
  do {
    core_.skip_newlines();
    auto value = parse_choice();
    if (!value) return std::nullopt;
    arguments.push_back(*value);
    core_.skip_newlines();
  } while (core_.stream.accept(TokenKind::comma));
  if (!core_.expect(TokenKind::right_paren, "',' or ')'")) return std::nullopt;
  if (!dtype) return settle(apply_function(name.text, arguments), name);
  if (arguments.size() != 1) return settle(fmt::format("'{}' takes one value", name.text), name);
  Value value = arguments[0];
  value.stated = isa::DType::none;
  // f32(1) is a real, whatever was in the parentheses.
  if (isa::is_real(*dtype) && value.is_integer()) value = Value::of(value.as_real());
  if (Bits bits = to_bits(value, *dtype); !bits.bits) return settle(std::move(bits.error), name);
  value.stated = *dtype;
  return value;
}

std::optional<Value> Expressions::parse_dim(const Token& name) {
  core_.stream.next();
  core_.skip_newlines();
  const Token tensor = core_.stream.peek();
  if (!tensor.is(TokenKind::tensor)) {
    core_.unexpected("a declared tensor such as @x");
    return std::nullopt;
  }
  core_.stream.next();
  const auto found = core_.tensors.find(tensor.name());
  if (found == core_.tensors.end()) {
    core_.fail(ErrorCode::UnknownName, tensor, fmt::format("no tensor '{}' is declared before this", tensor.text));
    return std::nullopt;
  }
  if (!core_.expect(TokenKind::comma)) return std::nullopt;
  core_.skip_newlines();
  const auto axis = parse_choice();
  core_.skip_newlines();
  if (!axis || !core_.expect(TokenKind::right_paren)) return std::nullopt;
  const isa::Shape& shape = core_.module.types[core_.module.tensors[found->second.index].type].shape;
  if (!axis->is_integer() || axis->integer < -shape.rank() || axis->integer >= shape.rank())
    return settle(fmt::format("{} has rank {}, no axis {}", tensor.text, shape.rank(), text_of(*axis)), name);
  const int i = static_cast<int>(axis->integer);
  return Value::of(Wide{shape[i < 0 ? i + shape.rank() : i]});
}

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
  const bool is_type = first.is(TokenKind::word) && isa::dtype_from_name(first.text) && stream.peek(1).is(TokenKind::end);
  const bool nested = first.is(TokenKind::left_brace) && stream.peek(1).is(TokenKind::word) && stream.peek(2).is(TokenKind::right_brace);
  const bool is_text = (is_plain_word(first) && !stream.peek(1).is(TokenKind::left_paren)) || is_type || nested ||
                       is_register(first) || first.is(TokenKind::left_bracket) || first.is(TokenKind::string);
  stream.finish_frame();
  if (!is_text) return false;
  for (int i = 0; i < 3; ++i) stream.next();
  stream.push(TokenStream::FrameKind::argument, argument.span, argument.scope, argument.expansion);
  ++depth_;
  return true;
}

bool Expressions::leave_argument() {
  const bool finished = core_.stream.at(TokenKind::end) || core_.unexpected("the end of the argument");
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
  const auto* local = is_single && first.is(TokenKind::word) ? core_.find_local(first.text) : nullptr;
  if (local != nullptr && std::holds_alternative<Argument>(*local)) {
    const Argument argument = std::get<Argument>(*local);
    stream.push(TokenStream::FrameKind::argument, argument.span, argument.scope, argument.expansion);
    text = frame_text(true);
    stream.finish_frame();
  } else if (is_argument && is_single && is_plain_word(first)) {
    text = std::string(first.text);
  } else if (is_argument && is_single && is_register(first)) {
    text = std::string(first.name());
  } else if (const auto value = parse_choice(); value && (stream.at(TokenKind::end) || core_.unexpected("'}'"))) {
    text = text_of(*value);
  }
  --depth_;
  return text;
}

// A word that no constant and no expression claims: relu, f32, the name of a function.
bool Expressions::is_plain_word(const Token& token) const {
  return token.is(TokenKind::word) && !is_expression_word(token.text) && core_.find_local(token.text) == nullptr &&
         !core_.constants.contains(token.text);
}

// Escapes and substitutions of a string.
std::optional<std::string_view> Core::string_value(const Token& token) {
  if (token.text.find_first_of("\\{") == std::string_view::npos) return token.text;
  std::string out;
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1; };
  const std::string_view text = token.text;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto range = [&](size_t length) {
      return isa::SourceRange{stream.file(), token.line, token.column + 1 + static_cast<uint32_t>(i), static_cast<uint32_t>(length)};
    };
    if (text[i] == '{') {
      const size_t close = text.find('}', i);
      if (close == std::string_view::npos) {
        fail(ErrorCode::Unclosed, range(1), "a substitution without its '}'", "a brace itself is written '\\{'");
        return std::nullopt;
      }
      const auto begin = static_cast<uint32_t>(token.offset + 1 + i + 1);
      const auto end = static_cast<uint32_t>(token.offset + 1 + close);
      const auto piece = stream.substitute({stream.file(), begin, end, token.line, token.offset + 1 - token.column});
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
      fail(ErrorCode::UnexpectedToken, range(2), fmt::format("'\\{}' is no escape", c), "escapes are \\n \\r \\t \\\" \\\\ \\{ \\xHH");
      return std::nullopt;
    }
    out += "\n\r\t\"\\{"[known];
    ++i;
  }
  return texts.keep(std::move(out));
}

}  // namespace trek::assembler
