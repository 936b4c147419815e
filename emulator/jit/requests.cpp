#include "emulator/jit/requests.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "emulator/device/node.h"
#include "emulator/jit/separate.h"
#include "emulator/loading.h"
#include "emulator/plan/link.h"
#include "isa/ops.h"

namespace trek::jit {

namespace {

// Elements by what is done to each, from which code is made for a node. Compiling a node takes some 5 to 50 ms of a
// processor, the units some 50 ns for an element more than code does. What stands in a loop is taken for something
// that is executed often; but a scalar or two never repay it.
constexpr int64_t kLeastOnce = int64_t{1} << 18;
constexpr int64_t kLeastInLoop = 32;

bool in_loop(const plan::Plan& plan, const plan::Node& node) {
  for (uint32_t r = node.region; r != plan::kNone; r = plan.regions[r].parent)
    if (plan.regions[r].is_loop()) return true;
  return false;
}

int64_t work_of(const plan::Node& node) {
  int64_t elements = node.main_type.elements();
  for (const isa::Type& type : node.operand_types) elements = std::max(elements, type.elements());
  if (node.unit == plan::Unit::matrix) {
    const isa::Shape& result = node.main_type.shape;
    const int64_t columns = std::max<int64_t>(1, result[result.rank() - 1]);
    const int64_t rows = std::max<int64_t>(1, result.elements() / columns);
    return rows * columns * std::max<int64_t>(1, node.operand_types[0].elements() / rows);
  }
  return elements * static_cast<int64_t>(std::max<size_t>(1, node.steps()));
}

std::string_view text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool repays(const plan::Plan& plan, const plan::Node& node) {
  return work_of(node) > (in_loop(plan, node) ? kLeastInLoop : kLeastOnce);
}

}  // namespace

Choice host_choice() {
  return std::getenv("TREK_JIT_ALL") == nullptr ? Choice::repaying : Choice::all;
}

Wanted wanted_of(const plan::Plan& plan, const resident::Image& image, Choice choice) {
  Wanted wanted;
  std::map<std::string_view, size_t> requests;  // by records of `wanted`
  std::vector<bool> seen(plan.nodes.size());
  for (const resident::Record& record : image.records) {
    if (!resident::is_of_unit(record.kind) || seen[record.node]) continue;
    seen[record.node] = true;
    if (choice == Choice::repaying && !repays(plan, plan.nodes[record.node])) continue;
    const device::Node& of = resident::node_of(image, record);
    Separated node = separated({reinterpret_cast<const std::byte*>(&of), of.bytes});
    auto found = requests.find(text_of(node.record));
    if (found == requests.end()) {
      Request request;
      const auto& record_bytes = wanted.records.emplace_back(std::move(node.record));
      found = requests.emplace(text_of(record_bytes), wanted.requests.size()).first;
      request.record = record_bytes;
      request.addresses = node.addresses.size();
      request.name =
          fmt::format("node{}.{}", record.node, isa::info(plan.nodes[record.node].opcode).mnemonic);
      wanted.requests.push_back(std::move(request));
      wanted.first.push_back(record.node);
    }
    wanted.uses.push_back({record.node, found->second, std::move(node.addresses)});
  }
  return wanted;
}

isa::Result<Listing> listing_of(
    const isa::Module& module, const plan::Device& device, NumericsMode numerics,
    const std::function<std::string(uint32_t function, uint32_t instruction)>& place) {
  plan::LinkOptions options;
  options.fast = numerics == NumericsMode::fast;
  auto plan = plan::link(module, device, options);
  if (!plan) return plan.take_problems();
  auto image = resident::encode(*plan);
  if (!image) return image.take_problems();
  Listing listing = {plan.take(), {}};
  listing.wanted = wanted_of(listing.plan, *image);
  for (size_t i = 0; i < listing.wanted.requests.size(); ++i) {
    const plan::Node& node = listing.plan.nodes[listing.wanted.first[i]];
    listing.wanted.requests[i].source = place(node.function, node.instruction);
  }
  return listing;
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
