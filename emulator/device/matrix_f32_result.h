// From the sums of a part of the f32 product to the node's result. A plain tail (CutTail) is computed in
// registers, four elements of a row at a time; any other is the node's deliver program. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_f32_part.h"
#include "isa/semantics/elements.h"

namespace trek::device::matrix_f32 {

// Four outputs of a row, `apart` columns from one to the next; those from column `end` on do not exist.
struct Outputs {
  int64_t row;
  int64_t column;
  uint32_t apart;
  int64_t end;

  TREK_ON_DEVICE bool in_line() const { return apart == 1 && column + 3 < end; }
};

// What stands beside four outputs in the steps of a plain tail.
TREK_TILE void load_beside(const Task& task, const Outputs& at, Float4 (&beside)[kCutTails]) {
  const Cut& cut = kept_cut(task);
#pragma unroll
  for (uint32_t s = 0; s < kCutTails; ++s) {
    beside[s] = 0;
    if (s >= cut.tails) continue;
    const CutTail& tail = cut.tail[s];
    if (tail.beside == CutTail::scalar) {
      beside[s] = as_float(static_cast<uint32_t>(task.scalar(tail.scalar_index)));
    } else if (tail.beside == CutTail::operand) {
      const auto* from = reinterpret_cast<const float*>(task.at(tail.offset)) + at.row * tail.row +
                         at.column * tail.column;
      if (tail.column == 0) {
        beside[s] = *from;
      } else if (at.in_line() && (reinterpret_cast<uint64_t>(from) & 15) == 0) {
        beside[s] = *reinterpret_cast<const Float4*>(from);
      } else {
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e)
          if (at.column + e * at.apart < at.end) beside[s][e] = from[e * at.apart];
      }
    }
  }
}

// Gives four outputs of a node with a plain tail.
TREK_TILE void give_four(const Task& task, const Outputs& at, const Float4 (&beside)[kCutTails],
                         Float4 value) {
  const Node& node = task.node();
  const Cut& cut = kept_cut(task);
#pragma unroll
  for (uint32_t s = 0; s < kCutTails; ++s) {
    if (s >= cut.tails) continue;
    const CutTail& tail = cut.tail[s];
    const Float4 x = tail.second != 0 ? beside[s] : value;
    const Float4 y = tail.second != 0 ? value : beside[s];
#define TREK_TAIL(Id, expression)                        \
  case Opcode::Id:                                       \
    _Pragma("unroll") for (uint32_t e = 0; e < 4; ++e) { \
      const float a = x[e];                              \
      const float b = y[e];                              \
      static_cast<void>(b);                              \
      value[e] = expression;                             \
    }                                                    \
    break;
    switch (static_cast<Opcode>(tail.opcode)) {
      TREK_F32_TAILS(TREK_TAIL)
      default:
        break;
    }
#undef TREK_TAIL
  }
  auto* to =
      reinterpret_cast<float*>(task.memory(node.result(0))) + at.row * node.matrix.n + at.column;
  if (at.in_line() && (reinterpret_cast<uint64_t>(to) & 15) == 0) {
    *reinterpret_cast<Float4*>(to) = value;
    return;
  }
#pragma unroll
  for (uint32_t e = 0; e < 4; ++e)
    if (at.column + e * at.apart < at.end) to[e * at.apart] = value[e];
}

// Gives the totals of a part, which are at kValues, to the result.
TREK_TILE void deliver_part(const Task& task) {
  const Node& node = task.node();
  const Part part = part_of(task);
  if (kept_cut(task).plain != 0) {
    const uint32_t width = (part.columns + 3) / 4;
    const float* totals = task.shared<const float>(shared_at::kValues);
    TREK_ROLLED
    for (uint32_t i = task.thread(); i < part.rows * width; i += kBlockThreads) {
      const uint32_t row = i / width;
      const uint32_t column = (i - row * width) * 4;
      const Outputs at = {part.row + row, part.column + column, 1, part.column + part.columns};
      Float4 beside[kCutTails];
      load_beside(task, at, beside);
      // Behind the last column there is still shared memory.
      const float* from = totals + row * part.columns + column;
      give_four(task, at, beside, Float4{from[0], from[1], from[2], from[3]});
    }
    return;
  }
  task.sync();  // all have read what lies at kPart and kCut, where programs have their slots
  Positions where;
  where.width = part.columns;
  where.rows = node.matrix.result_rows;
  where.first_row = part.row;
  where.columns = node.matrix.result_columns;
  where.first_column = part.column;
  const Task mine = task;  // whose address others may have
  run(mine, kDeliver, where, part.rows * part.columns, shared_at::kValues, 0);
}

}  // namespace trek::device::matrix_f32

#endif  // __CUDA__
