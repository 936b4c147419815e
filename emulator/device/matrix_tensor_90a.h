// Matrix products by tensor cores on Hopper: the tensor copy engine fills a ring of slots in shared memory,
// and two warpgroups multiply from there, 64 rows of a part each. Compiled for sm_90a alone.
//
// Nobody does nothing but fetch: whichever warpgroup is the second to have read a slot asks for what comes
// into it next, so neither waits for the other. What is asked for is in shared memory (Copies), not in
// registers, of which accumulators leave few. The ring runs on from one part of a tile to the next, so its
// copies arrive while results are stored.
//
// This is copied into the kernel, not called: ptxas makes products of a warpgroup wait for each other
// (C7510) where it sees them in a function that is called.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_tensor.h"

namespace trek::device {

namespace tensor {

// The copies of a tile in the order of their use, and the next of them. Only the thread that asks for it
// touches this: counts of readers order them.
struct Copies {
  const TensorMap* maps;  // of the left operand, then of the right one
  uint32_t left_matrix;   // of the operands' batches
  uint32_t right_matrix;
  bool a_by_line;
  bool b_by_line;
  uint32_t steps;  // of a part
  uint32_t first_column;
  uint32_t end_column;
  uint32_t left;  // that are to come
  uint32_t k;
  uint32_t row;
  uint32_t column;
};

// Where a tile's parts are. In shared memory, too: during a part its registers are wanted.
struct Parts {
  int64_t batch;
  uint32_t first_row;
  uint32_t first_column;
  uint32_t end_row;
  uint32_t end_column;
};

template <uint32_t kColumns>
struct Ring90 {
  static constexpr uint32_t kLeft = kPartRows * kRowBytes;
  static constexpr uint32_t kRight = kColumns * kRowBytes;
  static constexpr uint32_t kSlot = kLeft + kRight;
  // At the end of shared memory: a barrier for each slot, a count of its readers, and the copies.
  static constexpr uint32_t kState = 256;
  static constexpr uint32_t kStateAt = kSharedBytes - kState;
  // From the first multiple of 1024 behind the context on, whatever address that has.
  static constexpr uint32_t kRoom = kStateAt - shared_at::kSlots - 1024;
  static constexpr uint32_t kSlots = kRoom / kSlot < 8 ? kRoom / kSlot : 8;
  static constexpr uint32_t kCountsAt = kStateAt + 8 * kSlots;
  static constexpr uint32_t kCopiesAt = kStateAt + (12 * kSlots + 15) / 16 * 16;
  static constexpr uint32_t kPartsAt = kCopiesAt + (sizeof(Copies) + 15) / 16 * 16;
  static_assert(kSlots >= 3 && kPartsAt + sizeof(Parts) <= kSharedBytes);

  TREK_TILE uint32_t slots(const Task& task) {
    return (shared_address(task.shared<std::byte>(shared_at::kSlots)) + 1023) & ~1023u;
  }
  TREK_TILE uint32_t full(const Task& task) {
    return shared_address(task.shared<std::byte>(kStateAt));
  }
  TREK_TILE uint32_t counts(const Task& task) {
    return shared_address(task.shared<std::byte>(kCountsAt));
  }
  TREK_TILE uint32_t next(uint32_t slot) { return slot + 1 == kSlots ? 0 : slot + 1; }

  // Asks for the next copies, if there are any, into a slot that nobody reads any more. One thread.
  TREK_TILE void fill(const Task& task, uint32_t slot) {
    auto& copies = *task.shared<Copies>(kCopiesAt);
    if (copies.left == 0) return;
    --copies.left;
    const uint32_t left = slots(task) + slot * kSlot;
    const uint32_t right = left + kLeft;
    const uint32_t barrier = full(task) + 8 * slot;
    const uint32_t k = copies.k * kDepth;
    barrier_expect(barrier, kSlot);
    if (copies.a_by_line) {
      copy_box(left, copies.maps, barrier, k, copies.row, copies.left_matrix);
    } else {
      TREK_ROLLED
      for (uint32_t i = 0; i < kPartRows; i += kRow)
        copy_box(left + i * kRowBytes, copies.maps, barrier, copies.row + i, k, copies.left_matrix);
    }
    if (copies.b_by_line) {
      copy_box(right, copies.maps + 1, barrier, k, copies.column, copies.right_matrix);
    } else {
      TREK_ROLLED
      for (uint32_t i = 0; i < kColumns; i += kRow)
        copy_box(right + i * kRowBytes, copies.maps + 1, barrier, copies.column + i, k,
                 copies.right_matrix);
    }
    if (++copies.k < copies.steps) return;
    copies.k = 0;
    copies.column += kColumns;
    if (copies.column < copies.end_column) return;
    copies.column = copies.first_column;
    copies.row += kPartRows;
  }

  // Asks for the first of `count` copies, from a part at (row, column) on; all slots are free, and `slot` is
  // the next to be read. One thread.
  TREK_TILE void begin(const Task& task, uint32_t slot, uint32_t row, uint32_t column,
                       uint32_t count) {
    auto& copies = *task.shared<Copies>(kCopiesAt);
    copies.left = count;
    copies.k = 0;
    copies.row = row;
    copies.column = column;
    TREK_ROLLED
    for (uint32_t i = 0; i < kSlots; ++i) {
      fill(task, slot);
      slot = next(slot);
    }
  }
};

inline constexpr uint32_t kNoSlot = ~0u;

// Where a warpgroup stands in the ring.
struct Reader {
  uint32_t slot = 0;  // the next to be read
  uint32_t parity = 0;
  uint32_t read = kNoSlot;  // the one that has been read, and not been given back
};

// All of k for the part that the ring has next.
template <uint32_t kColumns, bool kBf16, bool kAByLine, bool kBByLine>
TREK_TILE void multiply_part_90a(const Task& task, uint32_t steps, Reader& at,
                                 float (&sum)[kColumns / 2]) {
  using Ring = Ring90<kColumns>;
  const uint32_t group = task.thread() / 128;
#pragma unroll
  for (uint32_t i = 0; i < kColumns / 2; ++i) sum[i] = 0;
  TREK_ROLLED
  for (uint32_t k = 0; k < steps; ++k) {
    barrier_wait(Ring::full(task) + 8 * at.slot, at.parity);
    const uint32_t left = Ring::slots(task) + at.slot * Ring::kSlot;
    const uint64_t a = operand_at<kAByLine>(left + group * kRow * kRowBytes, kRow * kRowBytes);
    const uint64_t b = operand_at<kBByLine>(left + Ring::kLeft, kRow * kRowBytes);
    fence_products();
#pragma unroll
    for (uint32_t j = 0; j < kDepth / 16; ++j)
      multiply_group<kBf16, kAByLine, kBByLine>(sum, a + j * kNextDepth<kAByLine>,
                                                b + j * kNextDepth<kBByLine>, 1);
    commit_products();
    wait_for_products<1>();  // those of the step before are done
    if (at.read != kNoSlot && task.thread() % 128 == 0 &&
        (count_up(Ring::counts(task) + 4 * at.read) & 1) != 0)
      Ring::fill(task, at.read);
    at.read = at.slot;
    at.slot = Ring::next(at.slot);
    if (at.slot == 0) at.parity ^= 1;
  }
  take_products(sum);
}

template <uint32_t kColumns>
TREK_TILE void multiply_any_90a(const Task& task, uint32_t steps, Reader& at,
                                float (&sum)[kColumns / 2]) {
  const Node& node = task.node();
  const bool a_by_line = node.matrix.a_k == 1;
  const bool b_by_line = node.matrix.b_k == 1;
  const auto by_lines = [&]<bool kBf16>() TREK_TILE_LAMBDA {
    if (a_by_line && b_by_line)
      multiply_part_90a<kColumns, kBf16, true, true>(task, steps, at, sum);
    else if (a_by_line)
      multiply_part_90a<kColumns, kBf16, true, false>(task, steps, at, sum);
    else if (b_by_line)
      multiply_part_90a<kColumns, kBf16, false, true>(task, steps, at, sum);
    else
      multiply_part_90a<kColumns, kBf16, false, false>(task, steps, at, sum);
  };
  if (static_cast<DType>(node.operand(0).dtype) == DType::bf16)
    by_lines.template operator()<true>();
  else
    by_lines.template operator()<false>();
}

template <uint32_t kColumns>
TREK_TILE void multiply_parts_90a(const Task& task, const Tile& tile) {
  using Ring = Ring90<kColumns>;
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const auto steps = static_cast<uint32_t>((of.k + kDepth - 1) / kDepth);
  // Where the tail needs shared memory, the ring is empty after every part.
  const bool in_registers = of.tail_steps != Matrix::kNoTail;
  const auto& parts = *task.shared<Parts>(Ring::kPartsAt);
  if (task.thread() == 0) {
    TREK_ROLLED
    for (uint32_t s = 0; s < Ring::kSlots; ++s) {
      barrier_init(Ring::full(task) + 8 * s, 1);
      *task.shared<uint32_t>(Ring::kCountsAt + 4 * s) = 0;
    }
    *task.shared<Parts>(Ring::kPartsAt) = {
        tile.batch, static_cast<uint32_t>(tile.first_row), static_cast<uint32_t>(tile.first_column),
        static_cast<uint32_t>(tile.end_row), static_cast<uint32_t>(tile.end_column)};
    auto& copies = *task.shared<Copies>(Ring::kCopiesAt);
    copies.maps = reinterpret_cast<const TensorMap*>(task.at(node.scratch));
    copies.left_matrix = static_cast<uint32_t>(place_of(node, of.a_batch, tile.batch));
    copies.right_matrix = static_cast<uint32_t>(place_of(node, of.b_batch, tile.batch));
    copies.a_by_line = of.a_k == 1;
    copies.b_by_line = of.b_k == 1;
    copies.steps = steps;
    copies.first_column = parts.first_column;
    copies.end_column = parts.end_column;
    before_engine();
    if (in_registers) {
      const uint32_t down = (parts.end_row - parts.first_row + kPartRows - 1) / kPartRows;
      const uint32_t across = (parts.end_column - parts.first_column + kColumns - 1) / kColumns;
      Ring::begin(task, 0, parts.first_row, parts.first_column, down * across * steps);
    }
  }
  task.sync();
  Reader at;
  uint32_t row = parts.first_row;
  uint32_t column = parts.first_column;
  TREK_ROLLED
  while (row < parts.end_row) {
    if (!in_registers && task.thread() == 0) Ring::begin(task, at.slot, row, column, steps);
    float sum[kColumns / 2];
    multiply_any_90a<kColumns>(task, steps, at, sum);
    const uint32_t my_row = opaque(task.thread()) / 32 * 16;
    if (in_registers) {
      give_outputs(task, {parts.batch, row + my_row, column, parts.end_row, parts.end_column}, sum);
    } else {
      if (task.thread() % 128 == 0) count_up(Ring::counts(task) + 4 * at.read);
      at.read = kNoSlot;
      task.sync();  // the other warpgroup has read the ring, too
      const uint32_t rows = parts.end_row - row < kPartRows ? parts.end_row - row : kPartRows;
      const uint32_t columns =
          parts.end_column - column < kColumns ? parts.end_column - column : kColumns;
      stage_outputs(task, my_row, 0, rows, columns, sum);
      task.sync();
      deliver_staged(task, parts.batch, row, column, rows, columns);
      task.sync();
      if (task.thread() == 0) before_engine();
    }
    column += kColumns;
    if (column >= parts.end_column) {
      column = parts.first_column;
      row += kPartRows;
    }
  }
  task.sync();
  if (task.thread() == 0) {
    TREK_ROLLED
    for (uint32_t s = 0; s < Ring::kSlots; ++s) barrier_end(Ring::full(task) + 8 * s);
  }
}

}  // namespace tensor

// The tile of number `tile` of a node whose product is `tensor` and that has tensor maps.
TREK_TILE void multiply_tile_tensor_90a(const Task& task, int64_t number) {
  const Matrix& of = task.node().matrix;
  const tensor::Tile tile = tensor::tile_of(of, number);
  switch (of.part_columns) {
    case 256:
      return tensor::multiply_parts_90a<256>(task, tile);
    case 192:
      return tensor::multiply_parts_90a<192>(task, tile);
    case 128:
      return tensor::multiply_parts_90a<128>(task, tile);
    default:
      return tensor::multiply_parts_90a<64>(task, tile);
  }
}

}  // namespace trek::device

#endif  // TREK_SM90A
