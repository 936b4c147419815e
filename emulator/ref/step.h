// An instruction in execution: its operands, attributes and results as plain tensors and numbers.
//
// The machine prepares a Step, the instruction's function (execute.h) reads operands and attributes,
// refuses what it must, and only then writes results. Operands are resolved before results are placed,
// so an operand stays readable when its module tensor is about to be written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "emulator/kernels/kernels.h"
#include "emulator/ref/memory.h"
#include "emulator/ref/status.h"
#include "emulator/ref/thread_pool.h"
#include "isa/module.h"

namespace trek::ref {

using kernels::DType;
using kernels::ElementFunction;
using kernels::Kernels;
using kernels::Opcode;

class Machine;

// A register, a module tensor, or a parameter that stands for one.
struct Slot {
  Buffer buffer;          // of a tensor
  uint64_t bits = 0;      // of a scalar, as in isa::Constant
  Slot* place = nullptr;  // of an in-place parameter: the module tensor's slot
};

// A tensor in memory, or a scalar as a tensor of one element. The data of an operand is only read.
struct Tensor {
  const isa::Type* type = nullptr;
  std::byte* data = nullptr;

  DType dtype() const { return type->dtype; }
  const isa::Shape& shape() const { return type->shape; }
  int64_t elements() const { return type->elements(); }
  int64_t bytes() const { return type->bytes(); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

class Step {
 public:
  explicit Step(Machine& machine) : machine_(machine) {}

  // Resolves operands and makes room for results.
  Status begin(const isa::Function& function, const isa::Instruction& instruction);
  // Puts results that replace a tensor into place.
  void commit();

  Machine& machine() const { return machine_; }
  const isa::OpInfo& op() const { return *op_; }
  const isa::Instruction& instruction() const { return *instruction_; }
  const Kernels& kernels() const;
  ThreadPool& pool() const;

  size_t operand_count() const { return operands_.size(); }
  bool has_operand(size_t i) const { return operands_[i].type != nullptr; }
  const Tensor& operand(size_t i) const { return operands_[i]; }
  isa::Ref operand_ref(size_t i) const;
  size_t result_count() const { return results_.size(); }
  const Tensor& result(size_t i) const { return results_[i].tensor; }
  isa::Ref result_ref(size_t i) const;

  // Gives result 0 the memory of operand 0: nobody writes a tensor that two share.
  void share_operand();
  // Makes result 0 a copy of operand 0, or operand 0 itself where it is changed in place or not needed
  // any more. What `update` and `scatter` begin with.
  Status copy_operand();
  // Memory for the time of this instruction; no buffer where the limit is reached.
  Buffer scratch(uint64_t bytes) const;
  Status out_of_memory(uint64_t bytes) const;

  // Attributes by name; the row's default where absent. `real` is exact: of f32 or f64.
  bool has(std::string_view name) const { return static_cast<bool>(attribute(name)); }
  bool flag(std::string_view name) const { return has(name); }
  int64_t integer(std::string_view name) const;  // also of an index
  double real(std::string_view name) const;
  uint64_t element_bits(std::string_view name) const;  // of the operand's type
  int choice(std::string_view name) const;
  DType dtype(std::string_view name) const;  // none where absent
  std::string_view string(std::string_view name) const;
  // The static or computed integers of a list, at most 8; empty where absent.
  struct Integers {
    std::array<int64_t, isa::kMaxRank> values{};
    int count = 0;
    int64_t operator[](int i) const { return values[static_cast<size_t>(i)]; }
  };
  Integers integers(std::string_view name) const;
  isa::Ref attribute(std::string_view name) const;
  // An axis attribute, counted from the front.
  int axis(int rank) const;
  // The key of a random instruction, with the host's seed in it.
  uint64_t key() const;

 private:
  struct Result {
    Tensor tensor;
    Slot* slot = nullptr;
    Buffer replacement;  // becomes the slot's when the instruction has succeeded
  };
  Status make_writable(size_t i);
  Status place_result(size_t i);
  bool may_take_over(size_t operand, const isa::Type& type) const;

  Machine& machine_;
  const isa::Function* function_ = nullptr;
  const isa::Instruction* instruction_ = nullptr;
  const isa::OpInfo* op_ = nullptr;
  std::span<const isa::Ref> operand_refs_;
  std::span<const isa::Ref> attribute_refs_;
  std::vector<Tensor> operands_;
  std::vector<Result> results_;
};

}  // namespace trek::ref
