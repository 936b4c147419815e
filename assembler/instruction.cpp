#include "assembler/instruction.h"

#include <algorithm>

#include <fmt/format.h>

namespace trek::assembler {

using isa::Access;
using isa::AttributeKind;
using isa::DType;
using isa::ErrorCode;
using isa::Ref;
using isa::RefKind;
using isa::TypeRule;

namespace {

const isa::OperandInfo& row_of(const isa::OpInfo& op, size_t i) {
  return op.operands[std::min(i, op.operands.size() - 1)];
}

bool is_variadic(const isa::OpInfo& op) {
  return !op.operands.empty() && op.operands[op.operands.size() - 1].access == Access::variadic;
}

std::string count_message(std::string_view what, size_t results, size_t names) {
  return fmt::format("'{}' gives {} result{}, found {} name{}", what, results,
                     results == 1 ? "" : "s", names, names == 1 ? "" : "s");
}

// Operands that are written by position; optional ones are written as attributes.
size_t positional_count(const isa::OpInfo& op) {
  return static_cast<size_t>(
      std::count_if(op.operands.begin(), op.operands.end(), [](const isa::OperandInfo& o) {
        return o.access != Access::optional && o.access != Access::variadic;
      }));
}

}  // namespace

void Instructions::reset(const Token& mnemonic, const isa::OpInfo& op) {
  mnemonic_ = mnemonic;
  mnemonic_range_ = core_.stream.where(mnemonic);
  op_ = &op;
  in_place_ = false;
  operands_.clear();
  optional_.clear();
  items_.clear();
  spellings_.clear();
  result_ranges_.clear();
  for (size_t i = 0; i < op.attributes.size(); ++i) attributes_[i].given = false;
}

bool Instructions::parse(const Token& mnemonic, const isa::OpInfo& op,
                         std::span<const Name> results) {
  reset(mnemonic, op);
  const auto failed = [&] {
    define_broken(results);
    return false;
  };
  const bool is_marked = core_.stream.at(TokenKind::bang) && !core_.stream.peek().spaced;
  if (is_marked) core_.stream.next();
  in_place_ = is_marked;
  if (!parse_arguments() || !arrange_operands()) return failed();
  if (is_broken()) return failed();
  if (!check_in_place(results)) return failed();
  const DType t = element_type();
  if (!resolve_operands(t) || !resolve_attributes(t)) return failed();
  if (!check_result_count(results)) return failed();

  destinations_.clear();
  for (const Name& name : results) {
    destinations_.push_back(destination(name));
    result_ranges_.push_back(name.where);
  }
  if (in_place_ && !op.results.empty()) destinations_.assign(1, operand_refs_[0]);
  if (const auto fault =
          core_.build.add(op.opcode, operand_refs_, attribute_refs_, destinations_)) {
    core_.fail(fault->code, range_of(*fault), fault->message);
    return failed();
  }
  if (in_place_ && !op.results.empty()) return true;
  return define_results(mnemonic, op.mnemonic, results, core_.build.results(), destinations_);
}

isa::SourceRange Instructions::range_of(const isa::Fault& fault) const {
  const auto i = static_cast<size_t>(fault.index);
  switch (fault.part) {
    case isa::Fault::Part::operand:
      if (i < operands_.size() && operands_[i].where.known()) return operands_[i].where;
      break;
    case isa::Fault::Part::attribute:
      if (i < attributes_.size() && attributes_[i].given) return attributes_[i].where;
      break;
    case isa::Fault::Part::result:
      if (i < result_ranges_.size()) return result_ranges_[i];
      break;
    case isa::Fault::Part::whole:
      break;
  }
  return mnemonic_range_;
}

Ref Instructions::destination(const Name& name) {
  if (name.token.is(TokenKind::tensor)) {
    const auto found = core_.tensors.find(name.token.name());
    if (found != core_.tensors.end()) return {RefKind::tensor, found->second.index};
    return {};
  }
  const Register* found = scopes_.find(name);
  if (found == nullptr || !found->ref.is(RefKind::value)) return {};
  const isa::Function& function = core_.build.function();
  const uint32_t index = found->ref.index();
  const bool is_place = index < function.parameters && function.inplace[index] != 0;
  return is_place ? found->ref : Ref{};
}

bool Instructions::define_results(const Token& mnemonic, std::string_view what,
                                  std::span<const Name> names, std::span<const Ref> results,
                                  std::span<const Ref> destinations) {
  if (names.size() != results.size()) {
    core_.fail(ErrorCode::ResultCount, mnemonic, count_message(what, results.size(), names.size()));
    define_broken(names);
    return false;
  }
  bool ok = true;
  for (size_t i = 0; i < names.size(); ++i) {
    const Name& name = names[i];
    if (i < destinations.size() && destinations[i]) continue;
    if (name.token.is(TokenKind::tensor)) {
      core_.reporter.report(ErrorCode::UnknownName, name.where, name.expansion,
                            fmt::format("no tensor is named {}", name.token.text));
      ok = false;
      continue;
    }
    const isa::Type type = core_.build.type_of(results[i]);
    if (type.scalar != name.token.is(TokenKind::scalar)) {
      core_.reporter.report(
          ErrorCode::ResultType, name.where, name.expansion,
          fmt::format("the result is {} {}", type.scalar ? "the scalar" : "a tensor", type.text()),
          fmt::format("write {}{}", type.scalar ? '$' : '%', name.token.name()));
      scopes_.define_broken(name);
      ok = false;
      continue;
    }
    ok = scopes_.define(name, results[i]) && ok;
  }
  return ok;
}

void Instructions::define_broken(std::span<const Name> names) {
  for (const Name& name : names)
    if (!name.token.is(TokenKind::tensor)) scopes_.define_broken(name);
}

bool Instructions::is_broken() const {
  const auto broken = [](const Operand& operand) { return operand.kind == Operand::Kind::broken; };
  if (std::any_of(operands_.begin(), operands_.end(), broken) ||
      std::any_of(items_.begin(), items_.end(), broken))
    return true;
  for (size_t i = 0; i < op_->attributes.size(); ++i)
    if (attributes_[i].given && broken(attributes_[i].operand)) return true;
  return false;
}

// Puts optional operands behind the positional ones, as the row has them.
bool Instructions::arrange_operands() {
  const isa::OpInfo& op = *op_;
  const size_t wanted = positional_count(op);
  if (is_variadic(op) ? operands_.size() < wanted : operands_.size() != wanted) {
    const bool more = operands_.size() > wanted;
    return core_.fail(ErrorCode::OperandCount, more ? operands_[wanted].where : mnemonic_range_,
                      fmt::format("'{}' takes {}{} operand{}, found {}", op.mnemonic,
                                  is_variadic(op) ? "at least " : "", wanted,
                                  wanted == 1 ? "" : "s", operands_.size()));
  }
  if (is_variadic(op)) return true;
  optional_.resize(op.operands.size());
  for (size_t i = wanted; i < op.operands.size(); ++i) operands_.push_back(optional_[i]);
  return true;
}

bool Instructions::check_in_place(std::span<const Name> results) {
  const isa::OpInfo& op = *op_;
  const Access access = op.operands.empty() ? Access::in : op.operands[0].access;
  if (in_place_ && access != Access::inout && access != Access::target)
    return core_.fail(ErrorCode::InPlace, mnemonic_range_,
                      fmt::format("'{}' changes nothing in place", op.mnemonic),
                      "leave the '!' out");
  if (!in_place_ && access == Access::inout)
    return core_.fail(ErrorCode::InPlace, mnemonic_range_,
                      fmt::format("'{}' changes its first operand in place", op.mnemonic),
                      fmt::format("write '{}!'", op.mnemonic));
  if (in_place_ && !results.empty())
    return core_.fail(ErrorCode::ResultCount, results[0].where,
                      fmt::format("'{}!' changes its operand and gives no result", op.mnemonic));
  return true;
}

// Of rows whose number of results is fixed; for the others it is known when the builder has them.
bool Instructions::check_result_count(std::span<const Name> results) {
  const isa::OpInfo& op = *op_;
  const bool is_open = !op.results.empty() && op.results[op.results.size() - 1].variadic;
  const size_t wanted = in_place_ ? 0 : op.results.size();
  if (is_open || results.size() == wanted) return true;
  return core_.fail(ErrorCode::ResultCount, mnemonic_range_,
                    count_message(op.mnemonic, wanted, results.size()));
}

// T of the row: of the first tensor, else of the first scalar, else of the immediates together, else `to`.
DType Instructions::element_type() const {
  DType scalar = DType::none;
  DType immediate = DType::none;
  bool stated = false;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    if (operand.kind == Operand::Kind::absent || row_of(*op_, i).type != TypeRule::T) continue;
    const isa::Type type = operand_parser_.type_of(operand);
    if (operand.kind == Operand::Kind::reference) {
      if (!type.scalar) return type.dtype;
      if (scalar == DType::none) scalar = type.dtype;
    } else if (!stated && (immediate == DType::none || operand.value.stated != DType::none ||
                           (immediate == DType::i64 && type.dtype == DType::f32))) {
      immediate = type.dtype;
      stated = operand.value.stated != DType::none;
    }
  }
  if (scalar != DType::none) return scalar;
  if (immediate != DType::none) return immediate;
  const int to = op_->attribute("to");
  if (to >= 0 && attributes_[static_cast<size_t>(to)].given)
    return static_cast<DType>(attributes_[static_cast<size_t>(to)].number);
  return DType::none;
}

// The type that an immediate takes as operand i.
DType Instructions::operand_type(size_t i, DType t) const {
  const DType natural = natural_type(operands_[i].value);
  switch (row_of(*op_, i).type) {
    case TypeRule::T:
      return t;
    case TypeRule::U:
      return natural;
    case TypeRule::C:
      return isa::compute_type(t);
    case TypeRule::boolean:
      return DType::boolean;
    case TypeRule::index:
      return DType::i64;
    case TypeRule::any:
      break;
  }
  // Beside a tensor (store!) the scalar that stands for its elements; where the result's type is given
  // (fill) a real keeps its precision.
  if (row_of(*op_, 0).type == TypeRule::T && t != DType::none && i > 0) return isa::scalar_type(t);
  const int to = op_->attribute("to");
  const bool is_wide =
      to >= 0 && attributes_[static_cast<size_t>(to)].given &&
      static_cast<DType>(attributes_[static_cast<size_t>(to)].number) == DType::f64;
  return is_wide && natural == DType::f32 && operands_[i].value.stated == DType::none ? DType::f64
                                                                                      : natural;
}

bool Instructions::resolve_operands(DType t) {
  operand_refs_.clear();
  for (size_t i = 0; i < operands_.size(); ++i) {
    const Operand& operand = operands_[i];
    if (!operand.is_value()) {
      operand_refs_.push_back(operand.ref);
      continue;
    }
    const isa::OperandInfo& row = row_of(*op_, i);
    if (row.form == isa::Form::tensor)
      return core_.fail(ErrorCode::OperandKind, operand.where,
                        fmt::format("operand '{}' of '{}' is a tensor, found {}", row.name,
                                    op_->mnemonic, describe(operand.value)));
    const DType wanted = operand_type(i, t);
    if (wanted == DType::none)
      return core_.fail(ErrorCode::OperandType, operand.where,
                        fmt::format("operand '{}' of '{}' is a number, found {}", row.name,
                                    op_->mnemonic, describe(operand.value)));
    const auto ref = operand_parser_.resolve(operand, wanted);
    if (!ref) return false;
    operand_refs_.push_back(*ref);
    spell(operand, static_cast<uint32_t>(i));
  }
  return true;
}

bool Instructions::resolve_attributes(DType t) {
  attribute_refs_.clear();
  bool ok = true;
  for (size_t i = 0; i < op_->attributes.size(); ++i) {
    const auto ref = attributes_[i].given ? resolve_attribute(i, t) : Ref{};
    ok = ok && ref.has_value();
    attribute_refs_.push_back(ref.value_or(Ref{}));
  }
  return ok;
}

std::optional<Ref> Instructions::resolve_attribute(size_t i, DType t) {
  const isa::AttributeInfo& info = op_->attributes[i];
  const Attribute& attribute = attributes_[i];
  const auto slot = static_cast<uint32_t>(operands_.size() + i);
  switch (info.kind) {
    case AttributeKind::flag:
    case AttributeKind::dtype:
    case AttributeKind::choice:
    case AttributeKind::tail:
      return isa::Builder::number(attribute.number);
    case AttributeKind::string:
      return Ref{RefKind::string, core_.build.string(attribute.text)};
    case AttributeKind::integers:
    case AttributeKind::indices: {
      list_.clear();
      for (size_t k = 0; k < attribute.items; ++k) {
        const Operand& item = items_[attribute.first_item + k];
        const auto ref = operand_parser_.resolve(item, DType::i64, ErrorCode::InvalidAttribute);
        if (!ref) return std::nullopt;
        list_.push_back(*ref);
        spell(item, slot, static_cast<uint32_t>(k));
      }
      return core_.build.list(list_);
    }
    default:
      break;
  }
  DType wanted = isa::attribute_type(info, t);
  if (wanted == DType::none && attribute.operand.is_value())
    wanted = natural_type(attribute.operand.value);
  if (wanted == DType::none) {  // a string
    core_.fail(ErrorCode::InvalidAttribute, attribute.where,
               fmt::format("attribute '{}' of '{}' is a number", info.name, op_->mnemonic));
    return std::nullopt;
  }
  const auto ref = operand_parser_.resolve(attribute.operand, wanted, ErrorCode::InvalidAttribute);
  if (ref) spell(attribute.operand, slot);
  return ref;
}

void Instructions::spell(const Operand& operand, uint32_t slot, uint32_t element) {
  if (operand.is_value() && !operand.spelling.empty())
    spellings_.push_back({slot, element, operand.spelling});
}

// An attribute that is its default is absent in the module, and so is how it was written.
void Instructions::keep_spellings(uint32_t function) {
  if (spellings_.empty()) return;
  const auto& code = core_.build.function().code;
  const isa::Instruction& instruction = code.back();
  for (const PendingSpelling& spelling : spellings_) {
    const uint32_t slot = instruction.results + spelling.slot;
    const Ref word = core_.module.words[instruction.first + slot];
    if (!word.is(RefKind::constant) && !word.is(RefKind::list)) continue;
    core_.module.debug.spellings.push_back({isa::Debug::Spelling::Where::instruction, function,
                                            static_cast<uint32_t>(code.size() - 1), slot,
                                            spelling.element, core_.build.string(spelling.text)});
  }
  spellings_.clear();
}

}  // namespace trek::assembler
