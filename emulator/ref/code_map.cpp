#include "emulator/ref/code_map.h"

#include <algorithm>

namespace trek::ref {
namespace {

using isa::Function;
using isa::Instruction;
using isa::Module;
using isa::Opcode;
using isa::Ref;
using isa::RefKind;

bool opens(Opcode opcode) { return isa::info(opcode).opens_region(); }

// The registers that an instruction defines inside its region.
std::span<const Ref> registers_of(const Module& module, const Instruction& instruction) {
  const isa::OpInfo& op = isa::info(instruction.opcode);
  if (op.attributes.empty() || op.attributes[0].kind != isa::AttributeKind::values) return {};
  return module.list(module.attributes(instruction)[0]);
}

}  // namespace

CodeMap::CodeMap(const Module& module, const Function& function) {
  find_regions(module, function);
  find_last_uses(module, function);
}

void CodeMap::find_regions(const Module& module, const Function& function) {
  const size_t count = function.code.size();
  end_.assign(count, kNever);
  region_.assign(count, 0);
  home_.assign(count, 0);
  defined_in_.assign(function.values.size(), 0);
  uint32_t next = function.parameters;  // registers are numbered in the order of their definition
  const auto begin_region = [&](uint32_t parent) {
    parent_.push_back(parent);
    statement_end_.push_back(kNever);
    first_register_.push_back(next);
    last_register_.push_back(next);
    return static_cast<uint32_t>(parent_.size() - 1);
  };
  const auto define = [&](Ref ref, uint32_t region) {
    if (!ref.is(RefKind::value) || ref.index() != next) return;
    defined_in_[next++] = region;
  };

  struct Open {
    uint32_t region;
    uint32_t opener;
    uint32_t first_branch;  // of an `else`: the region of its `if`
  };
  std::vector<Open> open = {{begin_region(0), kNever, kNever}};
  uint32_t closed_if = kNever;  // the region of the `if` that has just been closed
  for (uint32_t i = 0; i < count; ++i) {
    const Instruction& instruction = function.code[i];
    home_[i] = open.back().region;
    for (Ref result : module.results(instruction)) define(result, open.back().region);
    if (opens(instruction.opcode)) {
      const bool is_else = instruction.opcode == Opcode::Else;
      region_[i] = begin_region(open.back().region);
      open.push_back({region_[i], i, is_else ? closed_if : kNever});
      for (Ref ref : registers_of(module, instruction)) define(ref, region_[i]);
    } else if (instruction.opcode == Opcode::Yield) {
      const Open closed = open.back();
      open.pop_back();
      end_[i] = closed.opener;
      end_[closed.opener] = i;
      last_register_[closed.region] = next;
      statement_end_[closed.region] = i;
      if (closed.first_branch != kNever) statement_end_[closed.first_branch] = i;
      closed_if = closed.region;
    } else if (instruction.opcode == Opcode::Test) {
      end_[i] = open.back().opener;
    }
  }
}

void CodeMap::find_last_uses(const Module& module, const Function& function) {
  const size_t values = function.values.size();
  last_use_.assign(values, kNever);
  std::vector<uint32_t> exits(values, kNever);
  const auto use = [&](Ref ref, uint32_t at) {
    if (!ref.is(RefKind::value)) return;
    const uint32_t v = ref.index();
    // The outermost region around this use that the register does not belong to.
    uint32_t foreign = kNever;
    for (uint32_t r = home_[at]; r != defined_in_[v]; r = parent_[r]) foreign = r;
    exits[v] = foreign == kNever ? kNever : statement_end_[foreign];
    last_use_[v] = foreign == kNever ? at : kNever;
  };
  for (uint32_t i = 0; i < function.code.size(); ++i) {
    const Instruction& instruction = function.code[i];
    for (Ref ref : module.results(instruction)) use(ref, i);  // never read: dead at once
    for (Ref ref : module.operands(instruction)) use(ref, i);
    // A `while` that is left hands on its registers as the trip began.
    if (instruction.opcode == Opcode::Test)
      for (Ref ref : registers_of(module, function.code[end_[i]])) use(ref, i);
    if (!registers_of(module, instruction).empty()) continue;
    for (Ref attribute : module.attributes(instruction)) {
      use(attribute, i);
      if (attribute.is(RefKind::list))
        for (Ref item : module.list(attribute)) use(item, i);
    }
  }
  dead_after_ = collect(last_use_, function.code.size());
  dead_on_exit_ = collect(exits, function.code.size());
}

CodeMap::Lists CodeMap::collect(const std::vector<uint32_t>& where, size_t instructions) {
  Lists lists;
  lists.begin.assign(instructions + 1, 0);
  for (uint32_t at : where)
    if (at != kNever) ++lists.begin[at + 1];
  for (size_t i = 0; i < instructions; ++i) lists.begin[i + 1] += lists.begin[i];
  lists.items.resize(lists.begin.back());
  std::vector<uint32_t> next(lists.begin.begin(), lists.begin.end() - 1);
  for (uint32_t v = 0; v < where.size(); ++v)
    if (where[v] != kNever) lists.items[next[where[v]]++] = v;
  return lists;
}

}  // namespace trek::ref
