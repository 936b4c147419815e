// Fusion: steps of the flow become groups, one per node of the plan.
//
// A pointwise instruction takes in the producers of its operands where nothing else needs what they give:
// other pointwise instructions, and at most one matrix product or reduction, whose tail it becomes. What
// several pointwise instructions read is taken in where these have all become one group; one cheap step that two or
// three groups read becomes part of each, and is worked out again. A reduction takes in a pointwise producer as its
// prologue. A group stands where its last step stood, so a producer moves down: it
// must not pass a write to something that it reads.
//
// Then groups that work on the same rows become one (fuse_rows.h).
//
// Every step of a group rounds to its own type, so that fusing changes no bit. A `copy` at the end
// changes nothing but the destination, so it lets any instruction write a loop's variable directly.
#pragma once

#include <string_view>
#include <vector>

#include "emulator/plan/flow.h"

namespace trek::plan {

inline constexpr size_t kMaxMicroSteps = 12;  // in one program
inline constexpr size_t kMaxOperands = 12;    // of a group, but for instructions that have more

// Another product of a group that has several (group_products.h).
struct GroupProduct {
  uint32_t step = 0;
  uint32_t right = 0;     // of Group::operands
  uint32_t bias = kNone;  // the same
};

struct Group {
  uint32_t step = 0;      // where it stands, and what names it
  uint32_t main = kNone;  // the step that is not part of a program
  uint32_t weight = 0;    // instructions of the module, of all its steps
  std::vector<Name> operands;
  uint32_t own_operands = 0;  // the first ones are the main step's
  isa::Type source;  // with a prologue: the type of the main step's operand 0; of rows theirs
  std::vector<Name> results;
  std::vector<MicroStep> prologue;
  std::vector<MicroStep> chain;
  std::vector<GroupProduct> others;
  std::vector<MicroStep::Input> gives;  // of joined products: what each result is
  std::vector<Phase> phases;            // of rows
};

struct Fusion {
  struct Note {
    uint32_t value = 0;  // of which it speaks
    FusionNote note;
  };
  std::vector<Group> groups;  // by ascending step
  std::vector<Note> notes;
  std::vector<bool> fused;  // per value: it has become part of another group

  // What holds at the end: of a value that stayed at first and was fused later only the latter.
  std::vector<FusionNote> take_notes();
};

// A value and the step that defines it.
struct Defined {
  uint32_t value = 0;
  uint32_t definition = 0;
};
// That it has become part of the group of step `at`, or has not, and why.
Fusion::Note note_of(const isa::Module& module, const Flow& flow, Defined value, bool fused,
                     uint32_t at, std::string_view why);
// All that a group reads: its operands, and what its main step's attributes name.
std::vector<Name> names_read(const Flow& flow, const Group& group);

// With `enabled` false every step is a group of its own.
Fusion fuse(const isa::Module& module, const Flow& flow, const Device& device, bool enabled);

// Whether a group is one step that is worth less than to write and read a tensor.
bool is_cheap(const Group& group);

// What a step's T stands for (ops.def).
isa::DType element_type(const isa::Module& module, const Flow& flow, const Step& step);
// Whether a step may trap, given its types.
bool may_trap(const isa::Module& module, const Flow& flow, const Step& step);

}  // namespace trek::plan
