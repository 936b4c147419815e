#include "isa/builder.h"

#include <cstring>

#include <fmt/format.h>

#include "isa/convert.h"

namespace trek::isa {
namespace {

// A shape and dtype as a key: cheaper than hashing the structure field by field.
std::string type_key(const Type& type) {
  std::string key;
  key.push_back(static_cast<char>(type.dtype));
  key.push_back(static_cast<char>(type.scalar));
  for (int64_t dim : type.shape) {
    char bytes[sizeof dim];
    std::memcpy(bytes, &dim, sizeof dim);
    key.append(bytes, sizeof bytes);
  }
  return key;
}

// The type of an if's result until its first region yields.
constexpr uint32_t kUntyped = UINT32_MAX;

Fault whole(ErrorCode code, std::string message) {
  return {code, Fault::Part::whole, 0, std::move(message)};
}

}  // namespace

Builder::Builder(Module& module) : module_(module) {
  for (uint32_t i = 0; i < module.strings.size(); ++i) strings_.emplace(module.strings[i], i);
  for (uint32_t i = 0; i < module.types.size(); ++i)
    type_index_.emplace(type_key(module.types[i]), i);
  for (uint32_t i = 0; i < module.constants.size(); ++i) constants_.emplace(module.constants[i], i);
}

uint32_t Builder::string(std::string_view text) {
  if (const auto found = strings_.find(text); found != strings_.end()) return found->second;
  const auto index = static_cast<uint32_t>(module_.strings.size());
  module_.strings.emplace_back(text);
  strings_.emplace(text, index);
  return index;
}

uint32_t Builder::type(const Type& type) {
  const auto [entry, added] =
      type_index_.try_emplace(type_key(type), static_cast<uint32_t>(module_.types.size()));
  if (added) module_.types.push_back(type);
  return entry->second;
}

Ref Builder::constant(DType dtype, uint64_t bits) {
  const Constant value{dtype, bits};
  const auto [entry, added] =
      constants_.try_emplace(value, static_cast<uint32_t>(module_.constants.size()));
  if (added) module_.constants.push_back(value);
  return {RefKind::constant, entry->second};
}

Ref Builder::real(DType dtype, double value) {
  return constant(dtype, double_to_bits(dtype, value));
}

Ref Builder::list(std::span<const Ref> items) {
  const auto index = static_cast<uint32_t>(module_.lists.size());
  Ref count;
  count.bits = static_cast<uint32_t>(items.size());
  module_.lists.push_back(count);
  module_.lists.insert(module_.lists.end(), items.begin(), items.end());
  return {RefKind::list, index};
}

Ref Builder::integers(std::span<const int64_t> values) {
  std::vector<Ref> items;
  items.reserve(values.size());
  for (int64_t value : values) items.push_back(integer(value));
  return list(items);
}

Ref Builder::tensor(std::string_view name, const Type& tensor_type, Role role) {
  TensorDecl decl;
  decl.name = string(name);
  decl.type = type(tensor_type);
  decl.role = role;
  module_.tensors.push_back(decl);
  return {RefKind::tensor, static_cast<uint32_t>(module_.tensors.size() - 1)};
}

Ref Builder::param(std::string_view name, DType dtype, uint64_t bits) {
  module_.params.push_back({string(name), dtype, constant(dtype, bits).index()});
  return {RefKind::param, static_cast<uint32_t>(module_.params.size() - 1)};
}

uint64_t Builder::embed(std::span<const std::byte> bytes) {
  const uint64_t offset =
      (module_.data.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  module_.data.resize(offset);
  module_.data.insert(module_.data.end(), bytes.begin(), bytes.end());
  return offset;
}

uint32_t Builder::begin_function(std::string_view name) {
  module_.functions.emplace_back();
  function_ = &module_.functions.back();
  function_->name = string(name);
  regions_.clear();
  return static_cast<uint32_t>(module_.functions.size() - 1);
}

Ref Builder::parameter(const Type& parameter_type, bool inplace, std::string_view name) {
  const Ref ref = new_register(parameter_type);
  function_->parameters = static_cast<uint32_t>(function_->values.size());
  function_->inplace.push_back(inplace ? 1 : 0);
  if (!name.empty()) {
    module_.debug.names.resize(module_.functions.size());
    auto& names = module_.debug.names.back().values;
    names.resize(function_->values.size());
    names.back() = string(name);
  }
  return ref;
}

void Builder::set_results(std::span<const Type> types) {
  for (const Type& t : types) function_->results.push_back(type(t));
}

void Builder::resume_function(uint32_t index) {
  function_ = &module_.functions[index];
  regions_.clear();
}

void Builder::end_function() {
  const auto& code = function_->code;
  if (code.empty() || code.back().opcode != Opcode::Return) return_values({});
  function_ = nullptr;
}

void Builder::begin_init() {
  function_ = &module_.init;
  function_->code.clear();  // its `return` comes again with end_init()
}

void Builder::end_init() { end_function(); }

Ref Builder::new_register(const Type& register_type) {
  function_->values.push_back({type(register_type)});
  return {RefKind::value, static_cast<uint32_t>(function_->values.size() - 1)};
}

void Builder::append(Opcode opcode, std::span<const Ref> results, std::span<const Ref> operands,
                     std::span<const Ref> attributes) {
  Instruction instruction;
  instruction.opcode = opcode;
  instruction.results = static_cast<uint16_t>(results.size());
  instruction.operands = static_cast<uint16_t>(operands.size());
  instruction.attributes = static_cast<uint16_t>(attributes.size());
  instruction.first = static_cast<uint32_t>(module_.words.size());
  auto& words = module_.words;
  words.insert(words.end(), results.begin(), results.end());
  words.insert(words.end(), operands.begin(), operands.end());
  words.insert(words.end(), attributes.begin(), attributes.end());
  function_->code.push_back(instruction);
}

// An attribute equal to its default becomes none: a module has one encoding.
Ref Builder::normalised(const AttributeInfo& attribute, Ref ref, DType t) const {
  if (attribute.kind == AttributeKind::choice || attribute.kind == AttributeKind::flag)
    return ref.is(RefKind::number) && ref.index() == 0 ? Ref{} : ref;
  if (!attribute.has_default || !ref.is(RefKind::constant)) return ref;
  return is_default(attribute, module_.constants[ref.index()], t) ? Ref{} : ref;
}

std::optional<Fault> Builder::give_results(std::span<const Type> types,
                                           std::span<const Ref> destinations) {
  if (destinations.size() > types.size())
    return Fault{ErrorCode::ResultCount, Fault::Part::result, static_cast<int>(types.size()),
                 fmt::format("{} results where {} are wanted", types.size(), destinations.size())};
  for (size_t i = 0; i < destinations.size(); ++i) {
    if (!destinations[i] || type_of(destinations[i]) == types[i]) continue;
    return Fault{ErrorCode::ResultType, Fault::Part::result, static_cast<int>(i),
                 fmt::format("the result is {}, its destination {}", types[i].text(),
                             type_of(destinations[i]).text())};
  }
  results_.clear();
  for (size_t i = 0; i < types.size(); ++i)
    results_.push_back(i < destinations.size() && destinations[i] ? destinations[i]
                                                                  : new_register(types[i]));
  return std::nullopt;
}

std::optional<Fault> Builder::add(Opcode opcode, std::span<const Ref> operands,
                                  std::span<const Ref> attributes,
                                  std::span<const Ref> destinations) {
  const OpInfo& op = info(opcode);
  if (operands.size() > UINT16_MAX || destinations.size() > UINT16_MAX)
    return whole(ErrorCode::OperandCount,
                 fmt::format("'{}' has more than {} operands", op.mnemonic, UINT16_MAX));
  // Optional operands stand last in their rows and may be left out.
  operands_.assign(operands.begin(), operands.end());
  while (operands_.size() < op.operands.size() &&
         op.operands[operands_.size()].access == Access::optional)
    operands_.emplace_back();
  types_.clear();
  for (Ref operand : operands_) types_.push_back(type_of(operand));
  attributes_.assign(attributes.begin(), attributes.end());
  attributes_.resize(op.attributes.size());
  const DType t = element_type(op, types_, operands_, attributes_);
  for (size_t i = 0; i < attributes_.size(); ++i)
    attributes_[i] = normalised(op.attributes[i], attributes_[i], t);
  const Ref default_to = dtype(default_result_type(op, t));
  if (const int to = op.attribute("to");
      to >= 0 && attributes_[static_cast<size_t>(to)] == default_to)
    attributes_[static_cast<size_t>(to)] = {};

  result_types_.clear();
  if (auto fault =
          infer(module_, op, types_, operands_, attributes_, function_->values, result_types_))
    return fault;
  if (auto fault = give_results(result_types_, destinations)) return fault;
  append(opcode, results_, operands_, attributes_);
  return std::nullopt;
}

std::optional<Fault> Builder::add(Opcode opcode, std::initializer_list<Ref> operands,
                                  std::initializer_list<Ref> attributes,
                                  std::initializer_list<Ref> destinations) {
  return add(opcode, std::span(operands.begin(), operands.size()),
             std::span(attributes.begin(), attributes.size()),
             std::span(destinations.begin(), destinations.size()));
}

std::optional<Fault> Builder::open_loop(Ref from, Ref until, Ref step,
                                        std::span<const Ref> carried) {
  const OpInfo& op = info(Opcode::Loop);
  const Type i64 = Type::make_scalar(DType::i64);
  operands_ = {from, until, step};
  for (size_t i = 0; i < operands_.size(); ++i)
    if (const Type found = type_of(operands_[i]); found != i64)
      return Fault{ErrorCode::OperandType, Fault::Part::operand, static_cast<int>(i),
                   fmt::format("operand '{}' of 'loop' is of type i64, found {}",
                               op.operands[i].name, found.text())};
  operands_.insert(operands_.end(), carried.begin(), carried.end());
  open_carrying(Opcode::Loop, carried, &i64);
  return std::nullopt;
}

void Builder::open_while(std::span<const Ref> carried) {
  operands_.assign(carried.begin(), carried.end());
  open_carrying(Opcode::While, carried, nullptr);
}

// Opens a loop whose results and inner registers have the types of the carried values.
void Builder::open_carrying(Opcode opcode, std::span<const Ref> carried, const Type* counter) {
  types_.clear();
  for (Ref ref : carried) types_.push_back(type_of(ref));
  results_.clear();
  for (const Type& t : types_) results_.push_back(new_register(t));
  registers_.clear();
  if (counter != nullptr) registers_.push_back(new_register(*counter));
  for (const Type& t : types_) registers_.push_back(new_register(t));
  const Ref defined = list(registers_);
  regions_.push_back({static_cast<uint32_t>(function_->code.size())});
  append(opcode, results_, operands_, std::span(&defined, 1));
}

std::optional<Fault> Builder::open_if(Ref condition, uint32_t result_count) {
  if (const Type found = type_of(condition); found != Type::make_scalar(DType::boolean))
    return Fault{ErrorCode::OperandType, Fault::Part::operand, 0,
                 fmt::format("operand 'c' of 'if' is a scalar bool, found {}", found.text())};
  results_.clear();
  for (uint32_t i = 0; i < result_count; ++i) {
    results_.emplace_back(RefKind::value, static_cast<uint32_t>(function_->values.size()));
    function_->values.push_back({kUntyped});
  }
  registers_.clear();
  regions_.push_back({static_cast<uint32_t>(function_->code.size())});
  append(Opcode::If, results_, std::span(&condition, 1), {});
  return std::nullopt;
}

void Builder::open_else() {
  registers_.clear();
  regions_.push_back({static_cast<uint32_t>(function_->code.size())});
  append(Opcode::Else, {}, {}, {});
}

std::optional<Fault> Builder::yield(std::span<const Ref> values) {
  if (regions_.empty()) return whole(ErrorCode::Structure, "'yield' outside a region");
  const Instruction opener = function_->code[regions_.back().instruction];
  regions_.pop_back();
  if (opener.opcode == Opcode::If) {
    if (opener.results != values.size())
      return whole(ErrorCode::YieldMismatch,
                   fmt::format("the region hands on {} value{}, and 'yield' gives {}",
                               opener.results, opener.results == 1 ? "" : "s", values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      Value& result = function_->values[module_.results(opener)[i].index()];
      result.type = type(type_of(values[i]));
    }
  }
  append(Opcode::Yield, {}, values, {});
  return std::nullopt;
}

std::optional<Fault> Builder::call(uint32_t callee, std::span<const Ref> arguments,
                                   std::span<const Ref> destinations) {
  const Function& target = module_.functions[callee];
  if (arguments.size() > UINT16_MAX)
    return whole(ErrorCode::OperandCount,
                 fmt::format("'call' has more than {} arguments", UINT16_MAX));
  types_.clear();
  for (uint32_t result : target.results) types_.push_back(module_.types[result]);
  if (auto fault = give_results(types_, destinations)) return fault;
  const Ref function{RefKind::function, callee};
  append(Opcode::Call, results_, arguments, std::span(&function, 1));
  return std::nullopt;
}

void Builder::return_values(std::span<const Ref> values) { append(Opcode::Return, {}, values, {}); }

}  // namespace trek::isa
