#include "assembler/test_block.h"

#include <algorithm>

#include <fmt/format.h>

namespace trek::assembler {

using isa::ErrorCode;

void TestParser::parse(const Body& body) {
  test_ = body.test;
  for (auto& taken : taken_) taken.clear();
  core_.stream.push(TokenStream::FrameKind::macro, body.span, body.scope, body.expansion);
  core_.reporter.set_unclosed(!body.is_closed);
  statements_.run(*this);
  core_.reporter.set_unclosed(false);
}

Outcome TestParser::statement() {
  const bool expected = core_.stream.peek().is_word("expect");
  if (expected) {
    core_.stream.next();
    if (core_.stream.peek().is_word("trap")) return parse_trap();
  }
  isa::Ref target;
  isa::Type type;
  const Token first = core_.stream.peek();
  if (!parse_target(target, type, expected) || !core_.expect(TokenKind::assign))
    return Outcome::failed;
  InitialData data;
  if (!data_.parse(type, {}, data)) return Outcome::failed;
  isa::Test& test = core_.module.tests[test_];
  auto& bindings = expected ? test.expected : test.given;
  const bool is_stream = target.is(isa::RefKind::tensor) &&
                         core_.module.tensors[target.index()].role == isa::Role::stream;
  if (!is_stream && !taken_[expected ? 1 : 0].insert(target.bits).second)
    return core_.fail(ErrorCode::Redefined, first, fmt::format("{} is given twice", first.text)),
           Outcome::failed;
  if (expected && test.trap != isa::TrapCode::None)
    return core_.fail(ErrorCode::Structure, first, "a test expects values or a trap, not both"),
           Outcome::failed;
  bindings.push_back({target, core_.build.embed(data.bytes)});
  return Outcome::done;
}

bool TestParser::parse_target(isa::Ref& target, isa::Type& type, bool expected) {
  const Token token = core_.stream.peek();
  const bool is_tensor = token.is(TokenKind::tensor);
  if (!is_tensor && !(token.is(TokenKind::scalar) && !expected))
    return core_.unexpected(expected ? "a tensor such as @y, or 'trap'"
                                     : "a tensor, a param, or 'expect'");
  core_.stream.next();
  const auto& names = is_tensor ? core_.tensors : core_.params;
  const auto found = names.find(token.name());
  if (found == names.end()) {
    return core_.fail(
        ErrorCode::UnknownName, token,
        fmt::format("no {} is named {}", is_tensor ? "tensor" : "param", token.text),
        [&] { return suggest(token.name(), sorted_names(names), token.text.substr(0, 1)); });
  }
  const uint32_t index = found->second.index;
  target = {is_tensor ? isa::RefKind::tensor : isa::RefKind::param, index};
  type = is_tensor ? core_.module.types[core_.module.tensors[index].type]
                   : isa::Type::make_scalar(core_.module.params[index].dtype);
  return true;
}

Outcome TestParser::parse_trap() {
  const Token word = core_.stream.next();
  // A trap's name has dashes: index-out-of-range.
  std::string name;
  const Token first = core_.stream.peek();
  while (core_.stream.at(TokenKind::word)) {
    name += core_.stream.next().text;
    if (!core_.stream.at(TokenKind::minus)) break;
    core_.stream.next();
    name += '-';
  }
  isa::Test& test = core_.module.tests[test_];
  std::vector<std::string_view> names;
#define TREK_TRAP(Id, number, trap_name, sentence)                                         \
  if (name == (trap_name)) {                                                               \
    if (test.trap != isa::TrapCode::None || !test.expected.empty())                        \
      core_.fail(ErrorCode::Structure, word, "a test expects values or a trap, not both"); \
    test.trap = isa::TrapCode::Id;                                                         \
    return Outcome::done;                                                                  \
  }                                                                                        \
  names.emplace_back(trap_name);
#include "isa/traps.def"
#undef TREK_TRAP
  if (name.empty()) return core_.unexpected("a trap's name"), Outcome::failed;
  core_.fail(ErrorCode::UnknownName, core_.range_from(first),
             fmt::format("no trap is named '{}'", name.substr(0, 80)), suggest(name, names));
  return Outcome::failed;
}

}  // namespace trek::assembler
