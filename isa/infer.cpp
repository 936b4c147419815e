#include "isa/infer.h"

#include <algorithm>

#include <fmt/format.h>

#include "isa/convert.h"

namespace trek::isa {
namespace {

bool is_index_register(const Type& type) { return type.scalar && type.dtype == DType::i64; }

std::string_view text(Form form) {
  switch (form) {
    case Form::tensor:
      return "a tensor";
    case Form::scalar:
      return "a scalar";
    case Form::either:
      return "a tensor or a scalar";
  }
  return "";
}

Fault fault(ErrorCode code, Fault::Part part, size_t index, std::string message) {
  return {code, part, static_cast<int>(index), std::move(message)};
}

std::optional<Fault> check_count(const OpInfo& op, size_t count) {
  const bool is_variadic =
      !op.operands.empty() && op.operands[op.operands.size() - 1].access == Access::variadic;
  // A variadic operand of type T has at least one, which says what T is.
  const size_t fixed =
      op.operands.size() -
      (is_variadic && op.operands[op.operands.size() - 1].type != TypeRule::T ? 1 : 0);
  if (is_variadic ? count >= fixed : count == fixed) return std::nullopt;
  return fault(ErrorCode::OperandCount, Fault::Part::whole, 0,
               fmt::format("'{}' takes {}{} operand{}, found {}", op.mnemonic,
                           is_variadic ? "at least " : "", fixed, fixed == 1 ? "" : "s", count));
}

const OperandInfo& operand_info(const OpInfo& op, size_t i) {
  return op.operands[std::min(i, op.operands.size() - 1)];
}

// The value of a constant attribute, for messages and range checks.
const Constant* constant_of(const Module& module, Ref ref) {
  return ref.is(RefKind::constant) ? &module.constants[ref.index()] : nullptr;
}

// Checks one Ref of an attribute against its kind. `values` types the registers.
bool attribute_fits(const Module& module, const AttributeInfo& attribute, Ref ref, DType t,
                    std::span<const Value> values) {
  const auto is_static_i64 = [&](Ref r) {
    const Constant* constant = constant_of(module, r);
    return constant != nullptr && constant->dtype == DType::i64;
  };
  const auto is_scalar = [&](Ref r, DType dtype) {
    if (const Constant* constant = constant_of(module, r)) return constant->dtype == dtype;
    if (r.is(RefKind::param)) return module.params[r.index()].dtype == dtype;
    if (!r.is(RefKind::value)) return false;
    const Type& type = module.types[values[r.index()].type];
    return type.scalar && type.dtype == dtype;
  };
  const auto each = [&](auto&& fits) {
    if (!ref.is(RefKind::list)) return false;
    const auto items = module.list(ref);
    return std::all_of(items.begin(), items.end(), fits);
  };
  switch (attribute.kind) {
    case AttributeKind::flag:
      return ref.is(RefKind::number) && ref.index() == 1;
    case AttributeKind::integer:
      return is_static_i64(ref);
    case AttributeKind::integers:
      return each(is_static_i64);
    case AttributeKind::index:
      return is_scalar(ref, DType::i64);
    case AttributeKind::indices:
      return each([&](Ref r) { return is_scalar(r, DType::i64); });
    case AttributeKind::real:
    case AttributeKind::single:
      return is_scalar(ref, attribute_type(attribute, t));
    case AttributeKind::element: {
      const Constant* constant = constant_of(module, ref);
      return constant != nullptr && constant->dtype == t;
    }
    case AttributeKind::dtype:
      return ref.is(RefKind::number) && ref.index() > 0 && ref.index() < kDTypeCount;
    case AttributeKind::choice: {
      const auto bars = std::count(attribute.choices.begin(), attribute.choices.end(), '|');
      return ref.is(RefKind::number) && ref.index() > 0 &&
             ref.index() <= static_cast<uint32_t>(bars);
    }
    case AttributeKind::tail: {
      if (!ref.is(RefKind::number) || ref.index() > UINT16_MAX) return false;
      const OpInfo* tail = find_op(static_cast<uint16_t>(ref.index()));
      return tail != nullptr && is_tail(*tail);
    }
    case AttributeKind::string:
      return ref.is(RefKind::string);
    case AttributeKind::function:
      return ref.is(RefKind::function);
    case AttributeKind::values:
      return each([](Ref r) { return r.is(RefKind::value); });
  }
  return false;
}

std::string wanted(const AttributeInfo& attribute, DType t) {
  switch (attribute.kind) {
    case AttributeKind::flag:
      return "no value";
    case AttributeKind::integer:
      return "an integer";
    case AttributeKind::integers:
      return "a list of integers";
    case AttributeKind::index:
      return "an integer or an i64 scalar";
    case AttributeKind::indices:
      return "a list of integers and i64 scalars";
    case AttributeKind::real:
    case AttributeKind::single:
      return fmt::format("a number or a scalar of type {}", name(attribute_type(attribute, t)));
    case AttributeKind::element:
      return fmt::format("a number of type {}", name(t));
    case AttributeKind::dtype:
      return "an element type";
    case AttributeKind::choice:
      return fmt::format("one of {}", attribute.choices);
    case AttributeKind::tail:
      return "a pointwise instruction of one operand, such as relu";
    case AttributeKind::string:
      return "a string";
    case AttributeKind::function:
      return "a function";
    case AttributeKind::values:
      return "registers";
  }
  return "";
}

}  // namespace

DType attribute_type(const AttributeInfo& attribute, DType t) {
  switch (attribute.kind) {
    case AttributeKind::real:
      return compute_type(t);
    case AttributeKind::single:
      return DType::f32;
    case AttributeKind::element:
      return t;
    default:
      return DType::i64;
  }
}

bool is_default(const AttributeInfo& attribute, const Constant& constant, DType t) {
  if (!attribute.has_default) return false;
  const DType dtype = attribute_type(attribute, t);
  if (constant.dtype != dtype) return false;
  if (is_real(dtype)) return constant.bits == double_to_bits(dtype, attribute.fallback);
  return constant.bits == static_cast<uint64_t>(static_cast<int64_t>(attribute.fallback));
}

DType default_result_type(const OpInfo& op, DType t) {
  const int to = op.attribute("to");
  if (to < 0 || op.attributes[static_cast<size_t>(to)].required) return DType::none;
  if (op.opcode != Opcode::Matmul) return DType::i64;
  if (is_real(t)) return t;
  return byte_size(t) == 8 ? DType::i64 : DType::i32;
}

DType element_type(const OpInfo& op, std::span<const Type> operand_types,
                   std::span<const Ref> operands, std::span<const Ref> attributes) {
  // Tensors decide, then scalar registers, then immediates, which the builder has typed.
  const auto find = [&](auto&& decides) {
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i] && operand_info(op, i).type == TypeRule::T &&
          decides(operands[i], operand_types[i]))
        return operand_types[i].dtype;
    return DType::none;
  };
  if (const DType t = find([](Ref, const Type& type) { return !type.scalar; }); t != DType::none)
    return t;
  if (const DType t = find([](Ref ref, const Type&) { return !ref.is(RefKind::constant); });
      t != DType::none)
    return t;
  if (const DType t = find([](Ref, const Type&) { return true; }); t != DType::none) return t;
  const int to = op.attribute("to");
  if (to >= 0 && static_cast<size_t>(to) < attributes.size()) {
    const Ref ref = attributes[static_cast<size_t>(to)];
    if (ref.is(RefKind::number) && ref.index() < kDTypeCount)
      return static_cast<DType>(ref.index());
  }
  return DType::none;
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out;
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - a.rank());
    const int in_b = i - (rank - b.rank());
    const int64_t da = in_a < 0 ? 1 : a[in_a];
    const int64_t db = in_b < 0 ? 1 : b[in_b];
    if (da != db && da != 1 && db != 1) return std::nullopt;
    out.push_back(da == 1 ? db : da);
  }
  return out;
}

bool InferContext::has(std::string_view name) const {
  const int i = op.attribute(name);
  return i >= 0 && static_cast<bool>(attributes[static_cast<size_t>(i)]);
}

bool InferContext::flag(std::string_view name) const { return has(name); }

int64_t InferContext::integer(std::string_view name) const {
  const auto i = static_cast<size_t>(op.attribute(name));
  if (!attributes[i]) return static_cast<int64_t>(op.attributes[i].fallback);
  return constant_integer(module.constants[attributes[i].index()]);
}

std::vector<int64_t> InferContext::integers(std::string_view name) const {
  std::vector<int64_t> out;
  if (!has(name)) return out;
  for (Ref item : module.list(attributes[static_cast<size_t>(op.attribute(name))]))
    out.push_back(constant_integer(module.constants[item.index()]));
  return out;
}

DType InferContext::dtype(std::string_view name) const {
  if (!has(name)) return DType::none;
  return static_cast<DType>(attributes[static_cast<size_t>(op.attribute(name))].index());
}

int InferContext::choice(std::string_view name) const {
  return has(name) ? static_cast<int>(attributes[static_cast<size_t>(op.attribute(name))].index())
                   : 0;
}

std::optional<int64_t> InferContext::static_index(std::string_view name, size_t i) const {
  const Ref item = module.list(attributes[static_cast<size_t>(op.attribute(name))])[i];
  if (!item.is(RefKind::constant)) return std::nullopt;
  return constant_integer(module.constants[item.index()]);
}

size_t InferContext::list_size(std::string_view name) const {
  return has(name) ? module.list(attributes[static_cast<size_t>(op.attribute(name))]).size() : 0;
}

bool InferContext::fail(ErrorCode code, Fault::Part part, int index, std::string message) {
  fault = Fault{code, part, index, std::move(message)};
  return false;
}

bool InferContext::fail_attribute(ErrorCode code, std::string_view name, std::string message) {
  return fail(code, Fault::Part::attribute, op.attribute(name), std::move(message));
}

DType InferContext::result_dtype(size_t i) const {
  switch (op.results[std::min(i, op.results.size() - 1)].type) {
    case ResultRule::T:
      return t;
    case ResultRule::U:
      return u;
    case ResultRule::C:
      return compute_type(t);
    case ResultRule::S:
      return scalar_type(t);
    case ResultRule::boolean:
      return DType::boolean;
    case ResultRule::to: {
      const DType to = dtype("to");
      return to == DType::none ? DType::i64 : to;  // rows without a required `to` give indices
    }
    case ResultRule::special:
      return DType::none;
  }
  return DType::none;
}

bool InferContext::give(Shape shape) {
  if (!shape.checked_elements())
    return fail(
        ErrorCode::ShapeLimit, Fault::Part::result, static_cast<int>(results.size()),
        fmt::format("the result would be {}, more than the {} elements that a tensor may have",
                    shape.text(), kMaxElements));
  results.push_back(Type::tensor(result_dtype(results.size()), shape));
  return true;
}

std::optional<Fault> infer(const Module& module, const OpInfo& op, std::span<const Type> types,
                           std::span<const Ref> operands, std::span<const Ref> attributes,
                           std::span<const Value> values, std::vector<Type>& results) {
  std::optional<Fault> found;
  if (auto wrong = check_count(op, operands.size())) return wrong;
  InferContext context{module, op, types, attributes, results, found};
  context.t = element_type(op, types, operands, attributes);
  bool has_tensor = false;
  for (size_t i = 0; i < operands.size(); ++i)
    has_tensor = has_tensor || (operands[i] && !types[i].scalar);

  for (size_t i = 0; i < operands.size(); ++i) {
    const OperandInfo& row = operand_info(op, i);
    const Type& type = types[i];
    if (!operands[i]) {
      if (row.access == Access::optional) continue;
      return fault(ErrorCode::OperandCount, Fault::Part::operand, i,
                   fmt::format("operand '{}' of '{}' is missing", row.name, op.mnemonic));
    }
    const bool form_fits = row.form == Form::either || (row.form == Form::scalar) == type.scalar;
    if (!form_fits)
      return fault(ErrorCode::OperandKind, Fault::Part::operand, i,
                   fmt::format("operand '{}' of '{}' is {}, found {} {}", row.name, op.mnemonic,
                               text(row.form), type.scalar ? "a scalar" : "a tensor", type.text()));
    const auto wrong_type = [&](const std::string& want) {
      return fault(ErrorCode::OperandType, Fault::Part::operand, i,
                   fmt::format("operand '{}' of '{}' is of type {}, found {}", row.name,
                               op.mnemonic, want, type.text()));
    };
    switch (row.type) {
      case TypeRule::T:
        // A scalar register beside tensors holds their scalar type and is converted as by `cast`.
        if (type.scalar && has_tensor && !operands[i].is(RefKind::constant)) {
          if (type.dtype != scalar_type(context.t))
            return wrong_type(fmt::format("{} beside tensors of {}", name(scalar_type(context.t)),
                                          name(context.t)));
          break;
        }
        if (!op.t.contains(type.dtype)) return wrong_type(op.t.text());
        if (type.dtype != context.t)
          return wrong_type(fmt::format("{}, as its other operands", name(context.t)));
        break;
      case TypeRule::U:
        if (!op.u.contains(type.dtype)) return wrong_type(op.u.text());
        if (context.u != DType::none && context.u != type.dtype)
          return wrong_type(std::string(name(context.u)));
        context.u = type.dtype;
        break;
      case TypeRule::C:
        if (type.dtype != compute_type(context.t))
          return wrong_type(std::string(name(compute_type(context.t))));
        break;
      case TypeRule::boolean:
        if (type.dtype != DType::boolean) return wrong_type("bool");
        break;
      case TypeRule::index:
        if (!is_index_register(type)) return wrong_type("i64");
        break;
      case TypeRule::any:
        break;
    }
  }

  for (size_t i = 0; i < op.attributes.size(); ++i) {
    const AttributeInfo& attribute = op.attributes[i];
    if (!attributes[i]) {
      if (attribute.required)
        return fault(ErrorCode::MissingAttribute, Fault::Part::attribute, i,
                     fmt::format("'{}' needs the attribute '{}': {}", op.mnemonic, attribute.name,
                                 attribute.meaning));
      continue;
    }
    if (!attribute_fits(module, attribute, attributes[i], context.t, values))
      return fault(ErrorCode::InvalidAttribute, Fault::Part::attribute, i,
                   fmt::format("attribute '{}' of '{}' is {}", attribute.name, op.mnemonic,
                               wanted(attribute, context.t)));
  }
  // A result type given by `to` is one that the row can make: its T where no operand says otherwise,
  // an integer where it is an index.
  if (const DType to = context.dtype("to"); to != DType::none && op.family != Family::move) {
    const bool operands_give_t = !op.operands.empty() && op.operands[0].type == TypeRule::T;
    if (op.family == Family::random && !operands_give_t && !op.t.empty() && !op.t.contains(to)) {
      return fault(ErrorCode::InvalidAttribute, Fault::Part::attribute,
                   static_cast<size_t>(op.attribute("to")),
                   fmt::format("'{}' gives {}, not {}", op.mnemonic, op.t.text(), name(to)));
    }
    const bool gives_index = op.family == Family::reduce || op.opcode == Opcode::Permutation;
    if (gives_index && !is_integer(to))
      return fault(
          ErrorCode::InvalidAttribute, Fault::Part::attribute,
          static_cast<size_t>(op.attribute("to")),
          fmt::format("'{}' gives indices, which are integers, not {}", op.mnemonic, name(to)));
  }
  op.shape.infer(context);
  return found;
}

}  // namespace trek::isa
