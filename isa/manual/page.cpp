// The page of an instruction: how it is written, what it does, then its facts in a fixed order. A
// section without facts is left out.
#include "isa/manual/page.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "isa/manual/signature.h"
#include "isa/manual/words.h"
#include "isa/shape_rules.h"

namespace trek::manual {
namespace {

using isa::Access;
using isa::AttributeKind;
using isa::OpInfo;

std::string_view stem(std::string_view mnemonic) { return mnemonic.substr(0, mnemonic.find('.')); }

// Links to the instructions that are variants of one another: relu, relu.grad.
std::string variants(const OpInfo& op) {
  std::vector<std::string> links;
  for (const OpInfo& other : isa::all_ops())
    if (other.opcode != op.opcode && stem(other.mnemonic) == stem(op.mnemonic))
      links.push_back(fmt::format("[{0}]({0}.md)", other.mnemonic));
  return links.empty() ? "" : fmt::format(" · see also {}", fmt::join(links, ", "));
}

std::string head(const OpInfo& op) {
  std::string out = fmt::format("{}\n# {}\n\n{}\n\n```\n", kMark, op.mnemonic, op.summary);
  for (const std::string& line : signatures(op)) out += line + "\n";
  out += "```\n\n";
  if (!op.details.empty()) out += fmt::format("{}\n\n", op.details);
  if (op.opens_region())
    out +=
        "Regions are written as in [the "
        "language](../../../assembler/README.md#functions-and-instructions).\n\n";
  return out;
}

std::string_view access_note(const isa::OperandInfo& operand) {
  switch (operand.access) {
    case Access::in:
      return "";
    case Access::inout:
      return "; read and changed in place";
    case Access::target:
      return "; with `!` changed in place, else copied";
    case Access::optional:
      return "; optional";
    case Access::variadic:
      return operand.type == isa::TypeRule::T ? "; one or more" : "; any number";
  }
  return "";
}

std::string operands_and_results(const OpInfo& op) {
  std::string out;
  for (const isa::OperandInfo& operand : op.operands)
    out += fmt::format("- `{}`: {}, {}{}\n", operand.name, words(operand.type), words(operand.form),
                       access_note(operand));
  for (const isa::ResultInfo& result : op.results)
    out += fmt::format("- gives `{}`: {}{}\n", result.name, words(result.type),
                       result.variadic ? "; any number" : "");
  if (out.empty()) return "";
  const std::string_view title = op.results.empty()    ? "Operands"
                                 : op.operands.empty() ? "Results"
                                                       : "Operands and results";
  return fmt::format("## {}\n\n{}\n", title, out);
}

// What the letters T, U and C stand for on this page.
std::string letters(const OpInfo& op) {
  std::string out;
  const bool mentions_t = !op.t.empty();
  if (mentions_t) out += fmt::format("T: {}. ", words(op.t));
  if (mentions_u(op)) out += fmt::format("U: {}. ", words(op.u));
  if (mentions_t && mentions_c(op))
    out += "C is the type computed in: f64 for f64, f32 for smaller floats, else T. ";
  if (out.empty()) return "";
  out.back() = '\n';
  return out + "\n";
}

std::string tails() {
  std::vector<std::string> names;
  for (const OpInfo& op : isa::all_ops())
    if (isa::is_tail(op)) names.push_back(fmt::format("[{0}]({0}.md)", op.mnemonic));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string attributes(const OpInfo& op) {
  if (op.attributes.empty()) return "";
  std::string out = "## Attributes\n\n| name | value | default | meaning |\n|---|---|---|---|\n";
  bool has_tail = false;
  for (const isa::AttributeInfo& attribute : op.attributes) {
    const std::string fallback = default_of(attribute);
    const bool silent = attribute.kind == AttributeKind::flag;
    out += fmt::format("| `{}` | {} | {} | {} |\n", attribute.name, cell(words(attribute)),
                       attribute.required  ? "*required*"
                       : !fallback.empty() ? fallback
                       : silent            ? "off"
                                           : "–",
                       cell(attribute.meaning));
    has_tail = has_tail || attribute.kind == AttributeKind::tail;
  }
  if (has_tail) out += fmt::format("\nA tail is one of {}.\n", tails());
  return out + "\n";
}

std::string_view alias_text(const OpInfo& op) {
  const bool has_tensor_operand =
      std::any_of(op.operands.begin(), op.operands.end(),
                  [](const isa::OperandInfo& o) { return o.form != isa::Form::scalar; });
  if (op.results.empty() || !has_tensor_operand || op.opens_region()) return "";
  switch (op.alias) {
    case isa::AliasRule::none:
      return "A result is never the memory of an operand.";
    case isa::AliasRule::elementwise:
      return "A result may be the memory of an operand of its type and shape.";
  }
  return "";
}

std::string place_text(const OpInfo& op) {
  if (is_always_inplace(op))
    return "What is changed in place is an output, a state, or an in-place parameter of the "
           "function.";
  if (has_inplace_form(op))
    return fmt::format(
        " `{}!` changes its first operand, an output, a state or an in-place parameter, and has no "
        "result.",
        op.mnemonic);
  return "";
}

std::string traps(const OpInfo& op) {
  std::vector<std::string> texts;
  for (isa::TrapCode trap : op.traps)
    texts.push_back(fmt::format("[{0}](../traps.md#{0}) ({1}): {2}", isa::name(trap),
                                static_cast<int>(trap), isa::sentence(trap)));
  return fmt::format("{}", fmt::join(texts, "; "));
}

// accuracy.json names functions as isa/semantics does, where '.' cannot stand.
bool same_function(std::string_view measured, std::string_view mnemonic) {
  const auto plain = [](char c) { return c == '.' ? '_' : c; };
  return std::equal(measured.begin(), measured.end(), mnemonic.begin(), mnemonic.end(),
                    [&](char a, char b) { return plain(a) == plain(b); });
}

std::string inputs_text(const Accuracy& row) {
  constexpr uint64_t kAllSingles = uint64_t{1} << 32;
  if (row.type == "f32" && row.inputs == kAllSingles) return "all 2³²";
  return grouped(row.inputs);
}

// Rounded up, so that what stands there is a bound.
std::string error_text(const Accuracy& row) {
  if (row.max_ulp == 0) return "exact";
  constexpr double kDigits = 1e4;
  return fmt::format("{:.4f} ulp{}", std::ceil(row.max_ulp * kDigits) / kDigits,
                     row.scale == 0 ? "" : fmt::format(" of max(\\|y\\|, {})", row.scale));
}

std::string figures(const OpInfo& op, const std::vector<Accuracy>& accuracy) {
  std::string out;
  for (const Accuracy& row : accuracy) {
    if (!same_function(row.function, op.mnemonic)) continue;
    if (out.empty())
      out =
          "Measured against the exact value:\n\n"
          "| type | inputs | greatest error | at (bits) | monotone |\n"
          "|---|--:|--:|---|---|\n";
    const std::string_view monotone = row.monotone ? "yes" : "no";
    out += fmt::format("| {} | {} | {} | {} | {} |\n", row.type, inputs_text(row), error_text(row),
                       row.at.empty() ? "–" : fmt::format("`{}`", row.at),
                       row.judged ? monotone : "–");
  }
  return out;
}

std::string cost(const OpInfo& op) {
  const std::string flops = flops_in_words(op);
  const std::string bytes = bytes_in_words(op);
  if (flops.empty() && bytes.empty()) return "";
  return fmt::format("{}; {}", flops.empty() ? "no FLOP" : flops,
                     bytes.empty() ? "no bytes" : bytes);
}

// What must hold and what follows, one line per subject.
std::string rules(const OpInfo& op, const Inputs& inputs) {
  std::string lines;
  const auto add = [&](std::string_view subject, std::string_view text) {
    if (!text.empty()) lines += fmt::format("- **{}**: {}\n", subject, text);
  };
  const bool gives_nothing = op.shape.infer == isa::shape::kNone.infer;
  if (!gives_nothing) add("Shapes", op.shape.words);
  add("Places", fmt::format("{}{}", alias_text(op), place_text(op)));
  add("Traps", traps(op));
  const bool has_values = op.bytes != isa::ByteRule::none || !op.t.empty();
  if (has_values)
    add("Numerics", fmt::format("*{}*, {}", isa::name(op.numerics), words(op.numerics)));
  add("Cost", cost(op));
  if (lines.empty()) return "";
  const std::string measured = figures(op, inputs.accuracy);
  return fmt::format("## Rules\n\n{}\n{}{}", lines, measured, measured.empty() ? "" : "\n");
}

std::string example(const OpInfo& op, const Inputs& inputs) {
  const std::string& text = inputs.examples.find(op.mnemonic)->second;
  return fmt::format(
      "## Example\n\n`trek-run --test isa/manual/examples/{}.trek`\n\n```\n{}{}```\n\n",
      op.mnemonic, text, text.empty() || text.back() == '\n' ? "" : "\n");
}

std::string foot(const OpInfo& op) {
  return fmt::format("---\n\n[All instructions](../README.md) · {} · opcode {:#06x}{}\n",
                     isa::name(op.family), static_cast<unsigned>(op.opcode), variants(op));
}

}  // namespace

std::string instruction_page(const OpInfo& op, const Inputs& inputs) {
  return head(op) + operands_and_results(op) + letters(op) + attributes(op) + rules(op, inputs) +
         example(op, inputs) + foot(op);
}

}  // namespace trek::manual
