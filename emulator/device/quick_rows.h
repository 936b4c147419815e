// Quick reductions: sums, means, extremes of rows of at most a tile of the reduction order, whose elements lie side by
// side and come from, and go through, programs of quick nodes. A layer norm is made of two of these.
//
// The block brings some rows to shared memory as floats, all loads on their way at once; then a row is a warp's, whose
// lanes have the partials (rows.h), and its first lane takes the result through the tail. Device only: on a host such a
// node takes the unit's way (reduce.h).
#pragma once

#ifdef __CUDA__

#include "emulator/device/quick.h"
#include "emulator/device/strided_lines.h"

namespace trek::device {

namespace quick_detail {

// Gives the result of a row through the tail. One thread.
TREK_UNIT void deliver_row(const Task& task, const Node& node, std::byte* arena, int64_t row,
                           float main) {
  const Program program = row_of(&node.deliver[0]);
  const Surroundings around = surroundings(node, arena);
  const uint32_t bits = bits_of(main);
  program_detail::put(task, main_slot(task), {{bits, bits, bits, bits}});
  TREK_ROLLED
  for (uint32_t l = 0; l < program.loads; ++l) {
    const Load next = *node.load(program.first_load + l);
    program_detail::put(task, program_detail::slot_at(task, next.slot),
                        load(around, around.operands[next.operand], row, false));
  }
  Four result = value(task, around, program.result);
  const Step* at = node.step(program.first_step);
  TREK_ROLLED
  for (uint32_t s = 0; s < program.steps; ++s) {
    const Step next = row_of(at + s);
    result = step<true>(task, around, next);
    program_detail::put(task, program_detail::slot_at(task, next.slot), result);
  }
  const Operand& to = node.result(0);
  const auto type = static_cast<DType>(to.dtype);
  store(arena + to.offset + row * size_of(type), type, result, false);
}

}  // namespace quick_detail

// The rows [first, first + count) of a node that is Quick::rows, or all of one that is one task. A sync before others
// read the results is the caller's.
TREK_UNIT void run_quick_rows(const Block& block, const Node& node, int64_t first, int64_t count,
                              std::byte* arena) {
  using namespace quick_detail;  // NOLINT(google-build-using-namespace)
  const Task task(block);
  if (static_cast<Tiling>(node.tiling) == Tiling::whole) {
    first = 0;
    count = node.whole;
  }
  const auto n = static_cast<uint32_t>(node.lines.n);
  const auto opcode = static_cast<Opcode>(node.opcode);
  const uint32_t warp = task.thread() / 32;
  const uint32_t lane = task.thread() % 32;
  TREK_ROLLED
  for (int64_t row = first; row < first + count; row += rows::team()) {
    const int64_t left = first + count - row;
    const uint32_t rows_here = left < rows::team() ? static_cast<uint32_t>(left) : rows::team();
    const int64_t begin = row * n;
    if (row != first) task.sync();
    each_element<false>(
        task, node, node.fetch[0], begin, int64_t{rows_here} * n, arena, OneTurn(),
        [&](int64_t element, const Four& values, bool four) {
          auto* to =
              task.shared<uint32_t>(shared_at::kValues) + static_cast<uint32_t>(element - begin);
          if (four)
            *reinterpret_cast<Words*>(to) = {{values.e[0], values.e[1], values.e[2], values.e[3]}};
          else
            *to = values.e[0];
        });
    task.sync();
    if (warp < rows_here) {
      float result = rows::join_shared(task, opcode, shared_at::kValues + 4 * warp * n, lane, n);
      if (lane == 0) {
        if (opcode == Opcode::Mean) result = result / static_cast<float>(n);
        if (opcode == Opcode::Norm2) result = semantics::sqrt(result);
        deliver_row(task, node, arena, row + warp, result);
      }
    }
  }
}

}  // namespace trek::device

#endif  // __CUDA__
