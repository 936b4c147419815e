// Which thin products, and which moves (tagged_moves.h), give their results in words that say that they are there, who reads
// these, and for which counters a task then need not wait before it begins: see ../device/words.h for what is gained. Of
// products that are interpreted it is, on Hopper's level, those that are executed as GEMV (../device/gemv.h) and those whose
// columns stay: single ones, and recurrent steps.
//
// The plan is what it was, and so is the proof of it: a product that reads a row in words still waits for the counter of
// those that made it, but behind its work, before it raises its own (Record::late). So what the plan takes from such a wait
// holds for all that wait for the task; and a task behind it on its processor, for which the plan takes the wait for granted,
// has it itself (TaggedNodes::more). What the task itself does in front of it must be right without:
//   - Everything that it reads nothing writes, or it comes in words; or, of several products that a program joins, the task
//     waits for what writes it before it begins, or the row's maker wrote it on the same processor, where it stands before.
//   - It has the whole row, so all that made it are through with what they read, and what it writes in their place, or in
//     that of those before them, nobody still reads: a block's loads are over before it gives its words. Of a GEMV that has
//     some of what a node made, its matrix's row or a line of its columns, those that made that are through, because
//     beside its row such a node reads nothing that is written but words.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "emulator/device/node.h"
#include "emulator/plan/plan.h"

namespace trek::resident {

struct TaggedNode {
  // Nodes that give their result in words, or plan::kNone: what this one's left operand is, or its rows are made of, and
  // what its tail reads, as operand `beside_operand` of its descriptor.
  uint32_t left = plan::kNone;
  uint32_t beside = plan::kNone;
  uint32_t left_view = plan::kNone;  // of Plan::views
  uint32_t beside_view = plan::kNone;
  uint32_t beside_operand = 0;
  uint32_t line = plan::kNone;  // and of a GEMV a line of its columns: GemvReads::line
  uint32_t line_view = plan::kNone;
  int64_t bytes = 0;          // of its own result's words; 0: it gives none
  uint32_t result_index = 0;  // of its results
  bool is_carried = false;    // `left` is of the trip before
  // Where the words of `left` begin in the operand, in elements: of a move those of its box; and of a product's row that is
  // carried, which has some elements in words, how many these are.
  uint32_t left_begin = 0;
  uint32_t left_words = 0;
  uint32_t result_line = 0;  // of a move: how its words lie
};

struct TaggedNodes {
  explicit TaggedNodes(const plan::Plan& plan)
      : TaggedNodes(plan, std::vector<bool>(plan.nodes.size())) {}
  TaggedNodes(const plan::Plan& plan, std::vector<bool> late_nodes)
      : may_be_late(std::move(late_nodes)),
        nodes(plan.nodes.size()),
        late(plan.waits.size()),
        left_out(plan.waits.size()),
        first_trip(plan.waits.size()),
        more(plan.tasks.size()) {}

  std::vector<bool> may_be_late;  // per node of the plan: its tasks may wait behind their work
  std::vector<TaggedNode> nodes;  // the same
  std::vector<bool> late;         // per Plan::waits: behind the work
  std::vector<bool> left_out;     // the same: nowhere (late_waits.h)
  std::vector<bool>
      first_trip;  // the same: of a move, what it waits for on its loop's first trip alone
  std::vector<std::vector<plan::Wait>> more;  // per task: what it waits for besides
};

// Of a node what is known of it as a GEMV.
struct GemvReads {
  bool is = false;
  bool in_parts =
      false;  // what a node gives in words it may have some of: its matrix's row, a line
  bool takes_words = false;  // its row may come in words; a softmax is made of one as it lies
  bool row_is_here = false;  // the processor's task before has left it (device::Gemv::here)
  uint32_t line =
      plan::kNone;  // the node that writes a line of its columns, of which all else stands
};

// Whether a descriptor is still one that a slot has room for with what a node has besides its tensors behind it.
inline bool has_room_for_areas(const device::Node& node) {
  return node.bytes + 16 + sizeof(device::Areas) <= device::kNodeBytes;
}

// `nodes` are the descriptors of the plan's nodes, and `recurrent` those that may be recurrent steps (recurrent.h).
TaggedNodes tagged_nodes_of(const plan::Plan& plan, std::span<const device::Node* const> nodes,
                            const std::vector<bool>& recurrent, std::span<const GemvReads> gemv);

}  // namespace trek::resident
