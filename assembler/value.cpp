#include "assembler/value.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "isa/semantics/exponential.h"
#include "isa/semantics/logarithm.h"
#include "isa/semantics/power.h"
#include "isa/semantics/remainder.h"
#include "isa/semantics/rounding.h"

namespace trek::assembler {
namespace {

Computed checked(Wide value, bool overflow) {
  if (overflow || value < kLeastInteger || value > kMostInteger)
    return std::string("the integer result is outside -2^63 ... 2^64 - 1");
  return Value::of(value);
}

// Floor division and its remainder, which has the sign of the divisor.
Wide floor_div(Wide a, Wide b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

Computed integer_power(Wide base, Wide exponent) {
  Wide result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result))
      return checked(0, true);
    exponent >>= 1;
    // The square is needed only if a bit is left, and then a square out of range is a result out of range.
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return checked(0, true);
    if (result > kMostInteger || result < kLeastInteger) return checked(0, true);
  }
  return checked(result, false);
}

Computed integer_binary(TokenKind op, Wide a, Wide b) {
  Wide out = 0;
  switch (op) {
    case TokenKind::plus:
      return checked(a + b, false);
    case TokenKind::minus:
      return checked(a - b, false);
    case TokenKind::star: {
      const bool overflow = __builtin_mul_overflow(a, b, &out);
      return checked(out, overflow);
    }
    case TokenKind::slash:
      if (b != 0 && a % b == 0) return checked(a / b, false);
      return Value::of(static_cast<double>(a) / static_cast<double>(b));
    case TokenKind::slash_slash:
      if (b == 0) return std::string("division by zero");
      return checked(floor_div(a, b), false);
    case TokenKind::percent:
      if (b == 0) return std::string("division by zero");
      return checked(a - floor_div(a, b) * b, false);
    case TokenKind::star_star:
      if (b >= 0) return integer_power(a, b);
      return Value::of(semantics::pow(static_cast<double>(a), static_cast<double>(b)));
    case TokenKind::shift_left:
      if (b < 0) return std::string("a shift by a negative count");
      if (a == 0) return Value::of(a);
      if (b > 64) return checked(0, true);
      {
        const bool overflow = __builtin_mul_overflow(a, Wide{1} << static_cast<int>(b), &out);
        return checked(out, overflow);
      }
    case TokenKind::shift_right:
      if (b < 0) return std::string("a shift by a negative count");
      return Value::of(a >> static_cast<int>(b > 100 ? Wide{100} : b));
    case TokenKind::ampersand:
      return checked(a & b, false);
    case TokenKind::bar:
      return checked(a | b, false);
    case TokenKind::caret:
      return checked(a ^ b, false);
    default:
      return std::string("no such operation on integers");
  }
}

Computed real_binary(TokenKind op, double a, double b) {
  switch (op) {
    case TokenKind::plus:
      return Value::of(a + b);
    case TokenKind::minus:
      return Value::of(a - b);
    case TokenKind::star:
      return Value::of(a * b);
    case TokenKind::slash:
      return Value::of(a / b);
    case TokenKind::slash_slash:
      return Value::of(semantics::floor(a / b));
    case TokenKind::percent:
      return Value::of(semantics::mod(a, b));
    case TokenKind::star_star:
      return Value::of(semantics::pow(a, b));
    default:
      return std::string("an operation on integers, and a real operand");
  }
}

// -1, 0, 1, or 2 where a NaN is among the operands. Integers are compared exactly.
int order(const Value& a, const Value& b) {
  const auto sign = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2; };
  if (a.is_number() && b.is_number() &&
      (a.kind == Value::Kind::real || b.kind == Value::Kind::real))
    return sign(a.as_real(), b.as_real());
  if (a.kind == Value::Kind::string) return sign(a.text.compare(b.text), 0);
  return sign(a.integer, b.integer);
}

std::optional<bool> compare(TokenKind op, int order) {
  switch (op) {
    case TokenKind::equal:
      return order == 0;
    case TokenKind::not_equal:
      return order != 0;
    case TokenKind::less:
      return order == -1;
    case TokenKind::less_equal:
      return order == -1 || order == 0;
    case TokenKind::greater:
      return order == 1;
    case TokenKind::greater_equal:
      return order == 1 || order == 0;
    default:
      return std::nullopt;
  }
}

Computed boolean_binary(TokenKind op, bool a, bool b) {
  switch (op) {
    case TokenKind::ampersand:
    case TokenKind::and_and:
      return Value::of(a && b);
    case TokenKind::bar:
    case TokenKind::or_or:
      return Value::of(a || b);
    case TokenKind::caret:
      return Value::of(a != b);
    default:
      return std::string("an operation on numbers, and an operand that is true or false");
  }
}

Computed to_integer(double x) {
  if (!(x >= -0x1p63 && x < 0x1p64))
    return std::string("the integer result is outside -2^63 ... 2^64 - 1");
  return Value::of(static_cast<Wide>(x));
}

}  // namespace

Computed apply_unary(TokenKind op, const Value& a) {
  switch (op) {
    case TokenKind::minus:
      if (a.is_integer()) return checked(-a.integer, false);
      if (a.kind == Value::Kind::real) return Value::of(-a.real);
      break;
    case TokenKind::tilde:
      if (a.is_integer()) return checked(~a.integer, false);
      break;
    case TokenKind::bang:
      if (a.kind == Value::Kind::boolean) return Value::of(a.integer == 0);
      break;
    default:
      break;
  }
  return fmt::format("{} cannot be negated like this", describe(a));
}

Computed apply_binary(TokenKind op, const Value& a, const Value& b) {
  using Kind = Value::Kind;
  const bool numbers = a.is_number() && b.is_number();
  if (!numbers && a.kind != b.kind)
    return fmt::format("{} and {} do not go together", describe(a), describe(b));
  if (const auto truth = compare(op, order(a, b))) return Value::of(*truth);
  if (a.kind == Kind::boolean) return boolean_binary(op, a.integer != 0, b.integer != 0);
  if (!numbers) return std::string("strings can only be compared");
  if (a.is_integer() && b.is_integer()) return integer_binary(op, a.integer, b.integer);
  return real_binary(op, a.as_real(), b.as_real());
}

namespace {

struct Function {
  std::string_view name;
  size_t least;
  size_t most;
  Computed (*apply)(std::span<const Value>);
};

template <bool kGreatest>
Computed extreme(std::span<const Value> values) {
  Value best = values[0];
  for (const Value& value : values.subspan(1)) {
    const int o = order(value, best);
    if (o == 2) return Value::of(std::numeric_limits<double>::quiet_NaN());
    if (o == (kGreatest ? 1 : -1)) best = value;
  }
  return best;
}

template <double (*kFunction)(double)>
Computed rounded(std::span<const Value> values) {
  return values[0].is_integer() ? Computed(values[0]) : to_integer(kFunction(values[0].real));
}
template <double (*kFunction)(double)>
Computed real_function(std::span<const Value> values) {
  return Value::of(kFunction(values[0].as_real()));
}

double floor_of(double x) { return semantics::floor(x); }
double ceil_of(double x) { return semantics::ceil(x); }
double round_of(double x) { return semantics::round(x); }
double sqrt_of(double x) { return std::sqrt(x); }
double exp_of(double x) { return semantics::exp(x); }
double log_of(double x) { return semantics::log(x); }

Computed absolute(std::span<const Value> values) {
  const Value& a = values[0];
  if (a.is_integer()) return Value::of(a.integer < 0 ? -a.integer : a.integer);
  return Value::of(std::fabs(a.real));
}

constexpr size_t kMany = 1000;
constexpr Function kFunctions[] = {
    {"min", 1, kMany, extreme<false>},
    {"max", 1, kMany, extreme<true>},
    {"abs", 1, 1, absolute},
    {"floor", 1, 1, rounded<floor_of>},
    {"ceil", 1, 1, rounded<ceil_of>},
    {"round", 1, 1, rounded<round_of>},
    {"sqrt", 1, 1, real_function<sqrt_of>},
    {"exp", 1, 1, real_function<exp_of>},
    {"log", 1, 1, real_function<log_of>},
};

const Function* find_function(std::string_view name) {
  for (const Function& function : kFunctions)
    if (function.name == name) return &function;
  return nullptr;
}

}  // namespace

bool is_function(std::string_view name) { return name == "len" || find_function(name) != nullptr; }

Computed apply_function(std::string_view name, std::span<const Value> arguments) {
  if (name == "len") {
    if (arguments.size() != 1 || arguments[0].kind != Value::Kind::string)
      return std::string("'len' takes one string");
    return Value::of(static_cast<Wide>(arguments[0].text.size()));
  }
  const Function& function = *find_function(name);
  if (arguments.size() < function.least || arguments.size() > function.most)
    return fmt::format("'{}' takes {} number{}, found {} arguments", name, function.least,
                       function.most > 1 ? " or more" : "", arguments.size());
  for (const Value& argument : arguments)
    if (!argument.is_number())
      return fmt::format("'{}' takes numbers, found {}", name, describe(argument));
  return function.apply(arguments);
}

}  // namespace trek::assembler
