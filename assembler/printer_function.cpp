// Functions: regions, instructions, operands and attributes. What may stand where, and how, comes from
// the row of the instruction; only the instructions of control have a form of their own.
#include <algorithm>

#include "assembler/printer_parts.h"
#include "isa/infer.h"

namespace trek::printer {

using isa::Access;
using isa::AttributeInfo;
using isa::AttributeKind;
using isa::Constant;
using isa::DType;
using isa::Function;
using isa::Instruction;
using isa::Module;
using isa::Opcode;
using isa::OperandInfo;
using isa::OpInfo;
using isa::Ref;
using isa::RefKind;
using isa::Type;
using isa::TypeRule;

namespace {

// How an immediate gets its type in the place where it stands.
struct Place {
  bool typed = true;        // the place has a type; else the way it is written decides
  DType real = DType::f32;  // the type of a plain real where it does

  static Place natural(DType real = DType::f32) { return {false, real}; }
};

const OperandInfo& operand_info(const OpInfo& op, size_t i) {
  return op.operands[std::min(i, op.operands.size() - 1)];
}

// The n-th of words separated by '|'.
std::string_view choice_word(std::string_view choices, uint32_t n) {
  for (; n > 0; --n) choices.remove_prefix(std::min(choices.find('|') + 1, choices.size()));
  return choices.substr(0, choices.find('|'));
}

class FunctionPrinter {
 public:
  FunctionPrinter(std::string& out, const Module& module, const Function& function, uint32_t index,
                  Names* names, SourceForm* form, Spellings* spellings)
      : out_(out),
        module_(module),
        function_(function),
        index_(index),
        names_(names),
        form_(form),
        spellings_(spellings) {}

  void print(std::string_view comment) {
    names_->begin_function(index_);
    signature();
    end_line(comment);
    for (at_ = 0; at_ < function_.code.size(); ++at_) {
      load(at_);
      statement();
    }
    out_ += "}\n";
  }

  // `normal(0, 0.05, key=1)`, or the value alone of a fill.
  void initialiser(const Instruction& instruction) {
    load(instruction);
    if (op_->opcode == Opcode::Fill) return operand(0);
    out_ += op_->mnemonic;
    out_ += '(';
    first_ = true;
    // The leading numbers stand by position, all of them as soon as one is given.
    size_t leading = 0;
    bool any = false;
    while (leading < attributes_.size() && is_number(op_->attributes[leading].kind))
      any = static_cast<bool>(attributes_[leading++]) || any;
    for (size_t i = 0; any && i < leading; ++i) {
      separate();
      if (attributes_[i])
        attribute_value(i);
      else
        append_element(out_, DType::i64, static_cast<uint64_t>(op_->attributes[i].fallback));
    }
    for (size_t i = any ? leading : 0; i < attributes_.size(); ++i)
      if (attributes_[i] && !follows_from_type(op_->attributes[i])) attribute(i);
    out_ += ')';
  }

 private:
  static bool is_number(AttributeKind kind) {
    return kind == AttributeKind::real || kind == AttributeKind::single ||
           kind == AttributeKind::element;
  }
  // Attributes of an initialiser that the tensor's type says already.
  static bool follows_from_type(const AttributeInfo& info) {
    return info.kind == AttributeKind::dtype || info.name == "shape" || info.name == "n";
  }

  // ---- lines -------------------------------------------------------------------------------------

  void end_line(std::string_view comment) {
    if (!comment.empty()) {
      out_ += "  ";
      append_comment(out_, comment);
    }
    out_ += '\n';
  }

  // Comments before an instruction: a line each, an empty one for a blank line.
  void leading_comment(uint32_t instruction) {
    std::string_view text = form_->comment(index_, instruction, false);
    if (text.data() == nullptr) return;
    for (bool more = true; more;) {
      const size_t end = text.find('\n');
      more = end != std::string_view::npos;
      const std::string_view line = text.substr(0, end);
      if (line.empty()) {
        append_blank_line(out_);
      } else {
        append_indent(out_, depth_);
        append_comment(out_, line);
        out_ += '\n';
      }
      if (more) text.remove_prefix(end + 1);
    }
  }

  std::string_view trailing_comment() const {
    return form_->comment(index_, static_cast<uint32_t>(at_), true);
  }

  void separate() {
    if (!first_) out_ += ", ";
    first_ = false;
  }
  // A blank before the first operand of an instruction, a comma before the others.
  void next_item() {
    out_ += first_ ? " " : ", ";
    first_ = false;
  }

  // ---- instructions ------------------------------------------------------------------------------

  void load(const Instruction& instruction) {
    op_ = &isa::info(instruction.opcode);
    results_ = module_.results(instruction);
    operands_ = module_.operands(instruction);
    attributes_ = module_.attributes(instruction);
    types_.clear();
    for (Ref ref : operands_) types_.push_back(ref ? module_.type_of(function_, ref) : Type{});
  }
  void load(size_t at) {
    load(function_.code[at]);
    if (form_ != nullptr) form_->begin_instruction(index_, static_cast<uint32_t>(at));
  }

  void statement() {
    leading_comment(static_cast<uint32_t>(at_));
    switch (op_->opcode) {
      case Opcode::Yield:
        return yield_line();
      case Opcode::Return:
        return return_line();
      case Opcode::Else:
        return else_line();
      case Opcode::Loop:
        loop_line();
        break;
      case Opcode::While:
        while_line();
        break;
      case Opcode::If:
        if_line();
        break;
      case Opcode::Call:
        call_line();
        break;
      default:
        plain_line();
        break;
    }
    end_line(trailing_comment());
  }

  void plain_line() {
    // What changes its operand in place says so by its mark, and names no result.
    const bool in_place = is_in_place();
    begin(in_place ? std::span<const Ref>() : results_);
    out_ += op_->mnemonic;
    if (in_place) out_ += '!';
    // A message or a name comes first: emit "loss", %loss.
    for (size_t i = 0; i < attributes_.size(); ++i) {
      if (op_->attributes[i].kind != AttributeKind::string) continue;
      next_item();
      append_quoted(out_, module_.strings[attributes_[i].index()]);
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i]) continue;
      next_item();
      if (operand_info(*op_, i).access == Access::optional) {
        out_ += operand_info(*op_, i).name;
        out_ += '=';
      }
      operand(i);
    }
    for (size_t i = 0; i < attributes_.size(); ++i)
      if (attributes_[i] && op_->attributes[i].kind != AttributeKind::string) attribute_item(i);
  }

  // Indentation, results, '='.
  void begin(std::span<const Ref> results) {
    append_indent(out_, depth_);
    for (Ref result : results) define(result);
    write_results(results);
  }
  void write_results(std::span<const Ref> results) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (i > 0) out_ += ", ";
      reference(results[i]);
    }
    if (!results.empty()) out_ += " = ";
    first_ = true;
  }

  // Always where the row says so; of a row that may change its first operand, where the result is it.
  bool is_in_place() const {
    for (size_t i = 0; i < op_->operands.size() && i < operands_.size(); ++i) {
      if (op_->operands[i].access == Access::inout) return true;
      if (op_->operands[i].access == Access::target && !results_.empty() &&
          results_[0] == operands_[i])
        return true;
    }
    return false;
  }

  // A result is a new register, or a place that exists: a module tensor, an in-place parameter.
  void define(Ref ref) {
    if (ref.is(RefKind::value) && ref.index() >= function_.parameters) names_->define(ref.index());
  }

  void reference(Ref ref) {
    if (ref.is(RefKind::value)) return names_->append(out_, ref.index());
    const bool is_tensor = ref.is(RefKind::tensor);
    out_ += is_tensor ? '@' : '$';
    out_ += module_.strings[is_tensor ? module_.tensors[ref.index()].name
                                      : module_.params[ref.index()].name];
  }

  // ---- operands ----------------------------------------------------------------------------------

  // A word of the instruction: a reference, or an immediate as it was written.
  void word(Ref ref, size_t slot, size_t element, const Place& place) {
    if (!ref.is(RefKind::constant)) return reference(ref);
    const Constant& constant = module_.constants[ref.index()];
    if (form_ != nullptr) {
      const auto text =
          form_->spelling(static_cast<uint32_t>(slot), static_cast<uint32_t>(element));
      const bool fits = !text.empty() && !reads_as_attribute(text) &&
                        (place.typed ? spellings_->gives(text, constant)
                                     : spellings_->gives_naturally(text, constant, place.real));
      if (fits) {
        out_ += text;
        return;
      }
    }
    if (place.typed)
      append_element(out_, constant.dtype, constant.bits);
    else
      append_immediate(out_, constant, place.real);
  }

  // Whether a name alone would be taken for a flag or a choice of the instruction.
  bool reads_as_attribute(std::string_view text) const {
    for (const AttributeInfo& info : op_->attributes) {
      if (info.kind == AttributeKind::flag && info.name == text) return true;
      for (std::string_view rest = info.choices; !rest.empty();) {
        if (rest.substr(0, rest.find('|')) == text) return true;
        const size_t bar = rest.find('|');
        rest.remove_prefix(bar == std::string_view::npos ? rest.size() : bar + 1);
      }
    }
    return false;
  }

  void operand(size_t i) { operand(i, place_of(i)); }
  void operand(size_t i, const Place& place) { word(operands_[i], results_.size() + i, 0, place); }

  // What decides the type of an immediate as operand i (assembler/README.md, the table of places).
  Place place_of(size_t i) const {
    const OperandInfo& info = operand_info(*op_, i);
    if (info.type == TypeRule::T) {
      for (size_t other = 0; other < operands_.size(); ++other)
        if (operands_[other] && operand_info(*op_, other).type == TypeRule::T &&
            !operands_[other].is(RefKind::constant))
          return {};
      return Place::natural();
    }
    if (info.type != TypeRule::any) return {};
    for (const Type& type : types_)
      if (!type.scalar && type.dtype != DType::none)
        return {};  // a value for an element of a tensor
    const int to = op_->attribute("to");
    const bool gives_f64 = to >= 0 && attributes_[static_cast<size_t>(to)] ==
                                          Ref{RefKind::number, static_cast<uint32_t>(DType::f64)};
    return Place::natural(gives_f64 ? DType::f64 : DType::f32);
  }

  // ---- attributes --------------------------------------------------------------------------------

  void attribute_item(size_t i) {
    next_item();
    attribute_named(i);
  }
  void attribute(size_t i) {
    separate();
    attribute_named(i);
  }

  void attribute_named(size_t i) {
    const AttributeInfo& info = op_->attributes[i];
    if (info.kind == AttributeKind::choice) {
      out_ += choice_word(info.choices, attributes_[i].index());
      return;
    }
    out_ += info.name;
    if (info.kind == AttributeKind::flag) return;
    out_ += '=';
    attribute_value(i);
  }

  void attribute_value(size_t i) {
    const AttributeInfo& info = op_->attributes[i];
    const Ref ref = attributes_[i];
    switch (info.kind) {
      case AttributeKind::dtype:
        out_ += isa::name(static_cast<DType>(ref.index()));
        return;
      case AttributeKind::tail:
        out_ += isa::info(static_cast<Opcode>(ref.index())).mnemonic;
        return;
      case AttributeKind::integers:
      case AttributeKind::indices:
        return attribute_list(i);
      default:
        return word(ref, attribute_slot(i), 0, {});
    }
  }

  size_t attribute_slot(size_t i) const { return results_.size() + operands_.size() + i; }

  void attribute_list(size_t i) {
    const auto items = module_.list(attributes_[i]);
    // `axis=0`, but `shape=[4]`: what every use has to give reads as the list it is.
    const bool alone = items.size() == 1 && op_->attributes[i].kind == AttributeKind::integers &&
                       !op_->attributes[i].required;
    if (!alone) out_ += '[';
    for (size_t item = 0; item < items.size(); ++item) {
      if (item > 0) out_ += ',';
      word(items[item], attribute_slot(i), item, {});
    }
    if (!alone) out_ += ']';
  }

  // ---- control -----------------------------------------------------------------------------------

  void signature() {
    out_ += ".func ";
    out_ += module_.strings[function_.name];
    out_ += '(';
    for (uint32_t p = 0; p < function_.parameters; ++p) {
      if (p > 0) out_ += ", ";
      names_->define(p);
      names_->append(out_, p);
      out_ += function_.inplace[p] != 0 ? "! " : " ";
      append_type(out_, module_.types[function_.values[p].type]);
    }
    out_ += ')';
    if (!function_.results.empty()) {
      out_ += " -> (";
      for (size_t i = 0; i < function_.results.size(); ++i) {
        if (i > 0) out_ += ", ";
        append_type(out_, module_.types[function_.results[i]]);
      }
      out_ += ')';
    }
    out_ += " {";
    depth_ = 1;
  }

  // The beginning of a line that opens a region with these results.
  void begin_region(std::span<const Ref> results) {
    names_->choose(results);
    append_indent(out_, depth_);
    write_results(results);
    names_->begin_region();
  }
  void open_block(std::span<const Ref> results) {
    out_ += " {";
    openers_.push_back({op_->opcode, results});
    ++depth_;
  }

  // `carry %c = %h0, $t = 0.0`: what stands inside, and what it starts with.
  void carry(std::span<const Ref> inside, size_t first_operand) {
    if (inside.empty()) return;
    out_ += " carry ";
    for (size_t i = 0; i < inside.size(); ++i) {
      if (i > 0) out_ += ", ";
      define(inside[i]);
      reference(inside[i]);
      out_ += " = ";
      operand(first_operand + i, Place::natural());
    }
  }

  void loop_line() {
    begin_region(results_);
    const auto inside = module_.list(attributes_[0]);
    out_ += "loop ";
    define(inside[0]);
    reference(inside[0]);
    out_ += " = ";
    operand(0);
    out_ += " until ";
    operand(1);
    const bool is_one =
        operands_[2].is(RefKind::constant) && module_.constants[operands_[2].index()].bits == 1;
    if (!is_one) {
      out_ += " step ";
      operand(2);
    }
    carry(inside.subspan(1), 3);
    open_block(results_);
  }

  void while_line() {
    begin_region(results_);
    out_ += "while";
    carry(module_.list(attributes_[0]), 0);
    open_block(results_);
  }

  void if_line() {
    begin_region(results_);
    out_ += "if ";
    operand(0);
    open_block(results_);
  }

  void else_line() {
    --depth_;
    append_indent(out_, depth_);
    out_ += "} else";
    names_->begin_region();
    open_block(if_results_);
    const std::string_view trailing = trailing_comment();
    end_line(trailing.empty() ? brace_comment_ : trailing);
  }

  // A `yield` of nothing is left out; its comment then ends the line of the brace.
  void yield_line() {
    const auto [opener, results] = openers_.back();
    const std::string_view trailing = trailing_comment();
    if (!operands_.empty()) {
      append_indent(out_, depth_);
      out_ += "yield";
      const bool by_writing = opener == Opcode::If || opener == Opcode::Else;
      first_ = true;
      for (size_t i = 0; i < operands_.size(); ++i) {
        next_item();
        operand(i, by_writing ? Place::natural() : Place{});
      }
      end_line(trailing);
    }
    openers_.pop_back();
    names_->end_region();
    brace_comment_ = operands_.empty() ? trailing : std::string_view();
    const bool has_else = opener == Opcode::If && at_ + 1 < function_.code.size() &&
                          function_.code[at_ + 1].opcode == Opcode::Else;
    if (has_else) {  // whose line has the brace
      if_results_ = results;
      return;
    }
    names_->reveal(results);
    --depth_;
    append_indent(out_, depth_);
    out_ += '}';
    end_line(brace_comment_);
  }

  void call_line() {
    begin(results_);
    out_ += "call ";
    const Function& callee = module_.functions[attributes_[0].index()];
    out_ += module_.strings[callee.name];
    out_ += '(';
    first_ = true;
    for (size_t i = 0; i < operands_.size(); ++i) {
      separate();
      operand(i, {});
    }
    out_ += ')';
  }

  void return_line() {
    const std::string_view trailing = trailing_comment();
    if (operands_.empty() && trailing.empty()) return;
    append_indent(out_, depth_);
    out_ += "return";
    first_ = true;
    for (size_t i = 0; i < operands_.size(); ++i) {
      next_item();
      operand(i, {});
    }
    end_line(trailing);
  }

  std::string& out_;
  const Module& module_;
  const Function& function_;
  uint32_t index_;
  Names* names_;
  SourceForm* form_;
  Spellings* spellings_;

  size_t at_ = 0;
  int depth_ = 0;
  bool first_ = true;               // the next item of a list is its first
  std::string_view brace_comment_;  // of the `yield` that was left out before a brace
  struct Opener {
    Opcode opcode;
    std::span<const Ref> results;  // of an `else` those of its `if`
  };
  std::vector<Opener> openers_;
  std::span<const Ref> if_results_;  // of the `if` whose `else` comes next
  const OpInfo* op_ = nullptr;
  std::span<const Ref> results_;
  std::span<const Ref> operands_;
  std::span<const Ref> attributes_;
  std::vector<Type> types_;  // of the operands
};

}  // namespace

void print_function(std::string& out, const Module& module, uint32_t index,
                    std::string_view comment, Names& names, SourceForm& form,
                    Spellings& spellings) {
  FunctionPrinter(out, module, module.functions[index], index, &names, &form, &spellings)
      .print(comment);
}

void print_initialiser(std::string& out, const Module& module, const Instruction& instruction) {
  FunctionPrinter(out, module, module.init, 0, nullptr, nullptr, nullptr).initialiser(instruction);
}

}  // namespace trek::printer
