#include "emulator/device/matrix_small_cut.h"

#include <algorithm>
#include <bit>

#include "emulator/plan/small_runs.h"

namespace trek::device {

using namespace small;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kAtOnce = 48 * 1024;  // bytes of all k that come as one part to an interpreter
constexpr uint32_t kMostSlots = 4;

using Runs = plan::SmallRuns;

// Lanes that bring a run: as many as it has pieces, or a warp.
uint8_t bits_of(const Runs& runs, uint32_t depth) {
  if (runs.are_one()) return kAllLanes;
  const auto pieces = static_cast<uint32_t>(runs.of_run(depth) / Runs::kPiece);
  return static_cast<uint8_t>(std::bit_width(std::min(pieces, 32U) - 1));
}

}  // namespace

Small small_cut_of(const Matrix& of, bool left_aligned, bool right_aligned, bool made) {
  const int64_t rows = std::min(of.m, of.tile_rows);
  const int64_t columns = std::min(of.n, of.tile_columns);
  const Runs left = {rows, of.a_k, of.a_k == 1, left_aligned};
  const Runs right = {columns, of.b_k, of.b_k == 1, right_aligned};
  const int64_t room = plan::small_room(rows, columns);
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
  to.left_run = static_cast<uint32_t>(left.of_run(to.depth));
  to.right_run = static_cast<uint32_t>(right.of_run(to.depth));
  to.left_bits = bits_of(left, to.depth);
  to.right_bits = bits_of(right, to.depth);
  to.parts = static_cast<uint32_t>((of.k + to.depth - 1) / to.depth);
  to.right = static_cast<uint32_t>(left.bytes(to.depth));
  to.slot = static_cast<uint32_t>(bytes(to.depth));
  to.left_in_pieces = left_aligned;
  to.right_in_pieces = right_aligned;
  to.ring = shared_at::kValues + static_cast<uint32_t>(plan::small_sums(rows, columns));
  return to;
}

}  // namespace trek::device
