#include "assembler/expression.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include <fmt/format.h>

namespace trek::assembler {

using isa::ErrorCode;

namespace {

int precedence(TokenKind kind) {
  switch (kind) {
    case TokenKind::or_or:
      return 1;
    case TokenKind::and_and:
      return 2;
    case TokenKind::equal:
    case TokenKind::not_equal:
    case TokenKind::less:
    case TokenKind::less_equal:
    case TokenKind::greater:
    case TokenKind::greater_equal:
      return 3;
    case TokenKind::bar:
      return 4;
    case TokenKind::caret:
      return 5;
    case TokenKind::ampersand:
      return 6;
    case TokenKind::shift_left:
    case TokenKind::shift_right:
      return 7;
    case TokenKind::plus:
    case TokenKind::minus:
      return 8;
    case TokenKind::star:
    case TokenKind::slash:
    case TokenKind::slash_slash:
    case TokenKind::percent:
      return 9;
    default:
      return 0;
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

bool is_plain_decimal(std::string_view text) {
  for (char c : text)
    if (!(c >= '0' && c <= '9') && c != '.') return false;
  return true;
}

}  // namespace

bool is_expression_word(std::string_view word) {
  return named_value(word).has_value() || is_function(word) || word == "dim" ||
         isa::dtype_from_name(word).has_value();
}

std::optional<Value> Expressions::settle(Computed computed, const Token& at) {
  if (computed.value) return computed.value;
  if (dead_ > 0) return Value::of(Wide{0});
  core_.fail(ErrorCode::ConstantExpression, at, std::move(computed.error));
  return std::nullopt;
}

bool Expressions::deeper(const Token& at) {
  if (depth_ < kMaxExpressionDepth) return true;
  return core_.fail(ErrorCode::ConstantExpression, at,
                    fmt::format("expressions nest at most {} deep", kMaxExpressionDepth));
}

std::optional<Value> Expressions::parse() {
  spelling_ = "";
  if (depth_ > 0) return parse_choice();  // within an argument
  composite_ = false;
  portable_ = core_.stream.is_plain();
  const Token first = core_.stream.peek();
  auto value = parse_choice();
  if (value && composite_ && portable_)
    spelling_ = core_.stream.slice(first.offset, core_.stream.last_end());
  if (spelling_.find('\n') != std::string_view::npos) spelling_ = "";
  return value;
}

std::optional<int64_t> Expressions::parse_integer(std::string_view what) {
  const Token first = core_.stream.peek();
  const auto value = parse();
  if (!value) return std::nullopt;
  const Bits bits = to_bits(*value, isa::DType::i64);
  if (bits.bits) return static_cast<int64_t>(*bits.bits);
  core_.fail(bits.wrong_type ? ErrorCode::ConstantExpression : ErrorCode::InvalidNumber,
             core_.range_from(first), fmt::format("{} is an integer: {}", what, bits.error));
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
    core_.skip_newlines_in_brackets();
    auto condition = parse_binary(1);
    core_.skip_newlines_in_brackets();
    if (!condition || !core_.stream.at(TokenKind::question)) return condition;
    const Token question = core_.stream.next();
    composite_ = true;
    if (condition->kind != Value::Kind::boolean) {
      core_.fail(
          ErrorCode::ConstantExpression, question,
          fmt::format("the condition of '?' is true or false, found {}", describe(*condition)));
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
    core_.skip_newlines_in_brackets();
    // Behind an operand '%name' can only be a remainder.
    if (core_.stream.at(TokenKind::vector)) core_.stream.split_percent();
    const int level = precedence(core_.stream.peek().kind);
    if (level == 0 || level < least) break;
    const Token op = core_.stream.next();
    composite_ = true;
    const bool skips =
        left->kind == Value::Kind::boolean && ((op.is(TokenKind::and_and) && left->integer == 0) ||
                                               (op.is(TokenKind::or_or) && left->integer != 0));
    dead_ += skips ? 1 : 0;
    core_.skip_newlines_in_brackets();
    auto right = parse_binary(level + 1);
    dead_ -= skips ? 1 : 0;
    if (!right) return std::nullopt;
    if (!skips) left = settle(apply_binary(op.kind, *left, *right), op);
  }
  return left;
}

std::optional<Value> Expressions::parse_unary() {
  const Token op = core_.stream.peek();
  const bool is_unary =
      op.is(TokenKind::minus) || op.is(TokenKind::tilde) || op.is(TokenKind::bang);
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
    case TokenKind::word:
      return parse_name();
    case TokenKind::left_paren: {
      const InBrackets brackets(core_);
      stream.next();
      composite_ = true;
      auto value = parse_choice();
      if (!value || !core_.expect(TokenKind::right_paren)) return std::nullopt;
      return value;
    }
    case TokenKind::left_brace:
      return parse_braces();
    default:
      core_.unexpected("a constant expression");
      return std::nullopt;
  }
}

// `{N + 1}`: as in parentheses, on one line. A failure passes over the braces, which are no block's.
std::optional<Value> Expressions::parse_braces() {
  TokenStream& stream = core_.stream;
  if (stream.peek(1).is(TokenKind::newline) || stream.peek(1).is(TokenKind::end)) {
    core_.unexpected("a constant expression");
    return std::nullopt;
  }
  stream.next();
  composite_ = true;
  portable_ = false;
  auto value = parse_choice();
  if (value && core_.expect(TokenKind::right_brace)) return value;
  while (!stream.peek().ends_statement()) stream.next();
  stream.accept(TokenKind::right_brace);
  return std::nullopt;
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
  found->second.wanted = true;
  portable_ = portable_ && found->second.listed;
  return found->second.value;
}

std::optional<Value> Expressions::unknown_name(const Token& name) {
  const auto find_help = [&] {
    std::vector<std::string_view> candidates;
    for (const auto& [known, constant] : core_.constants) candidates.push_back(known);
    for (const Environment* scope = core_.stream.scope().get(); scope != nullptr;
         scope = scope->parent.get())
      for (const auto& [known, what] : scope->names) candidates.push_back(known);
    std::sort(candidates.begin(), candidates.end());
    return suggest(name.text, candidates);
  };
  core_.fail(ErrorCode::UnknownName, name,
             fmt::format("no constant is named '{}'", name.text.substr(0, 80)), find_help);
  return std::nullopt;
}

// An argument is evaluated where it was written.
std::optional<Value> Expressions::argument_value(const Argument& argument, const Token& name) {
  if (!deeper(name) || !core_.stream.spend_argument()) return std::nullopt;
  ++depth_;
  core_.stream.push(TokenStream::FrameKind::argument, argument.span, argument.scope,
                    argument.expansion);
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
    core_.fail(ErrorCode::UnknownName, name,
               fmt::format("no function of constants is named '{}'", name.text.substr(0, 80)),
               suggest(name.text, {"min", "max", "abs", "floor", "ceil", "round", "sqrt", "exp",
                                   "log", "len", "dim"}));
    return std::nullopt;
  }
  core_.stream.next();
  const InBrackets brackets(core_);
  std::vector<Value> arguments;
  do {
    auto value = parse_choice();
    if (!value) return std::nullopt;
    arguments.push_back(*value);
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
  const InBrackets brackets(core_);
  core_.skip_newlines();
  const Token tensor = core_.stream.peek();
  if (!tensor.is(TokenKind::tensor)) {
    core_.unexpected("a declared tensor such as @x");
    return std::nullopt;
  }
  core_.stream.next();
  const auto found = core_.tensors.find(tensor.name());
  if (found == core_.tensors.end()) {
    core_.fail(ErrorCode::UnknownName, tensor,
               fmt::format("no tensor '{}' is declared before this", tensor.text));
    return std::nullopt;
  }
  if (!core_.expect(TokenKind::comma)) return std::nullopt;
  const auto axis = parse_choice();
  if (!axis || !core_.expect(TokenKind::right_paren)) return std::nullopt;
  const isa::Shape& shape =
      core_.module.types[core_.module.tensors[found->second.index].type].shape;
  if (!axis->is_integer() || axis->integer < -shape.rank() || axis->integer >= shape.rank())
    return settle(
        fmt::format("{} has rank {}, no axis {}", tensor.text, shape.rank(), text_of(*axis)), name);
  const int i = static_cast<int>(axis->integer);
  return Value::of(Wide{shape[i < 0 ? i + shape.rank() : i]});
}

}  // namespace trek::assembler
