// How a warp asks the tensor copy engine for slots of a ring (matrix_ring_90a.h): where it is in the ring, the ring's
// barriers, and the loops that ask. Compiled for sm_90a alone.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/brought.h"
#include "emulator/device/matrix_tensor.h"
#include "emulator/device/matrix_turns.h"
#include "emulator/device/pairs.h"
#include "emulator/device/ring.h"

#ifdef TREK_SPECIALISED
// The RingUse of all products of a program; emulator/jit says so.
extern "C" __attribute__((device, const)) uint32_t trek_ring_uses();
#endif

namespace trek::device::tensor {

// Whether any tile of the program does so, and what this one does of that. An interpreting kernel has no pairs.
TREK_TILE bool may(RingUse use) {
#ifdef TREK_SPECIALISED
  return (trek_ring_uses() & use) != 0;
#else
  return use == kAskedByLine || use == kAskedBySlot || use == kEnded || use == kByTensorCores ||
         use == kInOrder;
#endif
}
TREK_TILE bool brings_halves(const Brought& brought) {
  return may(kHalvesBrought) && brought.brings_halves;
}
TREK_TILE bool shares_columns(const Brought& brought) {
  return may(kColumnsShared) && brought.shares_columns;
}
TREK_TILE bool shares_depth(const Brought& brought) {
  return may(kDepthShared) && brought.shares_depth;
}
TREK_TILE bool is_ended(const Brought& brought) { return may(kEnded) && brought.ends; }
TREK_TILE bool adds_begun(const Brought& brought) {
  return may(kBegunAdded) && brought.first_run != brought.end_run;
}

// Lines of a part that copies of so many bring, where `there` are left of the operand: all at once where its k are
// neighbours, else as many times as there are lines (Ring90::lines()).
TREK_TILE uint32_t lines_copied(bool by_line, uint32_t at_once, uint32_t there, uint32_t part) {
  if (by_line || at_once == part) return at_once;
  const uint32_t lines = (there + at_once - 1) & ~(at_once - 1);
  return lines < part ? lines : part;
}

// A value of shared memory, all of it at once.
template <class T>
TREK_TILE T loaded(const T& from) {
  uint32_t words[sizeof(T) / 4];
#pragma unroll
  for (uint32_t i = 0; i < sizeof(T) / 16; ++i) {
    uint32_t piece[4];
    load_piece(piece, shared_address(&from) + i * 16);
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) words[4 * i + j] = piece[j];
  }
  T to;
  __builtin_memcpy(&to, words, sizeof to);
  return to;
}

// Tensor maps of a product, behind which blocks meet.
inline constexpr uint32_t kMapsOfProduct = 2;

// What the warp asks for that asks for copies, in registers.
struct Asker {
  Brought brought;
  const TensorMap* maps;
  uint32_t shared;
};
TREK_TILE Asker asker_of(const Brought& brought, const std::byte* arena) {
  Asker by;
  by.brought = loaded(brought);
  by.maps = reinterpret_cast<const TensorMap*>(arena + by.brought.maps);
  by.shared = shared_address(memory_of_units);
  return by;
}

TREK_TILE SlotOrder order_of(const Brought& brought, uint32_t first_k) {
  return {brought.k, brought.depth, brought.block, brought.round, first_k};
}

// Where a lane that asks is in the ring.
struct RingPlace {
  uint32_t slot;
  uint32_t parity;  // of the phase before the slot's
};
TREK_TILE RingPlace ring_place(uint32_t step, uint32_t slots) {
  if (step >= 2 * slots) step -= 2 * slots;
  return step < slots ? RingPlace{step, 1} : RingPlace{step - slots, 0};
}
TREK_TILE uint32_t ring_step(RingPlace place, uint32_t slots) {
  return place.parity != 0 ? place.slot : place.slot + slots;
}
TREK_TILE void move_on(RingPlace& place, uint32_t slots) {
  if (++place.slot != slots) return;
  place.slot = 0;
  place.parity ^= 1;
}

// The slot there, for a lane that asks for one after the other: neither address is worked out anew.
struct SlotPlace {
  uint32_t at;
  uint32_t full;  // its barrier

  TREK_ON_DEVICE SlotPlace(uint32_t shared, RingPlace place, uint32_t slot_bytes)
      : at(Ring90::begin(shared) + place.slot * slot_bytes),
        full(Ring90::full(shared, place.slot)) {}
  TREK_ON_DEVICE uint32_t empty() const {
    return full + offsetof(RingState, empty) - offsetof(RingState, full);
  }
  // With the place. (By its move_on() LLVM would do all of that without a branch, in each turn.)
  TREK_ON_DEVICE void move_on(RingPlace& place, uint32_t slots, uint32_t slot_bytes) {
    full += 8;
    at += slot_bytes;
    if (++place.slot != slots) return;
    full -= 8 * slots;
    at -= slots * slot_bytes;
    place.slot = 0;
    place.parity ^= 1;
  }
};

TREK_TILE RingState& ring_state() {
  return *reinterpret_cast<RingState*>(memory_of_units + Ring90::kStateAt);
}
// The step at which a tile begins that was not begun during the one before: with the first slot unless the ring goes on.
// The ring is made anew where none of that form stands, or not at that slot, which takes as long as the warp's stores are
// on their way. By a warp, once the block has left the task before, and with that has emptied all slots.
TREK_TILE uint32_t begin_ring(const Asker& by, uint32_t lane, bool goes_on) {
  RingState& ring = ring_state();
  const uint32_t slots = by.brought.slots;
  const uint32_t form = by.brought.readers << 8 | slots;
  const uint32_t stands = ring.form;
  if (stands == form) {
    const uint32_t step = ring.step;
    if (goes_on || step == 0 || step == slots) return step;
  }
  const uint32_t full = Ring90::full(by.shared, lane);
  const uint32_t empty = Ring90::empty(by.shared, lane);
  if (lane < (stands & 0xFF)) {
    barrier_end(full);
    barrier_end(empty);
  }
  if (lane < slots) {
    barrier_init(full, 1);
    barrier_init(empty, by.brought.readers);
  }
  barriers_made();
  warp_sync();
  if (lane == 0) ring.form = form;
  return 0;
}

// Asks for the slots of the part at `row` and `column` from order.k on, in that order, until order.k is `stop` or there
// are no more, which may be at once; or until wait(barrier, parity), for a slot to be empty, says that it will not be: not
// so. By elected().
// Narrow parts wait for this loop: with elections in it, its 50 instructions took 500 cycles. So what brings the right
// operand by halves, those of two blocks or its own, is a loop of its own, and so is what brings both operands in one copy
// each. (Gone through by all lanes, one of which asks, it is no shorter: what copies take ptxas moves to registers of the
// warp before each.)
template <bool kByHalves, class Wait>
TREK_TILE bool ask_for_slots(const Asker& by, uint32_t row, uint32_t column, uint32_t stop,
                             SlotOrder& order, RingPlace& place, Wait wait) {
  const Brought& brought = by.brought;
  const uint32_t rows_there =
      lines_copied(brought.a_by_line, brought.left_lines, brought.end_row - row, brought.rows);
  const bool by_halves = kByHalves && brought.b_by_line;
  const uint32_t lines = Ring90::lines(brought.columns, brought.b_by_line, brought.right_lines);
  const uint32_t columns_there = by_halves ? lines
                                           : lines_copied(brought.b_by_line, brought.right_lines,
                                                          brought.end_column - column, lines);
  const uint32_t slot_bytes = Ring90::slot_bytes(lines, brought.rows);
  const uint32_t bytes = (rows_there + columns_there) * kRowBytes;
  const bool a_by_line = brought.a_by_line;
  const bool b_by_line = brought.b_by_line;
  const TensorMap* maps = by.maps;
  if (order.k == stop || order.k >= brought.k) return true;
  SlotPlace slot(by.shared, place, slot_bytes);
  TREK_ROLLED
  do {
    const uint32_t k = order.k;
    const uint32_t full = slot.full;
    const uint32_t left = slot.at;
    const uint32_t right = left + brought.rows * kRowBytes;
    if (!wait(slot.empty(), place.parity)) return false;
    barrier_expect(full, bytes);
    // Mostly one copy has all lines, and these wait for it: no branch is in front.
    uint32_t i = 0;
    TREK_ROLLED
    do {
      copy_box(left + i * kRowBytes, maps, full, a_by_line ? k : row + i, a_by_line ? row : k,
               brought.left_matrix);
      i += brought.left_lines;
    } while (i < rows_there);
    if constexpr (kByHalves) {
      const bool shared = shares_columns(brought);
      const uint32_t first = shared ? brought.half * brought.right_lines : 0;
      const uint32_t next = brought.right_lines << (shared ? 1 : 0);
      TREK_ROLLED
      for (i = first; i < columns_there; i += next) {
        const uint32_t to = right + i * kRowBytes;
        const uint32_t x = by_halves ? k : column + i;
        const uint32_t y = by_halves ? column + i : k;
        if (shared)
          copy_box_to_both(to, maps + 1, full, x, y, brought.right_matrix);
        else
          copy_box(to, maps + 1, full, x, y, brought.right_matrix);
      }
    } else {
      i = 0;
      TREK_ROLLED
      do {
        copy_box(right + i * kRowBytes, maps + 1, full, b_by_line ? k : column + i,
                 b_by_line ? column : k, brought.right_matrix);
        i += brought.right_lines;
      } while (i < columns_there);
    }
    slot.move_on(place, brought.slots, slot_bytes);
  } while (order.next() && order.k != stop);
  return true;
}
inline constexpr uint32_t kNoStop = ~0u;

// The same where k of both operands are neighbours, and there are no turns; by halves, of a tile that shares columns.
template <bool kByHalves, class Wait>
TREK_TILE bool ask_by_line(const Asker& by, uint32_t row, uint32_t column, uint32_t stop,
                           SlotOrder& order, RingPlace& place, Wait wait) {
  const Brought& brought = by.brought;
  const uint32_t first = kByHalves ? brought.half * brought.right_lines : 0;
  const uint32_t right_lines = brought.right_lines << (kByHalves ? 1 : 0);
  const uint32_t bytes = (brought.left_lines + right_lines) * kRowBytes;
  const uint32_t slot_bytes = Ring90::slot_bytes(brought.columns, brought.rows);
  const uint32_t right = (brought.rows + first) * kRowBytes;
  const uint32_t end = stop < brought.k ? stop : brought.k;
  uint32_t k = order.k;
  SlotPlace slot(by.shared, place, slot_bytes);
  const auto move = [&]() TREK_TILE_LAMBDA { slot.move_on(place, brought.slots, slot_bytes); };
  const auto copy_left = [&](const SlotPlace& to, uint32_t at) TREK_TILE_LAMBDA {
    barrier_expect(to.full, bytes);
    copy_box(to.at, by.maps, to.full, at, row, brought.left_matrix);
  };
  const auto copy_right = [&](const SlotPlace& to, uint32_t at) TREK_TILE_LAMBDA {
    if constexpr (kByHalves)
      copy_box_to_both(to.at + right, by.maps + 1, to.full, at, column + first,
                       brought.right_matrix);
    else
      copy_box(to.at + right, by.maps + 1, to.full, at, column, brought.right_matrix);
  };
  // Where there are slots for it, two steps are asked for at a time: memory gives 256 bytes of a line as soon as 128.
  if (brought.slots == Ring90::kMostSlots) {
    TREK_ROLLED
    for (; k + brought.depth < end; k += 2 * brought.depth) {
      if (!wait(slot.empty(), place.parity)) return false;
      const SlotPlace before = slot;
      move();
      if (!wait(slot.empty(), place.parity)) return false;
      copy_left(before, k);
      copy_left(slot, k + brought.depth);
      copy_right(before, k);
      copy_right(slot, k + brought.depth);
      move();
    }
  }
  TREK_ROLLED
  for (; k < end; k += brought.depth) {
    if (!wait(slot.empty(), place.parity)) return false;
    copy_left(slot, k);
    copy_right(slot, k);
    move();
  }
  order.k = k;
  return true;
}
template <bool kByHalves, class Wait>
TREK_TILE bool ask(const Asker& by, uint32_t row, uint32_t column, uint32_t stop, SlotOrder& order,
                   RingPlace& place, Wait wait) {
  const bool by_line = may(kAskedByLine) && (!may(kAskedBySlot) || is_asked_by_line(by.brought));
  if (by_line && (!kByHalves || shares_columns(by.brought)))
    return ask_by_line<kByHalves>(by, row, column, stop, order, place, wait);
  return ask_for_slots<kByHalves>(by, row, column, stop, order, place, wait);
}

}  // namespace trek::device::tensor

#endif  // TREK_SM90A
