// The verifier of one function, in two files: instructions in verifier_function.cpp, regions, calls and
// returns in verifier_regions.cpp. Not for others to include.
//
// It walks the code with the registers that are visible and the regions that are open. A register is
// visible from its definition to the end of the region that defines it; results of a region are visible
// after it.
#pragma once

#include "isa/infer.h"
#include "isa/verifier_parts.h"

namespace trek::isa::verifier {

enum class Visibility : uint8_t { undefined, visible, gone };

class FunctionVerifier {
 public:
  FunctionVerifier(const Module& module, const Function& function, Report& report)
      : module_(module),
        function_(function),
        report_(report),
        registers_(function.values.size(), Visibility::undefined) {}

  void check();

 private:
  struct Region {
    size_t opener = 0;     // the instruction that opened it
    size_t watermark = 0;  // visible_ as the region began
    size_t owner = 0;      // the instruction whose results it gives: of an `else`, its `if`
    bool has_test = false;
  };

  void fail(ErrorCode code, std::string message) {
    report_.add(code, function_, at_, std::move(message));
  }
  std::string_view mnemonic(size_t instruction) const {
    return info(function_.code[instruction].opcode).mnemonic;
  }

  void make_visible(uint32_t index) {
    registers_[index] = Visibility::visible;
    visible_.push_back(index);
  }

  std::string describe(Ref ref) const;
  bool is_inplace(Ref ref) const {
    return ref.is(RefKind::value) && ref.index() < function_.parameters &&
           function_.inplace[ref.index()] != 0;
  }

  // A place that an instruction may write: an output or state tensor, or an in-place parameter.
  bool check_writable(Ref ref);
  bool check_readable(Ref ref, bool stream_wanted);
  // False when the function cannot be followed any further.
  bool check_instruction();
  bool check_refs();
  bool check_attribute_registers(Ref ref);
  // Everything but regions, calls and returns: the table, the shape rule, destinations, aliasing.
  void check_plain();
  void check_canonical_attributes();
  void check_result_types();
  void check_writes();
  void check_alias(size_t result, size_t operand);
  // Whether a result is a place that exists before, and not a register that this instruction defines.
  bool is_destination(Ref ref) const { return ref.is(RefKind::tensor) || is_inplace(ref); }

  void define_results();
  // Registers are defined in ascending order, each once.
  bool take_register(Ref ref);
  // Regions, calls and returns; true when the instruction was one of them. `ok`: its operands are.
  bool check_control(bool ok);
  void push_region();
  // A loop or while: `fixed` operands, then the carried ones.
  void open_carrying(size_t fixed, bool ok);
  bool check_condition(bool ok);
  void open_if(bool ok);
  void open_else();
  void check_test(bool ok);
  void close(bool ok);
  void check_yielded(std::span<const Ref> results);
  void check_call(bool ok);
  void check_argument(const Function& callee, uint32_t i);
  void check_call_result(const Function& callee, size_t i);
  void check_return(bool ok);

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

}  // namespace trek::isa::verifier
