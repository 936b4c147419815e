#include "emulator/device/matrix_narrow_cut.h"

#include <algorithm>

namespace trek::device {

using namespace narrow;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kFewThreads = 64;      // with all columns each; fewer: a column each
constexpr uint32_t kAtOnce = 96 * 1024;   // bytes of all k that come as one part
constexpr uint32_t kOfAPart = 88 * 1024;  // else: each is waited for
constexpr uint32_t kSpread = 64;  // bytes that blocks of neighbouring lines are apart, at most

uint32_t blocks_of(uint32_t k) { return (k + kBlock - 1) / kBlock; }

// Blocks of k, and lines, begin on different banks: behind a block stands a piece or some, and a line of neighbouring k is an
// odd number of them.
NarrowSide by_line(uint32_t depth) {
  NarrowSide side = {};
  side.by_line = 1;
  side.pieces = depth / kPieceK;
  side.block = 4 * kBlock + kPiece;
  side.line = kPiece * (blocks_of(depth) * side.block / kPiece | 1);
  return side;
}
NarrowSide by_k(uint32_t lines, uint32_t apart) {
  NarrowSide side = {};
  side.pieces = lines / kPieceK;
  side.line = 4 * lines;
  side.block = kBlock * side.line + apart;
  return side;
}
uint32_t bytes_of(const NarrowSide& side, uint32_t lines, uint32_t depth) {
  return side.by_line != 0 ? lines * side.line : blocks_of(depth) * side.block;
}

}  // namespace

Narrow narrow_cut_of(const Matrix& of) {
  const auto rows = static_cast<uint32_t>(std::min(of.m, of.tile_rows));
  const auto columns = static_cast<uint32_t>(of.n);
  const auto k = static_cast<uint32_t>(of.k);
  const uint32_t sums = rows * columns * blocks_of(k);
  if (sums > kMostSums) return {};
  Narrow to = {};
  to.ring = shared_at::kValues + (4 * sums + 127) / 128 * 128;
  const uint32_t room = kSharedBytes - to.ring;
  const auto cut = [&](uint32_t blocks) {
    to.depth = blocks * kBlock;
    to.parts = (k + to.depth - 1) / to.depth;
    to.left = of.a_k == 1 ? by_line(to.depth) : by_k(rows, std::min(4 * rows, kSpread));
    to.right = of.b_k == 1 ? by_line(to.depth) : by_k(columns, kPiece);
    to.right_at = bytes_of(to.left, rows, to.depth);
    to.slot = to.right_at + bytes_of(to.right, columns, to.depth);
  };
  cut(blocks_of(k));
  if (to.slot > std::min(kAtOnce, room)) {
    const uint32_t most = std::min(kOfAPart, room / kMostSlots);
    uint32_t blocks = blocks_of(k);
    while (to.slot > most && blocks > 1) cut(--blocks);
    if (to.slot > most) return {};
    cut(blocks_of((k + to.parts - 1) / to.parts));  // parts alike
  }
  to.all_columns = rows * blocks_of(std::min(k, to.depth)) >= kFewThreads ? 1 : 0;
  return to;
}

}  // namespace trek::device
