#include "isa/cost.h"

namespace trek::isa {
namespace {

uint64_t elements(const Type& type) { return static_cast<uint64_t>(type.elements()); }

uint64_t bytes_of(const Type& type) {
  return type.scalar ? 0 : static_cast<uint64_t>(type.bytes());
}

// The length of the summed axis of a matmul: the last of a, or with `ta` the one before.
uint64_t summed(const Module& module, const OpInfo& op, const Instruction& instruction,
                const Type& a) {
  const bool ta =
      static_cast<bool>(module.attributes(instruction)[static_cast<size_t>(op.attribute("ta"))]);
  return static_cast<uint64_t>(a.shape[a.shape.rank() - (ta ? 2 : 1)]);
}

}  // namespace

Cost cost(const Module& module, const Function& function, const Instruction& instruction) {
  const OpInfo& op = info(instruction.opcode);
  const auto results = module.results(instruction);
  const auto operands = module.operands(instruction);
  const auto type = [&](Ref ref) { return module.type_of(function, ref); };

  Cost cost;
  const auto factor = static_cast<uint64_t>(op.flops.factor);
  switch (op.flops.rule) {
    case FlopRule::none:
      break;
    case FlopRule::per_result:
      cost.flops = factor * elements(type(results[0]));
      break;
    case FlopRule::per_operand:
      for (Ref operand :
           operands.first(op.operands[0].access == Access::variadic ? operands.size() : 1))
        cost.flops += factor * elements(type(operand));
      break;
    case FlopRule::matmul:
      cost.flops =
          factor * elements(type(results[0])) * summed(module, op, instruction, type(operands[0]));
      break;
  }
  switch (op.bytes) {
    case ByteRule::none:
      break;
    case ByteRule::all:
      for (size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i]) continue;
        const bool written = i < op.operands.size() && op.operands[i].access == Access::inout;
        cost.bytes += (written ? 2 : 1) * bytes_of(type(operands[i]));
      }
      for (Ref result : results) cost.bytes += bytes_of(type(result));
      break;
    case ByteRule::results:
      for (Ref result : results) cost.bytes += 2 * bytes_of(type(result));
      break;
  }
  return cost;
}

}  // namespace trek::isa
