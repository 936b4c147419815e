// How the f32 product of matrix_f32.h divides a tile between lanes, blocks of k and shared memory. describe()
// works it out once.
//
// A tile is worked on in parts. A lane multiplies a patch of 4 x 4 or 8 x 8 outputs for one block of 64 k, so
// a part takes a number of lanes, a group; the block's other lanes are groups that take other blocks of k at
// the same time. All blocks are gone through in rounds of `groups`, and what a round multiplies comes
// to shared memory in stages of `depth` k of every group.
#pragma once

#include "emulator/device/shared.h"
#include "isa/semantics/dot.h"

namespace trek::device {

namespace matrix_f32 {

inline constexpr uint32_t kBlock = semantics::kDotBlock;
inline constexpr uint32_t kSegment = semantics::kDotSegment;

inline constexpr uint32_t kStep = 8;  // k that are multiplied between two looks at anything else
inline constexpr uint32_t kPad = 4;   // elements behind each row of a panel, against bank conflicts
inline constexpr uint32_t kMostAhead = 4;
inline constexpr uint32_t kMostGroups = kSegment / kBlock;

// The large part: all lanes go through k together.
inline constexpr uint32_t kLargeLines = 128;  // in each direction
inline constexpr uint8_t kLargePatch = 128;   // Cut::patch, which says so

// The part of groups of warps that take blocks of k by turns, of operands that a copy engine brings: of 64 or 128 rows
// and so many columns (matrix_f32_turns_90a.h).
inline constexpr uint32_t kTurnsLines = 64;
inline constexpr uint8_t kTurnsPatch = 64;  // Cut::patch, which says so
// Wide parts: the same of patches that are larger than 8 x 8 and of one segment, of operands whose lines are neighbours, in
// code that is made for one product. A part is a tile, and a group two warps, one below the other or beside it. (Types, since
// clang loads a constant structure where it might fold one.)
template <uint8_t kPatch_, uint32_t kRows_, uint32_t kColumns_>
struct WidePart {
  static constexpr uint8_t kPatch = kPatch_;  // Cut::patch, which says so
  static constexpr uint32_t kRows = kRows_;
  static constexpr uint32_t kColumns = kColumns_;
};
using LongPart = WidePart<96, 64, 96>;   // patches of 8 x 12
using TallPart = WidePart<80, 80, 64>;   // of 10 x 8
using FlatPart = WidePart<40, 40, 128>;  // of 10 x 8, beside each other
inline constexpr uint32_t kWideGroups = 4;

// The part of which a warp has all outputs of a block of k: of few rows and columns (matrix_f32_warps.h).
inline constexpr uint32_t kWarpsRowBits = 4;
inline constexpr uint32_t kWarpsColumnBits = 5;
inline constexpr uint32_t kWarpsBlocks = 4;  // of k, at least, or most warps would have none
inline constexpr uint8_t kWarpsPatch = 16;   // Cut::patch, which says so

// The part of a few k, where a device interprets, which is a tile (matrix_f32_shallow.h).
inline constexpr uint8_t kShallowPatch = 1;  // Cut::patch, which says so

// Beyond these, offsets within a part need more than 32 bits; in elements.
inline constexpr int64_t kMostStride = int64_t{1} << 22;
inline constexpr int64_t kMostDepth = int64_t{1} << 30;

// Byte offsets in shared memory: the part that is worked on and the node's cut, which is read oftener than a
// node's record should be; what threads copy; and the panels.
inline constexpr uint32_t kPart = shared_at::kSlots;
inline constexpr uint32_t kPartBytes = 96;
inline constexpr uint32_t kCut = kPart + kPartBytes;
inline constexpr uint32_t kBehindCut =
    (kCut + sizeof(Cut) + 127) / 128 * 128;  // where nobody has a Copier
inline constexpr uint32_t kCopiers = kCut + sizeof(Cut);
inline constexpr uint32_t kCopiersBytes = 2 * kBlockThreads * 16;
inline constexpr uint32_t kPanels = kCopiers + kCopiersBytes;
inline constexpr uint32_t kBehindPanels = 2 * (kLargeLines + kPad) * 4;  // read ahead, and not used

// The instructions of tails that are computed in registers, of a and b in f32.
#define TREK_F32_TAILS(X)          \
  X(Add, semantics::add(a, b))     \
  X(Sub, semantics::sub(a, b))     \
  X(Mul, semantics::mul(a, b))     \
  X(Maximum, semantics::max(a, b)) \
  X(Relu, semantics::relu(a))      \
  X(ReluGrad, semantics::relu_grad(a, b))

// Whether a part is wide, for which the resident kernel has no code; and how many lines a part has at most.
template <class Part>
TREK_ON_DEVICE constexpr bool is([[maybe_unused]] const Cut& cut) {
#if defined(__CUDA__) && !defined(TREK_SPECIALISED)
  return false;
#else
  return cut.patch == Part::kPatch;
#endif
}
TREK_ON_DEVICE constexpr bool is_wide(const Cut& cut) {
  return is<LongPart>(cut) || is<TallPart>(cut) || is<FlatPart>(cut);
}
TREK_ON_DEVICE constexpr uint32_t part_rows(const Cut& cut) {
  if (is<LongPart>(cut)) return LongPart::kRows;
  if (is<TallPart>(cut)) return TallPart::kRows;
  return is<FlatPart>(cut) ? FlatPart::kRows : 1u << cut.row_bits;
}
TREK_ON_DEVICE constexpr uint32_t part_columns(const Cut& cut) {
  if (is<LongPart>(cut)) return LongPart::kColumns;
  if (is<TallPart>(cut)) return TallPart::kColumns;
  return is<FlatPart>(cut) ? FlatPart::kColumns : 1u << cut.column_bits;
}
TREK_ON_DEVICE constexpr uint32_t part_lines(const Cut& cut, bool left) {
  return left ? part_rows(cut) : part_columns(cut);
}

}  // namespace matrix_f32

// The cut of a node's product, of which all but `cut` is known. `aligned`: a_batch, b_batch, offsets and tiles
// keep 16-byte alignment. A product beyond kMostStride or kMostDepth has none. Host only.
struct Alignment {
  bool left;
  bool right;
};
Cut cut_of(const Matrix& of, Alignment aligned);

// The cut of the same product where a copy engine brings its operands; of patch 0 where it would not help. `made`: code is
// made for it.
Cut copied_cut(const Matrix& of, bool made);

}  // namespace trek::device
