// Parts of the f32 product of a few k, which are tiles of some rows and up to 1024 columns, where a device interprets: what
// the gradient of a classifier's last layer gives to the layer before. Device only; lines of the right operand begin at
// multiples of 16 bytes, and the tail is plain. (Compiled programs have matrix_shallow.h; what begins as interpreted and goes on
// compiled has this.)
//
// Such a part takes as long as the instructions that are met, so there are few: both operands come to shared memory, and a
// thread has four columns of every so many rows, one row after the other.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_f32_result.h"

namespace trek::device::matrix_f32 {

namespace shallow {

inline constexpr uint32_t kFour = 4;
inline constexpr uint32_t kPiece = 16;
// Where the operands are: the left one as [row][k]; the right one in fours of columns, which are as many pieces as there are
// k and an odd number of them apart, so that lanes are on different banks, or as [k][column].
inline constexpr uint32_t kLeft = kBehindCut;
inline constexpr uint32_t kRight = kLeft + 4 * kShallowDepth * kShallowRows;
static_assert(kRight + kPiece * (kShallowDepth + 1) * (kShallowColumns / kFour) <= kSharedBytes);

// Starts copying rows of so many pieces from one place to another.
TREK_TILE void bring(const Task& task, uint32_t rows, uint32_t pieces, const std::byte* from,
                     uint64_t pitch, uint32_t to, uint32_t to_pitch) {
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < rows * pieces; i += kBlockThreads) {
    const uint32_t row = i / pieces;
    const uint32_t at = (i - row * pieces) * kPiece;
    copy_ahead<kPiece>(to + row * to_pitch + at, from + row * pitch + at);
  }
}

}  // namespace shallow

// Multiplies the part at kPart, and gives it to the result.
TREK_UNIT_CALL void multiply_shallow(Task task) {
  using namespace shallow;  // NOLINT(google-build-using-namespace)
  const Part& part = part_of(task);
  const Matrix& of = task.node().matrix;
  const uint32_t depth = part.k;
  const uint32_t left = address(task, kLeft);
  const uint32_t right = address(task, kRight);
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < part.rows * depth; i += kBlockThreads) {
    const uint32_t row = i / depth;
    copy_ahead<4>(left + 4 * i, part.left.data + 4 * (row * of.a_row + (i - row * depth) * of.a_k));
  }
  const bool by_line = kept_cut(task).right.by_line != 0;
  const uint32_t fours = part.columns / kFour;
  const uint32_t pitch = kPiece * (by_line ? depth | 1 : fours);
  bring(task, by_line ? fours : depth, by_line ? depth : fours, part.right.data,
        4 * (by_line ? kFour * of.b_column : of.b_k), right, pitch);
  commit_copies();
  // Threads side by side have all columns, and as many times so many as there are go down every so many rows.
  const uint32_t apart = kBlockThreads / fours;
  const uint32_t first = task.thread() / fours;
  const uint32_t four = task.thread() - first * fours;
  wait_for_copies(0);
  task.sync();
  if (first >= apart) return;
  TREK_ROLLED
  for (uint32_t row = first; row < part.rows; row += apart) {
    const Outputs outputs = {part.row + row, part.column + kFour * four, 1,
                             part.column + part.columns};
    Float4 beside[kCutTails] = {0, 0, 0};
    load_beside(task, outputs, beside);
    Float4 sum = 0;
    TREK_ROLLED
    for (uint32_t k = 0; k < depth; ++k) {
      const float a = load_word(left + 4 * (row * depth + k));
      Float4 b;
      if (by_line) {
#pragma unroll
        for (uint32_t e = 0; e < kFour; ++e)
          b[e] = load_word(right + four * pitch + 4 * (e * depth + k));
      } else {
        b = load_four(right + k * pitch + four * kPiece);
      }
#pragma unroll
      for (uint32_t e = 0; e < kFour; ++e) sum[e] = semantics::fma(a, b[e], sum[e]);
    }
    give_four(task, outputs, beside, sum);
  }
}

}  // namespace trek::device::matrix_f32

#endif  // __CUDA__
