// Operands of matrix products on Hopper: the tensor copy engine brings them to a ring of slots in shared memory.
// Compiled for sm_90a alone.
//
// A warp that is none of the block's asks for the copies (bring_tile()). Each slot has two barriers, by which it
// and the block hand the slot to each other: `full` when the copies have arrived, `empty` when all who read it
// have read it. A slot has all lines of a part at 128 bytes of k: 64 places of 16 bits, or 32 of f32. An operand
// whose k are neighbours in memory lies in rows of those, swizzled (tensor_core.h); else as [k][lines], which
// for tensor cores are 128 bytes of lines at a time, swizzled, and for the dot order those of a part or 64, as they are.
// Slots go by k, or where groups of warps take blocks of k by turns, as SlotOrder says.
//
// What is to be brought for a tile is said with its task (brought.h). A ring goes on from one tile to the next where both
// have the same form, and the next is ready by the time that the last copies of the first are asked for: so its first
// operands come while the first one's results are stored.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_ask_90a.h"

namespace trek::device {

// What is brought for the task of this warp of the block, in its slot: the frame's (emulator/resident/called.h).
extern "C" TREK_ON_DEVICE const tensor::Bringing* trek_bringing();

namespace tensor {

// The warp that asks for copies has seen what was begun of a tile (plan/runs.h), or that the launch ends; the block waits for
// that behind its products, so that it need not ask itself, again and again, for what is in device memory. Said by the frame,
// behind bring_tile(), but for a part whose tail needs the ring's memory.
TREK_TILE void say_come() { asm volatile("bar.arrive 3, 288;" ::: "memory"); }
TREK_TILE void await_come() { asm volatile("bar.sync 3, 288;" ::: "memory"); }

// The address of the memory that units share.
TREK_TILE uint32_t memory_of(const Task& task) { return shared_address(task.shared<std::byte>(0)); }

// The block has given a part whose tail needed the ring's memory; the warp that asks for copies waits for that.
TREK_TILE void say_given() { asm volatile("bar.arrive 2, 288;" ::: "memory"); }
TREK_TILE void await_given() { asm volatile("bar.sync 2, 288;" ::: "memory"); }
// That warp has begun a tile, with the ring of the one before or with another: where its first step is, the block, which may
// be through with the one before, does not know until then. It may be a tile ahead, so barriers take turns.
TREK_TILE void say_begun(uint32_t shared, const Asked& asked) {
  barrier_arrive(Ring90::begun_tile(shared, asked.tile));
}
TREK_TILE void await_begun(uint32_t shared, const Asked& asked) {
  barrier_wait(Ring90::begun_tile(shared, asked.tile), asked.tile / kTilesBegun % 2);
}

// What is brought for the block's task, where its threads look: at a place that is always the same, from which ptxas takes
// numbers to registers of the warp, of which there are some left during products.
TREK_TILE const Bringing& kept_bringing(const Task& task) {
  return *task.shared<const Bringing>(Ring90::kBroughtAt);
}
TREK_TILE const Brought& kept_brought(const Task& task) { return kept_bringing(task).what; }
// Puts it there; by a warp, before a sync of the block's.
TREK_TILE void keep_bringing(uint32_t lane, const Bringing& from) {
  if (lane >= sizeof from / 16) return;
  uint32_t piece[4];
  load_piece(piece, shared_address(&from) + lane * 16);
  store_piece(shared_address(memory_of_units) + Ring90::kBroughtAt + lane * 16, piece);
}

// What the node is of a product whose tiles' k are cut into runs (plan/runs.h).
TREK_TILE OfRuns part_of_runs(const Task& task) {
  return kHasPairs ? static_cast<OfRuns>(task.node().matrix.runs.part) : OfRuns::none;
}

// By the block: waits until its task has been begun, which it may have been during the one before. Behind the sync ptxas knows
// all lanes to be together: else it has those wait for each other at every branch of the loops of products, of which f32 ones
// then took 4 % longer.
TREK_TILE void begin_tile(const Task& task) {
  const Bringing& from = *trek_bringing();
  await_begun(memory_of(task), from.asked);
  if (task.thread() < 32) keep_bringing(task.thread(), from);
  task.sync();
}

// The other block's sums of a tile come to so many slots of the ring, the next behind the last step. These pass a phase in
// which nothing is brought.
TREK_ON_DEVICE constexpr uint32_t slots_for_sums(uint32_t columns) {
  return columns > kPartRows ? 2 : 1;
}

// Whether the ring can go on from a tile to the task `behind`. By elected().
TREK_TILE bool can_go_on(const Joint& before, const Bringing& behind) {
  const Joint to = loaded(behind.what.joint);
  const bool is_read = overlap(before.result, to.left) || overlap(before.result, to.right);
  return to.form == before.form && to.form != Joint::kAlone && !is_read;
}
// Begins the task `behind` with that ring, from `place` on; and gives how many of its first steps are to be asked for. By
// elected().
TREK_TILE uint32_t go_on(const Asker& by, RingPlace place, Bringing& behind) {
  const Brought& before = by.brought;
  const uint32_t slots = before.slots;
  const uint32_t free = shares_depth(before) ? slots - slots_for_sums(before.columns) : slots;
  const uint32_t steps = behind.what.steps;
  const uint32_t asked = steps < free ? steps : free;
  behind.asked.first_step = ring_step(place, slots);
  behind.asked.begun = asked;
  behind.asked.follows = 1;
  say_begun(by.shared, behind.asked);
  return asked;
}

// Waits until `count` slots from a place on are empty, and says whether they are.
template <class Wait>
TREK_TILE bool await_empty(const Asker& by, RingPlace place, uint32_t count, Wait wait) {
  TREK_ROLLED
  for (uint32_t i = 0; i < count; ++i) {
    if (!wait(Ring90::empty(by.shared, place.slot), place.parity)) return false;
    move_on(place, by.brought.slots);
  }
  return true;
}
TREK_TILE uint32_t in_pair(uint32_t shared, size_t member) {
  return shared + kPairAt + static_cast<uint32_t>(member);
}
// Tells the other block which slots are free for its sums; by elected(), with `place` behind the last step, and then behind
// these slots.
TREK_TILE void free_for_sums(const Asker& by, RingPlace& place) {
  const uint32_t slots = slots_for_sums(by.brought.columns);
  await_empty(by, place, slots, [](uint32_t barrier, uint32_t parity) TREK_TILE_LAMBDA {
    barrier_wait(barrier, parity);
    return true;
  });
  tell_other_block(in_other_block(in_pair(by.shared, offsetof(Pair, free_slot))), place.slot,
                   in_other_block(in_pair(by.shared, offsetof(Pair, free))));
  TREK_ROLLED
  for (uint32_t i = 0; i < slots; ++i) {
    barrier_arrive(Ring90::full(by.shared, place.slot));
    move_on(place, by.brought.slots);
  }
}

// ---- by columns: both blocks' rings are in the same slot -------------------------------------------

// What is said of the tile that comes behind so many, in phase `parity` of a barrier.
struct Told {
  uint32_t barrier;
  uint32_t word;
  uint32_t parity;
};
TREK_TILE Told told_of(uint32_t shared, uint32_t tiles) {
  const uint32_t turn = tiles % kPairWords;
  return {in_pair(shared, offsetof(Pair, told)) + 8 * turn,
          in_pair(shared, offsetof(Pair, goes_on)) + 4 * turn, tiles / kPairWords % 2};
}
// Whether both blocks have said that their ring goes on to a tile that was not begun during the one before; by a warp. Where
// the other will not come it does not matter.
template <class Next>
TREK_TILE bool both_go_on(const Asker& by, uint32_t lane, Next next) {
  RingState& ring = ring_state();
  if (lane == 0) {
    bool both = false;
    if (ring.is_unheard != 0) {
      const Told told = told_of(by.shared, ring.heard++);
      both = next.await(told.barrier, told.parity) && other_has_passed(told.barrier, told.parity) &&
             load_word(told.word) != 0 && ring.goes_on != 0;
      ring.is_unheard = 0;
    }
    ring.goes_on = both ? 1 : 0;
  }
  warp_sync();
  return ring.goes_on != 0;
}
// Tells the other block whether the ring goes on to the task behind, and says whether both rings do, as far as is known: the
// other asks itself at about the same time. By elected().
template <class Next>
TREK_TILE bool go_on_together(const Asker& by, Next next) {
  constexpr uint32_t kSoon = 16;
  RingState& ring = ring_state();
  const bool goes_on = next.is_followed() && can_go_on(by.brought.joint, next.behind());
  const Told told = told_of(by.shared, ring.heard);
  barrier_expect(told.barrier, kWordBytes);
  tell_other_block(in_other_block(told.word), goes_on ? 1 : 0, in_other_block(told.barrier));
  ring.goes_on = goes_on ? 1 : 0;
  ring.is_unheard = 1;
  if (!goes_on) return false;
  TREK_ROLLED
  for (uint32_t i = 0; i < kSoon; ++i) {
    if (!other_has_passed(told.barrier, told.parity)) continue;
    ++ring.heard;
    ring.is_unheard = 0;
    if (load_word(told.word) == 0) ring.goes_on = 0;
    return ring.goes_on != 0;
  }
  return false;
}
// Tells the other block that a ring has begun, and waits for its; by elected().
template <class Next>
TREK_TILE bool begin_together(const Asker& by, Next next) {
  const uint32_t begun = in_pair(by.shared, offsetof(Pair, begun));
  arrive_in_other_block(in_other_block(begun));
  return next.await(begun, ring_state().begun++ % 2);
}

// ---- tiles before which blocks meet --------------------------------------------------------------------

// What several blocks read the second-level cache looks up once if they ask for it at the same time. So blocks that have a
// tile of some nodes (Brought::meeting) come to a meeting before each, at a word in memory, by one lane: where a tile is begun
// during the one before this waits for all of them, unless some are far behind. Nobody relies on it.
TREK_TILE bool is_met(const Asker& by) { return may(kMet) && by.brought.meeting != 0; }
TREK_TILE const TensorMap* meeting_of(const Asker& by) { return by.maps + kMapsOfProduct; }
TREK_TILE void meet(const Asker& by) {
  constexpr uint32_t kPatience = 16;  // of some 700 cycles each
  if (!is_met(by)) return;
  const TensorMap* come_at = meeting_of(by);
  const uint32_t blocks = by.brought.meeting;
  uint32_t come;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(come)
               : "l"(come_at)
               : "memory");
  const uint32_t all = come - come % blocks + blocks;
  ++come;
  TREK_ROLLED
  for (uint32_t i = 0; i < kPatience && static_cast<int32_t>(come - all) < 0; ++i)
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(come) : "l"(come_at) : "memory");
}
// Without a wait, where the tile is late.
TREK_TILE void pass_meeting(const Asker& by) {
  if (is_met(by))
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(meeting_of(by)) : "memory");
}

// Asks for the parts of a tile whose ring does not end between them, but for those of its first steps that were asked for
// before, and for the first steps of the task behind it; by elected(). `begins`: with a ring that both blocks begin. Gives
// the step that comes next.
template <bool kByHalves, class Next>
TREK_TILE uint32_t ask_for_tile(const Asker& by, uint32_t first_step, uint32_t begun, bool begins,
                                Next next) {
  // The other block, which gives slots back, too, may never come.
  const auto wait = [&](uint32_t barrier, uint32_t parity) TREK_TILE_LAMBDA {
    if constexpr (kByHalves)
      if (shares_columns(by.brought)) return next.await(barrier, parity);
    barrier_wait(barrier, parity);
    return true;
  };
  const Brought& brought = by.brought;
  const bool together = kByHalves && shares_columns(brought);
  RingPlace place = ring_place(first_step + begun, brought.slots);
  if constexpr (kByHalves)
    if (together && begins && !begin_together(by, next)) return 0;
  uint32_t first_k = brought.first_k + begun * brought.depth;
  TREK_ROLLED
  for (uint32_t row = brought.first_row; row < brought.end_row; row += brought.rows) {
    TREK_ROLLED
    for (uint32_t column = brought.first_column; column < brought.end_column;
         column += brought.columns) {
      SlotOrder order = order_of(brought, first_k);
      first_k = 0;
      if (!ask<kByHalves>(by, row, column, kNoStop, order, place, wait)) return 0;
    }
  }
  if constexpr (kHasPairs)
    if (shares_depth(brought)) free_for_sums(by, place);
  bool goes_on = false;
  if constexpr (kByHalves)
    goes_on = together && go_on_together(by, next);
  else
    goes_on = brought.joint.form != Joint::kAlone && next.is_followed() &&
              can_go_on(brought.joint, next.behind());
  const uint32_t steps_behind = goes_on ? go_on(by, place, next.behind()) : 0;
  // No arrival of the other block is to come behind the ring's end.
  if constexpr (kHasPairs)
    if (together && !goes_on) await_empty(by, place, brought.slots, wait);
  const uint32_t step = ring_step(place, brought.slots);
  if (steps_behind == 0) return step;
  const Asker at = asker_of(next.behind().what, next.arena());
  if (at.brought.joint.stays == 0) before_engine(true);
  meet(at);
  SlotOrder order = order_of(at.brought, at.brought.first_k);
  ask<kByHalves>(at, at.brought.first_row, at.brought.first_column,
                 at.brought.first_k + steps_behind * at.brought.depth, order, place, wait);
  return step;
}

// Brings the operands of a task's tile, and the first ones of the task behind it where that can go on with its ring:
// next.here() says what is brought for the one, next.behind() for the other, where next.is_followed(). By all lanes of a
// warp, which is none of the block's, once that has left the task before. It calls nothing: around calls the kernel's code
// for this warp would take registers from all others.
template <class Next>
TREK_TILE void bring_tile(Next next) {
  Bringing& here = next.here();
  // A copy: when the last operands are there, the block may go on to a task of another kind.
  const Asker by = asker_of(here.what, next.arena());
  const Asked asked = loaded(here.asked);
  const Brought& brought = by.brought;
  uint32_t first_step = asked.first_step;
  bool goes_on = true;
  if (asked.follows == 0) {
    uint32_t lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    goes_on = brought.joint.form != Joint::kAlone;
    if constexpr (kHasPairs)
      if (shares_columns(brought)) goes_on = both_go_on(by, lane, next);
    first_step = begin_ring(by, lane, goes_on);
    before_engine(brought.joint.stays == 0);
    warp_sync();  // all have read it
    if (lane == 0) {
      here.asked.first_step = first_step;
      say_begun(by.shared, here.asked);
      pass_meeting(by);
    }
  }
  if (!is_ended(brought)) {
    if (elected()) {
      if (brings_halves(brought))
        ring_state().step = ask_for_tile<kHasPairs>(by, first_step, asked.begun, !goes_on, next);
      else
        ring_state().step = ask_for_tile<false>(by, first_step, asked.begun, false, next);
    }
    warp_sync();
    return;
  }
  const auto wait = [](uint32_t barrier, uint32_t parity) TREK_TILE_LAMBDA {
    barrier_wait(barrier, parity);
    return true;
  };
  // Of the lane that is elected, always the same.
  RingPlace place = ring_place(first_step, brought.slots);
  TREK_ROLLED
  for (uint32_t row = brought.first_row; row < brought.end_row; row += brought.rows) {
    TREK_ROLLED
    for (uint32_t column = brought.first_column; column < brought.end_column;
         column += brought.columns) {
      SlotOrder order = order_of(brought, brought.first_k);
      if (elected()) {
        if (brings_halves(brought))
          ask<kHasPairs>(by, row, column, kNoStop, order, place, wait);
        else
          ask<false>(by, row, column, kNoStop, order, place, wait);
        if constexpr (kHasPairs)
          if (shares_depth(brought)) free_for_sums(by, place);
        ring_state().step = ring_step(place, brought.slots);
      }
      warp_sync();
      if constexpr (kHasPairs) {
        if (adds_begun(brought)) {
          next.await_late();
          say_come();
        }
      }
      await_given();
      before_engine(false);
    }
  }
}

}  // namespace tensor

}  // namespace trek::device

#endif  // TREK_SM90A
