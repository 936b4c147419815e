// Debug sections as an assembler leaves them: every register named, items in order with comments and
// blank lines between, some constants spelt as expressions.
#include <algorithm>

#include <fmt/format.h>

#include "tests/property/random_module.h"

namespace trek::property {

using isa::Debug;
using isa::Module;
using isa::Ref;
using isa::RefKind;
using ItemKind = isa::Debug::ItemKind;

namespace {

class DebugWriter {
 public:
  DebugWriter(Module& module, Random& random) : module_(module), build_(module), random_(random) {}

  void write() {
    if (random_.chance(80)) names();
    if (random_.chance(50)) lines();
    if (random_.chance(60)) constants();
    if (random_.chance(60)) items();
    if (random_.chance(60)) comments();
    if (random_.chance(60)) spellings();
  }

 private:
  // A name per register, the same one for registers that are never visible together: here, for
  // simplicity, only tensors and scalars share names.
  void names() {
    constexpr std::string_view kWords[] = {"x", "h", "loss", "v", "grad_w", "_t"};
    for (const isa::Function& function : module_.functions) {
      auto& names = module_.debug.names.emplace_back().values;
      for (size_t i = 0; i < function.values.size(); ++i)
        names.push_back(
            random_.chance(10) ? 0 : build_.string(fmt::format("{}{}", random_.pick(kWords), i)));
    }
  }

  void lines() {
    module_.debug.files = {"main.trek", "layers/dense.trek"};
    if (random_.chance(50)) module_.debug.sources = {"; the first\n", ""};
    for (const isa::Function& function : module_.functions) {
      auto& lines = module_.debug.lines.emplace_back().code;
      for (uint32_t i = 0; i < function.code.size(); ++i)
        lines.push_back({static_cast<uint32_t>(random_.below(2)), i + 1, 3});
    }
  }

  // Expressions with values that are likely to stand somewhere.
  void constants() {
    constexpr std::pair<std::string_view, std::string_view> kConstants[] = {
        {"ONE", "1"},    {"TWO", "ONE + 1"}, {"HALF", "1/2"},
        {"RATE", "0.1"}, {"YES", "true"},    {"WORD", "\"word\""}};
    for (const auto& [name, text] : kConstants)
      module_.debug.constants.push_back({build_.string(name), build_.string(text)});
  }

  uint32_t comment() {
    constexpr std::string_view kComments[] = {"", "; a comment", ";",
                                              "; with \"quotes\" {and} ; more µ"};
    return build_.string(random_.pick(kComments));
  }

  void items() {
    auto& items = module_.debug.items;
    const auto all = [&](ItemKind kind, size_t count) {
      items.push_back({ItemKind::blank, 0, 0});
      for (uint32_t i = 0; i < count; ++i) {
        if (random_.chance(20))
          items.push_back({ItemKind::comment, build_.string("; what follows"), 0});
        items.push_back({kind, i, kind == ItemKind::test ? 0 : comment()});
        if (random_.chance(20)) items.push_back({ItemKind::blank, 0, 0});
      }
    };
    if (random_.chance(50)) {
      if (random_.chance(50)) items.push_back({ItemKind::comment, build_.string("; the head"), 0});
      items.push_back({ItemKind::version, 0, comment()});
    }
    all(ItemKind::constant, module_.debug.constants.size());
    all(ItemKind::param, module_.params.size());
    if (random_.chance(50)) all(ItemKind::function, module_.functions.size());
    all(ItemKind::tensor, module_.tensors.size());
    if (random_.chance(50)) all(ItemKind::test, module_.tests.size());
  }

  void comments() {
    for (uint32_t f = 0; f < module_.functions.size(); ++f) {
      for (uint32_t i = 0; i < module_.functions[f].code.size(); ++i) {
        if (random_.chance(10))
          module_.debug.comments.push_back({f, i, false, build_.string("; before\n\n; and more")});
        if (random_.chance(10))
          module_.debug.comments.push_back({f, i, true, build_.string("; behind")});
      }
    }
  }

  // Where a constant stands, a text that may or may not be its value: printers must not trust it.
  void spellings() {
    constexpr std::string_view kTexts[] = {"ONE",  "TWO",       "HALF", "2 - ONE", "RATE", "0x10",
                                           "1e-1", "f64(HALF)", "NONE", "1/0",     "YES"};
    for (uint32_t f = 0; f < module_.functions.size(); ++f) {
      for (uint32_t i = 0; i < module_.functions[f].code.size(); ++i) {
        const isa::Instruction& instruction = module_.functions[f].code[i];
        const auto count = static_cast<uint32_t>(instruction.results + instruction.operands +
                                                 instruction.attributes);
        for (uint32_t slot = instruction.results; slot < count; ++slot) {
          const Ref ref = module_.words[instruction.first + slot];
          const uint32_t items =
              ref.is(RefKind::list) ? static_cast<uint32_t>(module_.list(ref).size()) : 1;
          for (uint32_t item = 0; item < items; ++item)
            if (random_.chance(20))
              module_.debug.spellings.push_back({Debug::Spelling::Where::instruction, f, i, slot,
                                                 item, build_.string(random_.pick(kTexts))});
        }
      }
    }
    for (uint32_t t = 0; t < module_.tensors.size(); ++t)
      for (uint32_t axis = 0;
           axis < static_cast<uint32_t>(module_.types[module_.tensors[t].type].shape.rank());
           ++axis)
        if (random_.chance(20))
          module_.debug.spellings.push_back(
              {Debug::Spelling::Where::tensor, 0, t, axis, 0, build_.string(random_.pick(kTexts))});
  }

  Module& module_;
  isa::Builder build_;
  Random& random_;
};

}  // namespace

void add_random_debug(Module& module, Random& random) { DebugWriter(module, random).write(); }

}  // namespace trek::property
