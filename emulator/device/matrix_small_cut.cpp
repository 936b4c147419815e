#include "emulator/device/matrix_small_cut.h"

#include <algorithm>
#include <bit>

namespace trek::device {

using namespace small;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kAtOnce = 48 * 1024;  // bytes of all k that come as one part to an interpreter
constexpr uint32_t kMostSlots = 4;

struct Runs {
  uint32_t lines;
  uint32_t pitch;  // bytes of memory
  bool by_line;
  bool aligned;

  // All of it is one run: where that is done, runs lie in shared memory as in memory.
  bool are_one() const { return !by_line && pitch == 2 * lines; }
  // Lanes that bring one: as many as it has pieces, or a warp.
  uint8_t bits(uint32_t depth) const {
    if (are_one()) return kAllLanes;
    const uint32_t pieces = std::min(bytes_of_run(depth) / 16, 32U);
    return static_cast<uint8_t>(std::bit_width(pieces - 1));
  }
  // Of shared memory, an odd number of pieces: so runs beside each other begin in different banks.
  uint32_t bytes_of_run(uint32_t depth) const {
    if (are_one()) return pitch;
    const uint32_t before = aligned ? 0 : 14;
    return 16 * ((before + 2 * (by_line ? depth : lines) + 15) / 16 | 1);
  }
  uint64_t bytes(uint32_t depth) const {
    if (are_one()) return (uint64_t{depth} * pitch + 14 + 15) / 16 * 16;
    return uint64_t{bytes_of_run(depth)} * (by_line ? lines : depth);
  }
};

}  // namespace

Small small_cut_of(const Matrix& of, bool left_aligned, bool right_aligned, bool made) {
  const auto rows = static_cast<uint32_t>(std::min(of.m, of.tile_rows));
  const auto columns = static_cast<uint32_t>(std::min(of.n, of.tile_columns));
  const auto bytes_of = [](int64_t elements) { return static_cast<uint32_t>(2 * elements); };
  const Runs left = {rows, bytes_of(of.a_k), of.a_k == 1, left_aligned};
  const Runs right = {columns, bytes_of(of.b_k), of.b_k == 1, right_aligned};
  // A tile at an edge has fewer outputs, of which more warps may share the k: never of more than a block for each warp.
  const uint32_t sums = rounded_up(4 * std::max(rows * columns, kWarps * kRows * kWide), 128);
  const uint32_t room = kRoom - sums;
  const auto bytes = [&](uint32_t depth) { return left.bytes(depth) + right.bytes(depth); };
  Small to = {};
  to.depth = rounded_up(static_cast<uint32_t>(of.k), kDepth);
  to.slots = 2;  // of which the first is all
  if (bytes(to.depth) > (made ? room : std::min(kAtOnce, room))) {
    to.slots = kMostSlots;
    // Three parts, or as many more as it takes: what is on its way is all but one of the slots.
    to.depth = rounded_up(to.depth / (kMostSlots - 1), kDepth);
    while (to.depth > kDepth && to.slots * bytes(to.depth) > room) to.depth -= kDepth;
  }
  to.left_run = left.bytes_of_run(to.depth);
  to.right_run = right.bytes_of_run(to.depth);
  to.left_bits = left.bits(to.depth);
  to.right_bits = right.bits(to.depth);
  to.parts = static_cast<uint32_t>((of.k + to.depth - 1) / to.depth);
  to.right = static_cast<uint32_t>(left.bytes(to.depth));
  to.slot = static_cast<uint32_t>(bytes(to.depth));
  to.left_in_pieces = left_aligned;
  to.right_in_pieces = right_aligned;
  to.ring = shared_at::kValues + sums;
  return to;
}

}  // namespace trek::device
