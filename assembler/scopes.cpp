#include "assembler/scopes.h"

#include <fmt/format.h>

namespace trek::assembler {

Scopes::Entry& Scopes::entry(uint32_t number) {
  if (number >= entries_.size()) entries_.resize(number + number / 2 + 64);
  return entries_[number];
}

void Scopes::leave() {
  const size_t mark = marks_.back();
  marks_.pop_back();
  while (defined_.size() > mark) {
    Entry& ended = entries_[defined_.back()];
    defined_.pop_back();
    ended.meaning.live = false;
    if (ended.printed != 0) --entries_[ended.printed].printing;
  }
}

void Scopes::begin(uint32_t function) {
  marks_.assign(1, 0);
  leave();
  function_ = function;
}

uint32_t Scopes::number_of(const Name& name, bool defining) {
  const uint32_t plain = core_.names.number(name.token.text);
  uint32_t expansion = name.expansion;
  if (expansion == 0 || name.token.substituted) return plain;
  const auto is_own = [&](uint32_t e) {
    const auto kind = core_.reporter.expansion(e).kind;
    return kind == Expansion::Kind::macro || kind == Expansion::Kind::repetition;
  };
  if (defining) {
    while (expansion != 0 && !is_own(expansion))
      expansion = core_.reporter.expansion(expansion).parent;
    return core_.names.number(plain, expansion);
  }
  for (; expansion != 0; expansion = core_.reporter.expansion(expansion).parent) {
    if (!is_own(expansion)) continue;
    const uint32_t own = core_.names.find(plain, expansion);
    if (own != 0 && own < entries_.size() && entries_[own].meaning.live) return own;
  }
  return plain;
}

const Register* Scopes::find(const Name& name) {
  const uint32_t number = number_of(name, false);
  if (number >= entries_.size() || !entries_[number].meaning.live) return nullptr;
  return &entries_[number].meaning;
}

bool Scopes::define(const Name& name, isa::Ref ref) {
  const Token& token = name.token;
  const uint32_t number = number_of(name, true);
  Register& found = entry(number).meaning;
  if (found.live) {
    const isa::SourceRange before = found.defined;
    core_.reporter.report(
        isa::ErrorCode::Redefined, name.where, name.expansion,
        fmt::format("{} is defined already: a register is assigned once", token.text));
    core_.reporter.last().notes.push_back(
        {fmt::format("{} is first defined here", token.text), before});
    return false;
  }
  if (token.is(TokenKind::scalar) && core_.params.contains(token.name())) {
    core_.reporter.report(isa::ErrorCode::Redefined, name.where, name.expansion,
                          fmt::format("{} is a param of the module", token.text));
    core_.reporter.last().notes.push_back(
        {fmt::format("{} is first defined here", token.text), core_.params[token.name()].where});
    return false;
  }
  found = {ref, name.where, true};
  defined_.push_back(number);
  entries_[number].printed = 0;
  const bool is_expanded = name.expansion != 0 && core_.names.number(token.text) != number;
  if (ref.is(isa::RefKind::value)) name_register(number, ref, is_expanded);
  return true;
}

void Scopes::define_broken(const Name& name) {
  const uint32_t number = number_of(name, true);
  Entry& known = entry(number);
  if (known.meaning.live) return;
  known.meaning = {{}, name.where, true};
  known.printed = 0;
  defined_.push_back(number);
}

// A name for an expansion's register, or one whose name is taken: with a number.
uint32_t Scopes::free_name(uint32_t plain) {
  const std::string base(core_.names.name(plain));
  for (;;) {
    Entry& name = entry(plain);
    if (name.suffixed != function_) name.suffix = 0;
    name.suffixed = function_;
    const uint32_t suffix = ++name.suffix;
    const uint32_t number =
        core_.names.number(core_.texts.keep(fmt::format("{}_{}", base, suffix)));
    if (entry(number).printing == 0 && !core_.params.contains(core_.names.name(number).substr(1)))
      return number;
  }
}

void Scopes::name_register(uint32_t number, isa::Ref ref, bool is_expanded) {
  uint32_t printed = is_expanded ? core_.names.number(core_.names.name(number)) : number;
  if (is_expanded || entry(printed).printing != 0) printed = free_name(printed);
  entries_[number].printed = printed;
  Entry& name = entry(printed);
  ++name.printing;
  if (name.string == 0) {
    // Each name comes here once, so the builder's table of strings need not know it.
    name.string = static_cast<uint32_t>(core_.module.strings.size());
    core_.module.strings.emplace_back(core_.names.name(printed).substr(1));
  }
  auto& names = core_.module.debug.names[function_].values;
  if (names.size() <= ref.index()) names.resize(ref.index() + 1);
  names[ref.index()] = name.string;
}

std::vector<std::string_view> Scopes::visible_names() const {
  constexpr size_t kMost = 1000;
  std::vector<std::string_view> names;
  const size_t first = defined_.size() > kMost ? defined_.size() - kMost : 0;
  for (size_t i = first; i < defined_.size(); ++i) names.push_back(core_.names.name(defined_[i]));
  return names;
}

}  // namespace trek::assembler
