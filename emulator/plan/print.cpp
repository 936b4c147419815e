#include "emulator/plan/print.h"

#include <iterator>

#include <fmt/format.h>

#include "emulator/plan/product.h"
#include "emulator/plan/take_gradients.h"

namespace trek::plan {
namespace {

using Out = std::back_insert_iterator<std::string>;

// Which of a buffer's elements a slice begins with.
std::string text_of(const Slice& slice) {
  if (slice.region == kNone) return fmt::format("[{}]", slice.first);
  return fmt::format("[{} + {} x counter of region {}]", slice.first, slice.step, slice.region);
}

std::string text_of(const Plan& plan, Operand operand) {
  switch (operand.kind) {
    case Operand::Kind::none:
      return "_";
    case Operand::Kind::view: {
      const View& view = plan.view(operand.index);
      return fmt::format("{}{} {}", plan.buffers[view.buffer].name,
                         view.slice ? text_of(*view.slice) : "", view.type.text());
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

// "(sub . mul) . mean . (add . rsqrt)"
std::string phase_text(const Phase& phase) {
  const auto programmed = [](const std::vector<MicroStep>& program) {
    return fmt::format("({})", program_text(program));
  };
  if (phase.kind == Phase::Kind::keep) return programmed(phase.elements);
  if (phase.kind == Phase::Kind::numbers) return programmed(phase.tail) + " of a row";
  std::string text =
      fmt::format("{} . {}", programmed(phase.elements), isa::info(phase.opcode).mnemonic);
  if (!phase.tail.empty()) text += " . " + programmed(phase.tail);
  return text;
}

std::string node_text(const Plan& plan, const Node& node) {
  std::string text;
  for (size_t i = 0; i < node.results.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ",
                        text_of(plan, {Operand::Kind::view, node.results[i]}));
  if (!text.empty()) text += " = ";
  const bool is_chain = node.main_type.dtype == isa::DType::none && !node.chain.empty();
  for (const Phase& phase : node.phases) text += phase_text(phase) + "; ";
  if (!node.prologue.empty()) text += fmt::format("({}) . ", program_text(node.prologue));
  if (node.by_rows())
    text += program_text(node.chain);
  else
    text += is_chain ? program_text(node.chain) : std::string(isa::info(node.opcode).mnemonic);
  if (!node.others.empty()) text += fmt::format(" x {}", products_of(node));
  if (!is_chain && !node.by_rows() && !node.chain.empty())
    text += fmt::format(" . ({})", program_text(node.chain));
  bool first = true;
  for (Operand operand : node.operands) {
    if (!operand) continue;
    text += fmt::format("{}{}", first ? " " : ", ", text_of(plan, operand));
    first = false;
  }
  if (node.unit == Unit::matrix && product_of(plan, node) != Product::ordered)
    text += fmt::format(" [{}]", name(product_of(plan, node)));
  if (node.steps_boxes()) {
    const BoxSize boxes = step_boxes(node);
    text += fmt::format(" [makes its gradient: boxes of {}x{}]", boxes.lines, boxes.columns);
  } else if (node.makes_gradient()) {
    text += " [makes its gradient: sums]";
  }
  if (node.steps_boxes()) {  // whose unit makes use of it
    std::vector<std::string> standing;
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (node.stands(i))
        standing.push_back(plan.buffers[plan.view(node.operands[i].index).buffer].name);
    if (!standing.empty())
      text += fmt::format(" [before its waits: {}]", fmt::join(standing, ", "));
  }
  if (node.makes_logits())
    text += node.back == Back::none ? " [makes its logits]" : " [makes its logits, and gives back]";
  if (node.put) text += fmt::format(" put at [{}]", fmt::join(node.put->at, ", "));
  if (node.depth.count != 0)
    text += fmt::format(" k [{}, {})", node.depth.first, node.depth.first + node.depth.count);
  if (node.rows.count != 0)
    text += fmt::format(" rows [{}, {})", node.rows.first, node.rows.first + node.rows.count);
  if (const Pairing pairing = pairing_of(plan, node); pairing != Pairing::none)
    text += fmt::format(" [tiles: in pairs by {}]", name(pairing));
  if (node.of_runs != OfRuns::none)
    text +=
        fmt::format(" {} [tiles: in {} runs]", node.of_runs == OfRuns::begun ? "begun" : "ended",
                    plan.tilings[node.tiles].runs);
  if (node.tiles != kNone && plan.tilings[node.tiles].transposed) text += " [tiles: transposed]";
  if (node.product != kNone && plan.products[node.product].measured) text += " [tiles: tuned]";
  return text;
}

void print_task(Out out, const Plan& plan, uint32_t index, std::string_view indent) {
  const Task& task = plan.tasks[index];
  fmt::format_to(out, "{}  t{} p{} [{}, {})", indent, index, task.processor, task.first,
                 task.first + task.count);
  for (const Wait& wait : plan.waits_of(task))
    fmt::format_to(out, "{} c{} >= {} x e{}{}",
                   wait.first_trip ? " wait-once"
                   : wait.late     ? " wait-late"
                                   : " wait",
                   wait.counter, wait.count, plan.counters[wait.counter].region,
                   wait.delta != 0 ? "-1" : "");
  for (uint32_t counter : plan.signals_of(task)) fmt::format_to(out, " signal c{}", counter);
  fmt::format_to(out, "\n");
}

// How often a node's tasks wait and signal, then the tasks: all of a few, of many the first and the last.
void print_tasks(Out out, const Plan& plan, const Node& node, std::string_view indent,
                 uint32_t listed) {
  size_t waits = 0;
  size_t signals = 0;
  for (uint32_t t = node.first_task; t < node.first_task + node.tasks; ++t) {
    waits += plan.tasks[t].waits;
    signals += plan.tasks[t].signals;
  }
  if (node.tasks > 1)
    fmt::format_to(out, "{}  {} tasks: {} waits, {} signals\n", indent, node.tasks, waits, signals);
  const uint32_t end = node.first_task + node.tasks;
  const uint32_t head = node.tasks <= listed ? end : node.first_task + listed / 2;
  for (uint32_t t = node.first_task; t < head; ++t) print_task(out, plan, t, indent);
  if (head == end) return;
  fmt::format_to(out, "{}  ... {} more ...\n", indent, end - 1 - head);
  print_task(out, plan, end - 1, indent);
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 1.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void print_summary(Out out, const Plan& plan) {
  const Statistics all = statistics(plan);
  fmt::format_to(out, "plan for {}: {} processors, {} KiB of shared memory each{}\n",
                 plan.device.name, plan.device.processors, plan.device.shared_bytes / 1024,
                 plan.fast ? "; fast numerics" : "");
  fmt::format_to(out,
                 "  {} nodes, {} tasks, at most {} of one processor; the longest chain is {} tasks "
                 "with {} hops\n",
                 plan.nodes.size(), plan.tasks.size(), all.busiest, all.longest, all.hops);
  fmt::format_to(out,
                 "  {} waits ({} on a first trip only, {} for the trip before) on {} counters with "
                 "{} signals\n",
                 all.waits, all.first_trip, all.trip_before, plan.counters.size(),
                 plan.signals.size());
  fmt::format_to(out, "  {} edges between processors, {} within one; {} waits need no other\n",
                 all.edges_others, all.edges_same, all.own);
}

void print_memory(Out out, const Plan& plan) {
  fmt::format_to(
      out,
      "memory: {} bytes, {} of them fixed and {} for registers at their peak, where {} are "
      "alive at once (ratio {:.3f})\n",
      plan.arena_bytes, plan.fixed_bytes, plan.peak_bytes, plan.lower_bound,
      share(plan.peak_bytes, plan.lower_bound));
  fmt::format_to(out, "  {:>12} {:>12}\n", "offset", "bytes");
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.kind == BufferKind::tensor_register && buffer.bytes == 0) continue;
    fmt::format_to(out, "  {:>12} {:>12}  {}", buffer.offset, buffer.bytes, buffer.name);
    if (buffer.kind == BufferKind::tensor_register)
      fmt::format_to(out, "  n{} to n{}", buffer.first, buffer.last);
    if (buffer.immutable) fmt::format_to(out, "  immutable");
    fmt::format_to(out, "\n");
  }
}

std::string region_text(const Plan& plan, uint32_t index) {
  const Region& region = plan.regions[index];
  std::string text = fmt::format("region {} {}", index, name(region.kind));
  if (region.static_trips)
    text += fmt::format(", {} trips from {} by {}", region.trips, region.from, region.step);
  else if (region.decision != kNone)
    text += fmt::format(", decided by n{}", region.decision);
  if (region.first_node == region.end_node) return text + ": empty";
  return text + fmt::format(": n{} to n{}, {} instructions", region.first_node, region.end_node - 1,
                            region.instructions);
}

std::string place_text(const Plan& plan, const Node& node, const PrintOptions& options) {
  const auto place = [&](uint32_t function, uint32_t instruction) {
    return options.place ? options.place(function, instruction)
                         : fmt::format("{}:{}", function, instruction);
  };
  std::string text = place(node.function, node.instruction);
  for (uint32_t site = node.site; site != kNone; site = plan.sites[site].parent)
    text += fmt::format(" < {}", place(plan.sites[site].function, plan.sites[site].instruction));
  return text;
}

}  // namespace

std::string print_plan(const Plan& plan, const PrintOptions& options) {
  std::string text;
  const Out out = std::back_inserter(text);
  print_summary(out, plan);
  print_memory(out, plan);
  // A parent precedes its children, so the regions that begin at a node are listed from the outside in.
  std::vector<std::vector<uint32_t>> begins(plan.nodes.size() + 1);
  for (uint32_t r = 0; r < plan.regions.size(); ++r)
    begins[plan.regions[r].first_node].push_back(r);
  for (uint32_t n = 0; n <= plan.nodes.size(); ++n) {
    for (uint32_t r : begins[n])
      fmt::format_to(out, "{:{}}{}\n", "", 2 * plan.regions[r].depth, region_text(plan, r));
    if (n == plan.nodes.size()) break;
    const Node& node = plan.nodes[n];
    const std::string indent(2 * static_cast<size_t>(plan.regions[node.region].depth) + 2, ' ');
    const std::string place = place_text(plan, node, options);
    fmt::format_to(out, "{}n{} {}: {}{}{}\n", indent, n, name(node.unit), node_text(plan, node),
                   place.empty() ? "" : "  ; ", place);
    print_tasks(out, plan, node, indent, options.listed_tasks);
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
