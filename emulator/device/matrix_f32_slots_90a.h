// How warps multiply f32 operands as the copy engine lays them into slots (matrix_ring_90a.h), by the dot order: a
// warp has 32 x 64 outputs, a lane a patch of 8 x 8 of them; or of wide parts more (matrix_f32_wide_90a.h). Compiled for sm_90a
// alone; K is a multiple of 8.
//
// Both operands are read as they lie: [k][lines], of which a lane has four neighbouring lines twice at one k; or
// rows of 32 k of a line (swizzled), of which it has four k of eight lines. So nothing is transposed.
//
// A patch has the sums of a block of k; those of the segment are in shared memory.
#pragma once

#ifdef TREK_SM90A

#include "emulator/device/matrix_f32_sums.h"
#include "emulator/device/matrix_ring_90a.h"

namespace trek::device::matrix_f32 {

namespace slots_90a {

using tensor::Ring90;

inline constexpr uint32_t kDepth = tensor::kF32Depth;
inline constexpr uint32_t kDown = 4;  // lanes of a warp below one another
inline constexpr uint32_t kAcross = 8;
inline constexpr uint32_t kWarpRows = 8 * kDown;
inline constexpr uint32_t kWarpColumns = 8 * kAcross;

// A lane's eight lines of one operand, `kLanes` lanes of a warp beside each other. It is the `lane`-th, and
// `first` is the warp's first line. Where lines are neighbours, the next k is kPitch bytes on.
// Places of k are counted from the first, or where move() has been to.
template <bool kByLine, uint32_t kLanes, uint32_t kPitch>
struct Lines {
  static constexpr uint32_t kStrip = 16 * kLanes;  // bytes from a lane's first four to the next

  uint32_t at;    // of the slot at hand: the lane's first line
  uint32_t swap;  // by line: the lane's part of the swizzle

  TREK_ON_DEVICE Lines(uint32_t panel, uint32_t first, uint32_t lane)
      : at(panel + (kByLine ? (first + lane) * tensor::kRowBytes : (first + 4 * lane) * 4)),
        swap(lane % 8 * 16) {}
  TREK_ON_DEVICE static uint32_t line(uint32_t lane, uint32_t i) {
    return line_of(kByLine, kLanes, lane, i);
  }
  // From one place of the slot to another, each a multiple of 8.
  TREK_ON_DEVICE void move(uint32_t from, uint32_t to) {
    if (kByLine)
      swap ^= (from ^ to) * 4;
    else
      at += (to - from) * kPitch;
  }
  // Four k of line i, the `four`-th of the slot. Lines whose numbers differ by four have the fourth bit of their
  // piece's place the other way round.
  TREK_ON_DEVICE Float4 load_k(uint32_t four, uint32_t i) const {
    const uint32_t other = kLanes * i % 8 * 16;
    return load_four((at + (four * 16 ^ swap) ^ other) + kLanes * i * tensor::kRowBytes);
  }
  // Lines 4 h ... 4 h + 3 at a k of the slot.
  TREK_ON_DEVICE Float4 load_lines(uint32_t k, uint32_t h) const {
    return load_four(at + k * kPitch + h * kStrip);
  }
};

// What a lane has of one operand: four k of each line; or both fours of lines, at this k and at the next.
template <bool kByLine>
struct Elements {
  Float4 of[kByLine ? 8 : 4];

  TREK_ON_DEVICE float get(uint32_t i, uint32_t k) const {
    return kByLine ? of[i][k % 4] : of[k % 2 * 2 + i / 4][i % 4];
  }
  // Those of a slot that are multiplied first.
  template <class Lines>
  TREK_ON_DEVICE void begin(const Lines& lines) {
    if constexpr (kByLine) {
#pragma unroll
      for (uint32_t i = 0; i < 8; ++i) of[i] = lines.load_k(0, i);
    } else {
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) of[h] = lines.load_lines(0, h);
    }
  }
};

// A warp has read a slot: all its lanes' loads stand before the arrival, which is a release.
TREK_TILE void leave(uint32_t shared, uint32_t slot, uint32_t lane) {
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
  if (lane == 0) tensor::barrier_arrive(Ring90::empty(shared, slot));
}

// Sums of a warp, of patches of so many rows and columns: fours of each lane, row by row.
inline constexpr uint32_t kFour = 32 * 16;  // bytes from one of a lane's fours to the next
template <uint32_t kRows, uint32_t kColumns>
inline constexpr uint32_t kSumsOfWarp = kRows * (kColumns / 4) * kFour;
inline constexpr uint32_t kWarpSums = kSumsOfWarp<8, 8>;

template <uint32_t kRows, uint32_t kColumns>
TREK_TILE void clear_sums(uint32_t sums) {
#pragma unroll
  for (uint32_t at = 0; at < kSumsOfWarp<kRows, kColumns>; at += kFour)
    store_four(sums + at, kNothing);
}

// Adds a block to its segment.
template <uint32_t kRows, uint32_t kColumns>
TREK_TILE void add_block(uint32_t sums, float (&sum)[kRows][kColumns]) {
  // Addresses are worked out here: for all fours they would take registers from the loop around.
  hide(sums);
#pragma unroll
  for (uint32_t v = 0; v < kRows * kColumns / 4; ++v)
    store_four(sums + v * kFour, load_four(sums + v * kFour) + four_of(sum, v));
  clear_patch(sum);
}

// Adds a segment to the totals; its sums are those of the next one, or behind the last the totals.
template <uint32_t kRows, uint32_t kColumns>
TREK_TILE void add_segment(uint32_t sums, uint32_t totals, bool is_first, bool is_last) {
  TREK_ROLLED
  for (uint32_t at = 0; at != kSumsOfWarp<kRows, kColumns>; at += kFour) {
    Float4 total = load_four_now(sums + at);
    if (!is_first) total = load_four_now(totals + at) + total;
    store_four(totals + at, total);
    store_four(sums + at, is_last ? total : kNothing);
  }
}

// Loads of operands whose lines are neighbours what follows the k-th of a step, from place `ahead` of a slot: they have
// registers for two k.
template <bool kLeftByLine, bool kRightByLine, class Left, class Right>
TREK_TILE void load_lines_ahead(const Left& left, const Right& right, Elements<kLeftByLine>& x,
                                Elements<kRightByLine>& y, uint32_t k, uint32_t ahead) {
  if constexpr (!kLeftByLine) {
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) x.of[(k + 1) % 2 * 2 + h] = left.load_lines(ahead, h);
  }
  if constexpr (!kRightByLine) {
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) y.of[(k + 1) % 2 * 2 + h] = right.load_lines(ahead, h);
  }
}

// Adds the products of the k-th of a step, of which all is in registers, to a patch. Operands by line have their registers
// for four k: behind the last of these they load what follows, from place `ahead` of a slot.
template <bool kLeftByLine, bool kRightByLine, class Left, class Right>
TREK_TILE void multiply_k(const Left& left, const Right& right, Elements<kLeftByLine>& x,
                          Elements<kRightByLine>& y, Patch& sum, uint32_t k, uint32_t ahead) {
  // To and fro, so that each multiplication shares an operand with the one before. An operand by line is the
  // outer one: what has been multiplied for the last time makes place for what is next.
  constexpr bool kByRows = kLeftByLine || !kRightByLine;
#pragma unroll
  for (uint32_t outer = 0; outer < 8; ++outer) {
#pragma unroll
    for (uint32_t n = 0; n < 8; ++n) {
      const uint32_t inner = outer % 2 == 0 ? n : 7 - n;
      const uint32_t i = kByRows ? outer : inner;
      const uint32_t j = kByRows ? inner : outer;
      sum[i][j] = semantics::fma(x.get(i, k), y.get(j, k), sum[i][j]);
    }
    if (k % 4 != 3) continue;
    if constexpr (kLeftByLine)
      x.of[outer] = left.load_k(ahead / 4, outer);
    else if constexpr (kRightByLine)
      y.of[outer] = right.load_k(ahead / 4, outer);
  }
  if constexpr (kLeftByLine && kRightByLine) {
    if (k % 4 == 3) {
#pragma unroll
      for (uint32_t j = 0; j < 8; ++j) y.of[j] = right.load_k(ahead / 4, j);
    }
  }
}

// Adds the products of kStep k to a patch, those from place `at` of the slot on, where `left` and `right` are. Elements of the
// first of them are in x and y, which at the end are those of the next step, and behind a slot's last one again of its first.
template <class Left, class Right, class X, class Y, class Sum>
TREK_TILE void multiply_step(Left& left, Right& right, X& x, Y& y, Sum& sum, uint32_t at) {
#pragma unroll
  for (uint32_t k = 0; k < kStep; ++k) {
    const uint32_t ahead = (k + 1) % kStep;
    if (ahead == 0) {
      left.move(at, (at + kStep) % kDepth);
      right.move(at, (at + kStep) % kDepth);
    }
    load_lines_ahead(left, right, x, y, k, ahead);
    multiply_k(left, right, x, y, sum, k, ahead);
  }
}

}  // namespace slots_90a

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
