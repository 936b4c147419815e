// Operands of matrix products on Hopper: the tensor copy engine brings them to a ring of slots in shared memory.
// Compiled for sm_90a alone.
//
// A warp that is none of the block's asks for the copies (bring_tile()). Each slot has two barriers, by which it
// and the block hand the slot to each other: `full` when the copies have arrived, `empty` when all who read it
// have read it. A slot has all lines of a part at 128 bytes of k: 64 places of 16 bits, or 32 of f32. An operand
// whose k are neighbours in memory lies in rows of those, swizzled (tensor_core.h); else as [k][lines], which
// for tensor cores are 128 bytes of lines at a time, swizzled, and for the dot order 64 or 128 lines, as they are.
// Slots go by k, or where groups of warps take blocks of k by turns, as SlotOrder says.
//
// A ring goes on from one tile to the next where both have the same form, and the next is ready by the time that the
// last copies of the first are asked for: so its first operands come while the first one's results are stored.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/brought.h"
#include "emulator/device/matrix_cut.h"
#include "emulator/device/matrix_tensor.h"
#include "emulator/device/matrix_turns.h"
#include "emulator/device/pairs.h"

namespace trek::device {

namespace tensor {

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

// Columns of a part, and the ring's slots for it.
struct RingForm {
  uint32_t rows;
  uint32_t columns;
  uint32_t slots;
  uint32_t groups;
  uint32_t readers;  // of a slot: warpgroups, or warps; of both blocks that bring to it
  bool by_tensor_cores;
  bool by_turns;
};
TREK_TILE RingForm ring_form(const Matrix& of) {
  RingForm form{};
  form.by_tensor_cores = static_cast<Product>(of.product) == Product::tensor;
  form.by_turns = !form.by_tensor_cores && takes_turns(of.cut);
  form.groups = form.by_turns ? of.cut.groups : 1;
  form.readers = form.by_tensor_cores ? 2 : kBlockThreads / 32 / form.groups;
  form.rows = form.by_turns ? 1u << of.cut.row_bits : kPartRows;
  form.columns = form.by_tensor_cores ? of.part_columns
                 : form.by_turns      ? matrix_f32::kTurnsLines
                                      : kPartRows;
  form.slots = form.by_tensor_cores ? Ring90::slots(form.columns) : f32_slots(of);
  return form;
}
// Whether the ring is empty after every part, because the tail needs its memory.
TREK_TILE bool empties_ring(const Matrix& of) {
  if (static_cast<Product>(of.product) != Product::tensor) return of.cut.plain == 0;
  return of.tail_steps == Matrix::kNoTail;
}

// Whether the right operand's columns of a tile are brought by two blocks: where the tile that would be the other's exists,
// and has as many parts.
TREK_TILE bool shares_columns(const Matrix& of, const Tile& tile) {
  if (static_cast<Pairing>(of.pairing) != Pairing::columns) return false;
  const bool is_odd = tile.first_row / of.tile_rows % 2 != 0;
  const int64_t other = is_odd ? tile.first_row - of.tile_rows : tile.first_row + of.tile_rows;
  if (other >= of.m) return false;
  const auto parts_of = [&](int64_t first) TREK_TILE_LAMBDA {
    const int64_t rows = of.m - first < of.tile_rows ? of.m - first : of.tile_rows;
    return (rows + kPartRows - 1) / kPartRows;
  };
  return parts_of(other) == parts_of(tile.first_row);
}

// Of a tile whose k two blocks share: the columns of both, and the half of the steps that is this block's.
TREK_TILE void describe_half(const Matrix& of, const Tile& tile, Brought& brought) {
  const auto width = static_cast<uint32_t>(of.tile_columns);
  const uint32_t all = brought.steps;
  const uint32_t first = (all + 1) / 2;
  brought.shares_depth = true;
  brought.half = static_cast<uint32_t>(tile.first_column) / width % 2;
  brought.first_column -= brought.half * width;
  const uint32_t end = brought.first_column + 2 * width;
  brought.end_column = end < of.n ? end : static_cast<uint32_t>(of.n);
  brought.across = 1;
  brought.steps = brought.half == 0 ? first : all - first;
  brought.steps_of_other = all - brought.steps;
  if (brought.half == 0)
    brought.k = first * brought.depth;
  else
    brought.first_k = first * brought.depth;
}

// Says what is to be brought for a tile of a node, but for the matrices of a batch; one thread.
TREK_TILE void describe_brought(const Node& node, const std::byte* maps, const Tile& tile,
                                const RingForm& form, Brought& brought) {
  const Matrix& of = node.matrix;
  brought.maps = reinterpret_cast<const TensorMap*>(maps);
  brought.batch = tile.batch;
  brought.left_matrix = 0;
  brought.right_matrix = 0;
  brought.first_row = static_cast<uint32_t>(tile.first_row);
  brought.first_column = static_cast<uint32_t>(tile.first_column);
  brought.end_row = static_cast<uint32_t>(tile.end_row);
  brought.end_column = static_cast<uint32_t>(tile.end_column);
  brought.rows = form.rows;
  brought.columns = form.columns;
  const uint32_t width = brought.end_column - brought.first_column;
  brought.across = width <= form.columns ? 1 : (width + form.columns - 1) / form.columns;
  brought.slots = form.slots;
  brought.readers = form.readers;
  brought.k = static_cast<uint32_t>(of.k);
  // Powers of two that are known, so nothing is divided.
  const bool half = size_of(static_cast<DType>(node.operand(0).dtype)) == 2;
  const auto steps_of = [&](uint32_t of_row)
                            TREK_TILE_LAMBDA { return (brought.k + of_row - 1) / of_row; };
  brought.depth = half ? row_elements(2) : row_elements(4);
  brought.block = form.by_turns ? matrix_f32::kBlock : brought.depth;
  brought.round = form.by_turns ? form.groups * brought.block : SlotOrder::kOneRound;
  brought.steps = half ? steps_of(row_elements(2)) : steps_of(row_elements(4));
  brought.first_k = 0;
  brought.shares_depth = false;
  brought.brings_halves = false;
  brought.shares_columns = false;
  if constexpr (kHasPairs) {
    if (static_cast<Pairing>(of.pairing) == Pairing::depth) describe_half(of, tile, brought);
    brought.brings_halves = static_cast<Pairing>(of.pairing) == Pairing::columns;
    if (brought.brings_halves) brought.half = tile.first_row / of.tile_rows % 2;
    brought.shares_columns = shares_columns(of, tile);
  }
  brought.a_by_line = of.a_k == 1;
  brought.b_by_line = of.b_k == 1;
  const uint32_t at_once = form.by_tensor_cores ? brought.depth
                           : form.by_turns      ? matrix_f32::kTurnsLines
                                                : kPartRows;
  brought.left_lines = of.a_k == 1 ? lines_brought(of.m, form.rows) : at_once;
  brought.right_lines = of.b_k == 1 ? lines_brought(of.n, form.columns) : at_once;
  if constexpr (kHasPairs)
    if (static_cast<Pairing>(of.pairing) == Pairing::columns && brought.b_by_line)
      brought.right_lines /= 2;
  brought.first_step = 0;
  brought.begun = 0;
  brought.ends = empties_ring(of);
  brought.goes_on = false;
}

// Makes the barriers of a ring; by a warp, a lane each slot's.
TREK_TILE void make_ring(const Task& task, const RingForm& form) {
  if (task.thread() >= form.slots) return;
  barrier_init(Ring90::full(memory_of(task), task.thread()), 1);
  barrier_init(Ring90::empty(memory_of(task), task.thread()), form.readers);
  before_engine();
}

// Makes the ring of tile `number`; by the first warp, which is in time for the block's next meeting with the warp that
// asks.
TREK_TILE void begin_ring(const Task& task, int64_t number) {
  warp_sync();  // a lane has just written the task's surroundings
  RingForm form = ring_form(task.node().matrix);
  if constexpr (kHasPairs)
    if (shares_columns(task.node().matrix, tile_of(task.node().matrix, number))) form.readers *= 2;
  make_ring(task, form);
  if (task.thread() != 0) return;
  const Node& node = task.node();
  const Tile tile = tile_of(node.matrix, number);
  auto& brought = *task.shared<Brought>(Ring90::kBroughtAt);
  describe_brought(node, task.at(node.scratch), tile, form, brought);
  if (tile.batch == 0) return;
  brought.left_matrix = static_cast<uint32_t>(place_of(node, node.matrix.a_batch, tile.batch));
  brought.right_matrix = static_cast<uint32_t>(place_of(node, node.matrix.b_batch, tile.batch));
}

// Describes tile `number` ahead of the task, if it is of the first matrix: `steps` are 0 if not. Without divisions of 64
// bits, which are called.
TREK_TILE void describe_ahead(const Node& node, std::byte* arena, int64_t number,
                              Brought& brought) {
  const Matrix& of = node.matrix;
  brought.steps = 0;
  if (number >= of.down * of.across) return;
  const uint32_t row = static_cast<uint32_t>(number) / static_cast<uint32_t>(of.across);
  const uint32_t column = static_cast<uint32_t>(number) - row * static_cast<uint32_t>(of.across);
  const Tile tile = tile_at(of, 0, row, column);
  describe_brought(node, arena + node.scratch, tile, ring_form(of), brought);
}

// begin_ring() of a tile that has been described ahead, or `follows` going on with the ring of the one before.
TREK_TILE void begin_ring(const Task& task, int64_t number, const Brought& brought, bool follows) {
  if (brought.steps == 0) return begin_ring(task, number);
  warp_sync();
  if (!follows) make_ring(task, ring_form(task.node().matrix));
  constexpr uint32_t kWords = sizeof(Brought) / 4;
  static_assert(sizeof(Brought) % 4 == 0 && kWords <= 32);
  if (task.thread() < kWords)
    task.shared<Aliased<uint32_t>>(Ring90::kBroughtAt)[task.thread()] =
        reinterpret_cast<const Aliased<uint32_t>*>(&brought)[task.thread()];
}

// A task that is ready to be executed behind one whose operands are brought, and what is to be brought for it. No node:
// there is none.
struct Upcoming {
  const Node* before;
  const Node* node;
  Brought* brought;
};

// Whether the copies of a node may come while the results of the one before are stored.
TREK_TILE bool may_follow(const Node& before, const Node& node) {
  const auto end_of = [](const Operand& at) TREK_TILE_LAMBDA {
    return at.offset + at.elements * size_of(static_cast<DType>(at.dtype));
  };
  const Operand& to = before.result(0);
  const auto is_written = [&](const Operand& from) TREK_TILE_LAMBDA {
    return from.offset < end_of(to) && to.offset < end_of(from);
  };
  return !is_written(node.operand(0)) && !is_written(node.operand(1));
}

// Lines of a part that copies of so many, a power of two, bring, where `there` are left of the operand: all at once
// where its k are neighbours, else as many times as there are lines.
TREK_TILE uint32_t lines_copied(bool by_line, uint32_t at_once, uint32_t there, uint32_t part) {
  if (by_line) return at_once;
  const uint32_t lines = (there + at_once - 1) & ~(at_once - 1);
  return lines < part ? lines : part;
}

// Where a lane that asks for copies is in the ring.
struct RingPlace {
  uint32_t slot;
  uint32_t parity;  // of the phase before the slot's
};
TREK_TILE RingPlace ring_place(uint32_t step, uint32_t slots) {
  if (step >= 2 * slots) return {step - 2 * slots, 1};
  return step < slots ? RingPlace{step, 1} : RingPlace{step - slots, 0};
}
TREK_TILE void move_on(RingPlace& place, uint32_t slots) {
  if (++place.slot != slots) return;
  place.slot = 0;
  place.parity ^= 1;
}

// Asks for the slots of the part at `row` and `column` from order.k on, in that order, until order.k is `stop` or there
// are no more, or wait(barrier, parity), for a slot to be empty, says that it will not be; by elected(). Narrow parts wait
// for this loop: with elections in it, its 50 instructions took 500 cycles. So what brings the right operand by halves,
// those of two blocks or its own, is a loop of its own.
template <bool kByHalves, class Wait>
TREK_TILE void ask_for_slots(const Brought& brought, uint32_t shared, uint32_t row, uint32_t column,
                             uint32_t stop, SlotOrder& order, RingPlace& place, Wait wait) {
  const uint32_t rows_there =
      lines_copied(brought.a_by_line, brought.left_lines, brought.end_row - row, brought.rows);
  const bool by_halves = kByHalves && brought.b_by_line;
  const uint32_t columns_there = by_halves
                                     ? brought.columns
                                     : lines_copied(brought.b_by_line, brought.right_lines,
                                                    brought.end_column - column, brought.columns);
  const uint32_t ring = Ring90::begin(shared);
  const uint32_t slot_bytes = Ring90::slot_bytes(brought.columns, brought.rows);
  const TensorMap* maps = brought.maps;
  if (order.k == stop) return;
  TREK_ROLLED
  do {
    const uint32_t k = order.k;
    const uint32_t full = Ring90::full(shared, place.slot);
    const uint32_t left = ring + place.slot * slot_bytes;
    const uint32_t right = left + brought.rows * kRowBytes;
    if (!wait(Ring90::empty(shared, place.slot), place.parity)) return;
    barrier_expect(full, (rows_there + columns_there) * kRowBytes);
    if (brought.a_by_line) {
      copy_box(left, maps, full, k, row, brought.left_matrix);
    } else {
      TREK_ROLLED
      for (uint32_t i = 0; i < rows_there; i += brought.left_lines)
        copy_box(left + i * kRowBytes, maps, full, row + i, k, brought.left_matrix);
    }
    if constexpr (kByHalves) {
      bool other_brings = brought.shares_columns && brought.half != 0;
      TREK_ROLLED
      for (uint32_t i = 0; i < columns_there; i += brought.right_lines) {
        const uint32_t to = right + i * kRowBytes;
        const uint32_t x = by_halves ? k : column + i;
        const uint32_t y = by_halves ? column + i : k;
        if (!brought.shares_columns)
          copy_box(to, maps + 1, full, x, y, brought.right_matrix);
        else if (!other_brings)
          copy_box_to_both(to, maps + 1, full, x, y, brought.right_matrix);
        other_brings = !other_brings;
      }
    } else if (brought.b_by_line) {
      copy_box(right, maps + 1, full, k, column, brought.right_matrix);
    } else {
      TREK_ROLLED
      for (uint32_t i = 0; i < columns_there; i += brought.right_lines)
        copy_box(right + i * kRowBytes, maps + 1, full, column + i, k, brought.right_matrix);
    }
    move_on(place, brought.slots);
  } while (order.next() && order.k != stop);
}
inline constexpr uint32_t kNoStop = ~0u;

// Whether one ring will do for two tiles, and does not end between them. Where there are turns, the slot that is asked for
// last is not the one with the last k.
TREK_TILE bool may_share(const Brought& before, const Brought& to) {
  return !before.ends && !to.ends && before.columns == to.columns && before.slots == to.slots &&
         before.readers == to.readers && before.round == SlotOrder::kOneRound &&
         to.round == SlotOrder::kOneRound;
}

// Has a task go on with the ring of `brought`, whose last step is asked for next, if it can; by one lane.
TREK_TILE bool go_on(Brought& brought, RingPlace place, const Upcoming& next) {
  if (next.node == nullptr) return false;
  Brought& to = *next.brought;
  if (!may_share(brought, to) || !may_follow(*next.before, *next.node)) return false;
  move_on(place, to.slots);
  to.first_step = place.slot + (place.parity == 0 ? to.slots : place.slot == 0 ? 2 * to.slots : 0);
  // One step is left, with which the task behind it may be asked for; the slot of the last step now comes back with the
  // first one then.
  to.begun = (to.steps < to.slots ? to.steps : to.slots) - 1;
  brought.goes_on = true;
  return true;
}

// The other block's sums of a tile come to so many slots of the ring, from the one behind the last step on: those have been
// read by then.
TREK_ON_DEVICE constexpr uint32_t slots_for_sums(uint32_t columns) {
  return columns > kPartRows ? 2 : 1;
}
// Waits until `count` slots from a place on are empty, and says whether they are.
template <class Wait>
TREK_TILE bool await_empty(const Brought& brought, uint32_t shared, RingPlace place, uint32_t count,
                           Wait wait) {
  TREK_ROLLED
  for (uint32_t i = 0; i < count; ++i) {
    if (!wait(Ring90::empty(shared, place.slot), place.parity)) return false;
    move_on(place, brought.slots);
  }
  return true;
}
TREK_TILE uint32_t pair_barrier(uint32_t shared, size_t member) {
  return shared + kPairAt + static_cast<uint32_t>(member);
}
// Tells the other block that the slots for its sums are free; by elected(), with `place` behind the last step.
template <class Wait>
TREK_TILE void free_for_sums(const Brought& brought, uint32_t shared, RingPlace place, Wait wait) {
  if (await_empty(brought, shared, place, slots_for_sums(brought.columns), wait))
    arrive_in_other_block(in_other_block(pair_barrier(shared, offsetof(Pair, free))));
}
// Tells the other block that the ring is there, and waits for its; by elected().
template <class Wait>
TREK_TILE bool begin_together(uint32_t shared, Wait wait) {
  const uint32_t free = pair_barrier(shared, offsetof(Pair, free));
  arrive_in_other_block(in_other_block(free));
  return wait(free, reinterpret_cast<const Pair*>(memory_of_units + kPairAt)->freed % 2);
}

// Asks for the parts of a tile whose ring does not end between them, but for those of its first steps that were asked for
// before, and for the first steps of the task behind it; by elected().
template <bool kByHalves, class Next>
TREK_TILE void ask_for_tile(const Brought& brought, uint32_t shared, Brought& kept, Next next) {
  // The other block, which gives slots back, too, may never come.
  const auto wait = [&](uint32_t barrier, uint32_t parity) TREK_TILE_LAMBDA {
    if constexpr (kByHalves)
      if (brought.shares_columns) return next.await(barrier, parity);
    barrier_wait(barrier, parity);
    return true;
  };
  RingPlace place = ring_place(brought.first_step, brought.slots);
  if constexpr (kByHalves)
    if (brought.shares_columns && !begin_together(shared, wait)) return;
  TREK_ROLLED
  for (uint32_t step = 0; step < brought.begun; ++step) move_on(place, brought.slots);
  uint32_t first_k = brought.first_k + brought.begun * brought.depth;
  const uint32_t last_k = brought.first_k + (brought.steps - 1) * brought.depth;
  const Brought* follows = nullptr;
  TREK_ROLLED
  for (uint32_t row = brought.first_row; row < brought.end_row; row += brought.rows) {
    TREK_ROLLED
    for (uint32_t column = brought.first_column; column < brought.end_column;
         column += brought.columns) {
      SlotOrder order = {brought.k, brought.depth, brought.block, brought.round, first_k};
      first_k = 0;
      bool last =
          row + brought.rows >= brought.end_row && column + brought.columns >= brought.end_column;
      TREK_ROLLED
      for (;;) {
        ask_for_slots<kByHalves>(brought, shared, row, column, last ? last_k : kNoStop, order,
                                 place, wait);
        if (!last) break;
        // The last slot comes behind the question.
        last = false;
        const Upcoming upcoming = next();
        if (!go_on(kept, place, upcoming)) continue;
        next.goes_on();
        follows = upcoming.brought;
      }
    }
  }
  if constexpr (kHasPairs) {
    if (brought.shares_depth) free_for_sums(brought, shared, place, wait);
    // No arrival of the other block is to come behind the ring's end.
    if (kByHalves && brought.shares_columns)
      await_empty(brought, shared, place, brought.slots, wait);
  }
  if (follows == nullptr || follows->begun == 0) return;
  before_engine();
  SlotOrder order = {follows->k, follows->depth, follows->block, follows->round};
  ask_for_slots<false>(*follows, shared, follows->first_row, follows->first_column,
                       follows->begun * follows->depth, order, place, wait);
}

// Brings the operands of the tile that begin_ring() describes, and the first ones of the task behind it where that can
// go on with its ring: next() says which that is, and next.goes_on() that it does, both called by one lane. By all lanes
// of a warp, which is none of the block's. It calls nothing: around calls the kernel's code for this warp would take
// registers from all others.
template <class Next>
TREK_TILE void bring_tile(Next next) {
  meet();
  const uint32_t shared = shared_address(memory_of_units);
  auto& kept = *reinterpret_cast<Brought*>(memory_of_units + Ring90::kBroughtAt);
  // A copy: when the last operands are there, the block may go on to a task of another kind.
  const Brought brought = kept;
  before_engine();
  if (!brought.ends) {
    if (elected()) {
      if (kHasPairs && brought.brings_halves)
        ask_for_tile<kHasPairs>(brought, shared, kept, next);
      else
        ask_for_tile<false>(brought, shared, kept, next);
    }
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    if constexpr (kHasPairs)
      if (brought.shares_columns) meet();
    return;
  }
  const auto wait = [](uint32_t barrier, uint32_t parity) TREK_TILE_LAMBDA {
    barrier_wait(barrier, parity);
    return true;
  };
  RingPlace place = ring_place(0, brought.slots);  // of the lane that is elected, always the same
  TREK_ROLLED
  for (uint32_t row = brought.first_row; row < brought.end_row; row += brought.rows) {
    TREK_ROLLED
    for (uint32_t column = brought.first_column; column < brought.end_column;
         column += brought.columns) {
      SlotOrder order = {brought.k, brought.depth, brought.block, brought.round, brought.first_k};
      if (elected()) {
        ask_for_slots<false>(brought, shared, row, column, kNoStop, order, place, wait);
        if constexpr (kHasPairs)
          if (brought.shares_depth) free_for_sums(brought, shared, place, wait);
      }
      asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
      meet();
      before_engine();
    }
  }
}

}  // namespace tensor

}  // namespace trek::device

#endif  // TREK_SM90A
