// Stores of results whose lines do not begin at multiples of 16 bytes. Device only.
//
// As tensor cores give outputs, a warp that stores a word a lane has eight lines with 16 bytes of each. Where lines begin
// anywhere, these are twice as many parts of sectors as there are sectors, and the second-level cache takes a part as long
// as a whole one. So compiled programs exchange words first, until a warp stores 128 bytes of one line at a time, which
// are in five sectors; a kernel that interprets has no room for that.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_spot.h"

namespace trek::device::tensor {

// Of any type and lines: two elements at once, or one.
template <uint32_t kCount>
TREK_TILE void store_apart(const Task& task, const Spot& spot, uint32_t lane, DType type,
                           const float (&v)[kCount]) {
  const int64_t n = task.node().matrix.n;
  const uint32_t bytes = size_of(type);
  const uint32_t column = spot.column + 2 * (lane % 4);
  std::byte* upper = place_in(task, task.node().result(0), spot, column);
#pragma unroll
  for (uint32_t i = 0; i < kCount; i += 2) {
    const uint32_t down = i % 4 != 0 ? 8 : 0;
    const uint32_t across = i / 4 * 8;
    if (spot.row + down >= spot.end_row || column + across >= spot.end_column) continue;
    std::byte* to = upper + (down * n + across) * bytes;
    const bool both = column + across + 1 < spot.end_column;
    if (type == DType::f32) {
      write<float>(to, 0, v[i]);
      if (both) write<float>(to, 1, v[i + 1]);
      continue;
    }
    const uint32_t pair = packed(type == DType::bf16, v[i], v[i + 1]);
    if (n % 2 == 0) {
      write<uint32_t>(to, 0, pair);
    } else {
      write<uint16_t>(to, 0, static_cast<uint16_t>(pair));
      if (both) write<uint16_t>(to, 1, static_cast<uint16_t>(pair >> 16));
    }
  }
}

// A lane's words of eight lines, with kWords of each: word i is of line l / 4, and the (l mod 4)th of four at i. Afterwards
// it is of line l / 4 / kWords * kWords + i, and the same of those at (l / 4) mod kWords: so 4 kWords lanes side by side
// have all words of a line.
template <uint32_t kWords>
TREK_TILE void lay_along_lines(uint32_t (&w)[kWords], uint32_t lane) {
  static_assert(kWords == 2 || kWords == 4 || kWords == 8);
#pragma unroll
  for (uint32_t i = 0; i < kWords; ++i) {
    if (i % 2 == 0) turn_by<4>(w[i], w[i + 1], lane);
  }
#pragma unroll
  for (uint32_t i = 0; i + 2 < kWords; ++i) {
    if (i % 4 < 2) turn_by<8>(w[i], w[i + 2], lane);
  }
#pragma unroll
  for (uint32_t i = 0; i + 4 < kWords; ++i) turn_by<16>(w[i], w[i + 4], lane);
}

// Stores a word of two columns, the first of which is `column` of a line that ends at `end`, where a line may begin between
// two words: then each lane stores what is in front of its own second half, and the last lane of a line that, too.
template <uint32_t kWords>
TREK_TILE void store_between(std::byte* to, uint32_t word, uint32_t column, uint32_t end,
                             uint32_t lane) {
  const bool between = (reinterpret_cast<uintptr_t>(to) & 2) != 0;
  const uint32_t before = shuffled_up(word);
  const bool is_first = lane % (4 * kWords) == 0;
  const bool is_last = lane % (4 * kWords) == 4 * kWords - 1;
  const bool joins = between && !is_first;  // its first half to the half before
  std::byte* from = joins ? to - 2 : to;
  const uint32_t joined = joins ? before >> 16 | word << 16 : word;
  const uint32_t place = joins ? column - 1 : column;
  if (place + 1 < end && joins == between)
    write<uint32_t>(from, 0, joined);
  else if (place < end)
    write<uint16_t>(from, 0, static_cast<uint16_t>(joined));
  if (between && is_last && column + 1 < end)
    write<uint16_t>(to, 1, static_cast<uint16_t>(word >> 16));
}

// Stores the outputs from kFirst on of a lane's v as words that lie along lines, kWords of each line; `spot` is the warp's.
template <bool kF32, uint32_t kWords, uint32_t kFirst, uint32_t kCount>
TREK_TILE void store_along(const Task& task, Spot spot, uint32_t lane, bool is_bf16,
                           const float (&v)[kCount]) {
  constexpr uint32_t kBytes = kF32 ? 4 : 2;
  const uint32_t at = lane / 4 % kWords;
  const int64_t n = task.node().matrix.n;
  spot.row += lane / 4 / kWords * kWords;
  spot.column += kF32 ? at / 2 * 8 + 2 * (lane % 4) + at % 2 : 8 * at + 2 * (lane % 4);
  std::byte* first = place_in(task, task.node().result(0), spot, spot.column);
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    uint32_t w[kWords];
#pragma unroll
    for (uint32_t i = 0; i < kWords; ++i) {
      const uint32_t from = kFirst + 2 * h + (kF32 ? i / 2 * 4 + i % 2 : 4 * i);
      w[i] = kF32 ? semantics::to_bits(v[from]) : packed(is_bf16, v[from], v[from + 1]);
    }
    lay_along_lines(w, lane);
#pragma unroll
    for (uint32_t i = 0; i < kWords; ++i) {
      const uint32_t down = 8 * h + i;
      std::byte* to = first + down * n * kBytes;
      const uint32_t end = spot.row + down < spot.end_row ? spot.end_column : 0;
      if (!kF32 && n % 2 != 0)
        store_between<kWords>(to, w[i], spot.column, end, lane);
      else if (spot.column < end)
        write<uint32_t>(to, 0, w[i]);
    }
  }
}

// The outputs [kFirst, kEnd) of v, as many words of a line at a time as there are.
template <bool kF32, uint32_t kFirst, uint32_t kEnd, uint32_t kCount>
TREK_TILE void store_lines(const Task& task, Spot spot, uint32_t lane, bool is_bf16,
                           const float (&v)[kCount]) {
  constexpr uint32_t kOutputs = kF32 ? 2 : 4;  // of a word of each line, in two rows
  constexpr uint32_t kLeft = (kEnd - kFirst) / kOutputs;
  constexpr uint32_t kWords = kLeft >= 8 ? 8 : kLeft >= 4 ? 4 : 2;
  constexpr uint32_t kNext = kFirst + kWords * kOutputs;
  store_along<kF32, kWords, kFirst>(task, spot, lane, is_bf16, v);
  if constexpr (kNext < kEnd) {
    spot.column += 2 * (kNext - kFirst);
    store_lines<kF32, kNext, kEnd>(task, spot, lane, is_bf16, v);
  }
}

}  // namespace trek::device::tensor

#endif  // __CUDA__
