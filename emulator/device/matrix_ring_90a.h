// Operands of matrix products on Hopper: the tensor copy engine brings them to a ring of slots in shared memory.
// Compiled for sm_90a alone.
//
// A warp that is none of the block's asks for the copies (bring_tile()). Each slot has two barriers, by which it
// and the block hand the slot to each other: `full` when the copies have arrived, `empty` when all who read it
// have read it. A slot has all lines of a part at 128 bytes of k: 64 places of 16 bits, or 32 of f32. An operand
// whose k are neighbours in memory lies in rows of those, swizzled (tensor_core.h); else as [k][lines], which
// for tensor cores are 128 bytes of lines at a time, swizzled, and for the dot order 64 or 128 lines, as they are.
// Slots go by k, or where groups of warps take blocks of k by turns, as SlotOrder says.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_cut.h"
#include "emulator/device/matrix_tensor.h"
#include "emulator/device/matrix_turns.h"

namespace trek::device {

namespace tensor {

// A tile whose operands are brought: its parts, and the copies of each. In shared memory, so that neither side
// keeps it in registers.
struct Brought {
  const TensorMap* maps;  // of the left operand, then of the right one
  int64_t batch;
  uint32_t left_matrix;  // of the operands' batches
  uint32_t right_matrix;
  uint32_t first_row;
  uint32_t first_column;
  uint32_t end_row;
  uint32_t end_column;
  uint32_t across;  // parts of a row
  uint32_t rows;    // of a part
  uint32_t columns;
  uint32_t slots;
  uint32_t k;
  uint32_t depth;  // places of k of a slot
  uint32_t block;  // of a turn: as many, or more where groups take turns
  uint32_t round;  // of the turns of all groups
  uint32_t steps;  // slots of a part
  // Lines of a copy of each operand: of a part all that exist where its k are neighbours.
  uint32_t left_lines;
  uint32_t right_lines;
  bool a_by_line;
  bool b_by_line;
  bool ends;  // the ring is empty after every part, because the tail needs its memory
};

// The ring of parts of so many columns: in a slot the left operand, then the right one.
struct Ring90 {
  static constexpr uint32_t kLeft = kPartRows * kRowBytes;  // of tensor cores
  static constexpr uint32_t kMostSlots = 8;
  // At the end of shared memory the barriers, `full` of each slot, then `empty`, and what is brought.
  static constexpr uint32_t kBroughtAt = kSharedBytes - (sizeof(Brought) + 15) / 16 * 16;
  static constexpr uint32_t kStateAt = kBroughtAt - 2 * 8 * kMostSlots;
  // The ring begins at a multiple of 1024, behind the context and what the f32 product keeps of its part.
  static constexpr uint32_t kBehind = shared_at::kSlots + 512;
  static constexpr uint32_t kRoom = kStateAt - kBehind - 1023;

  TREK_ON_DEVICE static constexpr uint32_t slot_bytes(uint32_t columns, uint32_t rows = kPartRows) {
    return (rows + columns) * kRowBytes;
  }
  TREK_ON_DEVICE static constexpr uint32_t slots(uint32_t columns) {
    const uint32_t most = kRoom / slot_bytes(columns);
    return most < kMostSlots ? most : kMostSlots;
  }
  TREK_TILE uint32_t begin(uint32_t shared) { return (shared + kBehind + 1023) & ~1023u; }
  TREK_TILE uint32_t full(uint32_t shared, uint32_t slot) { return shared + kStateAt + 8 * slot; }
  TREK_TILE uint32_t empty(uint32_t shared, uint32_t slot) {
    return shared + kStateAt + 8 * (kMostSlots + slot);
  }
};
static_assert(Ring90::slots(256) >= 4);

// The address of the memory that units share.
TREK_TILE uint32_t memory_of(const Task& task) { return shared_address(task.shared<std::byte>(0)); }

// The ring of the f32 product: beside a part's sums of a segment, and its totals where there are several segments.
inline constexpr uint32_t kF32Depth = kRowBytes / 4;  // places of k
TREK_TILE uint32_t large_slots(int64_t k) { return k > semantics::kDotSegment ? 2 : 4; }
// Of parts of groups of warps that take turns: both halves of a block of k for each.
TREK_TILE uint32_t turns_slots(const Cut& cut) { return 2 * cut.groups; }
TREK_TILE bool takes_turns(const Cut& cut) { return cut.patch == matrix_f32::kTurnsPatch; }
TREK_TILE uint32_t f32_slots(const Matrix& of) {
  return takes_turns(of.cut) ? turns_slots(of.cut) : large_slots(of.k);
}

// The warp that asks for copies, and the warpgroups: where the barriers of a tile begin, and where a part
// has been given whose tail needed the ring's memory.
TREK_TILE void meet() { asm volatile("bar.sync 2, 288;" ::: "memory"); }

// Makes the ring's memory ordinary memory again, once it is empty and nobody waits for it: a thread each slot's.
TREK_TILE void end_ring(const Task& task, uint32_t slots) {
  const uint32_t slot = task.thread();
  if (slot >= slots) return;
  barrier_end(Ring90::full(memory_of(task), slot));
  barrier_end(Ring90::empty(memory_of(task), slot));
}

// Makes the ring of tile `number`, and says what is to be brought to it; by the first warp, which is in time for the
// block's next meeting with the warp that asks. A lane makes a slot's barriers; the first one says the rest.
TREK_TILE void begin_ring(const Task& task, int64_t number) {
  warp_sync();  // a lane has just written the task's surroundings
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const bool by_tensor_cores = static_cast<Product>(of.product) == Product::tensor;
  const bool by_turns = !by_tensor_cores && takes_turns(of.cut);
  const uint32_t groups = by_turns ? of.cut.groups : 1;
  const uint32_t rows = by_turns ? 1u << of.cut.row_bits : kPartRows;
  const uint32_t columns = by_tensor_cores ? of.part_columns
                           : by_turns      ? matrix_f32::kTurnsLines
                                           : kPartRows;
  const uint32_t slots = by_tensor_cores ? Ring90::slots(columns) : f32_slots(of);
  if (task.thread() < slots) {
    const uint32_t readers =
        by_tensor_cores ? 2 : kBlockThreads / 32 / groups;  // warpgroups, or warps
    barrier_init(Ring90::full(memory_of(task), task.thread()), 1);
    barrier_init(Ring90::empty(memory_of(task), task.thread()), readers);
    before_engine();
  }
  if (task.thread() != 0) return;
  const Tile tile = tile_of(of, number);
  const auto matrix = [&](Map batches) TREK_TILE_LAMBDA {
    return tile.batch == 0 ? 0 : static_cast<uint32_t>(place_of(node, batches, tile.batch));
  };
  auto& brought = *task.shared<Brought>(Ring90::kBroughtAt);
  brought.maps = reinterpret_cast<const TensorMap*>(task.at(node.scratch));
  brought.batch = tile.batch;
  brought.left_matrix = matrix(of.a_batch);
  brought.right_matrix = matrix(of.b_batch);
  brought.first_row = static_cast<uint32_t>(tile.first_row);
  brought.first_column = static_cast<uint32_t>(tile.first_column);
  brought.end_row = static_cast<uint32_t>(tile.end_row);
  brought.end_column = static_cast<uint32_t>(tile.end_column);
  brought.rows = rows;
  brought.columns = columns;
  const uint32_t width = brought.end_column - brought.first_column;
  brought.across = width <= columns ? 1 : (width + columns - 1) / columns;
  brought.slots = slots;
  brought.k = static_cast<uint32_t>(of.k);
  // Powers of two that are known, so nothing is divided.
  const bool half = size_of(static_cast<DType>(node.operand(0).dtype)) == 2;
  const auto steps_of = [&](uint32_t of_row)
                            TREK_TILE_LAMBDA { return (brought.k + of_row - 1) / of_row; };
  brought.depth = half ? row_elements(2) : row_elements(4);
  brought.block = by_turns ? matrix_f32::kBlock : brought.depth;
  brought.round = groups * brought.block;
  brought.steps = half ? steps_of(row_elements(2)) : steps_of(row_elements(4));
  brought.a_by_line = of.a_k == 1;
  brought.b_by_line = of.b_k == 1;
  const uint32_t at_once = by_tensor_cores ? brought.depth
                           : by_turns      ? matrix_f32::kTurnsLines
                                           : kPartRows;
  brought.left_lines = of.a_k == 1 ? lines_brought(of.m, rows) : at_once;
  brought.right_lines = of.b_k == 1 ? lines_brought(of.n, brought.columns) : at_once;
  brought.ends = !by_tensor_cores || of.tail_steps == Matrix::kNoTail;
}

// Lines of a part that copies of so many, a power of two, bring, where `there` are left of the operand: all at once
// where its k are neighbours, else as many times as there are lines.
TREK_TILE uint32_t lines_copied(bool by_line, uint32_t at_once, uint32_t there, uint32_t part) {
  if (by_line) return at_once;
  const uint32_t lines = (there + at_once - 1) & ~(at_once - 1);
  return lines < part ? lines : part;
}

// Brings the operands of the tile that begin_ring() describes; by all lanes of a warp, which is none of the
// block's. It calls nothing: around calls the kernel's code for this warp would take registers from all others.
TREK_TILE void bring_tile() {
  meet();
  const uint32_t shared = shared_address(memory_of_units);
  const uint32_t ring = Ring90::begin(shared);
  // A copy: when the last operands are there, the block may go on to a task of another kind.
  const Brought brought = *reinterpret_cast<const Brought*>(memory_of_units + Ring90::kBroughtAt);
  const TensorMap* maps = brought.maps;
  const uint32_t rows = brought.rows;
  const uint32_t columns = brought.columns;
  const uint32_t slot_bytes = Ring90::slot_bytes(columns, rows);
  before_engine();
  uint32_t slot = 0;
  uint32_t parity = 1;  // of the phase before the first, in which all slots are empty
  TREK_ROLLED
  for (uint32_t row = brought.first_row; row < brought.end_row; row += rows) {
    TREK_ROLLED
    for (uint32_t column = brought.first_column; column < brought.end_column; column += columns) {
      const uint32_t rows_there =
          lines_copied(brought.a_by_line, brought.left_lines, brought.end_row - row, rows);
      const uint32_t columns_there = lines_copied(brought.b_by_line, brought.right_lines,
                                                  brought.end_column - column, columns);
      SlotOrder order = {brought.k, brought.depth, brought.block, brought.round};
      TREK_ROLLED
      do {
        const uint32_t k = order.k;
        barrier_wait(Ring90::empty(shared, slot), parity);
        const uint32_t full = Ring90::full(shared, slot);
        const uint32_t left = ring + slot * slot_bytes;
        const uint32_t right = left + rows * kRowBytes;
        barrier_expect(full, (rows_there + columns_there) * kRowBytes);
        if (brought.a_by_line) {
          copy_box(left, maps, full, k, row, brought.left_matrix);
        } else {
          TREK_ROLLED
          for (uint32_t i = 0; i < rows_there; i += brought.left_lines)
            copy_box(left + i * kRowBytes, maps, full, row + i, k, brought.left_matrix);
        }
        if (brought.b_by_line) {
          copy_box(right, maps + 1, full, k, column, brought.right_matrix);
        } else {
          TREK_ROLLED
          for (uint32_t i = 0; i < columns_there; i += brought.right_lines)
            copy_box(right + i * kRowBytes, maps + 1, full, column + i, k, brought.right_matrix);
        }
        if (++slot == brought.slots) {
          slot = 0;
          parity ^= 1;
        }
      } while (order.next());
      if (!brought.ends) continue;
      meet();
      before_engine();
    }
  }
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
}

}  // namespace tensor

}  // namespace trek::device

#endif  // TREK_SM90A
