// A large part of a tile of the f32 product, 128 x 128, through which all lanes go together: each has a patch
// of 8 x 8 outputs.
//
// Stages of kDepth k come to a ring of panels, [k][lines] both; an operand whose k are neighbours in memory is
// transposed on the way by copies of single elements, eight k of four lines at once, which pass both memories
// without a conflict. A thread's sums of the segment are in shared memory, where it reads them a moment before
// the end of a block; its registers hold the block's sums and the elements of the next k.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_f32_sums.h"

namespace trek::device::matrix_f32 {

namespace large {

inline constexpr uint32_t kDepth = 2 * kStep;
inline constexpr uint32_t kStages = 3;
inline constexpr uint32_t kPitch = (kLargeLines + kPad) * 4;  // bytes from one k to the next
inline constexpr uint32_t kStage = kDepth * kPitch;
inline constexpr uint32_t kRing =
    kStages * kStage;  // of one operand; the right one's is behind the left's
inline constexpr uint32_t kSegments = kPanels + 2 * kRing;
inline constexpr uint32_t kTotals = kSegments + kSums;
static_assert(kTotals + kSums <= kSharedBytes);

// What a thread copies of one operand for each stage: 2 times 16 bytes, or 2 times 4 elements. Lines that do
// not exist are the last one again: their outputs nobody takes.
struct Copier {
  const std::byte* from;
  uint32_t to;
  uint32_t
      apart;  // from one element of four to the next, in memory; eight k are 4 x apart, or by line 32
  uint32_t more;      // elements that are apart
  uint32_t to_apart;  // in the panel; 0: 16 bytes and not elements

  static constexpr uint32_t kByLine = 32 * 4;  // to_apart, where k are neighbours in memory
  static constexpr uint32_t kByK = 2 * kPitch;

  TREK_ON_DEVICE Copier(uint32_t thread, uint32_t ring, const Side& side, const CutSide& cut) {
    const uint32_t last = side.lines - 1;
    if (cut.by_line != 0) {
      const uint32_t line = thread / kStep;
      const uint32_t k = thread % kStep;
      const uint32_t first = line < last ? line : last;
      from = side.data + uint64_t{first} * cut.step + k * 4;
      to = ring + k * kPitch + line * 4;
      apart = 32 * cut.step;
      more = (last - first) / 32;
      to_apart = kByLine;
    } else {
      const bool fours = cut.unit_bits != 0;
      const uint32_t line = fours ? thread % 32 * 4 : thread % kLargeLines;
      const uint32_t k = fours ? thread / 32 : thread / kLargeLines;
      const uint32_t first = line < last ? line : fours ? last & ~3u : last;
      from = side.data + uint64_t{k} * cut.step + first * 4;
      to = ring + k * kPitch + line * 4;
      apart = 2 * cut.step;
      more = 3;
      to_apart = fours ? 0 : kByK;
    }
  }
  // Copies the next stage to its place in the ring.
  TREK_ON_DEVICE void copy(uint32_t place) {
    place += to;
    const uint32_t half = to_apart == kByLine ? kStep * 4 : apart * 4;
    if (to_apart == 0) {
      copy_ahead<16>(place, from);
      copy_ahead<16>(place + kStep * kPitch, from + half);
    } else {
      const std::byte* at = from;
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        copy_ahead<4>(place, at);
        copy_ahead<4>(place + kStep * kPitch, at + half);
        if (i < more) at += apart;
        place += to_apart;
        hide(place);
        hide(at);
      }
    }
    from += uint64_t{half} * 2;
  }
  // The same where only `there` of the stage's k, from 1 on, are before the last.
  TREK_ON_DEVICE void copy_end(uint32_t place, uint32_t there, bool left, uint32_t k) const {
    const uint32_t half = to_apart == kByLine ? kStep * 4 : apart * 4;
    TREK_ROLLED
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t n = i / 2;
      const bool high = i % 2 != 0;
      const bool inside = k + (high ? kStep : 0) + (to_apart == kByK ? 2 * n : 0) < there;
      const std::byte* at = from + uint64_t{n < more ? n : more} * apart + (high ? half : 0);
      const uint32_t to_here = place + to + n * to_apart + (high ? kStep * kPitch : 0);
      if (!inside) at = behind(left);
      if (to_apart != 0)
        copy_ahead<4>(to_here, at);
      else if (n == 0)
        copy_ahead<16>(to_here, at);
    }
  }
};

}  // namespace large

// Multiplies the part at kPart, to kValues: [rows][columns].
TREK_UNIT_CALL void multiply_large(Task task) {
  using namespace large;  // NOLINT(google-build-using-namespace)
  const uint32_t thread = task.thread();
  // A warp has 32 x 64 outputs, 4 x 2 warps the part. Lanes beside and below one another alternate.
  const uint32_t lane = thread % 32;
  const uint32_t down = thread / 64 * 32 + ((lane >> 1 & 1) | (lane >> 2 & 2)) * 4;
  const uint32_t across =
      thread / 32 % 2 * 64 + ((lane & 1) | (lane >> 1 & 2) | (lane >> 2 & 4)) * 4;
  const uint32_t panels = address(task, kPanels);
  const uint32_t sums = address(task, kSegments) + thread * 16;
  const uint32_t k_end = part_of(task).k;
  const Part& part = part_of(task);
  const Cut& cut = kept_cut(task);
  Copier of_left(thread, panels, part.left, cut.left);
  Copier of_right(thread, panels + kRing, part.right, cut.right);
  // Copies one operand's stage from k on.
  const auto bring = [panels, k_end](Copier& copier, uint32_t k, uint32_t place,
                                     bool is_left) __attribute__((always_inline)) {
    if (k + kDepth <= k_end)
      copier.copy(place);
    else if (k < k_end)
      copier.copy_end(place, k_end - k, is_left, (copier.to - panels) % kRing / kPitch);
  };
  TREK_ROLLED
  for (uint32_t i = 0; i < kStages - 1; ++i) {
    bring(of_left, i * kDepth, i * kStage, true);
    bring(of_right, i * kDepth, i * kStage, false);
    commit_copies();
  }

  float sum[8][8];
  clear_sums(sums, sum);
  wait_for_copies(kStages - 2);
  task.sync();
  // The elements of a k are loaded while those of the one before are multiplied.
  uint32_t left_at = panels + down * 4;
  uint32_t right_at = panels + kRing + across * 4;
  uint32_t place = 0;  // in the ring
  Float4 x[2][2];
  Float4 y[2];
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    x[0][h] = load_four(left_at + h * 16 * 4);
    y[h] = load_four(right_at + h * 32 * 4);
  }

#pragma unroll 1
  for (uint32_t from = 0; from < k_end; from += kStep) {
    const bool ends = from % kBlock == kBlock - kStep || from + kStep >= k_end;
#pragma unroll
    for (uint32_t k = 0; k < kStep; ++k) {
      const uint32_t ahead = (k + 1) % kStep;
      if (k == 1) {  // to the stage that was multiplied last
        if (from % kDepth == 0) {
          bring(of_left, from + (kStages - 1) * kDepth, (place == 0 ? kRing : place) - kStage,
                true);
        } else {
          const uint32_t stage = place - kStep * kPitch;
          bring(of_right, from - kStep + (kStages - 1) * kDepth,
                (stage == 0 ? kRing : stage) - kStage, false);
          commit_copies();
        }
      }
      if (k == kStep - 1) {  // the rest of these k is in registers
        if (from % kDepth != 0) {
          wait_for_copies(kStages - 2);
          task.sync();
        }
        const uint32_t next = place + kStep * kPitch == kRing ? 0 : place + kStep * kPitch;
        left_at += next - place;
        right_at += next - place;
        place = next;
      }
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h)
        x[ahead % 2][h] = load_four(left_at + ahead * kPitch + h * 16 * 4);
#pragma unroll
      for (uint32_t j = 0; j < 8; ++j) {
        // To and fro, so that each multiplication shares an operand with the one before.
#pragma unroll
        for (uint32_t n = 0; n < 8; ++n) {
          const uint32_t i = j % 2 == 0 ? n : 7 - n;
          sum[i][j] = semantics::fma(x[k % 2][i / 4][i % 4], y[j / 4][j % 4], sum[i][j]);
        }
        if (j % 4 == 3) y[j / 4] = load_four(right_at + ahead * kPitch + j / 4 * 32 * 4);
      }
    }
    if (ends) add_block(sums, sum, from, k_end);
  }
  take_sums(task, sums, sum);
  lay_in_rows(
      task, sum, [&](uint32_t i) TREK_TILE_LAMBDA { return down + i % 4 + i / 4 * 16; },
      [&](uint32_t j) TREK_TILE_LAMBDA { return across + j % 4 + j / 4 * 32; });
}

}  // namespace trek::device::matrix_f32

#endif  // __CUDA__
