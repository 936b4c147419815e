// Who reads and who writes the buffers of a plan whose nodes are not cut yet.
#pragma once

#include <algorithm>
#include <vector>

#include "emulator/plan/plan.h"
#include "isa/ops.h"

namespace trek::plan {

class NodeUses {
 public:
  explicit NodeUses(const Plan& plan);
  // Nodes, ascending.
  const std::vector<uint32_t>& readers(uint32_t buffer) const { return readers_[buffer]; }
  const std::vector<uint32_t>& writers(uint32_t buffer) const { return writers_[buffer]; }
  // Buffers, each once.
  const std::vector<uint32_t>& reads(uint32_t node) const { return reads_[node]; }
  const std::vector<uint32_t>& writes(uint32_t node) const { return writes_[node]; }
  // The buffer of an operand, or kNone.
  uint32_t buffer_of(Operand operand) const {
    return operand.kind == Operand::Kind::view ? plan_.view(operand.index).buffer : kNone;
  }
  // Whether a node behind `from`, up to and including `to`, writes a buffer.
  bool is_written(uint32_t buffer, uint32_t from, uint32_t to) const {
    return has_one(writers_[buffer], from, to);
  }
  bool is_read(uint32_t buffer, uint32_t from, uint32_t to) const {
    return has_one(readers_[buffer], from, to);
  }
  // The node that gives an operand, if that is a register which is written once, and one node alone reads it; or kNone.
  uint32_t writer_for_one(Operand operand) const;
  // Whether a buffer is a register that is read, and by nodes alone of which is_one() says yes.
  template <class IsOne>
  bool is_only_for(uint32_t buffer, IsOne is_one) const {
    return plan_.buffers[buffer].kind == BufferKind::tensor_register && !readers_[buffer].empty() &&
           std::ranges::all_of(readers_[buffer], is_one);
  }

 private:
  static bool has_one(const std::vector<uint32_t>& nodes, uint32_t from, uint32_t to);

  const Plan& plan_;
  std::vector<std::vector<uint32_t>> readers_;  // per buffer
  std::vector<std::vector<uint32_t>> writers_;
  std::vector<std::vector<uint32_t>> reads_;  // per node
  std::vector<std::vector<uint32_t>> writes_;
};

// Whether an operand is a tensor, or all of one; and a type that of a matrix of f32.
inline bool is_plain(const Plan& plan, Operand operand) {
  return operand.kind == Operand::Kind::view && !plan.view(operand.index).slice;
}
inline bool is_f32_matrix(const isa::Type& type) {
  return !type.scalar && type.dtype == isa::DType::f32 && type.shape.rank() == 2;
}

// Calls act(operand) for all that a node gives, and for what it changes in place.
template <class Act>
void each_write(const Node& node, Act act) {
  for (const uint32_t result : node.results) act(Operand{Operand::Kind::view, result});
  const isa::OpInfo& op = isa::info(node.opcode);
  for (size_t i = 0; i < node.own_operands && i < op.operands.size(); ++i)
    if (op.operands[i].access == isa::Access::inout) act(node.operands[i]);
}

// Per buffer the node that alone writes it, and once; kNone where there is none, or there are several.
std::vector<uint32_t> sole_writers(const Plan& plan);
// Which of a node's results is in a buffer; how many it has where none is.
uint32_t result_in(const Plan& plan, const Node& node, uint32_t buffer);
// Whether a node of a region, or of one within it, gives something in a buffer or changes it.
bool is_written_in(const Plan& plan, const Region& region, uint32_t buffer);
// Whether a region is a loop with none in it, so that its trips have numbers one after the other.
bool has_trips_in_turn(const Plan& plan, uint32_t region);

// Whether a plan has steps of optimizers.
bool has_steps(const Plan& plan);

// Makes a tensor that another node read an operand of this one, behind its others, and keeps its buffer until then.
void take_operand(Plan& plan, uint32_t node, Operand operand, const isa::Type& type);

// Takes nodes out of a plan: `gone` says which.
void remove_nodes(Plan& plan, const std::vector<bool>& gone);

}  // namespace trek::plan
