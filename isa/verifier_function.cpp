// One function: each instruction's references, types, destinations and aliasing.
#include "isa/verifier_function.h"

#include <algorithm>

namespace trek::isa::verifier {

void FunctionVerifier::check() {
  for (uint32_t p = 0; p < function_.parameters; ++p) make_visible(p);
  next_register_ = function_.parameters;
  for (at_ = 0; at_ < function_.code.size() && !report_.full(); ++at_) {
    if (returned_)
      return fail(ErrorCode::Structure, "instructions follow the 'return' that ends the function");
    if (!check_instruction()) return;  // what follows cannot be understood
  }
  if (report_.full()) return;
  at_ = function_.code.empty() ? 0 : function_.code.size() - 1;
  if (!regions_.empty())
    return fail(ErrorCode::Structure,
                fmt::format("'{}' is not closed", mnemonic(regions_.back().opener)));
  if (!returned_) return fail(ErrorCode::Structure, "a function ends with 'return'");
  if (next_register_ != function_.values.size())
    fail(ErrorCode::BadEncoding,
         fmt::format("{} of {} registers are defined", next_register_, function_.values.size()));
}

std::string FunctionVerifier::describe(Ref ref) const {
  switch (ref.kind()) {
    case RefKind::tensor:
      return "@" + module_.strings[module_.tensors[ref.index()].name];
    case RefKind::param:
      return "$" + module_.strings[module_.params[ref.index()].name];
    default:
      break;
  }
  const auto number = static_cast<size_t>(&function_ - module_.functions.data());
  const bool scalar = module_.types[function_.values[ref.index()].type].scalar;
  std::string name = std::to_string(ref.index());
  if (&function_ != &module_.init && number < module_.debug.names.size()) {
    const auto& names = module_.debug.names[number].values;
    if (ref.index() < names.size() && names[ref.index()] != 0 &&
        names[ref.index()] < module_.strings.size())
      name = module_.strings[names[ref.index()]];
  }
  return (scalar ? "$" : "%") + name;
}

bool FunctionVerifier::check_writable(Ref ref) {
  if (is_inplace(ref)) return true;
  if (!ref.is(RefKind::tensor)) {
    fail(ErrorCode::NotWritable,
         fmt::format("{} is a register: only module tensors and in-place parameters can be changed",
                     describe(ref)));
    return false;
  }
  const Role role = module_.tensors[ref.index()].role;
  if (role == Role::output || role == Role::state) return true;
  fail(ErrorCode::NotWritable,
       fmt::format("{} is of role {}: only outputs and states can be written", describe(ref),
                   name(role)));
  return false;
}

bool FunctionVerifier::check_readable(Ref ref, bool stream_wanted) {
  if (ref.is(RefKind::value)) {
    if (registers_[ref.index()] == Visibility::visible) return true;
    fail(ErrorCode::UndefinedValue, fmt::format("{} {}", describe(ref),
                                                registers_[ref.index()] == Visibility::gone
                                                    ? "was defined in a region that has ended"
                                                    : "is read before it is defined"));
    return false;
  }
  if (!ref.is(RefKind::tensor)) {
    if (stream_wanted) fail(ErrorCode::NotReadable, "'next' reads a stream");
    return !stream_wanted;
  }
  const bool is_stream = module_.tensors[ref.index()].role == Role::stream;
  if (is_stream == stream_wanted) return true;
  fail(ErrorCode::NotReadable,
       is_stream ? fmt::format("{} is a stream, which only 'next' reads", describe(ref))
                 : fmt::format("'next' reads a stream, and {} is none", describe(ref)));
  return false;
}

bool FunctionVerifier::check_instruction() {
  const Instruction& instruction = function_.code[at_];
  op_ = find_op(static_cast<uint16_t>(instruction.opcode));
  if (op_ == nullptr) {
    fail(ErrorCode::UnknownInstruction, fmt::format("no instruction has the opcode {:#06x}",
                                                    static_cast<unsigned>(instruction.opcode)));
    return false;
  }
  const uint64_t words =
      uint64_t{instruction.results} + instruction.operands + instruction.attributes;
  if (instruction.first > module_.words.size() ||
      words > module_.words.size() - instruction.first) {
    fail(ErrorCode::BadEncoding, "its words lie outside the module");
    return false;
  }
  results_ = module_.results(instruction);
  operands_ = module_.operands(instruction);
  attributes_ = module_.attributes(instruction);
  if (!check_refs()) return false;

  const auto is_stream_operand = op_->opcode == Opcode::Next;
  bool ok = true;
  for (Ref operand : operands_)
    if (operand) ok = check_readable(operand, is_stream_operand) && ok;
  for (size_t i = 0; i < attributes_.size(); ++i)
    if (op_->attributes[i].kind != AttributeKind::values)
      ok = check_attribute_registers(attributes_[i]) && ok;

  if (op_->family == Family::control && check_control(ok)) return !fatal_;
  if (ok) check_plain();
  define_results();
  return !fatal_;
}

bool FunctionVerifier::check_refs() {
  const auto bad = [&](std::string_view what) {
    fail(ErrorCode::BadEncoding, fmt::format("a {} that names nothing", what));
    return false;
  };
  for (Ref result : results_) {
    if (!in_range(module_, function_, result)) return bad("result");
    if (!result.is(RefKind::value) && !result.is(RefKind::tensor)) return bad("result");
  }
  for (Ref operand : operands_) {
    const bool kind_fits = operand.is(RefKind::none) || operand.is(RefKind::tensor) ||
                           operand.is(RefKind::param) || operand.is(RefKind::value) ||
                           operand.is(RefKind::constant);
    if (!kind_fits || !in_range(module_, function_, operand)) return bad("operand");
  }
  if (attributes_.size() != op_->attributes.size()) return bad("list of attributes");
  for (Ref attribute : attributes_)
    if (!in_range(module_, function_, attribute)) return bad("attribute");
  return true;
}

bool FunctionVerifier::check_attribute_registers(Ref ref) {
  if (ref.is(RefKind::value)) return check_readable(ref, false);
  bool ok = true;
  if (ref.is(RefKind::list))
    for (Ref item : module_.list(ref))
      if (item.is(RefKind::value)) ok = check_readable(item, false) && ok;
  return ok;
}

void FunctionVerifier::check_plain() {
  types_.clear();
  for (Ref operand : operands_) types_.push_back(module_.type_of(function_, operand));
  inferred_.clear();
  if (auto fault =
          infer(module_, *op_, types_, operands_, attributes_, function_.values, inferred_))
    return fail(fault->code, std::move(fault->message));
  check_canonical_attributes();
  check_result_types();
  check_writes();
}

void FunctionVerifier::check_canonical_attributes() {
  const DType t = element_type(*op_, types_, operands_, attributes_);
  for (size_t i = 0; i < attributes_.size(); ++i) {
    const bool is_default_value =
        attributes_[i].is(RefKind::constant)
            ? is_default(op_->attributes[i], module_.constants[attributes_[i].index()], t)
            : op_->attributes[i].kind == AttributeKind::dtype &&
                  attributes_[i] ==
                      Ref(RefKind::number, static_cast<uint32_t>(default_result_type(*op_, t)));
    if (is_default_value)
      fail(ErrorCode::NotCanonical,
           fmt::format("attribute '{}' is its default, which is stored as absent",
                       op_->attributes[i].name));
  }
}

void FunctionVerifier::check_result_types() {
  if (results_.size() != inferred_.size())
    return fail(ErrorCode::ResultCount,
                fmt::format("'{}' gives {} results, found {}", op_->mnemonic, inferred_.size(),
                            results_.size()));
  for (size_t i = 0; i < results_.size(); ++i) {
    const Type found = module_.type_of(function_, results_[i]);
    if (found != inferred_[i])
      fail(ErrorCode::ResultType, fmt::format("the result is {}, and {} is {}", inferred_[i].text(),
                                              describe(results_[i]), found.text()));
  }
}

void FunctionVerifier::check_writes() {
  for (size_t i = 0; i < operands_.size() && i < op_->operands.size(); ++i) {
    if (op_->operands[i].access != Access::inout || !check_writable(operands_[i])) continue;
    for (size_t other = 0; other < operands_.size(); ++other)
      if (other != i && operands_[other] == operands_[i])
        return fail(ErrorCode::Alias,
                    fmt::format("{} is changed in place and read as another operand",
                                describe(operands_[i])));
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    const Ref result = results_[i];
    if (!is_destination(result) || !check_writable(result)) continue;
    if (std::count(results_.begin(), results_.end(), result) > 1)
      fail(ErrorCode::Alias, fmt::format("{} is written twice", describe(result)));
    for (size_t o = 0; o < operands_.size(); ++o) check_alias(i, o);
  }
}

void FunctionVerifier::check_alias(size_t result, size_t operand) {
  if (operands_[operand] != results_[result]) return;
  if (operand < op_->operands.size() && operand == 0 && op_->operands[0].access == Access::target)
    return;
  if (op_->alias == AliasRule::elementwise && types_[operand] == inferred_[result]) return;
  fail(ErrorCode::Alias, fmt::format("{} is both read and written, which '{}' does not allow: "
                                     "write to a register and copy it",
                                     describe(results_[result]), op_->mnemonic));
}

void FunctionVerifier::define_results() {
  for (Ref result : results_)
    if (!is_destination(result) && take_register(result)) make_visible(result.index());
}

bool FunctionVerifier::take_register(Ref ref) {
  if (ref.is(RefKind::value) && ref.index() == next_register_) {
    ++next_register_;
    return true;
  }
  fail(ErrorCode::Redefined, fmt::format("{} is defined out of order or twice", describe(ref)));
  fatal_ = true;
  return false;
}

void check_function(const Module& module, const Function& function, Report& report) {
  FunctionVerifier(module, function, report).check();
}

void check_init(const Module& module, Report& report) {
  const Function& init = module.init;
  check_function(module, init, report);
  if (!report.empty()) return;
  uint32_t next = 0;
  for (size_t i = 0; i + 1 < init.code.size(); ++i) {
    const Instruction& instruction = init.code[i];
    const OpInfo& op = info(instruction.opcode);
    const auto results = module.results(instruction);
    const bool generates =
        op.family == Family::random || op.opcode == Opcode::Fill || op.opcode == Opcode::Iota;
    if (!generates || results.size() != 1 || !results[0].is(RefKind::tensor))
      return report.add(
          ErrorCode::Structure, init, i,
          "an initialiser fills one tensor: fill, iota, uniform, normal, bernoulli or permutation");
    for (Ref word : module.operands(instruction))
      if (!word.is(RefKind::constant))
        return report.add(ErrorCode::Structure, init, i, "an initialiser has constant operands");
    for (Ref word : module.attributes(instruction))
      if (word.is(RefKind::param))
        return report.add(ErrorCode::Structure, init, i, "an initialiser has constant attributes");
    const uint32_t tensor = results[0].index();
    if (tensor < next)
      return report.add(ErrorCode::NotCanonical, init, i,
                        "initialisers stand in the order of their tensors");
    next = tensor + 1;
    if (module.tensors[tensor].role != Role::state ||
        module.tensors[tensor].source != DataSource::none)
      return report.add(ErrorCode::NotWritable, init, i,
                        "only a state without data of its own has an initialiser");
  }
}

}  // namespace trek::isa::verifier
