#include "emulator/device/matrix_thin_cut.h"

#include <algorithm>

namespace trek::device {

using namespace thin;  // NOLINT(google-build-using-namespace)

namespace {

// What must hold: the left operand, `ahead` + 1 parts and the sums of one have room, whatever is
// kThinRows x kThinDepth x 4 columns of f32.
void divide(Thin& to, uint32_t columns, uint32_t element, bool by_tensor_cores) {
  const uint32_t left = 4 * to.rows * to.blocks * (kBlock + kLeftPad);
  const uint32_t step = to.by_line == 0   ? kPiece / element  // columns
                        : by_tensor_cores ? kEight
                                          : 1;
  // By tensor cores lines are read side by side, else blocks of them.
  const uint32_t line =
      by_tensor_cores ? element * to.k + kPiece : to.blocks * (element * kBlock + kPiece);
  const uint32_t of_step =  // bytes
      to.by_line != 0 ? step * line : to.blocks * (kBlock + 1) * kPiece;
  const auto sums_of = [&](uint32_t steps) {
    if (by_tensor_cores) to.shares = steps * step / kEight < kWarps ? kWarps : 1;
    return 4 * to.rows * addends_of(to) * step * steps;
  };
  const uint32_t most = (columns + step - 1) / step;
  uint32_t part = most;  // in steps
  uint32_t ahead = 0;
  if (most * of_step > kWholeBytes || left + most * of_step + sums_of(most) > kRoom) {
    // As many as keep all threads busy once, if there is room for them.
    const uint32_t busy = by_tensor_cores ? kWarps : kBlockThreads / to.blocks / step;
    const uint32_t wanted = std::min({busy, kPartBytes / of_step, most});
    part = std::max(wanted, 1U);
    const uint32_t spare = kRoom - left - sums_of(part);
    ahead = std::min(spare / (part * of_step), kParts) - 1;
  }
  sums_of(part);
  to.bytes = part * of_step;
  to.row = to.by_line == 0 ? part * kPiece : element * kBlock + (by_tensor_cores ? 0 : kPiece);
  to.part = part * step;
  to.ahead = static_cast<uint8_t>(ahead);
  to.panels = shared_at::kValues + left;
  to.sums = to.panels + (ahead + 1) * to.bytes;
}

// Whether tensor cores can multiply: one row, whole eights of columns, and whole steps of k.
bool suits_tensor_cores(const Matrix& of, const ThinOperands& operands) {
  return operands.element == 2 && operands.products == 1 && of.m == 1 && of.k % kDeep == 0 &&
         of.tile_columns % kEight == 0 && of.n % of.tile_columns == 0;
}

// The largest power of two up to kPiece that divides all of them.
template <size_t kCount>
uint8_t piece_of(const int64_t (&bytes)[kCount]) {
  uint64_t all = kPiece;
  for (const int64_t each : bytes) all |= static_cast<uint64_t>(each);
  return static_cast<uint8_t>(all & (~all + 1));
}

}  // namespace

Thin thin_cut_of(const Matrix& of, const ThinOperands& operands) {
  const int64_t element = operands.element;
  Thin to = {};
  to.by_line = of.b_k == 1 ? 1 : 0;
  to.k = static_cast<uint32_t>(of.k);
  to.blocks = (to.k + kBlock - 1) / kBlock;
  to.rows = static_cast<uint8_t>(of.m);
  to.pitch = static_cast<uint32_t>((to.by_line != 0 ? of.b_column : of.b_k) * element);
  divide(to, operands.products * static_cast<uint32_t>(of.tile_columns), operands.element,
         operands.by_tensor_cores && suits_tensor_cores(of, operands));
  // Lines begin and end at multiples of a piece, parts and blocks do anyway.
  to.piece = piece_of({operands.right, int64_t{to.pitch}, of.b_matrix * element,
                       of.tile_columns * of.b_column * element,
                       (to.by_line != 0 ? of.k : of.n) * element});
  to.immutable = operands.immutable ? 1 : 0;
  to.alone =
      to.ahead == 0 && to.part >= of.tile_columns && to.rows * of.tile_columns <= kBlockThreads ? 1
                                                                                                : 0;
  to.fours =
      of.a_k == 1 && of.k % 4 == 0 &&
              piece_of({operands.left, of.a_row * element, of.a_matrix * element}) >= 4 * element
          ? 1
          : 0;
  to.copied = operands.is_f32 && to.fours != 0 && to.ahead == 0 ? 1 : 0;
  return to;
}

}  // namespace trek::device
