#include "emulator/jit/requests.h"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "emulator/device/node.h"
#include "emulator/jit/separate.h"
#include "emulator/loading.h"
#include "isa/ops.h"

namespace trek::jit {

Wanted wanted_of(const plan::Plan& plan, const resident::Image& image) {
  Wanted wanted;
  std::map<std::vector<std::byte>, size_t> requests;
  std::vector<bool> seen(plan.nodes.size());
  for (const resident::Record& record : image.records) {
    if (!resident::is_of_unit(record.kind) || seen[record.node]) continue;
    seen[record.node] = true;
    const std::byte* at = image.descriptors.data() + size_t{16} * record.descriptor;
    Separated node = separated({at, reinterpret_cast<const device::Node*>(at)->bytes});
    const auto [found, is_new] = requests.emplace(node.record, wanted.requests.size());
    if (is_new) {
      Request request;
      request.record = wanted.records.emplace_back(std::move(node.record));
      request.name =
          fmt::format("node{}.{}", record.node, isa::info(plan.nodes[record.node].opcode).mnemonic);
      wanted.requests.push_back(std::move(request));
      wanted.first.push_back(record.node);
    }
    wanted.uses.push_back({record.node, found->second, std::move(node.addresses)});
  }
  return wanted;
}

isa::Problem problem_of(const plan::Plan& plan, const Wanted& wanted, const Refusal& refusal) {
  isa::Problem found = problem(isa::ErrorCode::UnknownInstruction,
                               "the engine jit cannot compile this: " + refusal.why);
  if (wanted.first.empty()) return found;
  const plan::Node& node = plan.nodes[wanted.first[refusal.request]];
  found.place = fmt::format("function {}, instruction {} ({})", node.function, node.instruction,
                            isa::info(node.opcode).mnemonic);
  return found;
}

}  // namespace trek::jit
