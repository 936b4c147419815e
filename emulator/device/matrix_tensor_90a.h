// Matrix products by tensor cores on Hopper: the tensor copy engine fills a ring of slots in shared memory,
// and two warpgroups multiply from there, 64 rows of a part each. Compiled for sm_90a alone.
//
// The ring (matrix_ring_90a.h) runs on from one part of a tile to the next, so its copies arrive while results
// are stored.
//
// What multiplies is copied into the kernel, not called: ptxas makes products of a warpgroup wait for each
// other (C7510) where it sees them in a function that is called.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_ring_90a.h"

namespace trek::device {

namespace tensor {

// All of k for the part that the ring has next. A warpgroup keeps one number during that, `step`, of the
// steps of all parts so far: in the ring, step n is in slot n mod slots. The last slot of a part is given back
// with the first of the next.
template <uint32_t kColumns, bool kBf16, bool kAByLine, bool kBByLine>
TREK_TILE void multiply_part_90a(const Task& task, uint32_t& step, float (&sum)[kColumns / 2]) {
  constexpr uint32_t kSlots = Ring90::slots(kColumns);
#pragma unroll
  for (uint32_t i = 0; i < kColumns / 2; ++i) sum[i] = 0;
  const uint32_t end = step + steps_of(*task.shared<const Brought>(Ring90::kBroughtAt));
  TREK_ROLLED
  do {
    const uint32_t shared = memory_of(task);
    barrier_wait(Ring90::full(shared, step % kSlots), step / kSlots % 2);
    const uint32_t left = Ring90::begin(shared) + step % kSlots * Ring90::slot_bytes(kColumns);
    const uint32_t group = opaque(task.thread()) / 128;
    const uint64_t a = operand_at<kAByLine>(left + group * kRow * kRowBytes, kRow * kRowBytes);
    const uint64_t b = operand_at<kBByLine>(left + Ring90::kLeft, kRow * kRowBytes);
    fence_products();
#pragma unroll
    for (uint32_t j = 0; j < kDepth / 16; ++j)
      multiply_group<kBf16, kAByLine, kBByLine>(sum, a + j * kNextDepth<kAByLine>,
                                                b + j * kNextDepth<kBByLine>, 1);
    commit_products();
    wait_for_products<1>();  // those of the step before are done
    if (step != 0 && opaque(task.thread()) % 128 == 0)
      barrier_arrive(Ring90::empty(shared, (step - 1) % kSlots));
  } while (++step != end);
  take_products(sum);
}

template <uint32_t kColumns>
TREK_TILE void multiply_any_90a(const Task& task, uint32_t& step, float (&sum)[kColumns / 2]) {
  const Node& node = task.node();
  const bool a_by_line = node.matrix.a_k == 1;
  const bool b_by_line = node.matrix.b_k == 1;
  const auto by_lines = [&]<bool kBf16>() TREK_TILE_LAMBDA {
    if (a_by_line && b_by_line)
      multiply_part_90a<kColumns, kBf16, true, true>(task, step, sum);
    else if (a_by_line)
      multiply_part_90a<kColumns, kBf16, true, false>(task, step, sum);
    else if (b_by_line)
      multiply_part_90a<kColumns, kBf16, false, true>(task, step, sum);
    else
      multiply_part_90a<kColumns, kBf16, false, false>(task, step, sum);
  };
  if (static_cast<DType>(node.operand(0).dtype) == DType::bf16)
    by_lines.template operator()<true>();
  else
    by_lines.template operator()<false>();
}

template <uint32_t kColumns>
TREK_TILE void multiply_parts_90a(const Task& task) {
  // All that is kept: what else there is to know is worked out anew behind the products of each part.
  uint32_t step = 0;
  for (;;) {
    float sum[kColumns / 2];
    multiply_any_90a<kColumns>(task, step, sum);
    const Brought& parts = *task.shared<const Brought>(Ring90::kBroughtAt);
    const uint32_t part = step / steps_of(parts) - 1;
    const uint32_t row = parts.first_row + part / parts.across * kPartRows;
    const uint32_t column = parts.first_column + part % parts.across * kColumns;
    const uint32_t my_row = opaque(task.thread()) / 32 * 16;
    if (!parts.ends) {
      give_outputs(task, {parts.batch, row + my_row, column, parts.end_row, parts.end_column}, sum);
    } else {
      task.sync();  // the other warpgroup has read the ring, too
      const uint32_t rows = parts.end_row - row < kPartRows ? parts.end_row - row : kPartRows;
      const uint32_t columns =
          parts.end_column - column < kColumns ? parts.end_column - column : kColumns;
      stage_outputs(task, my_row, 0, rows, columns, sum);
      task.sync();
      deliver_staged(task, parts.batch, row, column, rows, columns);
      meet();
    }
    if (row + kPartRows >= parts.end_row && column + kColumns >= parts.end_column) break;
  }
  task.sync();
  if (task.thread() == 0) end_ring(memory_of(task), Ring90::slots(kColumns));
}

}  // namespace tensor

// The tile that another warp has brought (tensor::bring_tile()), of a node whose product is `tensor` and that
// has tensor maps.
TREK_TILE void multiply_tile_tensor_90a(const Task& task) {
  switch (task.node().matrix.part_columns) {
    case 256:
      return tensor::multiply_parts_90a<256>(task);
    case 192:
      return tensor::multiply_parts_90a<192>(task);
    case 128:
      return tensor::multiply_parts_90a<128>(task);
    default:
      return tensor::multiply_parts_90a<64>(task);
  }
}

}  // namespace trek::device

#endif  // TREK_SM90A
