// How shared memory is divided for a product on Hopper whose operands the tensor copy engine brings: a ring of slots, and
// what stands beside it. Host and device.
#pragma once

#include "emulator/device/brought.h"
#include "emulator/device/matrix_cut.h"

namespace trek::device::tensor {

inline constexpr uint32_t kRowBytes = 128;  // of a row in shared memory
// Elements of a row, and places of k that a slot of a ring holds.
TREK_ON_DEVICE constexpr uint32_t row_elements(uint32_t bytes) { return kRowBytes / bytes; }
inline constexpr uint32_t kF32Depth = kRowBytes / 4;  // places of k of a slot

// What the blocks of a pair tell each other by turns (pairs.h), in code that is made for one program.
inline constexpr uint32_t kPairWords = kSpecialised ? 2 : 1;

// The ring of parts of so many columns: in a slot the left operand, then the right one.
struct Ring90 {
  static constexpr uint32_t kLeft = kPartRows * kRowBytes;  // of tensor cores
  static constexpr uint32_t kMostSlots = 8;
  // At the end of shared memory what is brought; behind that the barriers, which no unit writes over.
  static constexpr uint32_t kBroughtAt = kSharedBytes - sizeof(Bringing);
  static constexpr uint32_t kStateAt =
      kSharedBytes + (12 * (3 + kPairWords) + 7) / 8 * 8;  // behind Pair (pipeline.h)
  static constexpr uint32_t kBoxesAt = kStateAt + sizeof(RingState);
  static constexpr uint32_t kGemvAt = kBoxesAt + sizeof(BoxBarriers);
  // The ring begins at a multiple of 1024, behind the context and what the f32 product keeps of its part.
  static constexpr uint32_t kBehind = shared_at::kSlots + 512;
  static constexpr uint32_t kRoom = kBroughtAt - kBehind - 1023;

  // Lines of a slot for the right operand of a part: where these are neighbours, as many copies of `at_once` as it takes, a
  // power of two unless one has just the part's.
  TREK_ON_DEVICE static constexpr uint32_t lines(uint32_t columns, bool by_line, uint32_t at_once) {
    return by_line || at_once == columns ? columns : (columns + at_once - 1) & ~(at_once - 1);
  }
  TREK_ON_DEVICE static constexpr uint32_t slot_bytes(uint32_t lines, uint32_t rows = kPartRows) {
    return (rows + lines) * kRowBytes;
  }
  TREK_ON_DEVICE static constexpr uint32_t slots(uint32_t lines) {
    const uint32_t most = kRoom / slot_bytes(lines);
    return most < kMostSlots ? most : kMostSlots;
  }
  TREK_TILE uint32_t begin(uint32_t shared) { return (shared + kBehind + 1023) & ~1023u; }
  TREK_TILE uint32_t full(uint32_t shared, uint32_t slot) {
    return shared + kStateAt + static_cast<uint32_t>(offsetof(RingState, full)) + 8 * slot;
  }
  TREK_TILE uint32_t empty(uint32_t shared, uint32_t slot) {
    return shared + kStateAt + static_cast<uint32_t>(offsetof(RingState, empty)) + 8 * slot;
  }
  TREK_TILE uint32_t begun_tile(uint32_t shared, uint32_t tile) {
    return shared + kStateAt + static_cast<uint32_t>(offsetof(RingState, begun_tile)) +
           8 * (tile % kTilesBegun);
  }
};
static_assert(sizeof(RingState::full) == 8 * Ring90::kMostSlots);
static_assert(Ring90::slots(256) >= 4 && Ring90::slots(320) >= 3);
static_assert(Ring90::lines(48, false, 64) == 64 && Ring90::lines(96, false, 64) == 128 &&
              Ring90::lines(96, false, 96) == 96 && Ring90::lines(48, true, 64) == 48);

// The ring of the f32 product: beside a part's sums of a segment, and its totals where there are several segments.
TREK_ON_DEVICE constexpr uint32_t large_slots(int64_t k) {
  return k > semantics::kDotSegment ? 2 : 4;
}
// Of parts of groups of warps that take turns: both halves of a block of k for each.
TREK_ON_DEVICE constexpr uint32_t turns_slots(const Cut& cut) { return 2 * cut.groups; }
// Of lines of an operand of these that are neighbours, how many a copy brings.
TREK_ON_DEVICE constexpr uint32_t lines_at_once(const Cut& cut, bool left) {
  return matrix_f32::is_wide(cut) ? matrix_f32::part_lines(cut, left) : matrix_f32::kTurnsLines;
}
TREK_ON_DEVICE constexpr bool takes_turns(const Cut& cut) {
  return cut.patch == matrix_f32::kTurnsPatch || matrix_f32::is_wide(cut);
}

}  // namespace trek::device::tensor
