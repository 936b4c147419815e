// Builder: makes a module one declaration and one instruction at a time.
//
// It interns strings, types and constants, infers the types of results, brings attributes into the one
// form that a module has (a default becomes none), and refuses an instruction that infer() refuses.
// Rules that need the whole function (scopes, regions, aliasing, recursion) are the verifier's.
//
//   Module module;
//   Builder build(module);
//   Ref x = build.tensor("x", Type::tensor(DType::f32, {4, 4}), Role::input);
//   build.begin_function("main");
//   build.add(Opcode::Add, {x, x});                     // defines a register, returned in results()
//   build.end_function();                               // appends `return` where it is missing
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isa/infer.h"
#include "isa/module.h"

namespace trek::isa {

class Builder {
 public:
  explicit Builder(Module& module);

  // Interned entries of the module's tables.
  uint32_t string(std::string_view text);
  uint32_t type(const Type& type);
  Ref constant(DType dtype, uint64_t bits);
  Ref integer(int64_t value) { return constant(DType::i64, static_cast<uint64_t>(value)); }
  Ref real(DType dtype, double value);
  Ref list(std::span<const Ref> items);
  Ref integers(std::span<const int64_t> values);
  static Ref number(uint32_t value) { return {RefKind::number, value}; }
  static Ref dtype(DType dtype) { return number(static_cast<uint32_t>(dtype)); }

  // Declarations. Names are the caller's duty to keep apart.
  Ref tensor(std::string_view name, const Type& type, Role role);
  Ref param(std::string_view name, DType dtype, uint64_t bits);
  // Appends bytes to the module's data at the next aligned offset and returns that offset.
  uint64_t embed(std::span<const std::byte> bytes);

  // A function; its parameters are its first values. Returns its index.
  uint32_t begin_function(std::string_view name);
  Ref parameter(const Type& type, bool inplace, std::string_view name = "");
  void set_results(std::span<const Type> types);
  // Goes back to a function whose signature was given before others were begun.
  void resume_function(uint32_t index);
  void end_function();
  // The instructions that follow initialise `target`: each writes one tensor, in tensor order.
  void begin_init();
  void end_init();
  Function& function() { return *function_; }
  const Function& function() const { return *function_; }

  // Appends an instruction. `attributes` are in the order of its row and may be shorter. A destination
  // is a module tensor or an in-place parameter to write, or none for a new register; missing ones are
  // none. After success results() are the instruction's result Refs.
  std::optional<Fault> add(Opcode opcode, std::span<const Ref> operands,
                           std::span<const Ref> attributes = {},
                           std::span<const Ref> destinations = {});
  std::optional<Fault> add(Opcode opcode, std::initializer_list<Ref> operands,
                           std::initializer_list<Ref> attributes = {},
                           std::initializer_list<Ref> destinations = {});
  std::span<const Ref> results() const { return results_; }

  // Regions. registers() are those that the region defines: of a loop its counter, then the carried ones.
  std::optional<Fault> open_loop(Ref from, Ref until, Ref step, std::span<const Ref> carried);
  void open_while(std::span<const Ref> carried);
  // `result_count` registers are made when the first region yields and their types are known.
  std::optional<Fault> open_if(Ref condition, uint32_t result_count);
  void open_else();
  std::optional<Fault> yield(std::span<const Ref> values);  // closes the innermost region
  std::span<const Ref> registers() const { return registers_; }
  // A call's result types are those of the callee, which need not be complete: its signature must be.
  std::optional<Fault> call(uint32_t callee, std::span<const Ref> arguments,
                            std::span<const Ref> destinations = {});
  void return_values(std::span<const Ref> values);

  Type type_of(Ref ref) const { return module_.type_of(*function_, ref); }

 private:
  struct Region {
    uint32_t instruction = 0;  // that opened it
  };
  Ref new_register(const Type& type);
  void append(Opcode opcode, std::span<const Ref> results, std::span<const Ref> operands,
              std::span<const Ref> attributes);
  Ref normalised(const AttributeInfo& attribute, Ref ref, DType t) const;
  void open_carrying(Opcode opcode, std::span<const Ref> carried, const Type* counter);
  std::optional<Fault> give_results(std::span<const Type> types, std::span<const Ref> destinations);

  struct ConstantHash {
    size_t operator()(const Constant& c) const {
      return std::hash<uint64_t>()(c.bits * 31 + static_cast<uint64_t>(c.dtype));
    }
  };
  struct StringHash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  Module& module_;
  Function* function_ = nullptr;
  std::vector<Region> regions_;
  std::vector<Ref> results_;
  std::vector<Ref> registers_;
  std::vector<Type> types_;         // scratch
  std::vector<Type> result_types_;  // scratch
  std::vector<Ref> operands_;       // scratch
  std::vector<Ref> attributes_;     // scratch
  std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>> strings_;
  std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>> type_index_;
  std::unordered_map<Constant, uint32_t, ConstantHash> constants_;
};

}  // namespace trek::isa
