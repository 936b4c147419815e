// Parts of the f32 product of 16 rows and 32 columns: a warp has all outputs of a block of 64 k. Device only; operands begin at
// multiples of 16 bytes, and K is a multiple of 8.
//
// Such parts are of products of few outputs for many processors, so there is more to bring than to multiply. Each warp brings
// the blocks that it multiplies itself, two of them, and waits for nobody: where all have stored their blocks' sums the warps
// meet, and these are added in ascending order. More than sixteen blocks come in rounds.
//
// A lane has a patch of 4 x 4 outputs. Of an operand whose k are neighbours it reads four k of four lines, in pieces of 16
// bytes that are swizzled so that no two lanes are at one bank; of another one four neighbouring lines of a k.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_f32_result.h"
#include "emulator/device/matrix_f32_sums.h"
#include "emulator/device/tensor_core.h"

namespace trek::device::matrix_f32 {

namespace warps {

inline constexpr uint32_t kRows = 1u << kWarpsRowBits;
inline constexpr uint32_t kColumns = 1u << kWarpsColumnBits;
inline constexpr uint32_t kWarps = kBlockThreads / 32;
inline constexpr uint32_t kTurns = 2;  // blocks of a warp in a round
inline constexpr uint32_t kRound = kWarps * kTurns;
inline constexpr uint32_t kPatch = 4;
inline constexpr uint32_t kPiece = 16;  // bytes of a copy
inline constexpr uint32_t kHalf = kBlock / 2;
// A block's operands, the left one in front; its sums take their place: [row][column], rows so far apart that those of lanes below
// one another are on different banks.
inline constexpr uint32_t kLeftBytes = kRows * kBlock * 4;
inline constexpr uint32_t kSlot = kLeftBytes + kColumns * kBlock * 4;
inline constexpr uint32_t kSumsPitch = 4 * (kColumns + 8);
static_assert(kBehindCut + kRound * kSlot <= kSharedBytes && kRows * kSumsPitch <= kSlot);
static_assert(kRows == 4 * kPatch && kColumns == 8 * kPatch && kMostGroups % kRound == 0);

TREK_TILE uint32_t slot_of(uint32_t panels, uint32_t block) {
  return panels + (block % kWarps * kTurns + block / kWarps % kTurns) * kSlot;
}

// One operand: `lines` of kLines exist, `pitch` bytes of memory apart, or where lines are neighbours that is from k to k.
// A row of its panel is a line's 64 k, or all lines at a k.
template <bool kByLine, uint32_t kLines>
struct Panel {
  static constexpr uint32_t kRowBytes = kByLine ? kBlock * 4 : kLines * 4;

  // Asks for half a block, of which `there` k exist, by a warp. `from` is where that begins in memory.
  TREK_ON_DEVICE static void ask(uint32_t lane, const std::byte* from, uint32_t pitch,
                                 uint32_t lines, uint32_t half, uint32_t there, uint32_t panel) {
    constexpr uint32_t kPieces = kByLine ? kHalf / 4 : kLines / 4;  // of a row, or of its half
    constexpr uint32_t kTogether = 32 / kPieces;                    // rows
    constexpr uint32_t kCopies = kLines * kHalf / 4 / 32;
    const uint32_t piece = lane % kPieces;
    uint32_t row = lane / kPieces;
    if constexpr (kByLine) {
      if (4 * piece >= there) return;
      from += kPiece * piece;
    } else {
      const uint32_t last = (lines - 1) / 4;
      from += kPiece * (piece < last ? piece : last);
      panel += half * kHalf * kRowBytes + kPiece * piece;
    }
#pragma unroll
    for (uint32_t i = 0; i < kCopies; ++i, row += kTogether) {
      if constexpr (kByLine) {
        const uint32_t line = row < lines ? row : lines - 1;
        copy_ahead<kPiece>(
            panel + row * kRowBytes + ((half * kPieces + piece) ^ (row % 8)) * kPiece,
            from + uint64_t{line} * pitch);
      } else {
        copy_four(row < there, panel + row * kRowBytes, from + uint64_t{row} * pitch);
      }
    }
  }
  // Four k of four lines, from the k-th four of a block on, of a lane whose first line is at `at`: line by line, or k by k.
  TREK_ON_DEVICE static void load(uint32_t at, uint32_t lane, uint32_t four, Float4 (&to)[kPatch]) {
    constexpr uint32_t kLanes = kLines / kPatch;
#pragma unroll
    for (uint32_t i = 0; i < kPatch; ++i) {
      if constexpr (kByLine)
        to[i] = load_four(at + kLanes * i * kRowBytes + (four ^ (lane + kLanes * i) % 8) * kPiece);
      else
        to[i] = load_four(at + (4 * four + i) * kRowBytes);
    }
  }
  TREK_ON_DEVICE static uint32_t first_line(uint32_t panel, uint32_t lane) {
    return panel + (kByLine ? lane * kRowBytes : lane * kPatch * 4);
  }
  TREK_ON_DEVICE static float get(const Float4 (&of)[kPatch], uint32_t line, uint32_t k) {
    return kByLine ? of[line][k] : of[k][line];
  }
};

// What is the same for all blocks of a part.
struct Of {
  Side left;
  Side right;
  uint32_t left_pitch;
  uint32_t right_pitch;
  uint32_t k;
};

template <bool kLeftByLine, bool kRightByLine>
class Blocks {
  using Left = Panel<kLeftByLine, kRows>;
  using Right = Panel<kRightByLine, kColumns>;

 public:
  TREK_ON_DEVICE Blocks(const Of& of, uint32_t panels, uint32_t lane)
      : of_(of), panels_(panels), lane_(lane), down_(lane_down(lane)), across_(lane_across(lane)) {}

  // Brings and multiplies all that a warp has of a round, whose first block for it is `block`, and leaves a block's sums in its
  // place. Half a block is a group of copies, of which kAhead are on their way while one is multiplied: asking is what memory
  // keeps waiting. There is one loop for all, since its instructions are met for the first time.
  TREK_ON_DEVICE void multiply(uint32_t block) const {
    float sum[kPatch][kPatch] = {};  // defined on every path
    TREK_ROLLED
    for (uint32_t h = 0; h < kHalves + kAhead; ++h) {
      if (h >= kAhead && !multiply_half(block, h - kAhead, sum)) return;
      if (h < kHalves) ask_half(block, h);
    }
  }

 private:
  static constexpr uint32_t kHalves = 2 * kTurns;
  static constexpr uint32_t kAhead = 2;
  // Of a half that a warp has: behind the last k there is none, and the group of copies is empty.
  struct Half {
    uint32_t block;
    uint32_t half;
    uint32_t k;
    uint32_t there;

    TREK_ON_DEVICE Half(const Of& of, uint32_t first, uint32_t h)
        : block(first + h / 2 * kWarps),
          half(h % 2),
          k(block * kBlock + half * kHalf),
          there(k >= of.k          ? 0
                : of.k - k < kHalf ? of.k - k
                                   : kHalf) {}
  };
  TREK_ON_DEVICE void ask_half(uint32_t first, uint32_t h) const {
    const Half at(of_, first, h);
    if (at.there != 0) {
      const uint32_t slot = slot_of(panels_, at.block);
      const uint64_t left = kLeftByLine ? 4 : of_.left_pitch;
      const uint64_t right = kRightByLine ? 4 : of_.right_pitch;
      Left::ask(lane_, of_.left.data + at.k * left, of_.left_pitch, of_.left.lines, at.half,
                at.there, slot);
      Right::ask(lane_, of_.right.data + at.k * right, of_.right_pitch, of_.right.lines, at.half,
                 at.there, slot + kLeftBytes);
    }
    commit_copies();
  }
  // Whether there is one, or another half of its block.
  TREK_ON_DEVICE bool multiply_half(uint32_t first, uint32_t h,
                                    float (&sum)[kPatch][kPatch]) const {
    const Half at(of_, first, h);
    if (at.half == 0 && at.there == 0) return false;
    wait_for_copies(h + 1 < kHalves ? kAhead - 1 : 0);
    tensor::warp_sync();
    const uint32_t slot = slot_of(panels_, at.block);
    multiply_fours(slot, at.half * (kHalf / 4), at.there / 4, sum);
    if (at.half == 0) return true;
    tensor::warp_sync();  // all have read the operands
    store(slot, sum);
    clear_patch(sum);
    return true;
  }
  // So many fours, an even number; those of the next are on their way while one is multiplied.
  TREK_ON_DEVICE void multiply_fours(uint32_t slot, uint32_t first, uint32_t fours,
                                     float (&sum)[kPatch][kPatch]) const {
    if (fours == 0) return;
    const uint32_t left = Left::first_line(slot, down_);
    const uint32_t right = Right::first_line(slot + kLeftBytes, across_);
    Float4 x[2][kPatch];
    Float4 y[2][kPatch];
    const auto load = [&](uint32_t four, uint32_t to) TREK_TILE_LAMBDA {
      Left::load(left, down_, four, x[to]);
      Right::load(right, across_, four, y[to]);
    };
    load(first, 0);
    const uint32_t end = first + fours;
#pragma unroll 1
    for (uint32_t four = first; four < end; four += 2) {
#pragma unroll
      for (uint32_t f = 0; f < 2; ++f) {
        // Behind the last one the first is read again.
        const uint32_t next = four + f + 1;
        load(next < end ? next : first, 1 - f);
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k)
#pragma unroll
          for (uint32_t i = 0; i < kPatch; ++i)
#pragma unroll
            for (uint32_t n = 0; n < kPatch; ++n) {
              // To and fro, so that each multiplication shares an operand with the one before.
              const uint32_t j = i % 2 == 0 ? n : kPatch - 1 - n;
              sum[i][j] = semantics::fma(Left::get(x[f], i, k), Right::get(y[f], j, k), sum[i][j]);
            }
      }
    }
  }
  TREK_ON_DEVICE void store(uint32_t slot, const float (&sum)[kPatch][kPatch]) const {
#pragma unroll
    for (uint32_t i = 0; i < kPatch; ++i) {
      const uint32_t row = slot + line_of(kLeftByLine, 4, down_, i) * kSumsPitch;
      if constexpr (!kRightByLine) {
        store_four(row + across_ * 16, turned(four_of(sum, i)));
      } else {
#pragma unroll
        for (uint32_t j = 0; j < kPatch; ++j)
          store_one(row + line_of(true, 8, across_, j) * 4, sum[i][j]);
      }
    }
  }

  const Of& of_;
  uint32_t panels_;
  uint32_t lane_;
  uint32_t down_;
  uint32_t across_;
};

}  // namespace warps

// Multiplies the part at kPart by warps, and gives it to the result, or where that has a tail that is not plain, to kValues.
template <bool kLeftByLine, bool kRightByLine>
TREK_UNIT_CALL void multiply_warps(Task task) {
  using namespace warps;  // NOLINT(google-build-using-namespace)
  const Part& part = part_of(task);
  const Cut& cut = kept_cut(task);
  const uint32_t thread = task.thread();
  const uint32_t panels = address(task, kBehindCut);
  const Of of = {part.left, part.right, cut.left.step, cut.right.step, part.k};
  const Blocks<kLeftByLine, kRightByLine> by(of, panels, thread % 32);
  const uint32_t blocks = (of.k + kBlock - 1) / kBlock;
  // Each of the first threads gives four outputs.
  const uint32_t row = thread / (kColumns / 4);
  const uint32_t column = thread % (kColumns / 4) * 4;
  const bool exists = row < part.rows && column < part.columns;
  const Outputs outputs = {part.row + row, part.column + column, 1, part.column + part.columns};
  Float4 beside[kCutTails] = {0, 0, 0};
  Float4 segment = kNothing;
  Float4 total = 0;
  TREK_ROLLED
  for (uint32_t first = 0; first < blocks; first += kRound) {
    const uint32_t mine = first + thread / 32;
    if (first == 0 && cut.plain != 0 && exists) load_beside(task, outputs, beside);
    by.multiply(mine);
    task.sync();
    if (exists) {
      const uint32_t end = first + kRound < blocks ? first + kRound : blocks;
#pragma unroll 4
      for (uint32_t block = first; block < end; ++block)
        segment = segment + load_four(slot_of(panels, block) + row * kSumsPitch + column * 4);
      if (end % kMostGroups == 0 || end == blocks) {
        total = first < kMostGroups ? segment : total + segment;
        segment = kNothing;
      }
    }
    if (first + kRound < blocks || cut.plain == 0) task.sync();  // sums have been read
  }
  if (!exists) return;
  if constexpr (!kRightByLine) total = turned(total);
  if (cut.plain != 0) return give_four(task, outputs, beside, total);
  float* to = task.shared<float>(shared_at::kValues) + row * part.columns + column;
#pragma unroll
  for (uint32_t e = 0; e < 4; ++e)
    if (column + e < part.columns) to[e] = total[e];
}

}  // namespace trek::device::matrix_f32

#endif  // __CUDA__
