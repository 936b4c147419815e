// Matrices of elements of four bytes that are turned around: what the linker does to operands of products whose k are
// not neighbours in memory.
//
// On a device a thread takes four elements of four lines in pieces of 16 bytes, and gives four elements of four columns:
// what it has in registers need only be named anew. So nothing goes through shared memory, and no thread waits for
// another.
#pragma once

#include "emulator/device/shared.h"

namespace trek::device {

namespace turn_detail {

// A task: a box of Move::outer lines and Move::count elements of each, or what is left of the matrix, in the result. Its
// lines have Move::size elements, its matrices Move::inner lines, which are the elements of the operand's lines.
struct Turned {
  uint32_t lines;
  uint32_t elements;
  int64_t from;  // its first element's place in the operand
  int64_t to;    // and in the result

  TREK_ON_DEVICE static Turned at(const Move& move, uint32_t number) {
    const auto along = static_cast<uint32_t>((move.size + move.count - 1) / move.count);
    const auto down = static_cast<uint32_t>((move.inner + move.outer - 1) / move.outer);
    const int64_t matrix = number / along / down;
    const int64_t line = number / along % down * move.outer;
    const int64_t element = number % along * move.count;
    const auto of_box = [](int64_t whole, int64_t left) {
      return static_cast<uint32_t>(whole < left ? whole : left);
    };
    return {of_box(move.outer, move.inner - line), of_box(move.count, move.size - element),
            (matrix * move.size + element) * move.inner + line,
            (matrix * move.inner + line) * move.size + element};
  }
};

#ifdef __CUDA__

inline constexpr uint32_t kPatchesAtOnce = 4;  // of a thread
inline constexpr uint32_t kOfPiece = 4;        // elements

TREK_TILE void load_piece_at(uint32_t (&to)[4], const std::byte* from) {
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "l"(from)
               : "memory");
}

// A thread's patch in the result: its first line and element. Where it is none, `exists` is false.
struct Patch {
  uint32_t line;
  uint32_t element;
  bool exists;
};

// Patches of a warp: as many side by side, of the operand's neighbours, as fill 128 bytes where there are as many lines
// of the result, and the others behind each other.
struct Patches {
  uint32_t side;  // a power of two: patches side by side
  uint32_t along;
  uint32_t down;
  uint32_t lines;
  uint32_t elements;

  TREK_ON_DEVICE Patches(uint32_t lines_of, uint32_t elements_of)
      : side(lines_of % 32 == 0   ? 8
             : lines_of % 16 == 0 ? 4
                                  : 2),
        along((elements_of + kOfPiece * 32 / side - 1) / (kOfPiece * 32 / side)),
        down((lines_of + kOfPiece * side - 1) / (kOfPiece * side)),
        lines(lines_of),
        elements(elements_of) {}
  TREK_ON_DEVICE uint32_t count() const { return along * down; }
  TREK_ON_DEVICE Patch at(uint32_t number, uint32_t lane) const {
    const uint32_t above = number / along;
    const uint32_t line = kOfPiece * (above * side + lane % side);
    const uint32_t element = kOfPiece * ((number - above * along) * (32 / side) + lane / side);
    return {line, element, number < count() && line < lines && element < elements};
  }
};

#endif  // __CUDA__

}  // namespace turn_detail

TREK_UNIT void turn_matrices(const Task& task, int64_t number) {
  using namespace turn_detail;  // NOLINT(google-build-using-namespace)
  const Move& move = task.node().move;
  const int64_t size = move.size;
  const int64_t across = move.inner;
  const Turned box = Turned::at(move, static_cast<uint32_t>(number));
  const std::byte* from = task.memory(task.node().operand(0)) + 4 * box.from;
  std::byte* to = task.memory(task.node().result(0)) + 4 * box.to;
#ifndef __CUDA__
  for (uint32_t i = task.thread(); i < box.lines * box.elements; i += task.threads()) {
    const int64_t line = i / box.elements;
    const int64_t element = i % box.elements;
    __builtin_memcpy(to + 4 * (line * size + element), from + 4 * (element * across + line), 4);
  }
#else
  const Patches patches(box.lines, box.elements);
  const uint32_t lane = task.thread() % 32;
  const uint32_t warps = task.threads() / 32;
  TREK_ROLLED
  for (uint32_t b = task.thread() / 32; b < patches.count(); b += kPatchesAtOnce * warps) {
    uint32_t words[kPatchesAtOnce][4][4] = {};
#pragma unroll
    for (uint32_t i = 0; i < kPatchesAtOnce; ++i) {
      const Patch patch = patches.at(b + i * warps, lane);
      const std::byte* at = from + 4 * (patch.element * across + patch.line);
      if (!patch.exists) continue;
#pragma unroll
      for (uint32_t r = 0; r < 4; ++r) load_piece_at(words[i][r], at + r * 4 * across);
    }
#pragma unroll
    for (uint32_t i = 0; i < kPatchesAtOnce; ++i) {
      const Patch patch = patches.at(b + i * warps, lane);
      std::byte* at = to + 4 * (patch.line * size + patch.element);
      if (!patch.exists) continue;
#pragma unroll
      for (uint32_t c = 0; c < 4; ++c)
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(at + c * 4 * size),
                     "r"(words[i][0][c]), "r"(words[i][1][c]), "r"(words[i][2][c]),
                     "r"(words[i][3][c])
                     : "memory");
    }
  }
#endif
}

}  // namespace trek::device
