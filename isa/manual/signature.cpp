#include "isa/manual/signature.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "isa/manual/words.h"

namespace trek::manual {
namespace {

using isa::Access;
using isa::AttributeInfo;
using isa::AttributeKind;
using isa::Form;
using isa::OpInfo;

enum class Style { tensors, inplace, scalars };

bool has_access(const OpInfo& op, Access access) {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [=](const isa::OperandInfo& o) { return o.access == access; });
}

std::string results_text(const OpInfo& op, Style style) {
  std::vector<std::string> names;
  for (const isa::ResultInfo& result : op.results) {
    const bool scalar = style == Style::scalars || result.type == isa::ResultRule::S ||
                        (result.type == isa::ResultRule::special && !result.variadic);
    names.push_back(
        fmt::format("{}{}{}", scalar ? '$' : '%', result.name, result.variadic ? ", ..." : ""));
  }
  return names.empty() ? "" : fmt::format("{} = ", fmt::join(names, ", "));
}

std::string operand_text(const isa::OperandInfo& operand, Style style) {
  char sigil = '%';
  if (operand.form == Form::scalar || style == Style::scalars) sigil = '$';
  if (operand.access == Access::inout) sigil = '@';
  if (operand.access == Access::target && style == Style::inplace) sigil = '@';
  return fmt::format("{}{}{}", sigil, operand.name,
                     operand.access == Access::variadic ? ", ..." : "");
}

std::string placeholder(const AttributeInfo& attribute) {
  const bool list =
      attribute.kind == AttributeKind::integers || attribute.kind == AttributeKind::indices;
  std::string value = default_of(attribute);
  std::erase(value, '`');
  if (value.empty()) value = list ? "[…]" : "…";
  return fmt::format("{}={}", attribute.name, value);
}

// "a, b [, c]": what must be written, then what may be.
std::string join(const std::vector<std::string>& must, const std::vector<std::string>& may) {
  std::string out = fmt::format("{}", fmt::join(must, ", "));
  for (const std::string& option : may) {
    const bool first = out.empty();
    out += fmt::format("{}[{}{}]", first ? "" : " ", first ? "" : ", ", option);
  }
  return out;
}

std::string plain(const OpInfo& op, Style style) {
  std::vector<std::string> must;
  std::vector<std::string> may;
  std::string call;
  for (const AttributeInfo& attribute : op.attributes)
    if (attribute.kind == AttributeKind::string)
      must.push_back(fmt::format("\"{}\"", attribute.name));
  for (const isa::OperandInfo& operand : op.operands) {
    if (operand.access == Access::optional)
      may.push_back(fmt::format("{0}=%{0}", operand.name));
    else
      must.push_back(operand_text(operand, style));
  }
  for (const AttributeInfo& attribute : op.attributes) {
    if (attribute.kind == AttributeKind::string || attribute.kind == AttributeKind::values)
      continue;
    if (attribute.kind == AttributeKind::function)
      call = std::string(attribute.name);
    else if (attribute.kind == AttributeKind::flag)
      may.emplace_back(attribute.name);
    else
      (attribute.required ? must : may).push_back(placeholder(attribute));
  }
  std::string arguments = join(must, may);
  if (!call.empty()) arguments = fmt::format("{}({})", call, arguments);
  return fmt::format("{}{}{}{}{}", style == Style::inplace ? "" : results_text(op, style),
                     op.mnemonic, style == Style::inplace ? "!" : "", arguments.empty() ? "" : " ",
                     arguments);
}

// A region's head: a counter and its bounds where the row has bounds, what is carried, a brace.
std::string region(const OpInfo& op) {
  const bool defines = std::any_of(op.attributes.begin(), op.attributes.end(),
                                   [](const auto& a) { return a.kind == AttributeKind::values; });
  std::string head = fmt::format("{}{}", results_text(op, Style::tensors), op.mnemonic);
  bool first = true;
  for (const isa::OperandInfo& operand : op.operands) {
    if (operand.access == Access::variadic)
      head += fmt::format(" [carry %c = %{}, ...]", operand.name);
    else if (!defines)
      head += fmt::format(" ${}", operand.name);
    else if (first)
      head += fmt::format(" $i = ${}", operand.name);
    else
      head += fmt::format(" {0} ${0}", operand.name);
    first = false;
  }
  return head + " {";
}

// A row without operands fills a tensor, so it may also initialise one, whose declaration then says
// shape and type.
std::string initialiser(const OpInfo& op) {
  std::vector<std::string> arguments;
  for (const AttributeInfo& attribute : op.attributes)
    if (attribute.name != "shape" && attribute.name != "to" && attribute.name != "n")
      arguments.push_back(placeholder(attribute));
  const isa::ResultInfo& result = op.results[0];
  const std::string_view type = result.type == isa::ResultRule::boolean ? "bool"
                                : op.t.empty()                          ? "i64"
                                                                        : "f32";
  return fmt::format(".state @{} {}[…] = {}({})", result.name, type, op.mnemonic,
                     fmt::join(arguments, ", "));
}

}  // namespace

bool has_inplace_form(const OpInfo& op) { return has_access(op, Access::target); }

bool is_always_inplace(const OpInfo& op) { return has_access(op, Access::inout); }

std::vector<std::string> signatures(const OpInfo& op) {
  if (op.opens_region()) {
    const std::string head = region(op);
    // A region that takes nothing and gives nothing continues the one before it.
    return {op.operands.empty() && op.results.empty() ? "} " + head : head};
  }
  std::vector<std::string> lines;
  lines.push_back(plain(op, is_always_inplace(op) ? Style::inplace : Style::tensors));
  if (has_inplace_form(op)) lines.push_back(plain(op, Style::inplace));
  const bool makes_scalars =
      op.is_scalar_capable() && op.results.size() == 1 && op.operands[0].access != Access::variadic;
  if (makes_scalars) lines.push_back(plain(op, Style::scalars));
  if (op.operands.empty() && op.results.size() == 1 && !op.results[0].variadic)
    lines.push_back(initialiser(op));
  return lines;
}

}  // namespace trek::manual
