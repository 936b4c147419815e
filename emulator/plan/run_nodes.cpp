#include "emulator/plan/run_nodes.h"

namespace trek::plan {

int64_t line_of_run(const ProductWork& work, const MatrixTiles& tiles) {
  const bool has_totals = work.product == Product::ordered && work.shape.k > kOrderedSegment;
  return tiles.rows * tiles.columns * (has_totals ? 2 : 1);
}

int64_t line_of_run(const Plan& plan, const Node& node) {
  const isa::Type& lines = node.of_runs == OfRuns::begun ? plan.views[node.results[0]].type
                                                         : node.operand_types[node.begun];
  return lines.shape[1];
}

bool adds_late(const Plan& plan, const Node& node) {
  return product_of(plan, node) != Product::ordered;
}

uint32_t begun_buffer(const Plan& plan, const Node& node) {
  return plan.views[node.operands[node.begun].index].buffer;
}

bool is_read_late(const Plan& plan, const Task& task, const Box& box) {
  const Node& node = plan.nodes[task.node];
  return node.of_runs == OfRuns::ended && !box.write && box.buffer == begun_buffer(plan, node) &&
         adds_late(plan, node);
}

}  // namespace trek::plan
