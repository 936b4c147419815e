#include "isa/ops.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "isa/shape_rules.h"

namespace trek::isa {
namespace {

// The vocabulary of ops.def.
constexpr DTypeSet kReals{DType::f64, DType::f32, DType::f16, DType::bf16};
constexpr DTypeSet kInts{DType::i8, DType::i16, DType::i32, DType::i64,
                         DType::u8, DType::u16, DType::u32, DType::u64};
constexpr DTypeSet kBools{DType::boolean};
constexpr DTypeSet kNumbers = kReals | kInts;
constexpr DTypeSet kBits = kInts | kBools;
constexpr DTypeSet kOrdered = kNumbers | kBools;
constexpr DTypeSet kAll = kOrdered | DTypeSet{DType::f8e4m3, DType::f8e5m2};
constexpr DTypeSet kIndex = kInts;

constexpr OperandInfo x(std::string_view name, TypeRule type = TypeRule::T) {
  return {name, type, Form::tensor, Access::in};
}
constexpr OperandInfo e(std::string_view name, TypeRule type = TypeRule::T) {
  return {name, type, Form::either, Access::in};
}
constexpr OperandInfo s(std::string_view name, TypeRule type = TypeRule::T) {
  return {name, type, Form::scalar, Access::in};
}
constexpr OperandInfo target(std::string_view name) {
  return {name, TypeRule::T, Form::tensor, Access::target};
}
constexpr OperandInfo inout(std::string_view name, TypeRule type = TypeRule::T) {
  return {name, type, Form::tensor, Access::inout};
}
constexpr OperandInfo optional(std::string_view name) {
  return {name, TypeRule::any, Form::tensor, Access::optional};
}
constexpr OperandInfo variadic(std::string_view name) {
  return {name, TypeRule::T, Form::tensor, Access::variadic};
}
constexpr OperandInfo i64(std::string_view name) {
  return {name, TypeRule::index, Form::scalar, Access::in};
}
constexpr OperandInfo condition() { return {"c", TypeRule::boolean, Form::scalar, Access::in}; }
constexpr OperandInfo carried() { return {"value", TypeRule::any, Form::either, Access::variadic}; }

constexpr ResultInfo r(std::string_view name = "r", ResultRule type = ResultRule::T) {
  return {name, type, false};
}
constexpr ResultInfo results(std::string_view name) { return {name, ResultRule::T, true}; }
constexpr ResultInfo carried_out() { return {"result", ResultRule::special, true}; }

enum class AttributeNeed : uint8_t { required, optional };

constexpr AttributeInfo attribute(std::string_view name, AttributeKind kind,
                                  std::string_view meaning, AttributeNeed need) {
  AttributeInfo info;
  info.name = name;
  info.kind = kind;
  info.required = need == AttributeNeed::required;
  info.meaning = meaning;
  return info;
}
constexpr AttributeInfo with_default(AttributeInfo info, double fallback) {
  info.required = false;
  info.has_default = true;
  info.fallback = fallback;
  return info;
}
constexpr AttributeInfo flag(std::string_view name, std::string_view meaning) {
  return attribute(name, AttributeKind::flag, meaning, AttributeNeed::optional);
}
constexpr AttributeInfo integer(std::string_view name, std::string_view meaning) {
  return attribute(name, AttributeKind::integer, meaning, AttributeNeed::required);
}
constexpr AttributeInfo integer(std::string_view name, int fallback, std::string_view meaning) {
  return with_default(integer(name, meaning), fallback);
}
constexpr AttributeInfo integers(std::string_view name, std::string_view meaning,
                                 bool required = true) {
  return attribute(name, AttributeKind::integers, meaning,
                   required ? AttributeNeed::required : AttributeNeed::optional);
}
constexpr AttributeInfo shape_attribute() { return integers("shape", "the dimensions"); }
constexpr AttributeInfo axes() {
  return integers("axis", "the axis or axes to reduce; all if not given", false);
}
constexpr AttributeInfo index(std::string_view name, std::string_view meaning) {
  return attribute(name, AttributeKind::index, meaning, AttributeNeed::required);
}
constexpr AttributeInfo index(std::string_view name, int fallback, std::string_view meaning) {
  return with_default(index(name, meaning), fallback);
}
constexpr AttributeInfo indices(std::string_view name, std::string_view meaning) {
  return attribute(name, AttributeKind::indices, meaning, AttributeNeed::required);
}
constexpr AttributeInfo real(std::string_view name, std::string_view meaning,
                             AttributeNeed need = AttributeNeed::required) {
  return attribute(name, AttributeKind::real, meaning, need);
}
constexpr AttributeInfo real(std::string_view name, double fallback, std::string_view meaning) {
  return with_default(real(name, meaning), fallback);
}
constexpr AttributeInfo single(std::string_view name, std::string_view meaning) {
  return attribute(name, AttributeKind::single, meaning, AttributeNeed::required);
}
constexpr AttributeInfo element(std::string_view name, std::string_view meaning) {
  return attribute(name, AttributeKind::element, meaning, AttributeNeed::required);
}
constexpr AttributeInfo element(std::string_view name, double fallback, std::string_view meaning) {
  return with_default(element(name, meaning), fallback);
}
constexpr AttributeInfo dtype(std::string_view name, std::string_view meaning,
                              bool required = false) {
  return attribute(name, AttributeKind::dtype, meaning,
                   required ? AttributeNeed::required : AttributeNeed::optional);
}
constexpr AttributeInfo to(std::string_view meaning, bool = true) {
  return dtype("to", meaning, true);
}
// The integer type of an index result: i64 if not given.
constexpr AttributeInfo to_index(std::string_view meaning) { return dtype("to", meaning); }
constexpr AttributeInfo choice(std::string_view name, std::string_view choices,
                               std::string_view meaning) {
  AttributeInfo info = attribute(name, AttributeKind::choice, meaning, AttributeNeed::optional);
  info.choices = choices;
  return info;
}
constexpr AttributeInfo tail(std::string_view meaning) {
  return attribute("tail", AttributeKind::tail, meaning, AttributeNeed::optional);
}
constexpr AttributeInfo text(std::string_view name, std::string_view meaning) {
  return attribute(name, AttributeKind::string, meaning, AttributeNeed::required);
}
constexpr AttributeInfo registers(std::string_view meaning) {
  return attribute("registers", AttributeKind::values, meaning, AttributeNeed::required);
}
constexpr AttributeInfo callee() {
  return attribute("function", AttributeKind::function, "the function", AttributeNeed::required);
}

constexpr OpInfo numbered(OpInfo info, std::string_view id, Opcode opcode) {
  info.id = id;
  info.opcode = opcode;
  return info;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
constexpr std::array<OpInfo, kOpcodeCount> kOps{
#define TREK_OP(Id, number, ...) numbered(OpInfo{__VA_ARGS__}, #Id, Opcode::Id),
#include "isa/ops.def"
#undef TREK_OP
};
#pragma GCC diagnostic pop

constexpr bool ascending() {
  for (size_t i = 1; i < kOps.size(); ++i)
    if (kOps[i - 1].opcode >= kOps[i].opcode) return false;
  return true;
}
static_assert(ascending(), "ops.def lists its rows by ascending number");

constexpr bool described() {
  for (const OpInfo& op : kOps)
    if (op.mnemonic.empty() || op.summary.empty() || op.shape.infer == nullptr) return false;
  return true;
}
static_assert(described(), "a row of ops.def lacks its mnemonic, its shape rule or its sentence");

}  // namespace

std::string_view name(Family family) {
  switch (family) {
    case Family::move:
      return "move";
    case Family::pointwise:
      return "pointwise";
    case Family::reduce:
      return "reduce and order";
    case Family::matrix:
      return "matrix";
    case Family::loss:
      return "softmax and cross-entropy";
    case Family::optimizer:
      return "optimizer";
    case Family::random:
      return "random";
    case Family::control:
      return "control";
  }
  return "";
}

std::string_view name(Numerics numerics) {
  switch (numerics) {
    case Numerics::exact:
      return "exact";
    case Numerics::rounded:
      return "rounded";
    case Numerics::function:
      return "function";
    case Numerics::ordered:
      return "ordered";
    case Numerics::dot:
      return "dot";
    case Numerics::random:
      return "random";
  }
  return "";
}

int OpInfo::attribute(std::string_view wanted) const {
  for (size_t i = 0; i < attributes.size(); ++i)
    if (attributes[i].name == wanted) return static_cast<int>(i);
  return -1;
}

std::span<const OpInfo> all_ops() { return kOps; }

const OpInfo* find_op(uint16_t number) {
  const auto found = std::lower_bound(
      kOps.begin(), kOps.end(), number,
      [](const OpInfo& op, uint16_t n) { return static_cast<uint16_t>(op.opcode) < n; });
  if (found == kOps.end() || static_cast<uint16_t>(found->opcode) != number) return nullptr;
  return &*found;
}

const OpInfo* find_op(std::string_view mnemonic) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const OpInfo*> map;
    for (const OpInfo& op : kOps) map.emplace(op.mnemonic, &op);
    return map;
  }();
  const auto found = by_name.find(mnemonic);
  return found == by_name.end() ? nullptr : found->second;
}

const OpInfo& info(Opcode opcode) { return kOps[static_cast<size_t>(index_of(opcode))]; }

int index_of(Opcode opcode) {
  switch (opcode) {
#define TREK_OP(Id, number, ...)                                     \
  case Opcode::Id: {                                                 \
    constexpr int kRow = [] {                                        \
      int i = 0;                                                     \
      while (kOps[static_cast<size_t>(i)].opcode != Opcode::Id) ++i; \
      return i;                                                      \
    }();                                                             \
    return kRow;                                                     \
  }
#include "isa/ops.def"
#undef TREK_OP
  }
  return 0;
}

bool is_tail(const OpInfo& op) {
  if (op.family != Family::pointwise || op.operands.size() != 1 || op.t != kReals) return false;
  return std::none_of(op.attributes.begin(), op.attributes.end(),
                      [](const AttributeInfo& a) { return a.required; });
}

}  // namespace trek::isa
