// The arguments of an instruction: operands by position, attributes by name, flags and choices alone.
#include <algorithm>

#include <fmt/format.h>

#include "assembler/instruction.h"

namespace trek::assembler {

using isa::Access;
using isa::AttributeInfo;
using isa::AttributeKind;
using isa::ErrorCode;

namespace {

// The position of a word among choices separated by '|', or -1.
int choice_index(std::string_view choices, std::string_view word) {
  int index = 0;
  while (!choices.empty()) {
    const size_t bar = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, bar) == word) return index;
    choices.remove_prefix(std::min(bar + 1, choices.size()));
    ++index;
  }
  return -1;
}

std::vector<std::string_view> split(std::string_view choices) {
  std::vector<std::string_view> words;
  while (!choices.empty()) {
    const size_t bar = std::min(choices.find('|'), choices.size());
    words.push_back(choices.substr(0, bar));
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return words;
}

std::vector<std::string_view> attribute_names(const isa::OpInfo& op) {
  std::vector<std::string_view> names;
  for (const AttributeInfo& info : op.attributes) {
    names.push_back(info.name);
    for (std::string_view word : split(info.choices)) names.push_back(word);
  }
  for (const isa::OperandInfo& operand : op.operands)
    if (operand.access == Access::optional) names.push_back(operand.name);
  return names;
}

}  // namespace

bool Instructions::parse_arguments() {
  if (core_.stream.peek().ends_statement()) return true;
  do {
    if (!parse_argument()) return false;
  } while (core_.stream.accept(TokenKind::comma));
  if (core_.stream.peek().ends_statement()) return true;
  return core_.unexpected("',' or the end of the line");
}

bool Instructions::parse_argument() {
  const Token token = core_.stream.peek();
  if (token.is(TokenKind::word)) {
    if (core_.stream.peek(1).is(TokenKind::assign)) return parse_named(token);
    bool taken = false;
    if (!parse_word(token, taken)) return false;
    if (taken) return true;
  }
  if (token.is(TokenKind::string)) {
    for (size_t i = 0; i < op_->attributes.size(); ++i)
      if (op_->attributes[i].kind == AttributeKind::string)
        return begin_attribute(i, token) && parse_value(i);
  }
  if (token.is(TokenKind::left_brace) && expressions_.enter_argument()) {
    const bool ok = parse_argument();
    return expressions_.leave_argument() && ok;
  }
  Operand& operand = operands_.emplace_back();
  return operand_parser_.parse(operand);
}

bool Instructions::begin_attribute(size_t index, const Token& at) {
  Attribute& attribute = attributes_[index];
  if (attribute.given)
    return core_.fail(ErrorCode::DuplicateAttribute, at,
                      fmt::format("attribute '{}' is given twice", op_->attributes[index].name));
  attribute = {};
  attribute.given = true;
  attribute.where = core_.stream.where(at);
  return true;
}

// A flag or a choice that stands alone; other words begin expressions.
bool Instructions::parse_word(const Token& word, bool& taken) {
  for (size_t i = 0; i < op_->attributes.size(); ++i) {
    const AttributeInfo& info = op_->attributes[i];
    const int choice =
        info.kind == AttributeKind::choice ? choice_index(info.choices, word.text) : -1;
    if (choice < 0 && !(info.kind == AttributeKind::flag && info.name == word.text)) continue;
    if (!begin_attribute(i, word)) return false;
    core_.stream.next();
    attributes_[i].number = choice < 0 ? 1 : static_cast<uint32_t>(choice);
    taken = true;
    return true;
  }
  const bool is_known = is_expression_word(word.text) || core_.find_local(word.text) != nullptr ||
                        core_.constants.contains(word.text);
  if (is_known || core_.stream.peek(1).is(TokenKind::left_paren)) return true;
  const auto find_help = [&] {
    std::vector<std::string_view> names = attribute_names(*op_);
    for (const auto& [name, constant] : core_.constants) names.push_back(name);
    std::sort(names.begin(), names.end());
    return suggest(word.text, names);
  };
  return core_.fail(ErrorCode::UnknownName, word,
                    fmt::format("no constant, and no flag or choice of '{}', is named '{}'",
                                op_->mnemonic, word.text.substr(0, 80)),
                    find_help);
}

bool Instructions::parse_named(const Token& name) {
  for (size_t i = 0; i < op_->attributes.size(); ++i) {
    if (op_->attributes[i].name != name.text) continue;
    if (!begin_attribute(i, name)) return false;
    core_.stream.next();
    core_.stream.next();
    const bool ok = parse_value(i);
    if (core_.stream.file() == attributes_[i].where.file)
      attributes_[i].where = core_.range_from(name);
    return ok;
  }
  for (size_t i = 0; i < op_->operands.size(); ++i) {
    if (op_->operands[i].access != Access::optional || op_->operands[i].name != name.text) continue;
    optional_.resize(op_->operands.size());
    if (optional_[i].kind != Operand::Kind::absent)
      return core_.fail(ErrorCode::DuplicateAttribute, name,
                        fmt::format("operand '{}' is given twice", name.text));
    core_.stream.next();
    core_.stream.next();
    return operand_parser_.parse(optional_[i]);
  }
  return core_.fail(
      ErrorCode::UnknownAttribute, name,
      fmt::format("'{}' has no attribute '{}'", op_->mnemonic, name.text.substr(0, 80)),
      suggest(name.text, attribute_names(*op_)));
}

bool Instructions::parse_value(size_t index) {
  const AttributeInfo& info = op_->attributes[index];
  Attribute& attribute = attributes_[index];
  if (core_.stream.at(TokenKind::left_brace) && expressions_.enter_argument()) {
    const bool ok = parse_value(index);
    return expressions_.leave_argument() && ok;
  }
  switch (info.kind) {
    case AttributeKind::flag:
      return core_.fail(ErrorCode::InvalidAttribute, attribute.where,
                        fmt::format("'{}' is a flag, which stands alone", info.name));
    case AttributeKind::integers:
    case AttributeKind::indices:
      return parse_list(attribute);
    case AttributeKind::dtype:
      return parse_dtype(attribute);
    case AttributeKind::choice:
      return parse_choice(info, attribute);
    case AttributeKind::tail:
      return parse_tail(info, attribute);
    case AttributeKind::string: {
      const Token first = core_.stream.peek();
      const auto value = expressions_.parse();
      if (!value) return false;
      if (value->kind != Value::Kind::string)
        return core_.fail(
            ErrorCode::InvalidAttribute, core_.range_from(first),
            fmt::format("attribute '{}' of '{}' is a string", info.name, op_->mnemonic));
      attribute.text = value->text;
      attribute.where = core_.range_from(first);
      return true;
    }
    default:
      return operand_parser_.parse(attribute.operand);
  }
}

bool Instructions::parse_list(Attribute& attribute) {
  attribute.is_list = true;
  attribute.first_item = items_.size();
  if (!core_.stream.accept(TokenKind::left_bracket)) return parse_item(attribute);
  const InBrackets brackets(core_);
  core_.skip_newlines();
  if (core_.stream.accept(TokenKind::right_bracket)) return true;
  do {
    core_.skip_newlines();
    if (core_.stream.at(TokenKind::word) && core_.stream.peek(1).is(TokenKind::assign))
      return core_.unexpected("an element of the list, or ']' before");
    if (!parse_item(attribute)) return false;
    core_.skip_newlines();
  } while (core_.stream.accept(TokenKind::comma));
  return core_.expect(TokenKind::right_bracket, "',' or ']'");
}

bool Instructions::parse_item(Attribute& attribute) {
  ++attribute.items;
  Operand item;
  if (!operand_parser_.parse(item)) return false;
  items_.push_back(item);
  return true;
}

bool Instructions::parse_dtype(Attribute& attribute) {
  const Token word = core_.stream.peek();
  const auto dtype = word.is(TokenKind::word) ? isa::dtype_from_name(word.text) : std::nullopt;
  if (!dtype) {
    std::vector<std::string_view> names;
    for (int code = 1; code < isa::kDTypeCount; ++code)
      names.push_back(isa::name(static_cast<isa::DType>(code)));
    return core_.fail(ErrorCode::InvalidAttribute, word,
                      fmt::format("an element type is wanted, found {}", describe(word)),
                      suggest(word.text, names));
  }
  core_.stream.next();
  attribute.number = static_cast<uint32_t>(*dtype);
  return true;
}

bool Instructions::parse_choice(const AttributeInfo& info, Attribute& attribute) {
  const Token word = core_.stream.peek();
  const int choice = word.is(TokenKind::word) ? choice_index(info.choices, word.text) : -1;
  if (choice < 0)
    return core_.fail(ErrorCode::InvalidAttribute, word,
                      fmt::format("attribute '{}' is one of {}", info.name, info.choices),
                      suggest(word.text, split(info.choices)));
  core_.stream.next();
  attribute.number = static_cast<uint32_t>(choice);
  return true;
}

bool Instructions::parse_tail(const AttributeInfo& info, Attribute& attribute) {
  const Token word = core_.stream.peek();
  const isa::OpInfo* tail = word.is(TokenKind::word) ? isa::find_op(word.text) : nullptr;
  if (tail == nullptr || !isa::is_tail(*tail)) {
    std::vector<std::string_view> names;
    for (const isa::OpInfo& op : isa::all_ops())
      if (isa::is_tail(op)) names.push_back(op.mnemonic);
    return core_.fail(
        ErrorCode::InvalidAttribute, word,
        fmt::format(
            "attribute '{}' is a pointwise instruction of one operand, such as relu; found {}",
            info.name, describe(word)),
        suggest(word.text, names));
  }
  core_.stream.next();
  attribute.number = static_cast<uint32_t>(tail->opcode);
  return true;
}

// The call form of an initialiser. What the tensor's type says is not written: its shape, its element
// type, its length.
bool Instructions::parse_initialiser(const Token& mnemonic, const isa::OpInfo& op,
                                     const isa::Type& type, std::vector<isa::Ref>& operands,
                                     std::vector<isa::Ref>& attributes) {
  reset(mnemonic, op);
  const InBrackets brackets(core_);
  size_t position = 0;
  const auto from_type = [](std::string_view name) {
    return name == "shape" || name == "to" || name == "n";
  };
  core_.skip_newlines();
  while (!core_.stream.at(TokenKind::right_paren)) {
    const Token first = core_.stream.peek();
    const bool is_named = first.is(TokenKind::word) && core_.stream.peek(1).is(TokenKind::assign);
    if (is_named && from_type(first.text) && op.attribute(first.text) >= 0)
      return core_.fail(ErrorCode::InvalidAttribute, first,
                        fmt::format("'{}' comes from the tensor's type", first.text));
    if (is_named) {
      if (!parse_named(first)) return false;
    } else if (operands_.size() < op.operands.size()) {
      if (!operand_parser_.parse(operands_.emplace_back())) return false;
    } else {
      while (position < op.attributes.size() && from_type(op.attributes[position].name)) ++position;
      if (position >= op.attributes.size())
        return core_.fail(ErrorCode::OperandCount, first,
                          fmt::format("'{}' takes no more arguments", op.mnemonic));
      if (!begin_attribute(position, first) || !parse_value(position)) return false;
      ++position;
    }
    core_.skip_newlines();
    if (!core_.stream.accept(TokenKind::comma)) break;
    core_.skip_newlines();
  }
  if (!core_.expect(TokenKind::right_paren, "',' or ')'")) return false;
  const auto give = [&](std::string_view name) -> Attribute* {
    const int i = op.attribute(name);
    if (i < 0) return nullptr;
    attributes_[static_cast<size_t>(i)] = {};
    attributes_[static_cast<size_t>(i)].given = true;
    return &attributes_[static_cast<size_t>(i)];
  };
  // An optional `to` is absent where it is the default: the text does not say which it was.
  const int to = op.attribute("to");
  if (to >= 0 && (op.attributes[static_cast<size_t>(to)].required || type.dtype != isa::DType::i64))
    give("to")->number = static_cast<uint32_t>(type.dtype);
  if (Attribute* n = give("n")) {
    if (type.shape.rank() != 1)
      return core_.fail(
          ErrorCode::ShapeMismatch, mnemonic,
          fmt::format("'{}' makes a tensor of rank 1, found {}", op.mnemonic, type.text()));
    n->operand.kind = Operand::Kind::value;
    n->operand.value = Value::of(Wide{type.shape[0]});
  }
  const auto is_reference = [](const Operand& operand) {
    return operand.kind == Operand::Kind::reference;
  };
  bool constant = std::none_of(operands_.begin(), operands_.end(), is_reference) &&
                  std::none_of(items_.begin(), items_.end(), is_reference);
  for (size_t i = 0; i < op.attributes.size(); ++i)
    constant = constant && !(attributes_[i].given && is_reference(attributes_[i].operand));
  if (!constant)
    return core_.fail(ErrorCode::ConstantExpression, mnemonic, "an initialiser takes constants");
  const isa::DType t = element_type();
  if (!resolve_operands(t) || !resolve_attributes(t)) return false;
  if (const int shape = op.attribute("shape"); shape >= 0)
    attribute_refs_[static_cast<size_t>(shape)] = core_.build.integers(type.shape.dims());
  operands = operand_refs_;
  attributes = attribute_refs_;
  spellings_
      .clear();  // a module keeps none of initialisers; they must not pass to what is parsed next
  return true;
}

}  // namespace trek::assembler
