// How warps multiply f32 operands as the copy engine lays them into slots (matrix_ring_90a.h), by the dot order: a
// warp has 32 x 64 outputs, a lane a patch of 8 x 8 of them. Compiled for sm_90a alone; K is a multiple of 8.
//
// Both operands are read as they lie: [k][lines], of which a lane has four neighbouring lines twice at one k; or
// rows of 32 k of a line (swizzled), of which it has four k of eight lines. So nothing is transposed.
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

// Lanes beside and below one another alternate.
TREK_TILE uint32_t lane_down(uint32_t lane) { return (lane >> 1 & 1) | (lane >> 2 & 2); }
TREK_TILE uint32_t lane_across(uint32_t lane) {
  return (lane & 1) | (lane >> 1 & 2) | (lane >> 2 & 4);
}

// The number of a lane's line i of eight, counted from the warp's first, where the lane is the `lane`-th of `lanes`.
TREK_TILE uint32_t line_of(bool by_line, uint32_t lanes, uint32_t lane, uint32_t i) {
  return by_line ? lane + lanes * i : 4 * lane + i % 4 + i / 4 * 4 * lanes;
}

// A lane's eight lines of one operand, `kLanes` lanes of a warp beside each other. It is the `lane`-th, and
// `first` is the warp's first line. Where lines are neighbours, the next k is kPitch bytes on.
template <bool kByLine, uint32_t kLanes, uint32_t kPitch>
struct Lines {
  uint32_t at;    // of the slot at hand: the lane's first line
  uint32_t swap;  // by line: the lane's part of the swizzle

  TREK_ON_DEVICE Lines(uint32_t panel, uint32_t first, uint32_t lane)
      : at(panel + (kByLine ? (first + lane) * tensor::kRowBytes : (first + 4 * lane) * 4)),
        swap(lane % 8 * 16) {}
  TREK_ON_DEVICE static uint32_t line(uint32_t lane, uint32_t i) {
    return line_of(kByLine, kLanes, lane, i);
  }
  // Four k of line i, the `four`-th of the slot. Lines whose numbers differ by four have the fourth bit of their
  // piece's place the other way round.
  TREK_ON_DEVICE Float4 load_k(uint32_t four, uint32_t i) const {
    const uint32_t other = kLanes * i % 8 * 16;
    return load_four((at + (four * 16 ^ swap) ^ other) + kLanes * i * tensor::kRowBytes);
  }
  // Lines 4 h ... 4 h + 3 at a k of the slot.
  TREK_ON_DEVICE Float4 load_lines(uint32_t k, uint32_t h) const {
    return load_four(at + k * kPitch + h * 16 * kLanes);
  }
};

// What a lane has of one operand: four k of each line; or both fours of lines, at this k and at the next.
template <bool kByLine>
struct Elements {
  Float4 of[kByLine ? 8 : 4];

  TREK_ON_DEVICE float get(uint32_t i, uint32_t k) const {
    return kByLine ? of[i][k % 4] : of[k % 2 * 2 + i / 4][i % 4];
  }
  // Those that are multiplied first of what begins at the k-th place of a slot.
  template <class Lines>
  TREK_ON_DEVICE void begin(const Lines& lines, uint32_t k) {
    if constexpr (kByLine) {
#pragma unroll
      for (uint32_t i = 0; i < 8; ++i) of[i] = lines.load_k(k / 4, i);
    } else {
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) of[k % 2 * 2 + h] = lines.load_lines(k, h);
    }
  }
};

}  // namespace slots_90a

}  // namespace trek::device::matrix_f32

#endif  // TREK_SM90A
