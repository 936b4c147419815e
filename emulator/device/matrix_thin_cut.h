// How a thin product (matrix_thin.h) divides its tiles: worked out once by describe(), for a tile of all its
// columns.
#pragma once

#include "emulator/device/shared.h"
#include "isa/semantics/dot.h"

namespace trek::device {

namespace thin {

inline constexpr uint32_t kBlock = semantics::kDotBlock;
inline constexpr uint32_t kLeftPad = 4;              // floats after a block of the left operand
inline constexpr uint32_t kPiece = 16;               // bytes of a copy, at most
inline constexpr uint32_t kParts = 3;                // in shared memory, at most
inline constexpr uint32_t kWholeBytes = 116 * 1024;  // of a part, where one is all
inline constexpr uint32_t kPartBytes = 40 * 1024;    // of one of several, if that will do
inline constexpr uint32_t kRoom = kSharedBytes - shared_at::kValues;
inline constexpr uint32_t kEight = 8;  // columns of a product of tensor cores
inline constexpr uint32_t kDeep = 32;  // k that are loaded at once: of two of these
inline constexpr uint32_t kWarps = kBlockThreads / 32;

// Whether tensor cores multiply, which compiled code alone has; the sums that an output has; and where k are neighbours,
// bytes of shared memory from a column to the next.
#if !defined(__CUDA__) || defined(TREK_SPECIALISED)
TREK_ON_DEVICE inline bool by_tensor_cores(const Thin& cut) { return cut.shares != 0; }
#else
TREK_ON_DEVICE inline bool by_tensor_cores(const Thin& /*cut*/) { return false; }
#endif
TREK_ON_DEVICE inline uint32_t addends_of(const Thin& cut) {
  return by_tensor_cores(cut) ? cut.shares : cut.blocks;
}
TREK_ON_DEVICE inline uint32_t line_of(const Thin& cut, uint32_t element) {
  return by_tensor_cores(cut) ? element * cut.k + kPiece : cut.blocks * cut.row;
}

// The elements in a word (matrix_thin_tags.h).
TREK_ON_DEVICE inline uint32_t in_word(DType type) { return type == DType::f32 ? 1 : 2; }

// Where an output of several products has its words of shared memory (matrix_thin_group.h).
namespace group_slot {
inline constexpr uint32_t kMains = 0;
inline constexpr uint32_t kLoads = kMaxProducts;
inline constexpr uint32_t kSteps = kLoads + kGroupLoads;
inline constexpr uint32_t kBeside = kSteps + kGroupSteps;  // of the products' tails
}  // namespace group_slot
inline constexpr uint32_t kGroupSlots = group_slot::kBeside + kGroupTail;
static_assert(4 * kGroupSlots * kBlockThreads <= kSlotBytes);

// What a recurrent step keeps of where an output's results go, in the memory of columns (matrix_thin_recurrent.h).
inline constexpr uint32_t kAimedBytes = 48;

static_assert(4 * kThinRows * (kThinDepth / kBlock) * (kBlock + kLeftPad) +
                      (kThinDepth / kBlock) * (kBlock + 1) * kPiece +
                      4 * kThinRows * (kThinDepth / kBlock) * kPiece / 2 <=
                  kRoom,
              "one step of columns has room");

}  // namespace thin

// The cut of a thin product, of which all but that and the tail is known; `left` and `right` are where its
// operands, of `element` bytes an element, begin in the arena, and `immutable` says that nothing writes the right
// one. Host only.
struct ThinOperands {
  int64_t left = 0;
  int64_t right = 0;
  uint32_t element = 0;
  bool is_f32 = false;
  bool immutable = false;
  uint32_t products = 1;         // with as many columns each
  bool by_tensor_cores = false;  // if what is multiplied suits them
};
Thin thin_cut_of(const Matrix& of, const ThinOperands& operands);

}  // namespace trek::device
