// Products with few rows, by the dot order: a vector, or up to four of them, times a matrix.
//
// There is one multiplication for each element of the right operand and row, so what counts is to have all
// of it on its way at once, and to be done soon after the last has come. A task copies its columns of the
// right operand to shared memory (cp.async: pieces of 16 bytes that take no registers while they are on
// their way), the left operand meanwhile; then a block of k of a column is one thread's, because the dot
// order sums blocks apart from each other, and at last a thread adds the blocks of an output in ascending
// order and takes it through the deliver program. More columns than there is room for come in parts, the
// next ones while one is multiplied.
//
//   ask       copies of a part, which need nothing that a program writes where the right operand is
//             immutable
//   stage     the left operand, as floats
//   multiply  the sums of blocks
//   finish    their sums, and the results
//
// In shared memory a block has a row more than it needs, or a piece: so threads beside each other, which
// have the columns of a block and then the next block, or the next block of a column, read different banks.
#pragma once

#include "emulator/device/copies.h"
#include "emulator/device/stage.h"
#include "isa/semantics/dot.h"

namespace trek::device {

namespace thin {

inline constexpr uint32_t kBlock = semantics::kDotBlock;
inline constexpr uint32_t kLeftPad = 4;              // floats after a block of the left operand
inline constexpr uint32_t kPiece = 16;               // bytes of a copy, at most
inline constexpr uint32_t kAtOnce = 16;              // k that a thread reads before it multiplies
inline constexpr uint32_t kAddends = 8;              // sums that it reads before it adds
inline constexpr uint32_t kParts = 3;                // in shared memory, at most
inline constexpr uint32_t kWholeBytes = 116 * 1024;  // of a part, where one is all
inline constexpr uint32_t kPartBytes = 40 * 1024;    // of one of several, if that will do
inline constexpr uint32_t kRoom = kSharedBytes - shared_at::kValues;

// Places in shared memory are of 32 bits.
template <typename T>
TREK_UNIT T* ahead_of(T* at, uint32_t elements) {
  return at + elements;
}

// How a task's product is done.
struct Work {
  const std::byte* right;  // its first column
  uint32_t pitch;  // bytes of memory from a k to the next, or where k are neighbours from a column
  uint32_t k;
  uint32_t blocks;
  uint32_t rows;
  uint32_t columns;
  uint32_t part;   // columns of a part
  uint32_t ahead;  // parts that are on their way while one is multiplied
  uint32_t
      row;  // bytes of shared memory: of the elements of one k; where k are neighbours, of a block
  uint32_t bytes;   // of a part
  uint32_t panels;  // where they are
  uint32_t sums;    // [block][row][column of the part] of float
  uint8_t piece;    // bytes of a copy: 16, 8 or 4; 2: elements one by one
  bool by_line;     // k are neighbours
  bool early;       // a thread has one result or none, whose operands it has asked for at once
};

// Where in a part its elements are: by line [column][block][k], with kPiece after a block; else [k][column],
// with a k after a block.
TREK_UNIT uint32_t block_bytes(const Work& work) {
  return work.by_line ? work.row : (kBlock + 1) * work.row;
}

// What must hold: the left operand, `ahead` + 1 parts and the sums of one have room, whatever is
// kThinRows × kThinDepth × 4 columns of f32.
TREK_UNIT void divide(Work& work, uint32_t element) {
  const uint32_t left = 4 * work.rows * work.blocks * (kBlock + kLeftPad);
  const uint32_t step = work.by_line ? 1 : kPiece / element;  // columns
  const uint32_t of_step =                                    // bytes
      work.by_line ? work.blocks * (element * kBlock + kPiece)
                   : work.blocks * (kBlock + 1) * kPiece;
  const uint32_t most = work.part = (work.columns + step - 1) / step;  // in steps
  work.ahead = 0;
  if (most * of_step > kWholeBytes ||
      left + most * (of_step + 4 * work.rows * work.blocks * step) > kRoom) {
    // As many as keep all threads busy once, if there is room for them.
    uint32_t wanted = kBlockThreads / work.blocks / step;
    const uint32_t fitting = kPartBytes / of_step;
    wanted = wanted < fitting ? wanted : fitting;
    work.part = wanted == 0 ? 1 : wanted < most ? wanted : most;
    const uint32_t spare = kRoom - left - 4 * work.rows * work.blocks * step * work.part;
    const uint32_t parts = spare / (work.part * of_step);
    work.ahead = (parts < kParts ? parts : kParts) - 1;
  }
  work.bytes = work.part * of_step;
  work.row = work.by_line ? element * kBlock + kPiece : work.part * kPiece;
  work.part *= step;
  work.panels = shared_at::kValues + left;
  work.sums = work.panels + (work.ahead + 1) * work.bytes;
}
static_assert(4 * kThinRows * (kThinDepth / kBlock) * (kBlock + kLeftPad) +
                      (kThinDepth / kBlock) * (kBlock + 1) * kPiece +
                      4 * kThinRows * (kThinDepth / kBlock) * kPiece / 2 <=
                  kRoom,
              "one step of columns has room");

// kBytes from memory to shared memory, which arrive before wait_for_copies() has returned.
template <uint32_t kBytes>
TREK_UNIT void copy(const Task& task, uint32_t to, const std::byte* from) {
#ifdef __CUDA__
  if constexpr (kBytes > 2)
    copy_ahead<kBytes>(shared_address(task.shared<std::byte>(to)), from);
  else
    *task.shared<Aliased<uint16_t>>(to) = read<uint16_t>(from, 0);
#else
  __builtin_memcpy(task.shared<std::byte>(to), from, kBytes);
#endif
}

// Copies lines of memory in pieces of kBytes: neighbouring threads take neighbouring pieces.
template <uint32_t kBytes>
TREK_UNIT void ask_pieces(const Task& task, const Work& work, const std::byte* from, uint32_t to,
                          uint32_t columns, uint32_t element) {
  const uint32_t lines = work.by_line ? columns : work.k;
  const uint32_t pieces = element * (work.by_line ? work.k : columns) / kBytes;  // of a line
  const uint32_t of_block = element * kBlock / kBytes;
  uint32_t line = task.thread() / pieces;
  uint32_t piece = task.thread() - line * pieces;
  const uint32_t lines_on = task.threads() / pieces;
  const uint32_t pieces_on = task.threads() - lines_on * pieces;
  TREK_ROLLED
  while (line < lines) {
    const uint32_t at = work.by_line ? line * work.blocks * work.row + piece / of_block * work.row +
                                           piece % of_block * kBytes
                                     : (line + line / kBlock) * work.row + piece * kBytes;
    copy<kBytes>(task, to + at, from + size_t{line} * work.pitch + size_t{piece} * kBytes);
    line += lines_on;
    piece += pieces_on;
    if (piece >= pieces) {
      piece -= pieces;
      ++line;
    }
  }
}

// Asks for part `part`, if there is one, as a group of copies.
template <uint32_t kElement>  // bytes
TREK_UNIT void ask(const Task& task, const Work& work, uint32_t part) {
  const uint32_t first = part * work.part;
  if (first < work.columns) {
    const uint32_t columns = work.columns - first < work.part ? work.columns - first : work.part;
    const std::byte* from = work.right + size_t{first} * (work.by_line ? work.pitch : kElement);
    const uint32_t to = work.panels + part % (work.ahead + 1) * work.bytes;
    if (work.piece == 16)
      ask_pieces<16>(task, work, from, to, columns, kElement);
    else if (work.piece == 8)
      ask_pieces<8>(task, work, from, to, columns, kElement);
    else if (work.piece == 4)
      ask_pieces<4>(task, work, from, to, columns, kElement);
    else if constexpr (kElement == 2)
      ask_pieces<2>(task, work, from, to, columns, kElement);
  }
  commit_copies();
}

// Elements of a word that has one or two.
template <DType kType>
TREK_UNIT float element_of(uint32_t word, uint32_t e) {
  if constexpr (kType == DType::f32) return as_float(word);
  const auto half = static_cast<uint16_t>(e == 0 ? word : word >> 16);
  if constexpr (kType == DType::bf16) return as_float(uint32_t{half} << 16);
  return semantics::widen(F16{half});
}
template <DType kType>
inline constexpr uint32_t kElementBytes = kType == DType::f32 ? 4 : 2;

// The left operand: [row][block][k] of float, kLeftPad after a block.
template <DType kType>
TREK_UNIT void stage(const Task& task, const Work& work, const std::byte* a) {
  const Matrix& of = task.node().matrix;
  constexpr uint32_t kBytes = kElementBytes<kType>;
  constexpr uint32_t kEach = 4;
  float* x = task.shared<float>(shared_at::kValues);
  const uint32_t line = work.blocks * (kBlock + kLeftPad);
  const auto is_aligned = [](uintptr_t place) { return place % (uintptr_t{kEach} * kBytes) == 0; };
  const bool fours = of.a_k == 1 && work.k % kEach == 0 &&
                     is_aligned(reinterpret_cast<uintptr_t>(a)) &&
                     is_aligned(static_cast<uintptr_t>(of.a_row) * kBytes);
  for (uint32_t r = 0; r < work.rows; ++r) {
    if (fours) {
      for (uint32_t k = kEach * task.thread(); k < work.k; k += kEach * task.threads()) {
        struct __attribute__((may_alias, aligned(kEach * kBytes))) Piece {
          uint32_t word[kBytes];
        };
        const Piece words = *reinterpret_cast<const Piece*>(a + (r * of.a_row + k) * kBytes);
        Words four{};
        TREK_UNROLLED
        for (uint32_t e = 0; e < kEach; ++e)
          four.e[e] = bits_of(element_of<kType>(words.word[e * kBytes / 4], e % (4 / kBytes)));
        *reinterpret_cast<Words*>(ahead_of(x, r * line + k + k / kBlock * kLeftPad)) = four;
      }
    } else {
      for (uint32_t k = task.thread(); k < work.k; k += task.threads())
        x[r * line + k + k / kBlock * kLeftPad] =
            as_float(load32(a, kType, r * of.a_row + k * of.a_k));
    }
  }
}

// The elements of kColumns neighbouring columns at `at`.
template <DType kType, uint32_t kColumns>
TREK_UNIT void read_columns(const std::byte* at, float (&y)[kColumns]) {
  if constexpr (kColumns * kElementBytes<kType> == 2) {
    y[0] = element_of<kType>(read<uint16_t>(at, 0), 0);
  } else if constexpr (kColumns * kElementBytes<kType> == 8) {
    const auto both = read<uint64_t>(at, 0);
    y[0] = as_float(static_cast<uint32_t>(both));
    y[1] = as_float(static_cast<uint32_t>(both >> 32));
  } else {
    TREK_UNROLLED
    for (uint32_t c = 0; c < kColumns; ++c)
      y[c] = element_of<kType>(read<uint32_t>(at, c * kElementBytes<kType> / 4),
                               c % (4 / kElementBytes<kType>));
  }
}

// sum[r][c] of a block's n of k: by line at `at` one after the other, else work.row apart.
template <DType kType, bool kByLine, uint32_t kRows, uint32_t kColumns>
TREK_UNIT void multiply_block(const Work& work, const std::byte* at, const float* x, uint32_t n,
                              float (&sum)[kRows][kColumns]) {
  constexpr uint32_t kBytes = kElementBytes<kType>;
  const uint32_t line = work.blocks * (kBlock + kLeftPad);
  // A row that there is not is the first again.
  const auto row_of = [&](uint32_t r) { return r < work.rows ? r * line : 0; };
  uint32_t k = 0;
  TREK_ROLLED
  for (; k + kAtOnce <= n; k += kAtOnce) {
    float y[kAtOnce][kColumns];
    if constexpr (kByLine) {
      TREK_UNROLLED
      for (uint32_t i = 0; i < kAtOnce; i += kPiece / kBytes) {
        const Words quad = *reinterpret_cast<const Words*>(ahead_of(at, (k + i) * kBytes));
        TREK_UNROLLED
        for (uint32_t e = 0; e < kPiece / kBytes; ++e)
          y[i + e][0] = element_of<kType>(quad.e[e * kBytes / 4], e % (4 / kBytes));
      }
    } else {
      TREK_UNROLLED
      for (uint32_t i = 0; i < kAtOnce; ++i)
        read_columns<kType>(ahead_of(at, (k + i) * work.row), y[i]);
    }
    TREK_UNROLLED
    for (uint32_t r = 0; r < kRows; ++r) TREK_UNROLLED
    for (uint32_t i = 0; i < kAtOnce; i += 4) {
      const Words four = *reinterpret_cast<const Words*>(x + row_of(r) + k + i);
      TREK_UNROLLED
      for (uint32_t e = 0; e < 4; ++e) TREK_UNROLLED
      for (uint32_t c = 0; c < kColumns; ++c)
        sum[r][c] = semantics::fma(as_float(four.e[e]), y[i + e][c], sum[r][c]);
    }
  }
  TREK_ROLLED
  for (; k < n; ++k) {
    float y[kColumns];
    read_columns<kType>(ahead_of(at, k * (kByLine ? kBytes : work.row)), y);
    TREK_UNROLLED
    for (uint32_t r = 0; r < kRows; ++r) TREK_UNROLLED
    for (uint32_t c = 0; c < kColumns; ++c)
      sum[r][c] = semantics::fma(x[row_of(r) + k], y[c], sum[r][c]);
  }
}

// The sums of all blocks of a part's columns. Columns that there are not may be anything.
template <DType kType, bool kByLine, uint32_t kRows, uint32_t kColumns>
TREK_UNIT void multiply_blocks(const Task& task, const Work& work, uint32_t panel,
                               uint32_t columns) {
  const float* left = task.shared<float>(shared_at::kValues);
  float* sums = task.shared<float>(work.sums);
  const uint32_t groups = (columns + kColumns - 1) / kColumns;
  for (uint32_t i = task.thread(); i < work.blocks * groups; i += task.threads()) {
    const uint32_t by = kByLine ? work.blocks : groups;
    const uint32_t above = i / by;
    const uint32_t block = kByLine ? i - above * by : above;
    const uint32_t column = kColumns * (kByLine ? above : i - above * by);
    const uint32_t at = kByLine ? (column * work.blocks + block) * work.row
                                : block * (kBlock + 1) * work.row + column * kElementBytes<kType>;
    const uint32_t k = block * kBlock;
    float sum[kRows][kColumns] = {};
    multiply_block<kType, kByLine, kRows, kColumns>(work, task.shared<const std::byte>(panel + at),
                                                    ahead_of(left, block * (kBlock + kLeftPad)),
                                                    work.k - k < kBlock ? work.k - k : kBlock, sum);
    TREK_UNROLLED
    for (uint32_t r = 0; r < kRows; ++r) TREK_UNROLLED
    for (uint32_t c = 0; c < kColumns; ++c)
      if (r < work.rows && column + c < columns)
        sums[(block * work.rows + r) * columns + column + c] = sum[r][c];
  }
}

template <DType kType, uint32_t kRows>
TREK_UNIT void multiply(const Task& task, const Work& work, uint32_t panel, uint32_t columns) {
  if (work.by_line)
    multiply_blocks<kType, true, kRows, 1>(task, work, panel, columns);
  else if (work.blocks * columns <= kBlockThreads)
    multiply_blocks<kType, false, kRows, 1>(task, work, panel, columns);
  else
    multiply_blocks<kType, false, kRows, 2>(task, work, panel, columns);
}

// Output i of a part of so many columns, whose first element of row 0 is `first`.
TREK_UNIT int64_t output(const Task& task, const Work& work, uint32_t columns, int64_t first,
                         uint32_t i) {
  const uint32_t row = work.rows == 1 ? 0 : i / columns;
  return first + row * task.node().matrix.n + (i - row * columns);
}

// Adds the blocks of a part, in ascending order.
TREK_UNIT void finish(const Task& task, const Work& work, uint32_t columns, int64_t first) {
  const float* sums = task.shared<float>(work.sums);
  const uint32_t outputs = work.rows * columns;
  for (uint32_t i = task.thread(); i < outputs; i += task.threads()) {
    float total = sums[i];
    uint32_t b = 1;
    TREK_ROLLED
    for (; b + kAddends <= work.blocks; b += kAddends) {
      float addend[kAddends];
      TREK_UNROLLED
      for (uint32_t j = 0; j < kAddends; ++j) addend[j] = sums[(b + j) * outputs + i];
      TREK_UNROLLED
      for (const float next : addend) total = semantics::add(total, next);
    }
    TREK_ROLLED
    for (; b < work.blocks; ++b) total = semantics::add(total, sums[b * outputs + i]);
    const int64_t element = output(task, work, columns, first, i);
    if (!work.early) load_delivery(task, element);
    deliver_loaded(task, bits_of(total), element);
  }
}

template <DType kType>
TREK_UNIT void multiply_tile(const Task& task, const Work& work, const std::byte* left,
                             int64_t first) {
  TREK_ROLLED
  for (uint32_t part = 0; part < work.ahead || part == 0; ++part)
    ask<kElementBytes<kType>>(task, work, part);
  stage<kType>(task, work, left);
  if (work.early && task.thread() < work.rows * work.columns)
    load_delivery(task, output(task, work, work.columns, first, task.thread()));
  uint32_t part = 0;
  TREK_ROLLED
  for (uint32_t column = 0; column < work.columns; column += work.part, ++part) {
    const uint32_t columns = work.columns - column < work.part ? work.columns - column : work.part;
    // Its place was read two syncs ago, or has not been.
    if (work.ahead > 0 || part > 0) ask<kElementBytes<kType>>(task, work, part + work.ahead);
    wait_for_copies(work.ahead);
    task.sync();
    const uint32_t panel = work.panels + part % (work.ahead + 1) * work.bytes;
    if (work.rows == 1)
      multiply<kType, 1>(task, work, panel, columns);
    else
      multiply<kType, kThinRows>(task, work, panel, columns);
    task.sync();
    finish(task, work, columns, first + column);
  }
}

}  // namespace thin

// The tile of number `tile` of a node whose product is `thin`.
TREK_UNIT_CALL void multiply_tile_thin(Task task, int64_t tile) {
  using namespace thin;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const auto type = static_cast<DType>(node.operand(0).dtype);
  const uint32_t bytes = size_of(type);
  const int64_t batch = of.across == 1 ? tile : tile < of.across ? 0 : tile / of.across;
  const auto place = [&](Map map) { return batch == 0 ? 0 : place_of(node, map, batch); };
  const int64_t first = (tile - batch * of.across) * of.tile_columns;
  Work work{};
  work.by_line = of.b_k == 1;
  work.k = static_cast<uint32_t>(of.k);
  work.blocks = (work.k + kBlock - 1) / kBlock;
  work.rows = static_cast<uint32_t>(of.m);
  work.columns =
      static_cast<uint32_t>(of.n - first < of.tile_columns ? of.n - first : of.tile_columns);
  work.pitch = static_cast<uint32_t>((work.by_line ? of.b_column : of.b_k) * bytes);
  work.right = task.memory(node.operand(1)) +
               (place(of.b_batch) * of.b_matrix + first * of.b_column) * bytes;
  divide(work, bytes);
  work.early = work.part >= work.columns && work.rows * work.columns <= task.threads();
  // Lines begin and end at multiples of a piece, parts and blocks do anyway.
  const uint32_t odd = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(work.right)) | work.pitch |
                       (work.by_line ? work.k : work.columns) * bytes;
  work.piece = odd % 16 == 0 ? 16 : odd % 8 == 0 ? 8 : odd % 4 == 0 ? 4 : 2;
  const std::byte* left = task.memory(node.operand(0)) + place(of.a_batch) * of.a_matrix * bytes;
  const int64_t element = batch * of.m * of.n + first;
  if (type == DType::f32)
    multiply_tile<DType::f32>(task, work, left, element);
  else if (type == DType::bf16)
    multiply_tile<DType::bf16>(task, work, left, element);
  else
    multiply_tile<DType::f16>(task, work, left, element);
}

}  // namespace trek::device
