// How a narrow product (matrix_narrow.h) divides its tiles: worked out once by describe(), for a tile of all its rows.
#pragma once

#include "emulator/device/shared.h"
#include "isa/semantics/dot.h"

namespace trek::device {

namespace narrow {

inline constexpr uint32_t kBlock = semantics::kDotBlock;
inline constexpr uint32_t kPiece = 16;     // bytes of a copy
inline constexpr uint32_t kPieceK = 4;     // and its elements
inline constexpr uint32_t kMostSlots = 2;  // of the ring
inline constexpr uint32_t kRoom = kSharedBytes - shared_at::kValues;
// Outputs times blocks of k of a tile, at most: their sums are there at once.
inline constexpr uint32_t kMostSums = kValuesBytes / 4;

}  // namespace narrow

// The cut of a narrow product, of which all but that and the tail is known: of parts 0 where a tile has no room. Host only.
Narrow narrow_cut_of(const Matrix& of);

}  // namespace trek::device
