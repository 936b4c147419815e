#include "emulator/plan/uses.h"

#include <algorithm>

namespace trek::plan {

using Kind = Name::Kind;

Uses::Uses(const Flow& flow) : uses_(flow.values.size()) {
  std::vector<uint32_t> consumer(flow.values.size(), kNone);  // the last one
  for (uint32_t at = 0; at < flow.steps.size(); ++at) {
    const Step& step = flow.steps[at];
    const auto read = [&](Name name) {
      if (!name.is(Kind::value)) return;
      if (consumer[name.index] != at) ++uses_[name.index].consumers;
      consumer[name.index] = at;
    };
    for (Name name : step.operands) read(name);
    for (const FlowAttribute& attribute : step.attributes)
      for (Name name : attribute.items) read(name);
    const isa::OpInfo& op = isa::info(step.opcode);
    for (size_t i = 0; i < step.operands.size() && i < op.operands.size(); ++i)
      if (op.operands[i].access == isa::Access::inout)
        writes_[{step.operands[i].kind, step.operands[i].index}].push_back(at);
    for (Name name : step.results) {
      if (name.is(Kind::value)) uses_[name.index].definition = at;
      if (name.is(Kind::tensor) || flow.values[name.index].variable)
        writes_[{name.kind, name.index}].push_back(at);
    }
  }
}

bool Uses::written_between(std::span<const Name> names, uint32_t from, uint32_t to) const {
  return std::ranges::any_of(names, [&](Name name) {
    const auto found = writes_.find({name.kind, name.index});
    if (found == writes_.end()) return false;
    const auto next = std::ranges::upper_bound(found->second, from);
    return next != found->second.end() && *next < to;
  });
}

}  // namespace trek::plan
