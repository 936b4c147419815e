// Tiles of lines: reductions, what orders along an axis, the rows of losses, the columns of scatters.
#include <algorithm>
#include <vector>

#include "emulator/plan/tiler.h"
#include "emulator/plan/window.h"

namespace trek::plan {

using isa::Opcode;
using isa::Type;

namespace {

constexpr int64_t kTilesAtOnce = 8;  // of the reduction order, which the warps of a processor join

// A range of lines of a tensor [outer, n, inner]: whole outer indices, or a part of one.
Box line_box(const Lines& lines, int64_t n, int64_t first, int64_t count) {
  const int64_t outer = first / lines.inner;
  const int64_t inner = first % lines.inner;
  if (count % lines.inner == 0 && inner == 0)
    return range(outer * n * lines.inner, count / lines.inner * n * lines.inner);
  return rectangle(outer * n * lines.inner + inner, count, n, lines.inner);
}

// Calls f(first, count) for tiles of at most `wanted` lines, or of one outer index's worth.
template <typename F>
void each_tile(const Lines& lines, int64_t wanted, F&& f) {
  const bool by_outer = wanted >= lines.inner;
  const int64_t size = by_outer ? wanted / lines.inner * lines.inner : wanted;
  const int64_t block = by_outer ? lines.lines : lines.inner;  // tiles do not cross its ends
  for (int64_t first = 0; first < lines.lines;) {
    const int64_t count = std::min(size, block - first % block);
    f(first, count);
    first += count;
  }
}

}  // namespace

// Lines of a task, of `size` elements or a few more: rounded down they would make more tasks than there are places, and
// some processor would have one more than the others.
int64_t Tiler::share_of_lines(int64_t lines, int64_t n, int64_t size, int64_t at_once) const {
  int64_t share = std::max<int64_t>(1, size / n);
  if (share > at_once) share -= share % at_once;
  const int64_t most = int64_t{plan_.device.processors} * plan_.device.tiles_per_processor;
  return lines > most * share ? (lines + most - 1) / most : share;
}

void Tiler::lines(Node& node) {
  const Type& main = node.operand_types[0];
  const Lines lines = lines_of(main.shape, axes_of(plan_, node));
  if (lines.lines == 0) return;
  if (lines.n == 0) return whole(node);
  const int64_t of_batch = lines.inner == 1 ? piece(node, main.elements()) : 0;
  const int64_t size = of_batch % lines.n == 0 && of_batch != 0 ? of_batch : chunk(main.elements());
  int64_t share = share_of_lines(lines.lines, lines.n, size, 1);
  // Tiles of a long reduction, half of an instruction, which a unit reads as they lie: a warp has one, so a processor takes
  // several in the time of one, and fewer tasks are waited for.
  if (node.weight == 0 && node.prologue.empty() && lines.inner == 1)
    share = std::max(share, kTilesAtOnce * plan_.device.chunk / lines.n);
  if (!lines.adjacent) return scattered_lines(node, lines, share);
  const int64_t wanted = std::max(share, std::min(lines.inner, kColumns));
  each_tile(lines, wanted, [&](int64_t first, int64_t count) {
    start(node, first, count);
    const Box part = line_box(lines, lines.n, first, count);
    for (size_t i = 0; i < node.own_operands; ++i) add(node.operands[i], part, false, false);
    read_scalars(node);
    Box result_part = part;
    for (uint32_t result : node.results) {
      const int64_t kept = plan_.views[result].type.elements() / lines.lines;
      result_part = line_box(lines, kept, first, count);
      add({Operand::Kind::view, result}, result_part, true, false);
    }
    read_programs(node, part, main, result_part);
  });
}

// A row of everything that has its size, a number of everything that has one for a row; as many rows as a unit works on
// at once, or a few times as many.
void Tiler::rows(Node& node) {
  const isa::Shape& shape = node.main_type.shape;
  const int64_t elements = shape.elements();
  const int64_t n = shape[shape.rank() - 1];
  const int64_t of_batch = piece(node, elements);
  const int64_t size = of_batch % n == 0 && of_batch != 0 ? of_batch : chunk(elements);
  const int64_t share =
      share_of_lines(elements / n, n, size, std::max<int64_t>(1, kRowElements / n));
  for (int64_t first = 0; first < elements / n; first += share) {
    const int64_t count = std::min(share, elements / n - first);
    start(node, first, count);
    read_rows(node, node.chain, first, count);
    for (size_t i = 0; i < node.results.size(); ++i)
      add({Operand::Kind::view, node.results[i]},
          i == 0 && !node.chain.empty() ? range(first * n, count * n) : range(first, count), true,
          false);
  }
}

// What the phases of rows [first, first + count) and the program behind them read.
void Tiler::read_rows(const Node& node, const std::vector<MicroStep>& last, int64_t first,
                      int64_t count) {
  const isa::Shape& shape = rows_of(node);
  const int64_t n = shape[shape.rank() - 1];
  const Box of_elements = range(first * n, count * n);
  const Box of_numbers = range(first, count);
  for (const Phase& phase : node.phases) {
    read_program(node, phase.elements, shape, of_elements);
    read_program(node, phase.tail, phase.type.shape, of_numbers);
  }
  read_program(node, last, shape, of_elements);
}

// Lines along axes that are not neighbours. Only reductions have them: one result for a line.
void Tiler::scattered_lines(Node& node, const Lines& lines, int64_t size) {
  const Type& main = node.operand_types[0];
  std::vector<int64_t> kept;
  std::vector<size_t> axes;  // of the operand
  const std::vector<int64_t> along = axes_of(plan_, node);
  for (int i = 0; i < main.shape.rank(); ++i) {
    const bool summed = std::any_of(along.begin(), along.end(), [&](int64_t axis) {
      return (axis < 0 ? axis + main.shape.rank() : axis) == i;
    });
    if (summed) continue;
    kept.push_back(main.shape[i]);
    axes.push_back(static_cast<size_t>(i));
  }
  const isa::Shape outer(kept);
  for (int64_t first = 0; first < lines.lines; first += size) {
    const Box result = range(first, std::min(size, lines.lines - first));
    const Window of_lines = window_of(outer, result);
    Window window = whole_window(main.shape);
    for (size_t i = 0; i < axes.size(); ++i) {
      window.low[axes[i]] = of_lines.low[i];
      window.high[axes[i]] = of_lines.high[i];
    }
    const Box part = box_of(main.shape, window);
    start(node, first, result.row_bytes);
    for (size_t i = 0; i < node.own_operands; ++i) add(node.operands[i], part, false, false);
    read_scalars(node);
    read_programs(node, part, main, result);
    for (uint32_t view : node.results) add({Operand::Kind::view, view}, result, true, false);
  }
}

// A line of x along the axis takes elements of one line of y alone, so lines are independent: within one,
// sources ascend. Every task looks at all indices, so that any of them reports the lowest bad one.
void Tiler::scatter(Node& node) {
  const isa::Shape& shape = node.operand_types[0].shape;
  // Not lines_of(), to which an axis of one element is no axis: y may have more along it.
  const int64_t axis = axes_of(plan_, node)[0];
  Lines lines;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t along = axis < 0 ? axis + shape.rank() : axis;
    (i < along ? lines.outer : i == along ? lines.n : lines.inner) *= shape[i];
  }
  lines.lines = lines.outer * lines.inner;
  const int64_t indices = node.operand_types[1].elements();
  const Type& source = node.operand_types[2];
  const Operand result{Operand::Kind::view, node.results[0]};
  const auto tile = [&](int64_t first, int64_t count) {
    start(node, first, count);
    add(node.operands[1], all_of(node.operand_types[1]), false, false);
    if (source.elements() == 0 || count == 0) return;
    const Box target = line_box(lines, lines.n, first, count);
    add(node.operands[2], line_box(lines, indices, first, count), false, false);
    if (node.opcode == Opcode::ScatterAdd) add(result, target, false, false);
    add(result, target, true, true);
  };
  if (source.elements() == 0) return tile(0, lines.lines);
  const int64_t share = std::max<int64_t>(1, chunk(source.elements()) / indices);
  each_tile(lines, std::max(share, std::min(lines.inner, kColumns)), tile);
}

// By rows where result 0 has an element per row (split.h); else the reduction needs them all.
void Tiler::loss(Node& node) {
  const bool only_gradient = node.opcode == Opcode::CrossEntropyGrad;
  const size_t z = only_gradient ? 1 : 0;
  const Type& logits = node.operand_types[z];
  const int64_t rows = node.operand_types[z + 1].elements();
  const int64_t classes = logits.shape[logits.shape.rank() - 1];
  const auto elements = [&](uint32_t view) { return plan_.views[view].type.elements(); };
  if (rows == 0 || (!only_gradient && elements(node.results[0]) != rows)) return whole(node);
  const int64_t size =
      node.makes_logits()
          ? (rows + plan_.device.processors - 1) / plan_.device.processors
          : share_of_lines(rows, std::max<int64_t>(1, classes),
                           chunk(kWorkOfLogit * logits.elements()) / kWorkOfLogit, 1);
  for (int64_t first = 0; first < rows; first += size) {
    const int64_t count = std::min(size, rows - first);
    start(node, first, count);
    const Box of_logits = range(first * classes, count * classes);
    const Box of_rows = range(first, count);
    if (only_gradient) {
      const bool is_mean = node.operand_types[0].elements() != rows;
      add(node.operands[0], is_mean ? range(0, 1) : of_rows, false, false);
    }
    add(node.operands[z], of_logits, false, false);
    add(node.operands[z + 1], of_rows, false, false);
    Box of_layer;  // the rows that logits are made of, and what is given back to them
    for (size_t i = node.factors; i < node.operands.size(); ++i) {
      const Type& type = node.operand_types[i];
      const int64_t row = type.elements() / rows;
      if (i == node.factors) of_layer = range(first * row, count * row);
      add(node.operands[i], i == node.factors ? of_layer : all_of(type), false, false);
    }
    for (size_t i = 0; i < node.results.size(); ++i)
      add({Operand::Kind::view, node.results[i]},
          i == 2                    ? of_layer
          : only_gradient || i == 1 ? of_logits
                                    : of_rows,
          true, false);
  }
}

}  // namespace trek::plan
