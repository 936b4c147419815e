#include "assembler/declarations.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "isa/verifier.h"

namespace trek::assembler {

using isa::ErrorCode;
using ItemKind = isa::Debug::ItemKind;

namespace {

std::optional<isa::Role> role_of(std::string_view directive) {
  for (const isa::Role role :
       {isa::Role::input, isa::Role::output, isa::Role::state, isa::Role::data, isa::Role::stream})
    if (isa::name(role) == directive) return role;
  return std::nullopt;
}

}  // namespace

void Declarations::parse() {
  statements_.run(*this);
  add_initialisers();
  for (const FunctionParser::Body& body : bodies_) {
    if (core_.reporter.full()) return;
    functions_.parse(body);
  }
  for (const TestParser::Body& body : test_bodies_) {
    if (core_.reporter.full()) return;
    tests_.parse(body);
  }
}

Outcome Declarations::statement() {
  const Token token = core_.stream.peek();
  core_.inner_comments.clear();
  if (!has_version_) {
    has_version_ = true;
    if (!token.is(TokenKind::invalid) && (!token.is(TokenKind::directive) || token.text != "trek"))
      core_.fail(ErrorCode::UnsupportedVersion, token,
                 "the source does not begin with its ISA version",
                 fmt::format("write '.trek {}.{}' first", isa::kVersionMajor, isa::kVersionMinor));
  }
  if (!token.is(TokenKind::directive)) {
    if (token.is(TokenKind::word)) {
      const bool is_instruction = isa::find_op(token.text) != nullptr;
      core_.fail(
          is_instruction ? ErrorCode::Structure : ErrorCode::UnknownName, token,
          is_instruction
              ? fmt::format("'{}' is an instruction, which stands in a function", token.text)
              : fmt::format("no macro is named '{}'", token.text.substr(0, 80)),
          [&] { return is_instruction ? "" : suggest(token.text, statements_.macro_names()); });
    } else {
      core_.unexpected("a declaration such as '.state' or '.func'");
    }
    return Outcome::failed;
  }
  core_.stream.next();
  if (token.text == "trek") return parse_version();
  if (token.text == "param") return parse_param();
  if (token.text == "func") return parse_function();
  if (token.text == "test") return parse_test();
  if (const auto role = role_of(token.text)) return parse_tensor(*role);
  core_.fail(ErrorCode::UnknownDirective, token,
             fmt::format("no directive is named '.{}'", token.text.substr(0, 40)),
             suggest(token.text,
                     {"trek", "include", "const", "param", "input", "output", "state", "data",
                      "stream", "func", "macro", "repeat", "if", "else", "error", "test"},
                     "."));
  return Outcome::failed;
}

Outcome Declarations::parse_version() {
  const Token token = core_.stream.peek();
  if (!core_.expect(TokenKind::number, "a version such as 1.0")) return Outcome::failed;
  if (!has_version_item_ && core_.stream.is_plain()) {
    add_item(ItemKind::version, 0);
    has_version_item_ = true;
  }
  uint32_t major = 0;
  uint32_t minor = 0;
  const char* const begin = token.text.data();
  const char* const end = begin + token.text.size();
  const auto [dot, major_error] = std::from_chars(begin, end, major);
  bool ok = major_error == std::errc() && dot != end && *dot == '.';
  if (ok) {
    const auto [rest, minor_error] = std::from_chars(dot + 1, end, minor);
    ok = minor_error == std::errc() && rest == end;
  }
  if (!ok || major != isa::kVersionMajor || minor > isa::kVersionMinor)
    core_.fail(ErrorCode::UnsupportedVersion, token,
               fmt::format("version {} is not one that this build reads, {}.0 to {}.{}",
                           token.text.substr(0, 40), isa::kVersionMajor, isa::kVersionMajor,
                           isa::kVersionMinor));
  return Outcome::done;
}

void Declarations::add_item(ItemKind kind, size_t index, std::string_view comment) {
  auto& items = core_.module.debug.items;
  for (std::string_view inner : core_.inner_comments)
    items.push_back({ItemKind::comment, core_.build.string(inner), 0});
  core_.inner_comments.clear();
  items.push_back({kind, static_cast<uint32_t>(index), core_.build.string(comment)});
}

void Declarations::comment(std::string_view text) {
  auto& items = core_.module.debug.items;
  if (!text.empty()) {
    items.push_back({ItemKind::comment, core_.build.string(text), 0});
  } else if (!items.empty() && items.back().kind != ItemKind::blank) {
    items.push_back({ItemKind::blank, 0, 0});
  }
}

void Declarations::trailing(std::string_view text) {
  auto& items = core_.module.debug.items;
  const bool fits = !items.empty() && items.back().kind != ItemKind::blank &&
                    items.back().kind != ItemKind::comment && items.back().comment == 0;
  if (!fits) return comment(text);
  items.back().comment = core_.build.string(text);
}

bool Declarations::constant(std::string_view name, std::string_view text) {
  add_item(ItemKind::constant, core_.module.debug.constants.size());
  core_.module.debug.constants.push_back({core_.build.string(name), core_.build.string(text)});
  return true;
}

bool Declarations::is_new(const std::unordered_map<std::string_view, NamedPlace>& names,
                          const Token& token, std::string_view name) {
  const auto found = names.find(name);
  if (found == names.end()) return true;
  core_.fail(ErrorCode::Redefined, token, fmt::format("{} is defined already", token.text));
  core_.reporter.last().notes.push_back(
      {fmt::format("{} is first defined here", token.text), found->second.where});
  return false;
}

Outcome Declarations::parse_param() {
  const Token name = core_.stream.peek();
  if (!core_.expect(TokenKind::scalar, "the param's name, such as $lr")) return Outcome::failed;
  ParsedType type;
  if (!parse_type(core_, expressions_, type)) return Outcome::failed;
  if (!type.type.scalar || !isa::is_scalar_type(type.type.dtype))
    return core_.fail(
               ErrorCode::OperandType, type.where,
               fmt::format("a param is of type i64, f32, f64 or bool, found {}", type.type.text())),
           Outcome::failed;
  if (!core_.expect(TokenKind::assign, "'=' and the param's default")) return Outcome::failed;
  const Token first = core_.stream.peek();
  const auto value = expressions_.parse();
  if (!value) return Outcome::failed;
  const Bits bits = to_bits(*value, type.type.dtype);
  if (!bits.bits)
    return core_.fail(bits.wrong_type ? ErrorCode::OperandType : ErrorCode::InvalidNumber,
                      core_.range_from(first), bits.error),
           Outcome::failed;
  if (!is_new(core_.params, name, name.name())) return Outcome::done;
  const isa::Ref ref = core_.build.param(name.name(), type.type.dtype, *bits.bits);
  core_.params.emplace(name.name(), NamedPlace{ref.index(), core_.stream.where(name)});
  add_item(ItemKind::param, ref.index());
  return Outcome::done;
}

Outcome Declarations::parse_tensor(isa::Role role) {
  const Token name = core_.stream.peek();
  if (!core_.expect(TokenKind::tensor, "the tensor's name, such as @x")) return Outcome::failed;
  ParsedType type;
  if (!parse_type(core_, expressions_, type)) return Outcome::failed;
  if (type.type.scalar)
    return core_.fail(ErrorCode::OperandKind, type.where,
                      fmt::format("a tensor has a shape: {}[] is one of rank 0", type.type.text())),
           Outcome::failed;
  if (!is_new(core_.tensors, name, name.name())) return Outcome::failed;
  const isa::Ref ref = core_.build.tensor(name.name(), type.type, role);
  core_.tensors.emplace(name.name(), NamedPlace{ref.index(), core_.stream.where(name)});
  for (size_t i = 0; i < type.spellings.size(); ++i)
    if (!type.spellings[i].empty())
      core_.module.debug.spellings.push_back({isa::Debug::Spelling::Where::tensor, 0, ref.index(),
                                              static_cast<uint32_t>(i), 0,
                                              core_.build.string(type.spellings[i])});
  const bool ok = !core_.stream.at(TokenKind::assign) || parse_data(ref.index(), type.type, role);
  add_item(ItemKind::tensor, ref.index());
  return ok ? Outcome::done : Outcome::failed;
}

bool Declarations::parse_data(uint32_t tensor, const isa::Type& type, isa::Role role) {
  if (role == isa::Role::output || role == isa::Role::stream)
    return core_.fail(ErrorCode::UnexpectedToken, core_.stream.peek(),
                      fmt::format("a tensor of role {} has no data of its own", isa::name(role)));
  core_.stream.next();
  const bool is_bound = role == isa::Role::input || role == isa::Role::state;
  const bool is_supplied =
      is_bound &&
      std::ranges::find(core_.supplied, core_.module.string(core_.module.tensors[tensor].name)) !=
          core_.supplied.end();
  InitialData data;
  if (!data_.parse(type, {role == isa::Role::state, true, is_supplied}, data)) return false;
  isa::TensorDecl& decl = core_.module.tensors[tensor];
  switch (data.kind) {
    case InitialData::Kind::none:
      break;
    case InitialData::Kind::bytes:
      decl.source = isa::DataSource::embedded;
      decl.offset = core_.build.embed(data.bytes);
      break;
    case InitialData::Kind::external:
      decl.source = isa::DataSource::external;
      decl.external = static_cast<uint32_t>(core_.module.externals.size());
      core_.module.externals.push_back(data.external);
      break;
    case InitialData::Kind::instruction:
      initialisers_.push_back(
          {{isa::RefKind::tensor, tensor}, std::move(data), core_.stream.expansion()});
      break;
  }
  return true;
}

void Declarations::add_initialisers() {
  core_.build.begin_init();
  for (const Initialiser& initialiser : initialisers_) {
    const InitialData& data = initialiser.data;
    const auto fault = core_.build.add(data.op->opcode, data.operands, data.attributes,
                                       std::span(&initialiser.tensor, 1));
    if (fault)
      core_.reporter.report(fault->code, data.where, initialiser.expansion, fault->message);
  }
  core_.build.end_init();
}

// The line of the block whose '}' is missing, by its looks: the first one that a '}' further left closes,
// else the last one that is open.
std::optional<isa::SourceRange> Declarations::suspect(const TextSpan& body) const {
  Lexer lexer(core_.sources.text(body.file), body);
  std::vector<isa::SourceRange> open;
  isa::SourceRange line;  // its first token
  for (;;) {
    const Token token = lexer.next();
    if (token.is(TokenKind::end)) break;
    if (token.first) line = {body.file, token.line, token.column, token.length};
    if (token.is(TokenKind::left_brace)) open.push_back(line);
    if (!token.is(TokenKind::right_brace) || open.empty()) continue;
    if (token.first && token.column < open.back().column) return open.back();
    open.pop_back();
  }
  return open.empty() ? std::nullopt : std::optional(open.back());
}

// Right behind a '{': the body up to its '}'. A comment behind the brace is the item's.
bool Declarations::take_body(TextSpan& span, const Token& opener, std::string_view what) {
  if (core_.stream.skip_block(span, true)) return true;
  core_.fail(ErrorCode::Unclosed, opener, fmt::format("the {} has no '}}'", what));
  if (const auto block = suspect(span))
    core_.reporter.last().notes.push_back({"the block that begins here seems to lack it", *block});
  return false;
}

Outcome Declarations::parse_function() {
  const Token name = core_.stream.peek();
  if (!core_.expect(TokenKind::word, "the function's name")) return Outcome::failed;
  std::vector<Name> names;
  std::vector<isa::Type> types;
  std::vector<bool> inplace;
  std::vector<isa::Type> results;
  if (!parse_parameters(names, types, inplace) || !parse_result_types(results))
    return Outcome::failed;
  FunctionParser::Body body;
  body.opener = name;
  if (!core_.expect(TokenKind::left_brace, "'->' or '{'")) return Outcome::failed;
  // An unclosed body is parsed all the same: what is in it may be wrong too.
  const bool is_closed = take_body(body.span, name, "function");
  body.is_closed = is_closed;
  const bool is_valid = isa::is_identifier(name.text);
  if (!is_valid)
    core_.fail(ErrorCode::UnexpectedToken, name, "a function's name is letters, digits and '_'");
  if (!is_valid || !is_new(core_.functions, name, name.text))
    return is_closed ? Outcome::done : Outcome::opened;
  body.function = core_.build.begin_function(name.text);
  core_.functions.emplace(name.text, NamedPlace{body.function, core_.stream.where(name)});
  for (size_t i = 0; i < names.size(); ++i) core_.build.parameter(types[i], inplace[i]);
  core_.build.set_results(results);
  core_.module.debug.names.resize(core_.module.functions.size());
  core_.module.debug.lines.resize(core_.module.functions.size());
  body.parameters = std::move(names);
  body.scope = core_.stream.scope();
  body.expansion = core_.stream.expansion();
  body.plain = core_.stream.is_plain();
  std::string_view comment;
  if (body.plain) {
    Lexer lexer(core_.sources.text(body.span.file), body.span);
    if (const Token token = lexer.next(); token.is(TokenKind::newline)) comment = token.text;
  }
  add_item(ItemKind::function, body.function, comment);
  bodies_.push_back(std::move(body));
  return is_closed ? Outcome::done : Outcome::opened;
}

bool Declarations::parse_parameters(std::vector<Name>& names, std::vector<isa::Type>& types,
                                    std::vector<bool>& inplace) {
  if (!core_.expect(TokenKind::left_paren)) return false;
  core_.skip_newlines();
  while (!core_.stream.at(TokenKind::right_paren)) {
    const Token token = core_.stream.peek();
    if (!token.is(TokenKind::vector) && !token.is(TokenKind::scalar))
      return core_.unexpected("a parameter such as %x f32[2,3]");
    core_.stream.next();
    names.push_back({token, core_.stream.where(token), core_.stream.expansion()});
    inplace.push_back(core_.stream.accept(TokenKind::bang));
    ParsedType type;
    if (!parse_type(core_, expressions_, type)) return false;
    if (type.type.scalar != token.is(TokenKind::scalar))
      return core_.fail(
          ErrorCode::OperandKind, type.where,
          fmt::format("{} is {}, and its type is {}", token.text,
                      token.is(TokenKind::scalar) ? "a scalar" : "a tensor", type.type.text()));
    if (type.type.scalar && !isa::is_scalar_type(type.type.dtype))
      return core_.fail(
          ErrorCode::OperandType, type.where,
          fmt::format("a scalar is of type i64, f32, f64 or bool, found {}", type.type.text()));
    types.push_back(type.type);
    core_.skip_newlines();
    if (!core_.stream.accept(TokenKind::comma)) break;
    core_.skip_newlines();
  }
  return core_.expect(TokenKind::right_paren, "',' or ')'");
}

bool Declarations::parse_result_types(std::vector<isa::Type>& types) {
  if (!core_.stream.accept(TokenKind::arrow)) return true;
  if (!core_.expect(TokenKind::left_paren)) return false;
  do {
    core_.skip_newlines();
    ParsedType type;
    if (!parse_type(core_, expressions_, type)) return false;
    if (type.type.scalar && !isa::is_scalar_type(type.type.dtype))
      return core_.fail(
          ErrorCode::OperandType, type.where,
          fmt::format("a scalar is of type i64, f32, f64 or bool, found {}", type.type.text()));
    types.push_back(type.type);
    core_.skip_newlines();
  } while (core_.stream.accept(TokenKind::comma));
  return core_.expect(TokenKind::right_paren, "',' or ')'");
}

Outcome Declarations::parse_test() {
  const Token name = core_.stream.peek();
  if (!core_.expect(TokenKind::string, "the test's name in quotes")) return Outcome::failed;
  const auto text = core_.string_value(name);
  if (!text || !core_.expect(TokenKind::left_brace)) return Outcome::failed;
  TestParser::Body body;
  const bool is_closed = take_body(body.span, name, "test");
  body.is_closed = is_closed;
  body.test = static_cast<uint32_t>(core_.module.tests.size());
  body.scope = core_.stream.scope();
  body.expansion = core_.stream.expansion();
  body.opener = name;
  core_.module.tests.emplace_back().name = core_.build.string(*text);
  add_item(ItemKind::test, body.test);
  test_bodies_.push_back(std::move(body));
  return is_closed ? Outcome::done : Outcome::opened;
}

}  // namespace trek::assembler
