#include "isa/manual/words.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace trek::manual {
namespace {

using isa::AttributeKind;
using isa::ByteRule;
using isa::DType;
using isa::DTypeSet;
using isa::FlopRule;
using isa::Numerics;

struct NamedSet {
  DTypeSet set;
  std::string_view words;
};

// The sets that have a word, in the order in which they are named.
constexpr NamedSet kNamedSets[] = {
    {{DType::f64, DType::f32, DType::f16, DType::bf16}, "floats (f64, f32, f16, bf16)"},
    {{DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64},
     "integers (i8 to i64, u8 to u64)"},
    {{DType::boolean}, "bool"},
    {{DType::f8e4m3, DType::f8e5m2}, "8-bit floats (f8e4m3, f8e5m2)"},
};

DTypeSet without(DTypeSet set, DTypeSet part) {
  DTypeSet left;
  for (int code = 1; code < isa::kDTypeCount; ++code) {
    const auto type = static_cast<DType>(code);
    if (set.contains(type) && !part.contains(type)) left = left | DTypeSet{type};
  }
  return left;
}

// As short as a person would write it: 1e-8.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (const size_t zero = text.find("e-0"); zero != std::string::npos) text.erase(zero + 2, 1);
  return text;
}

std::string choices_text(std::string_view choices) {
  std::string out = "`";
  for (char c : choices) out += c == '|' ? std::string("`, `") : std::string(1, c);
  return out + "`";
}

// What a row's cost counts of an operand: nothing of a scalar, both ways of one that is changed.
std::string operand_size(const isa::OperandInfo& operand) {
  switch (operand.access) {
    case isa::Access::inout:
      return fmt::format("2 × size({})", operand.name);
    case isa::Access::variadic:
      return fmt::format("size of every {}", operand.name);
    case isa::Access::optional:
    case isa::Access::in:
    case isa::Access::target:
      break;
  }
  return fmt::format("size({})", operand.name);
}

}  // namespace

std::string words(const DTypeSet& set) {
  std::vector<std::string> parts;
  DTypeSet left = set;
  bool everything = true;
  for (const NamedSet& named : kNamedSets) {
    const bool whole = (left | named.set) == left;
    everything = everything && whole;
    if (!whole) continue;
    parts.emplace_back(named.words);
    left = without(left, named.set);
  }
  if (everything) return "any element type";
  if (!left.empty()) parts.push_back(left.text());
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string_view words(isa::TypeRule rule) {
  switch (rule) {
    case isa::TypeRule::T:
      return "T";
    case isa::TypeRule::U:
      return "U";
    case isa::TypeRule::C:
      return "C";
    case isa::TypeRule::boolean:
      return "bool";
    case isa::TypeRule::index:
      return "i64";
    case isa::TypeRule::any:
      return "any type";
  }
  return "";
}

std::string words(isa::ResultRule rule) {
  switch (rule) {
    case isa::ResultRule::T:
      return "T";
    case isa::ResultRule::U:
      return "U";
    case isa::ResultRule::C:
      return "C";
    case isa::ResultRule::S:
      return "the scalar type of T: i64, f32, f64 or bool";
    case isa::ResultRule::boolean:
      return "bool";
    case isa::ResultRule::to:
      return "the type `to`";
    case isa::ResultRule::special:
      return "see *Shapes*";
  }
  return "";
}

std::string_view words(isa::Form form) {
  switch (form) {
    case isa::Form::tensor:
      return "tensor";
    case isa::Form::scalar:
      return "scalar or number";
    case isa::Form::either:
      return "tensor, scalar or number";
  }
  return "";
}

std::string words(const isa::AttributeInfo& attribute) {
  switch (attribute.kind) {
    case AttributeKind::flag:
      return "flag";
    case AttributeKind::integer:
      return "integer";
    case AttributeKind::integers:
      return "list of integers";
    case AttributeKind::index:
      return "integer or i64 scalar";
    case AttributeKind::indices:
      return "list of integers and i64 scalars";
    case AttributeKind::real:
      return "number or scalar of type C";
    case AttributeKind::single:
      return "number or scalar of type f32";
    case AttributeKind::element:
      return "number of type T";
    case AttributeKind::dtype:
      return "element type";
    case AttributeKind::choice:
      return choices_text(attribute.choices);
    case AttributeKind::tail:
      return "mnemonic, see below";
    case AttributeKind::string:
      return "string";
    case AttributeKind::function:
      return "name of a function";
    case AttributeKind::values:
      return "registers, named in the head";
  }
  return "";
}

std::string default_of(const isa::AttributeInfo& attribute) {
  if (attribute.has_default) return number_text(attribute.fallback);
  if (attribute.kind == AttributeKind::choice)
    return fmt::format("`{}`", attribute.choices.substr(0, attribute.choices.find('|')));
  return "";
}

std::string words(Numerics numerics) {
  constexpr std::string_view kRules = "../../README.md#rules-of-the-strict-numerics";
  switch (numerics) {
    case Numerics::exact:
      return "nothing is rounded, so every engine gives the same bits under any numerics.";
    case Numerics::rounded:
      return "each element is one IEEE 754 operation or conversion, rounded once to the result "
             "type.";
    case Numerics::function:
      return "a function of [isa/semantics](../../semantics/README.md) or the stated sequence of "
             "operations, in the compute type and then rounded once to the result type: the same "
             "bits on every engine.";
    case Numerics::ordered:
      return fmt::format(
          "terms are combined in the order that the [rules of the strict numerics]({}) fix, in the "
          "compute type; one rounding to the result type follows.",
          kRules);
    case Numerics::dot:
      return fmt::format(
          "each element is a dot product in the *dot order* of the [rules of the strict "
          "numerics]({}).",
          kRules);
    case Numerics::random:
      return fmt::format(
          "Philox4x32-10 as the [rules of the strict numerics]({}) say: element i depends on key, "
          "offset and i alone.",
          kRules);
  }
  return "";
}

std::string flops_in_words(const isa::OpInfo& op) {
  const int factor = op.flops.factor;
  switch (op.flops.rule) {
    case FlopRule::none:
      return "";
    case FlopRule::per_result:
      return fmt::format("{} FLOP per element of `{}`", factor, op.results[0].name);
    case FlopRule::per_operand:
      return fmt::format("{} FLOP per element of {}`{}`", factor,
                         op.operands[0].access == isa::Access::variadic ? "every " : "",
                         op.operands[0].name);
    case FlopRule::matmul:
      return fmt::format("{} × M × N × K FLOP for each matrix of the batch", factor);
  }
  return "";
}

std::string bytes_in_words(const isa::OpInfo& op) {
  std::vector<std::string> terms;
  if (op.bytes == ByteRule::all)
    for (const isa::OperandInfo& operand : op.operands)
      if (operand.form != isa::Form::scalar) terms.push_back(operand_size(operand));
  if (op.bytes != ByteRule::none)
    for (const isa::ResultInfo& result : op.results)
      terms.push_back(fmt::format("{}size{}{}{}", op.bytes == ByteRule::results ? "2 × " : "",
                                  result.variadic ? " of every " : "(", result.name,
                                  result.variadic ? "" : ")"));
  if (terms.empty()) return "";
  return fmt::format("{} bytes", fmt::join(terms, " + "));
}

std::string grouped(uint64_t number) {
  std::string out = std::to_string(number);
  for (size_t left = out.size(); left > 3;) {
    left -= 3;
    out.insert(left, "\u202f");
  }
  return out;
}

std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

bool mentions_u(const isa::OpInfo& op) {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [](const isa::OperandInfo& o) { return o.type == isa::TypeRule::U; });
}

bool mentions_c(const isa::OpInfo& op) {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [](const isa::OperandInfo& o) { return o.type == isa::TypeRule::C; }) ||
         std::any_of(op.results.begin(), op.results.end(),
                     [](const isa::ResultInfo& r) { return r.type == isa::ResultRule::C; }) ||
         std::any_of(op.attributes.begin(), op.attributes.end(),
                     [](const isa::AttributeInfo& a) { return a.kind == AttributeKind::real; }) ||
         op.details.find(" C") != std::string_view::npos ||
         op.summary.find(" C") != std::string_view::npos;
}

}  // namespace trek::manual
