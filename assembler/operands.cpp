#include "assembler/operands.h"

#include <algorithm>

#include <fmt/format.h>

namespace trek::assembler {

using isa::ErrorCode;
using isa::Ref;
using isa::RefKind;

bool Operands::parse(Operand& operand) {
  operand = {};
  const Token first = core_.stream.peek();
  switch (first.kind) {
    case TokenKind::tensor:
    case TokenKind::vector:
    case TokenKind::scalar:
      return parse_reference(operand);
    case TokenKind::left_brace:
      if (expressions_.enter_argument()) {
        const bool ok = parse(operand);
        return expressions_.leave_argument() && ok;
      }
      break;
    case TokenKind::newline:
    case TokenKind::end:
    case TokenKind::right_brace:
    case TokenKind::right_bracket:
    case TokenKind::right_paren:
    case TokenKind::comma:
    case TokenKind::assign:
      return core_.unexpected("an operand");
    default:
      break;
  }
  const auto value = expressions_.parse();
  if (!value) return false;
  operand.kind = Operand::Kind::value;
  operand.value = *value;
  operand.where = core_.range_from(first);
  operand.spelling = expressions_.spelling();
  return true;
}

bool Operands::parse_reference(Operand& operand) {
  const Token token = core_.stream.next();
  operand.where = core_.stream.where(token);
  operand.kind = Operand::Kind::reference;
  if (token.is(TokenKind::tensor)) {
    const auto found = core_.tensors.find(token.name());
    if (found != core_.tensors.end()) {
      operand.ref = {RefKind::tensor, found->second.index};
      return true;
    }
    return core_.fail(ErrorCode::UnknownName, token,
                      fmt::format("no tensor is named {}", token.text),
                      [&] { return suggest(token.name(), sorted_names(core_.tensors), "@"); });
  }
  const Name name{token, operand.where, core_.stream.expansion()};
  if (const Register* found = scopes_.find(name)) {
    operand.ref = found->ref;
    if (!found->ref) operand.kind = Operand::Kind::broken;
    return true;
  }
  if (token.is(TokenKind::scalar)) {
    if (const auto found = core_.params.find(token.name()); found != core_.params.end()) {
      operand.ref = {RefKind::param, found->second.index};
      return true;
    }
  }
  return undefined(name);
}

bool Operands::undefined(const Name& name) {
  const auto find_help = [&] {
    std::vector<std::string_view> names;
    for (std::string_view known : scopes_.visible_names())
      if (known[0] == name.token.text[0]) names.push_back(known.substr(1));
    if (name.token.is(TokenKind::scalar))
      for (const auto& [param, place] : core_.params) names.push_back(param);
    std::sort(names.begin(), names.end());
    return suggest(name.token.name(), names, name.token.text.substr(0, 1));
  };
  return core_.fail(ErrorCode::UndefinedValue, name.token,
                    fmt::format("{} has no value here", name.token.text), find_help);
}

bool Operands::parse_name(Name& name, std::string_view wanted) {
  if (core_.stream.at(TokenKind::left_brace) && expressions_.enter_argument()) {
    const bool ok = parse_name(name, wanted);
    return expressions_.leave_argument() && ok;
  }
  const Token token = core_.stream.peek();
  const bool fits =
      token.is(TokenKind::vector) || token.is(TokenKind::scalar) || token.is(TokenKind::tensor);
  if (!fits) return core_.unexpected(wanted);
  core_.stream.next();
  name = {token, core_.stream.where(token), core_.stream.expansion()};
  return true;
}

std::optional<Ref> Operands::resolve(const Operand& operand, isa::DType wanted, ErrorCode code) {
  if (!operand.is_value()) return operand.ref;
  const Bits bits = to_bits(operand.value, wanted);
  if (bits.bits) return core_.build.constant(wanted, *bits.bits);
  core_.fail(bits.wrong_type ? code : ErrorCode::InvalidNumber, operand.where, bits.error);
  return std::nullopt;
}

isa::Type Operands::type_of(const Operand& operand) const {
  if (operand.kind == Operand::Kind::reference) return core_.build.type_of(operand.ref);
  if (operand.is_value()) return isa::Type::make_scalar(natural_type(operand.value));
  return {};
}

}  // namespace trek::assembler
