// Lines of 16-bit elements that get zeros behind them up to a multiple of eight elements: what the linker does
// to operands of products whose lines a copy engine cannot bring. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/index.h"
#include "emulator/device/pieces.h"
#include "emulator/device/shared.h"

namespace trek::device {

namespace pad_detail {

inline constexpr uint32_t kPiecesAtOnce = 4;  // of a thread
inline constexpr int64_t kOfPiece = 8;        // elements

TREK_TILE void load_piece_from(uint32_t (&to)[4], const std::byte* from) {
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from)
               : "memory");
}

// A piece of the result: its first `exist` elements are in memory, from `from` on, and the others 0.
struct Padded {
  const std::byte* from;
  int64_t exist;
};
TREK_TILE void load(const Padded& piece, Pieces& to) {
  const uint32_t before = bytes_before(piece.from);
  if (piece.exist > 0) load_piece_from(to.first, piece.from - before);
  if (before + 2 * piece.exist > 16) load_piece_from(to.second, piece.from - before + 16);
}
TREK_TILE void take(const Padded& piece, const Pieces& from, uint32_t (&to)[4]) {
  take_piece(from, bytes_before(piece.from), to);
#pragma unroll
  for (int64_t i = 0; i < 4; ++i)
    to[i] &= piece.exist > 2 * i + 1 ? ~0u : piece.exist > 2 * i ? 0xFFFFu : 0u;
}

}  // namespace pad_detail

// The elements [first, first + count) of the result, multiples of eight. The map's last axis is the result's
// lines; Move::inner are the elements of a line of the operand.
TREK_UNIT void pad_lines(const Task& task, int64_t first, int64_t count) {
  using namespace pad_detail;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const Axis of_line = node.axis(node.move.map.first)[node.move.rank - 1];
  const int64_t elements = node.move.inner;
  const std::byte* from = task.memory(node.operand(0));
  std::byte* to = task.memory(node.result(0));
  const int64_t end = (first + count) / kOfPiece;
  TREK_ROLLED
  for (int64_t p = first / kOfPiece + task.thread(); p < end;
       p += int64_t{kPiecesAtOnce} * task.threads()) {
    Padded padded[kPiecesAtOnce];
    Pieces pieces[kPiecesAtOnce] = {};
#pragma unroll
    for (uint32_t i = 0; i < kPiecesAtOnce; ++i) {
      const int64_t number = p + i * task.threads();
      const int64_t line = divided(of_line, number * kOfPiece);
      const int64_t at = number * kOfPiece - line * of_line.size;
      const int64_t behind = number < end ? elements - at : 0;
      padded[i] = {from + 2 * (line * elements + at), behind < kOfPiece ? behind : kOfPiece};
      load(padded[i], pieces[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < kPiecesAtOnce; ++i) {
      const int64_t number = p + i * task.threads();
      uint32_t piece[4];
      take(padded[i], pieces[i], piece);
      if (number < end)
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + 16 * number),
                     "r"(piece[0]), "r"(piece[1]), "r"(piece[2]), "r"(piece[3])
                     : "memory");
    }
  }
}

}  // namespace trek::device

#endif  // __CUDA__
