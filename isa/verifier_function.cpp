// One function: instruction by instruction, with the registers that are visible and the regions that are
// open. A register is visible from its definition to the end of the region that defines it; results of a
// region are visible after it.
#include <algorithm>

#include "isa/infer.h"
#include "isa/verifier_parts.h"

namespace trek::isa::verifier {
namespace {

enum class Visibility : uint8_t { undefined, visible, gone };

class FunctionVerifier {
 public:
  FunctionVerifier(const Module& module, const Function& function, Report& report)
      : module_(module), function_(function), report_(report), registers_(function.values.size(), Visibility::undefined) {}

  void check() {
    for (uint32_t p = 0; p < function_.parameters; ++p) make_visible(p);
    next_register_ = function_.parameters;
    for (at_ = 0; at_ < function_.code.size() && !report_.full(); ++at_) {
      if (returned_) return fail(ErrorCode::Structure, "instructions follow the 'return' that ends the function");
      if (!check_instruction()) return;  // what follows cannot be understood
    }
    if (report_.full()) return;
    at_ = function_.code.empty() ? 0 : function_.code.size() - 1;
    if (!regions_.empty()) return fail(ErrorCode::Structure, fmt::format("'{}' is not closed", mnemonic(regions_.back().opener)));
    if (!returned_) return fail(ErrorCode::Structure, "a function ends with 'return'");
    if (next_register_ != function_.values.size())
      fail(ErrorCode::BadEncoding, fmt::format("{} of {} registers are defined", next_register_, function_.values.size()));
  }

 private:
  struct Region {
    size_t opener = 0;          // the instruction
    size_t watermark = 0;       // visible_ as the region began
    size_t first_yield = 0;     // of an `else`: the yield of its `if`
    bool has_test = false;
  };

  void fail(ErrorCode code, std::string message) { report_.add(code, function_, at_, std::move(message)); }
  std::string_view mnemonic(size_t instruction) const { return info(function_.code[instruction].opcode).mnemonic; }

  void make_visible(uint32_t index) {
    registers_[index] = Visibility::visible;
    visible_.push_back(index);
  }

  std::string describe(Ref ref) const {
    switch (ref.kind()) {
      case RefKind::tensor: return "@" + module_.strings[module_.tensors[ref.index()].name];
      case RefKind::param: return "$" + module_.strings[module_.params[ref.index()].name];
      default: break;
    }
    const auto number = static_cast<size_t>(&function_ - module_.functions.data());
    const bool scalar = module_.types[function_.values[ref.index()].type].scalar;
    std::string name = std::to_string(ref.index());
    if (&function_ != &module_.init && number < module_.debug.names.size()) {
      const auto& names = module_.debug.names[number].values;
      if (ref.index() < names.size() && names[ref.index()] != 0 && names[ref.index()] < module_.strings.size())
        name = module_.strings[names[ref.index()]];
    }
    return (scalar ? "$" : "%") + name;
  }

  bool is_inplace(Ref ref) const {
    return ref.is(RefKind::value) && ref.index() < function_.parameters && function_.inplace[ref.index()] != 0;
  }

  // A place that an instruction may write: an output or state tensor, or an in-place parameter.
  bool check_writable(Ref ref) {
    if (is_inplace(ref)) return true;
    if (!ref.is(RefKind::tensor)) {
      fail(ErrorCode::NotWritable, fmt::format("{} is a register: only module tensors and in-place parameters can be changed", describe(ref)));
      return false;
    }
    const Role role = module_.tensors[ref.index()].role;
    if (role == Role::output || role == Role::state) return true;
    fail(ErrorCode::NotWritable, fmt::format("{} is of role {}: only outputs and states can be written", describe(ref), name(role)));
    return false;
  }

  bool check_readable(Ref ref, bool stream_wanted) {
    if (ref.is(RefKind::value)) {
      if (registers_[ref.index()] == Visibility::visible) return true;
      fail(ErrorCode::UndefinedValue,
           fmt::format("{} {}", describe(ref),
                       registers_[ref.index()] == Visibility::gone ? "was defined in a region that has ended" : "is read before it is defined"));
      return false;
    }
    if (!ref.is(RefKind::tensor)) {
      if (stream_wanted) fail(ErrorCode::NotReadable, "'next' reads a stream");
      return !stream_wanted;
    }
    const bool is_stream = module_.tensors[ref.index()].role == Role::stream;
    if (is_stream == stream_wanted) return true;
    fail(ErrorCode::NotReadable, is_stream ? fmt::format("{} is a stream, which only 'next' reads", describe(ref))
                                           : fmt::format("'next' reads a stream, and {} is none", describe(ref)));
    return false;
  }

  // False when the function cannot be followed any further.
  bool check_instruction() {
    const Instruction& instruction = function_.code[at_];
    op_ = find_op(static_cast<uint16_t>(instruction.opcode));
    if (op_ == nullptr) {
      fail(ErrorCode::UnknownInstruction, fmt::format("no instruction has the opcode {:#06x}", static_cast<unsigned>(instruction.opcode)));
      return false;
    }
    const uint64_t words = uint64_t{instruction.results} + instruction.operands + instruction.attributes;
    if (instruction.first > module_.words.size() || words > module_.words.size() - instruction.first) {
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
      if (op_->attributes[i].kind != AttributeKind::values) ok = check_attribute_registers(attributes_[i]) && ok;

    if (op_->family == Family::control && check_control(ok)) return !fatal_;
    if (ok) check_plain();
    define_results();
    return !fatal_;
  }

  bool check_refs() {
    const auto bad = [&](std::string_view what) {
      fail(ErrorCode::BadEncoding, fmt::format("a {} that names nothing", what));
      return false;
    };
    for (Ref result : results_) {
      if (!in_range(module_, function_, result)) return bad("result");
      if (!result.is(RefKind::value) && !result.is(RefKind::tensor)) return bad("result");
    }
    for (Ref operand : operands_) {
      const bool kind_fits = operand.is(RefKind::none) || operand.is(RefKind::tensor) || operand.is(RefKind::param) ||
                             operand.is(RefKind::value) || operand.is(RefKind::constant);
      if (!kind_fits || !in_range(module_, function_, operand)) return bad("operand");
    }
    if (attributes_.size() != op_->attributes.size()) return bad("list of attributes");
    for (Ref attribute : attributes_)
      if (!in_range(module_, function_, attribute)) return bad("attribute");
    return true;
  }

  bool check_attribute_registers(Ref ref) {
    if (ref.is(RefKind::value)) return check_readable(ref, false);
    bool ok = true;
    if (ref.is(RefKind::list))
      for (Ref item : module_.list(ref))
        if (item.is(RefKind::value)) ok = check_readable(item, false) && ok;
    return ok;
  }

  // Everything but regions, calls and returns: the table, the shape rule, destinations, aliasing.
  void check_plain() {
    types_.clear();
    for (Ref operand : operands_) types_.push_back(module_.type_of(function_, operand));
    inferred_.clear();
    if (auto fault = infer(module_, *op_, types_, operands_, attributes_, function_.values, inferred_))
      return fail(fault->code, std::move(fault->message));
    check_canonical_attributes();
    check_result_types();
    check_writes();
  }

  void check_canonical_attributes() {
    const DType t = element_type(*op_, types_, operands_, attributes_);
    for (size_t i = 0; i < attributes_.size(); ++i) {
      if (!attributes_[i].is(RefKind::constant)) continue;
      if (is_default(op_->attributes[i], module_.constants[attributes_[i].index()], t))
        fail(ErrorCode::NotCanonical, fmt::format("attribute '{}' is its default, which is stored as absent", op_->attributes[i].name));
    }
  }

  void check_result_types() {
    if (results_.size() != inferred_.size())
      return fail(ErrorCode::ResultCount, fmt::format("'{}' gives {} results, found {}", op_->mnemonic, inferred_.size(), results_.size()));
    for (size_t i = 0; i < results_.size(); ++i) {
      const Type found = module_.type_of(function_, results_[i]);
      if (found != inferred_[i])
        fail(ErrorCode::ResultType, fmt::format("the result is {}, and {} is {}", inferred_[i].text(), describe(results_[i]), found.text()));
    }
  }

  void check_writes() {
    for (size_t i = 0; i < operands_.size() && i < op_->operands.size(); ++i) {
      if (op_->operands[i].access != Access::inout || !check_writable(operands_[i])) continue;
      for (size_t other = 0; other < operands_.size(); ++other)
        if (other != i && operands_[other] == operands_[i])
          return fail(ErrorCode::Alias, fmt::format("{} is changed in place and read as another operand", describe(operands_[i])));
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      const Ref result = results_[i];
      if (!is_destination(result) || !check_writable(result)) continue;
      if (std::count(results_.begin(), results_.end(), result) > 1)
        fail(ErrorCode::Alias, fmt::format("{} is written twice", describe(result)));
      for (size_t o = 0; o < operands_.size(); ++o) check_alias(i, o);
    }
  }

  void check_alias(size_t result, size_t operand) {
    if (operands_[operand] != results_[result]) return;
    if (operand < op_->operands.size() && operand == 0 && op_->operands[0].access == Access::target) return;
    if (op_->alias == AliasRule::elementwise && types_[operand] == inferred_[result]) return;
    fail(ErrorCode::Alias, fmt::format("{} is both read and written, which '{}' does not allow: write to a register and copy it", describe(results_[result]), op_->mnemonic));
  }

  // Whether a result is a place that exists before, and not a register that this instruction defines.
  bool is_destination(Ref ref) const { return ref.is(RefKind::tensor) || is_inplace(ref); }

  void define_results() {
    for (Ref result : results_)
      if (!is_destination(result) && take_register(result)) make_visible(result.index());
  }

  // Registers are defined in ascending order, each once.
  bool take_register(Ref ref) {
    if (ref.is(RefKind::value) && ref.index() == next_register_) {
      ++next_register_;
      return true;
    }
    fail(ErrorCode::Redefined, fmt::format("{} is defined out of order or twice", describe(ref)));
    fatal_ = true;
    return false;
  }

  // Regions, calls and returns; true when the instruction was one of them. `ok`: its operands are.
  bool check_control(bool ok) {
    switch (op_->opcode) {
      case Opcode::Loop: open_carrying(3, ok); return true;
      case Opcode::While: open_carrying(0, ok); return true;
      case Opcode::If: open_if(ok); return true;
      case Opcode::Else: open_else(); return true;
      case Opcode::Yield: close(ok); return true;
      case Opcode::Test: check_test(ok); return true;
      case Opcode::Call: check_call(ok); return true;
      case Opcode::Return: check_return(ok); return true;
      default: return false;
    }
  }

  void push_region() {
    if (regions_.size() >= kMaxNesting) {
      fail(ErrorCode::NestingLimit, fmt::format("regions nest at most {} deep", kMaxNesting));
      fatal_ = true;
    }
    Region region;
    region.opener = at_;
    region.watermark = visible_.size();
    regions_.push_back(region);
  }

  // A loop or while: `fixed` operands, then the carried ones.
  void open_carrying(size_t fixed, bool ok) {
    for (size_t i = 0; ok && i < std::min(fixed, operands_.size()); ++i) {
      const Type found = module_.type_of(function_, operands_[i]);
      if (found != Type::make_scalar(DType::i64))
        fail(ErrorCode::OperandType, fmt::format("operand '{}' of 'loop' is of type i64, found {}", op_->operands[i].name, found.text()));
    }
    const auto defined = attributes_[0].is(RefKind::list) ? module_.list(attributes_[0]) : std::span<const Ref>();
    const size_t counter = fixed == 0 ? 0 : 1;
    if (operands_.size() < fixed || results_.size() != operands_.size() - fixed || defined.size() != results_.size() + counter) {
      fail(ErrorCode::OperandCount, fmt::format("'{}' carries {} values in, {} inside and {} out", op_->mnemonic,
                                                operands_.size() < fixed ? 0 : operands_.size() - fixed,
                                                defined.size() < counter ? 0 : defined.size() - counter, results_.size()));
      fatal_ = true;
      return;
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!operands_[fixed + i]) {
        fail(ErrorCode::OperandCount, "a carried value is missing");
        continue;
      }
      const Type want = module_.type_of(function_, operands_[fixed + i]);
      for (Ref ref : {results_[i], defined[counter + i]}) {
        if (!ref.is(RefKind::value)) {
          fail(ErrorCode::ResultType, "what a region carries are registers");
          fatal_ = true;
          return;
        }
        if (const Type found = module_.type_of(function_, ref); found != want)
          fail(ErrorCode::ResultType, fmt::format("{} is {}, and starts as {}", describe(ref), found.text(), want.text()));
      }
    }
    for (Ref result : results_) take_register(result);
    push_region();
    for (size_t i = 0; i < defined.size() && !fatal_; ++i) {
      if (!defined[i].is(RefKind::value) || !take_register(defined[i])) {
        fatal_ = true;
        return;
      }
      make_visible(defined[i].index());
    }
    if (counter == 1 && !fatal_ && module_.type_of(function_, defined[0]) != Type::make_scalar(DType::i64))
      fail(ErrorCode::ResultType, "the counter of a loop is a scalar i64");
  }

  bool check_condition(bool ok) {
    if (operands_.size() != 1 || !operands_[0]) {
      fail(ErrorCode::OperandCount, fmt::format("'{}' takes one condition", op_->mnemonic));
      return false;
    }
    const Type found = module_.type_of(function_, operands_[0]);
    if (ok && found != Type::make_scalar(DType::boolean))
      fail(ErrorCode::OperandType, fmt::format("operand 'c' of '{}' is a scalar bool, found {}", op_->mnemonic, found.text()));
    return true;
  }

  void open_if(bool ok) {
    check_condition(ok);
    for (Ref result : results_)
      if (!result.is(RefKind::value) || !take_register(result)) {
        fatal_ = true;
        return;
      }
    push_region();
  }

  void open_else() {
    if (at_ == 0 || !pending_if_) {
      fail(ErrorCode::Structure, "'else' follows the region of an 'if'");
      fatal_ = true;
      return;
    }
    pending_if_ = false;
    push_region();
    regions_.back().first_yield = closed_if_;
  }

  void check_test(bool ok) {
    check_condition(ok);
    if (!results_.empty()) fail(ErrorCode::ResultCount, "'test' has no result");
    if (regions_.empty() || function_.code[regions_.back().opener].opcode != Opcode::While)
      return fail(ErrorCode::Structure, "'test' stands in the region of a 'while', not inside an inner region");
    if (std::exchange(regions_.back().has_test, true)) fail(ErrorCode::Structure, "a 'while' has one 'test'");
  }

  void close(bool ok) {
    if (!results_.empty()) fail(ErrorCode::ResultCount, "'yield' has no result");
    if (regions_.empty()) {
      fail(ErrorCode::Structure, "'yield' outside a region");
      fatal_ = true;
      return;
    }
    const Region region = regions_.back();
    regions_.pop_back();
    const Opcode opener = function_.code[region.opener].opcode;
    if (opener == Opcode::While && !region.has_test) fail(ErrorCode::Structure, "a 'while' without 'test' never ends");
    // The results belong to the instruction that opened the region; of an `else`, to its `if`.
    const size_t owner = opener == Opcode::Else ? region.first_yield : region.opener;
    const auto results = module_.results(function_.code[owner]);
    if (ok) check_yielded(results);
    while (visible_.size() > region.watermark) {
      registers_[visible_.back()] = Visibility::gone;
      visible_.pop_back();
    }
    if (opener == Opcode::If) {
      const bool has_else = at_ + 1 < function_.code.size() && function_.code[at_ + 1].opcode == Opcode::Else;
      if (has_else) {
        pending_if_ = true;
        closed_if_ = region.opener;
        return;
      }
      if (!results.empty()) fail(ErrorCode::Structure, "an 'if' with results needs an 'else'");
    }
    for (Ref result : results) make_visible(result.index());
  }

  void check_yielded(std::span<const Ref> results) {
    if (results.size() != operands_.size())
      return fail(ErrorCode::YieldMismatch, fmt::format("the region hands on {} value{}, and 'yield' gives {}", results.size(), results.size() == 1 ? "" : "s", operands_.size()));
    for (size_t i = 0; i < results.size(); ++i) {
      const Type want = module_.type_of(function_, results[i]);
      const Type found = module_.type_of(function_, operands_[i]);
      if (!operands_[i] || found != want)
        fail(ErrorCode::YieldMismatch, fmt::format("value {} of the region is {}, and 'yield' gives {}", i + 1, want.text(), found.text()));
    }
  }

  void check_call(bool ok) {
    if (!attributes_[0].is(RefKind::function)) {
      fail(ErrorCode::BadEncoding, "a call without a function");
      return define_results();
    }
    const Function& callee = module_.functions[attributes_[0].index()];
    const std::string& name = module_.strings[callee.name];
    if (operands_.size() != callee.parameters)
      fail(ErrorCode::CallMismatch, fmt::format("'{}' takes {} argument{}, found {}", name, callee.parameters, callee.parameters == 1 ? "" : "s", operands_.size()));
    else if (ok)
      for (uint32_t i = 0; i < callee.parameters; ++i) check_argument(callee, i);
    if (results_.size() != callee.results.size())
      fail(ErrorCode::CallMismatch, fmt::format("'{}' gives {} result{}, found {}", name, callee.results.size(), callee.results.size() == 1 ? "" : "s", results_.size()));
    else
      for (size_t i = 0; i < results_.size(); ++i) check_call_result(callee, i);
    define_results();
  }

  void check_argument(const Function& callee, uint32_t i) {
    const Type& want = module_.types[callee.values[i].type];
    const Type found = module_.type_of(function_, operands_[i]);
    if (!operands_[i] || found != want)
      return fail(ErrorCode::CallMismatch, fmt::format("argument {} of '{}' is {}, found {}", i + 1, module_.strings[callee.name], want.text(), found.text()));
    if (callee.inplace[i] == 0 || !check_writable(operands_[i])) return;
    const bool twice = std::count(operands_.begin(), operands_.end(), operands_[i]) > 1 ||
                       std::count(results_.begin(), results_.end(), operands_[i]) > 0;
    if (twice) fail(ErrorCode::Alias, fmt::format("{} is handed over in place and used elsewhere in the call", describe(operands_[i])));
  }

  void check_call_result(const Function& callee, size_t i) {
    const Type& want = module_.types[callee.results[i]];
    const Type found = module_.type_of(function_, results_[i]);
    if (found != want) fail(ErrorCode::ResultType, fmt::format("result {} of the call is {}, and {} is {}", i + 1, want.text(), describe(results_[i]), found.text()));
    if (!is_destination(results_[i])) return;
    check_writable(results_[i]);
    if (std::count(results_.begin(), results_.end(), results_[i]) > 1) fail(ErrorCode::Alias, fmt::format("{} is written twice", describe(results_[i])));
  }

  void check_return(bool ok) {
    returned_ = true;
    if (!results_.empty()) fail(ErrorCode::ResultCount, "'return' has no result");
    if (!regions_.empty()) {
      fail(ErrorCode::Structure, fmt::format("'return' inside the region of '{}'", mnemonic(regions_.back().opener)));
      fatal_ = true;
      return;
    }
    if (operands_.size() != function_.results.size())
      return fail(ErrorCode::YieldMismatch, fmt::format("the function gives {} result{}, and 'return' {}", function_.results.size(), function_.results.size() == 1 ? "" : "s", operands_.size()));
    for (size_t i = 0; ok && i < operands_.size(); ++i) {
      const Type& want = module_.types[function_.results[i]];
      const Type found = module_.type_of(function_, operands_[i]);
      if (!operands_[i] || found != want)
        fail(ErrorCode::YieldMismatch, fmt::format("result {} of the function is {}, and 'return' gives {}", i + 1, want.text(), found.text()));
    }
  }

  const Module& module_;
  const Function& function_;
  Report& report_;
  size_t at_ = 0;
  const OpInfo* op_ = nullptr;
  std::span<const Ref> results_;
  std::span<const Ref> operands_;
  std::span<const Ref> attributes_;
  std::vector<Type> types_;     // of the operands
  std::vector<Type> inferred_;  // of the results
  std::vector<Visibility> registers_;
  std::vector<uint32_t> visible_;  // the registers visible now, in order of definition
  std::vector<Region> regions_;
  uint32_t next_register_ = 0;
  size_t closed_if_ = 0;     // the `if` whose region has just been closed, for its `else`
  bool pending_if_ = false;  // an `else` comes next
  bool returned_ = false;
  bool fatal_ = false;
};

}  // namespace

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
    const bool generates = op.family == Family::random || op.opcode == Opcode::Fill || op.opcode == Opcode::Iota;
    if (!generates || results.size() != 1 || !results[0].is(RefKind::tensor))
      return report.add(ErrorCode::Structure, init, i, "an initialiser fills one tensor: fill, iota, uniform, normal, bernoulli or permutation");
    for (Ref word : module.operands(instruction))
      if (!word.is(RefKind::constant)) return report.add(ErrorCode::Structure, init, i, "an initialiser has constant operands");
    for (Ref word : module.attributes(instruction))
      if (word.is(RefKind::param)) return report.add(ErrorCode::Structure, init, i, "an initialiser has constant attributes");
    const uint32_t tensor = results[0].index();
    if (tensor < next) return report.add(ErrorCode::NotCanonical, init, i, "initialisers stand in the order of their tensors");
    next = tensor + 1;
    if (module.tensors[tensor].role != Role::state || module.tensors[tensor].source != DataSource::none)
      return report.add(ErrorCode::NotWritable, init, i, "only a state without data of its own has an initialiser");
  }
}

}  // namespace trek::isa::verifier
