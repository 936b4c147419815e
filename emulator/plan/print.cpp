// The plan for people: memory, then the program as regions, nodes and tasks, then what was fused.
#include <iterator>

#include <fmt/format.h>

#include "emulator/plan/plan.h"

namespace trek::plan {
namespace {

using Out = std::back_insert_iterator<std::string>;

std::string text_of(const Plan& plan, Operand operand) {
  switch (operand.kind) {
    case Operand::Kind::none:
      return "_";
    case Operand::Kind::view: {
      const View& view = plan.view(operand.index);
      return fmt::format("{} {}", plan.buffers[view.buffer].name, view.type.text());
    }
    case Operand::Kind::counter:
      return fmt::format("counter of region {}", operand.index);
    case Operand::Kind::constant: {
      const isa::Constant& constant = plan.constants[operand.index];
      return isa::is_real(constant.dtype) ? fmt::format("{}", isa::constant_real(constant))
                                          : fmt::format("{}", isa::constant_integer(constant));
    }
    case Operand::Kind::number:
      return fmt::format("{}", operand.index);
    case Operand::Kind::text:
      return fmt::format("\"{}\"", plan.texts[operand.index]);
  }
  return "";
}

// "exp . mul": a program as the instructions that it goes through.
std::string program_text(const std::vector<MicroStep>& program) {
  std::string text;
  for (const MicroStep& step : program)
    text += fmt::format("{}{}", text.empty() ? "" : " . ", isa::info(step.opcode).mnemonic);
  return text;
}

std::string node_text(const Plan& plan, const Node& node) {
  std::string text;
  for (size_t i = 0; i < node.results.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ",
                        text_of(plan, {Operand::Kind::view, node.results[i]}));
  if (!text.empty()) text += " = ";
  const bool is_chain = node.main_type.dtype == isa::DType::none && !node.chain.empty();
  if (!node.prologue.empty()) text += fmt::format("({}) . ", program_text(node.prologue));
  text += is_chain ? program_text(node.chain) : std::string(isa::info(node.opcode).mnemonic);
  if (!is_chain && !node.chain.empty()) text += fmt::format(" . ({})", program_text(node.chain));
  bool first = true;
  for (Operand operand : node.operands) {
    if (!operand) continue;
    text += fmt::format("{}{}", first ? " " : ", ", text_of(plan, operand));
    first = false;
  }
  return text;
}

void print_task(Out out, const Plan& plan, uint32_t index, std::string_view indent) {
  const Task& task = plan.tasks[index];
  fmt::format_to(out, "{}  t{} p{} [{}, {})", indent, index, task.processor, task.first,
                 task.first + task.count);
  for (const Wait& wait : plan.waits_of(task))
    fmt::format_to(out, "{} c{} >= {} x e{}{}", wait.first_trip ? " wait-once" : " wait",
                   wait.counter, wait.count, plan.counters[wait.counter].region,
                   wait.delta != 0 ? "-1" : "");
  for (uint32_t counter : plan.signals_of(task)) fmt::format_to(out, " signal c{}", counter);
  fmt::format_to(out, "\n");
}

void print_memory(Out out, const Plan& plan) {
  const double excess = plan.lower_bound == 0
                            ? 0.0
                            : 100.0 * static_cast<double>(plan.peak_bytes - plan.lower_bound) /
                                  static_cast<double>(plan.lower_bound);
  fmt::format_to(
      out, "arena {} bytes: {} fixed, registers {} at their peak (at least {}, {:.1f} % above)\n",
      plan.arena_bytes, plan.fixed_bytes, plan.peak_bytes, plan.lower_bound, excess);
  for (const Buffer& buffer : plan.buffers) {
    fmt::format_to(out, "  {:>12} {:>12}  {}", buffer.offset, buffer.bytes, buffer.name);
    if (buffer.kind == BufferKind::tensor_register)
      fmt::format_to(out, "  nodes {} to {}", buffer.first, buffer.last);
    if (buffer.immutable) fmt::format_to(out, "  immutable");
    fmt::format_to(out, "\n");
  }
}

}  // namespace

std::string print_plan(const Plan& plan) {
  std::string text;
  const Out out = std::back_inserter(text);
  fmt::format_to(
      out, "plan for {}: {} processors; {} nodes, {} tasks, {} counters, {} waits, {} signals\n",
      plan.device.name, plan.device.processors, plan.nodes.size(), plan.tasks.size(),
      plan.counters.size(), plan.waits.size(), plan.signals.size());
  print_memory(out, plan);
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    for (uint32_t r = 0; r < plan.regions.size(); ++r) {
      const Region& region = plan.regions[r];
      if (region.first_node != n || region.end_node == n) continue;
      fmt::format_to(out, "{:{}}region {} {}: nodes {} to {}{}\n", "", 2 * region.depth, r,
                     name(region.kind), region.first_node, region.end_node - 1,
                     region.static_trips ? fmt::format(", {} trips", region.trips) : "");
    }
    const Node& node = plan.nodes[n];
    const std::string indent(2 * static_cast<size_t>(plan.regions[node.region].depth) + 2, ' ');
    fmt::format_to(out, "{}n{} {}: {}\n", indent, n, name(node.unit), node_text(plan, node));
    for (uint32_t t = 0; t < node.tasks; ++t) print_task(out, plan, node.first_task + t, indent);
  }
  return text;
}

std::string print_fusion(const Plan& plan) {
  std::string text;
  for (const FusionNote& note : plan.fusion)
    fmt::format_to(std::back_inserter(text), "{} {}\n", note.fused ? "fused" : "  not", note.text);
  return text;
}

}  // namespace trek::plan
