#include "emulator/ref/step.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "emulator/ref/machine.h"
#include "isa/convert.h"
#include "isa/semantics/philox.h"

namespace trek::ref {
namespace {

using isa::Access;
using isa::Opcode;
using isa::Ref;
using isa::RefKind;
using isa::Type;

// Instructions whose function places result 0 itself: it is operand 0, whole or changed.
bool places_itself(const isa::OpInfo& op) {
  return op.opcode == Opcode::Copy || op.opcode == Opcode::Reshape ||
         (!op.operands.empty() && op.operands[0].access == Access::target);
}

// Control instructions move whole values; the machine does that (control.cpp).
bool moves_values(const isa::OpInfo& op) {
  return op.opens_region() || op.opcode == Opcode::Yield || op.opcode == Opcode::Call ||
         op.opcode == Opcode::Return;
}

}  // namespace

const Kernels& Step::kernels() const { return machine_.kernels(); }
ThreadPool& Step::pool() const { return machine_.pool(); }
Ref Step::operand_ref(size_t i) const { return operand_refs_[i]; }
Ref Step::result_ref(size_t i) const { return machine_.module().results(*instruction_)[i]; }

Status Step::begin(const isa::Function& function, const isa::Instruction& instruction) {
  const isa::Module& module = machine_.module();
  function_ = &function;
  instruction_ = &instruction;
  op_ = &isa::info(instruction.opcode);
  operand_refs_ = module.operands(instruction);
  attribute_refs_ = module.attributes(instruction);
  operands_.clear();
  results_.clear();
  if (moves_values(*op_)) return nullptr;

  for (size_t i = 0; i < operand_refs_.size() && i < op_->operands.size(); ++i)
    if (op_->operands[i].access == Access::inout)
      if (Status status = make_writable(i)) return status;
  for (Ref ref : operand_refs_) {
    if (!ref) {
      operands_.push_back({});
    } else if (ref.is(RefKind::constant)) {
      // Little-endian: the first bytes of the bits are the element.
      const auto* bits = &module.constants[ref.index()].bits;
      operands_.push_back(
          {&machine_.type(ref), const_cast<std::byte*>(reinterpret_cast<const std::byte*>(bits))});
    } else if (ref.is(RefKind::param)) {
      operands_.push_back(
          {&machine_.type(ref), reinterpret_cast<std::byte*>(&machine_.params()[ref.index()])});
    } else {
      Slot& slot = machine_.slot(ref);
      const Type& type = machine_.type(ref);
      std::byte* data = type.scalar   ? reinterpret_cast<std::byte*>(&slot.bits)
                        : slot.buffer ? slot.buffer.data()
                                      : nullptr;
      operands_.push_back({&type, data});
    }
  }
  results_.resize(instruction.results);
  for (size_t i = 0; i < results_.size(); ++i)
    if (Status status = place_result(i)) return status;
  return nullptr;
}

Status Step::make_writable(size_t i) {
  Slot& slot = machine_.slot(operand_refs_[i]);
  if (slot.buffer.is_unique()) return nullptr;
  const auto bytes = static_cast<uint64_t>(machine_.type(operand_refs_[i]).bytes());
  Buffer copy = scratch(bytes);
  if (!copy) return out_of_memory(bytes);
  std::memcpy(copy.data(), slot.buffer.data(), bytes);
  slot.buffer = std::move(copy);
  return nullptr;
}

Status Step::place_result(size_t i) {
  const Ref ref = result_ref(i);
  Result& result = results_[i];
  result.slot = &machine_.slot(ref);
  result.tensor.type = &machine_.type(ref);
  if (result.tensor.type->scalar) {
    result.slot->bits = 0;
    result.tensor.data = reinterpret_cast<std::byte*>(&result.slot->bits);
    return nullptr;
  }
  if (i == 0 && places_itself(*op_)) return nullptr;
  const auto bytes = static_cast<uint64_t>(result.tensor.bytes());
  Buffer& old = result.slot->buffer;
  if (old && old.is_unique()) {
    // A module tensor that nobody shares: written where it is. That it may be an operand at the same
    // time only if the instruction works element by element is a rule of the ISA.
    result.tensor.data = old.data();
    return nullptr;
  }
  if (op_->alias == isa::AliasRule::elementwise && i == 0) {
    for (size_t o = 0; o < operands_.size(); ++o)
      if (may_take_over(o, *result.tensor.type)) {
        result.replacement = machine_.slot(operand_refs_[o]).buffer;
        result.tensor.data = result.replacement.data();
        return nullptr;
      }
  }
  result.replacement = scratch(bytes);
  if (!result.replacement) return out_of_memory(bytes);
  result.tensor.data = result.replacement.data();
  return nullptr;
}

// Whether an operand is a register of this type that nobody needs any more.
bool Step::may_take_over(size_t operand, const Type& type) const {
  const Ref ref = operand_refs_[operand];
  if (!ref.is(RefKind::value) || *operands_[operand].type != type || !machine_.dies_here(ref) ||
      machine_.belongs_to_caller(ref))
    return false;
  return machine_.slot(ref).buffer.is_unique();
}

void Step::commit() {
  for (Result& result : results_)
    if (result.replacement) result.slot->buffer = std::move(result.replacement);
}

void Step::share_operand() {
  Result& result = results_[0];
  if (result.tensor.type->scalar) {
    std::memcpy(result.tensor.data, operands_[0].data, sizeof(uint64_t));
    return;
  }
  result.replacement = machine_.slot(operand_refs_[0]).buffer;
  result.tensor.data = result.replacement.data();
}

Status Step::copy_operand() {
  Result& result = results_[0];
  const Ref ref = operand_refs_[0];
  Slot& source = machine_.slot(ref);
  if (result.slot == &source) {
    if (Status status = make_writable(0)) return status;
    result.tensor.data = source.buffer.data();
    return nullptr;
  }
  const bool read_once = std::count(operand_refs_.begin(), operand_refs_.end(), ref) == 1;
  if (read_once && may_take_over(0, *result.tensor.type)) {
    result.replacement = source.buffer;
    result.tensor.data = result.replacement.data();
    return nullptr;
  }
  const auto bytes = static_cast<uint64_t>(result.tensor.bytes());
  result.replacement = scratch(bytes);
  if (!result.replacement) return out_of_memory(bytes);
  result.tensor.data = result.replacement.data();
  std::memcpy(result.tensor.data, operands_[0].data, bytes);
  return nullptr;
}

Buffer Step::scratch(uint64_t bytes) const { return machine_.memory().allocate(bytes); }

Status Step::out_of_memory(uint64_t bytes) const {
  const Memory& memory = machine_.memory();
  return limit_reached(fmt::format("memory: {} bytes more than the {} in use, of {} allowed", bytes,
                                   memory.in_use(), memory.limit()));
}

Ref Step::attribute(std::string_view name) const {
  return attribute_refs_[static_cast<size_t>(op_->attribute(name))];
}

int64_t Step::integer(std::string_view name) const {
  const auto i = static_cast<size_t>(op_->attribute(name));
  if (!attribute_refs_[i]) return static_cast<int64_t>(op_->attributes[i].fallback);
  return static_cast<int64_t>(machine_.scalar_bits(attribute_refs_[i]));
}

double Step::real(std::string_view name) const {
  const auto i = static_cast<size_t>(op_->attribute(name));
  const Ref ref = attribute_refs_[i];
  if (!ref) return op_->attributes[i].fallback;
  return isa::bits_to_double(machine_.type(ref).dtype, machine_.scalar_bits(ref));
}

uint64_t Step::element_bits(std::string_view name) const {
  const auto i = static_cast<size_t>(op_->attribute(name));
  if (attribute_refs_[i]) return machine_.scalar_bits(attribute_refs_[i]);
  const DType dtype = operands_[0].dtype();
  const double fallback = op_->attributes[i].fallback;
  return isa::is_real(dtype) ? isa::double_to_bits(dtype, fallback)
                             : static_cast<uint64_t>(static_cast<int64_t>(fallback));
}

int Step::choice(std::string_view name) const {
  const Ref ref = attribute(name);
  return ref ? static_cast<int>(ref.index()) : 0;
}

DType Step::dtype(std::string_view name) const {
  const Ref ref = attribute(name);
  return ref ? static_cast<DType>(ref.index()) : DType::none;
}

std::string_view Step::string(std::string_view name) const {
  return machine_.module().string(attribute(name).index());
}

Step::Integers Step::integers(std::string_view name) const {
  Integers out;
  const Ref ref = attribute(name);
  if (!ref) return out;
  for (Ref item : machine_.module().list(ref))
    out.values[static_cast<size_t>(out.count++)] = static_cast<int64_t>(machine_.scalar_bits(item));
  return out;
}

int Step::axis(int rank) const {
  const int64_t axis = integer("axis");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

uint64_t Step::key() const {
  return semantics::seeded_key(static_cast<uint64_t>(integer("key")), machine_.seed());
}

}  // namespace trek::ref
