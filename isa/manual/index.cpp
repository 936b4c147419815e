// The pages that list: all instructions by family, all errors, all traps.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "isa/manual/page.h"
#include "isa/manual/words.h"

namespace trek::manual {
namespace {

constexpr std::string_view kIntroduction =
    R"(# The instructions of Trek

One page per instruction, made from [ops.def](../ops.def): what the table says is what the verifier, the engines and these pages say. How programs are written is on one page in [assembler/README.md](../../assembler/README.md), the rules that fix every bit are in [isa/README.md](../README.md#rules-of-the-strict-numerics). What can go wrong: [errors](errors.md) in what was written, [traps](traps.md) while it runs.

On the pages `%x` is a tensor, in a register or of the module, `$x` a scalar, `@x` a tensor of the module that is changed; brackets hold what may be left out; `…` stands for a value. T is the element type of the operands, U that of indices, C the type computed in. Every example is a test: `trek-run --test FILE`.

After a change of the table or an example, `trek-manual --out isa/manual` writes the pages again; a test compares them.
)";

std::string family_title(isa::Family family) {
  std::string title(isa::name(family));
  if (!title.empty() && title[0] >= 'a' && title[0] <= 'z')
    title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

}  // namespace

std::string index_page() {
  std::string out = fmt::format("{}\n{}", kMark, kIntroduction);
  const isa::OpInfo* last = nullptr;
  for (const isa::OpInfo& op : isa::all_ops()) {
    if (last == nullptr || last->family != op.family)
      out += fmt::format("\n## {}\n\n| instruction | what it does |\n|---|---|\n",
                         family_title(op.family));
    out += fmt::format("| [{0}](pages/{0}.md) | {1} |\n", op.mnemonic, cell(op.summary));
    last = &op;
  }
  return out;
}

std::string errors_page() {
  std::string out = fmt::format(
      "{}\n# Errors\n\nWhat can be wrong with a text, a data file or a module, by the code that "
      "stands in `error[code]`. A code never changes its meaning. Tools that meet one end with "
      "exit "
      "code 2.\n\n| code | what was found |\n|---|---|\n",
      kMark);
  for (int i = 0; i < isa::kErrorCount; ++i) {
    const auto error = static_cast<isa::ErrorCode>(i);
    out += fmt::format("| `{}` | {} |\n", isa::code(error), cell(isa::sentence(error)));
  }
  return out;
}

std::string traps_page() {
  std::string out = fmt::format(
      "{}\n# Traps\n\nFaults of a program while it runs: the same on every engine. The earliest "
      "instruction in program order traps, at its lowest element, and writes nothing. `trek-run` "
      "names function, source line, operands and element, and ends with exit code 3; a test "
      "expects one with `expect trap NAME`.\n",
      kMark);
  constexpr std::array kTraps{
#define TREK_TRAP(Id, number, name, sentence) isa::TrapCode::Id,
#include "isa/traps.def"
#undef TREK_TRAP
  };
  for (isa::TrapCode trap : kTraps) {
    std::vector<std::string> raisers;
    for (const isa::OpInfo& op : isa::all_ops())
      if (std::find(op.traps.begin(), op.traps.end(), trap) != op.traps.end())
        raisers.push_back(fmt::format("[{0}](pages/{0}.md)", op.mnemonic));
    out += fmt::format("\n## {}\n\nNumber {}: {}. Raised by {}.\n", isa::name(trap),
                       static_cast<int>(trap), isa::sentence(trap), fmt::join(raisers, ", "));
  }
  return out;
}

}  // namespace trek::manual
