// The flow: a module's entry with every call inlined, as a flat list of steps in nested regions.
//
// Inlining renames registers, so a value belongs to one place of the flow. What a region carries and
// what an `if` gives are *variables*: values with several definitions, each of them a `copy` step (before
// the loop and at its yield; at the yields of both branches). A `while` becomes a repeat region up to its
// test and a rest region after it, so that a region is either executed whole or not at all.
//
// What must hold: steps of a region, inner regions included, are contiguous; a value is defined before it
// is used; a variable of a loop is defined before the loop.
#pragma once

#include <string>
#include <vector>

#include "emulator/plan/plan.h"
#include "isa/module.h"
#include "isa/result.h"

namespace trek::plan {

// What a step names.
struct Name {
  enum class Kind : uint8_t { none, value, tensor, param, counter, constant, number, text };
  Kind kind = Kind::none;
  uint32_t index = 0;  // into Flow::values, Module::tensors, params, Flow::regions, Flow::constants
  explicit operator bool() const { return kind != Kind::none; }
  bool operator==(const Name&) const = default;
  bool is(Kind k) const { return kind == k; }
};

struct FlowAttribute {
  bool given = false;
  std::vector<Name> items;
};

struct Step {
  isa::Opcode opcode{};
  uint32_t region = 0;
  uint32_t function = 0;
  uint32_t instruction = 0;
  uint32_t site = kNone;
  uint32_t weight = 0;  // instructions of the module: 1, or 0 for a copy that inlining has added
  std::vector<Name> operands;
  std::vector<FlowAttribute> attributes;
  std::vector<Name> results;  // values or tensors
};

struct FlowValue {
  isa::Type type;
  std::string name;
  uint32_t region = 0;  // in which it is defined; of a variable the region around
  bool variable = false;
};

struct FlowRegion {
  RegionKind kind = RegionKind::root;
  bool static_trips = false;  // then from, step, trips are as in Region, and no step decides
  uint32_t parent = kNone;
  uint32_t decision = kNone;  // step
  uint32_t first = 0;         // steps [first, end)
  uint32_t end = 0;
  int depth = 0;
  int64_t from = 0;
  int64_t step = 0;
  uint64_t trips = 0;
  uint32_t weight = 0;  // instructions that have no step: as in Region
  bool is_loop() const { return kind == RegionKind::loop || kind == RegionKind::repeat; }
};

struct Flow {
  std::vector<Step> steps;
  std::vector<FlowValue> values;
  std::vector<FlowRegion> regions;
  std::vector<CallSite> sites;
  std::vector<isa::Constant> constants;  // the module's, then those that splitting needs

  isa::Type type_of(const isa::Module& module, Name name) const;
  bool encloses(uint32_t outer, uint32_t inner) const;
  // The end of the outermost loop that encloses `region` but not `from`, or `step` + 1 where there is none:
  // how long a value defined in `from` must live when `step` of `region` uses it.
  uint32_t use_end(uint32_t from, uint32_t region, uint32_t step) const;
};

// `entry` is an index into Module::functions, or kNone for the initialisers. Refuses a program that is too
// long when inlined.
isa::Result<Flow> inline_calls(const isa::Module& module, uint32_t entry);

}  // namespace trek::plan
