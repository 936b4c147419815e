// How a small product (matrix_small.h) divides its tiles: worked out once by describe(), for a tile of all its rows and
// columns.
#pragma once

#include "emulator/device/shared.h"

namespace trek::device {

namespace small {

// What tensor cores multiply for a warp at a time.
inline constexpr uint32_t kRows = 16;
inline constexpr uint32_t kColumns = 8;
inline constexpr uint32_t kDepth = 16;  // places of k
inline constexpr uint32_t kWide = 16;   // columns of a warp in compiled programs
inline constexpr uint32_t kWarps = kBlockThreads / 32;
inline constexpr uint32_t kAllLanes = 8;  // bits of the number of a block's threads
static_assert(1 << kAllLanes == kBlockThreads);
inline constexpr uint32_t kMostLines = 128;  // of a tile, in each direction
inline constexpr uint32_t kRoom = kSharedBytes - shared_at::kValues;
static_assert(4 * kMostLines * kMostLines <= kValuesBytes);

TREK_ON_DEVICE constexpr uint32_t least(uint32_t x, uint32_t y) { return x < y ? x : y; }
TREK_ON_DEVICE constexpr uint32_t rounded_up(uint32_t value, uint32_t to) {
  return (value + to - 1) / to * to;
}
// Warps that share the k of the same outputs, where there are so many blocks of outputs: a power of two.
TREK_ON_DEVICE constexpr uint32_t ways_of(uint32_t blocks) {
  return blocks <= kWarps / 8 ? 8 : blocks <= kWarps / 4 ? 4 : blocks <= kWarps / 2 ? 2 : 1;
}

}  // namespace small

// The cut of a small product, of which all but that and the tail is known. An operand is aligned where all of its runs
// begin at multiples of 16 bytes. `made`: where code is made for it, all k come at once where they have room, since what is
// there is soon multiplied. Host only.
Small small_cut_of(const Matrix& of, bool left_aligned, bool right_aligned, bool made);

}  // namespace trek::device
