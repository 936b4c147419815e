#include "emulator/device/matrix_cut.h"

#include <algorithm>
#include <bit>

namespace trek::device {

namespace {

using namespace matrix_f32;  // NOLINT(google-build-using-namespace)

// The panels of one operand: `line` and `k` are its strides, of which one is 1.
CutSide side_of(int64_t line, int64_t k, uint32_t line_bits, uint32_t depth, bool aligned) {
  CutSide side{};
  const bool by_line = k == 1;
  const uint32_t depth_bits = std::bit_width(depth) - 1;
  const uint32_t width_bits = by_line ? depth_bits : line_bits;
  side.by_line = by_line ? 1 : 0;
  side.step = static_cast<uint32_t>(by_line ? line : k) * 4;
  side.group = by_line ? kBlock * 4 : kBlock * side.step;
  side.row_bits = static_cast<uint8_t>(by_line ? line_bits : depth_bits);
  side.unit_bits = aligned && side.step % 16 == 0 ? 2 : 0;
  side.copies_bits = static_cast<uint8_t>(width_bits - side.unit_bits);
  side.pitch = ((1u << width_bits) + kPad) * 4;
  // Panels of neighbouring groups, which are read together, begin in different banks.
  side.bytes = (side.pitch << side.row_bits) + 64;
  side.advance = by_line ? depth * 4 : depth * side.step;
  return side;
}

// A part of 1 << row_bits rows and 1 << column_bits columns, each from 8 to 128.
Cut cut_part(const Matrix& of, Alignment aligned, uint32_t row_bits, uint32_t column_bits) {
  const auto blocks = static_cast<uint32_t>((of.k + kBlock - 1) / kBlock);
  const uint32_t outputs = 4u << (row_bits + column_bits);  // bytes
  const uint32_t large_bits =
      row_bits + column_bits - 6;  // of a group's lanes, with patches of 8 x 8
  // Patches of 8 x 8 read half as many bytes for a product, those of 4 x 4 keep four times as many lanes at
  // work: the ones for as long as there are lanes for all blocks.
  const bool small = blocks << (large_bits + 2) <= kBlockThreads;
  const uint32_t most = kBlockThreads >> (small ? large_bits + 2 : large_bits);
  uint32_t groups = std::max(1u, std::min({blocks, most, kMostGroups}));
  for (uint32_t depth = 4 * kStep;;) {
    const bool single = groups >= blocks;
    // What is kept behind the panels: sums, and a segment's sums and totals.
    const uint32_t kept = single ? 0 : (groups + (of.k > kSegment ? 2 : 1)) * outputs;
    Cut cut{};
    cut.left = side_of(of.a_row, of.a_k, row_bits, depth, aligned.left);
    cut.right = side_of(of.b_column, of.b_k, column_bits, depth, aligned.right);
    cut.right.first = groups * cut.left.bytes;
    cut.stage = cut.right.first + groups * cut.right.bytes;
    const uint32_t stages = (single ? 1 : (blocks + groups - 1) / groups) * (kBlock / depth);
    const uint32_t all = std::min(stages, kMostAhead);
    // The result's elements, which lie at kValues, must not be in the way of what is kept.
    const bool fits = kSharedBytes - kept >= shared_at::kValues + outputs;
    const uint32_t ahead =
        fits ? std::min(all, (kSharedBytes - kPanels - kBehindPanels - kept) / cut.stage) : 0;
    // Deep stages are few, but what is brought ahead must last.
    if (ahead == all || (ahead >= 2 && (ahead * depth >= 4 * kStep || depth == kStep))) {
      cut.sums = single ? shared_at::kWork : kSharedBytes - kept;
      cut.groups = static_cast<uint16_t>(groups);
      cut.patch = small ? 4 : 8;
      cut.row_bits = static_cast<uint8_t>(row_bits);
      cut.column_bits = static_cast<uint8_t>(column_bits);
      cut.depth_bits = static_cast<uint8_t>(std::bit_width(depth) - 1);
      cut.ahead = static_cast<uint8_t>(ahead);
      return cut;
    }
    if (depth > kStep)
      depth /= 2;
    else
      --groups;  // one alone has room
  }
}

// Division of a tile's number, which has less than 31 bits: x magic is 2^shift and less than `across` more.
void divide_by(Cut& cut, int64_t across) {
  const auto size = static_cast<uint64_t>(across);
  cut.across_shift = static_cast<uint8_t>(31 + std::bit_width(size - 1));
  cut.across_magic = static_cast<uint32_t>(((uint64_t{1} << cut.across_shift) + size - 1) / size);
}

}  // namespace

Cut cut_of(const Matrix& of, Alignment aligned) {
  if (std::max({of.a_row, of.a_k, of.b_k, of.b_column}) >= kMostStride || of.k >= kMostDepth)
    return {};
  if (of.across == 0 || of.across * of.down * of.m == 0) return {};
  const auto bits = [](int64_t lines) {
    const auto most = static_cast<uint32_t>(std::clamp<int64_t>(lines, 8, kLargeLines));
    return static_cast<uint32_t>(std::bit_width(most - 1));
  };
  const uint32_t row_bits = bits(of.tile_rows);
  const uint32_t column_bits = bits(of.tile_columns);
  if (row_bits + column_bits < 14) {
    Cut cut = cut_part(of, aligned, row_bits, column_bits);
    divide_by(cut, of.across);
    const bool in_pieces = cut.left.unit_bits != 0 && cut.right.unit_bits != 0;
    if (row_bits == kWarpsRowBits && column_bits == kWarpsColumnBits && in_pieces &&
        of.k % kStep == 0 && of.k > int64_t{kWarpsBlocks - 1} * kBlock)
      cut.patch = kWarpsPatch;
    return cut;
  }
  Cut cut{};
  divide_by(cut, of.across);
  cut.left = side_of(of.a_row, of.a_k, row_bits, kStep, aligned.left);
  cut.right = side_of(of.b_column, of.b_k, column_bits, kStep, aligned.right);
  cut.patch = kLargePatch;
  cut.row_bits = static_cast<uint8_t>(row_bits);
  cut.column_bits = static_cast<uint8_t>(column_bits);
  return cut;
}

Cut copied_cut(const Matrix& of, bool made) {
  const Cut& cut = of.cut;
  const int64_t k = of.k;
  if (k == 0 || cut.patch == 0) return {};
  if (cut.patch == kLargePatch) return cut;
  // Of a single block most warps would have nothing to do.
  if (k <= kBlock) return {};
  const auto blocks = static_cast<uint32_t>((k + kBlock - 1) / kBlock);
  // Behind whole rounds the slots of one of fewer blocks would be other groups' than before; a group that waits for such a
  // slot's second phase could take the first, if that is still to come, for it.
  const auto has_whole_rounds = [&](uint32_t groups) {
    return blocks <= groups || blocks % groups == 0;
  };
  const bool by_line = cut.left.by_line != 0 || cut.right.by_line != 0;
  const bool may_be_wide = made && !by_line && k <= kSegment && has_whole_rounds(kWideGroups);
  Cut copied = cut;
  const auto is_tile = [&]<class Part>(Part) {
    if (of.tile_rows != Part::kRows || of.tile_columns != Part::kColumns) return false;
    copied.patch = Part::kPatch;
    copied.groups = kWideGroups;
    return true;
  };
  if (may_be_wide && (is_tile(LongPart()) || is_tile(TallPart()) || is_tile(FlatPart())))
    return copied;
  constexpr uint32_t kBits = std::bit_width(kTurnsLines - 1);
  constexpr uint32_t kWarpBits = 5;  // rows of a warp, which has all columns
  if (cut.row_bits < kBits || cut.column_bits < kBits) return {};
  const uint32_t groups = kBlockThreads / 32 >> (cut.row_bits - kWarpBits);
  if (!has_whole_rounds(groups)) return {};
  copied.patch = kTurnsPatch;
  copied.column_bits = kBits;
  copied.groups = static_cast<uint16_t>(groups);
  return copied;
}

}  // namespace trek::device
