// Products of f32 of a few columns, by the dot order: the last layer of a classifier, and the gradients of its weights.
// Device only.
//
// Such a product has little to multiply and much to read, so what counts is that a tile's operands are on their way at
// once and that few instructions are met. Both come to shared memory in pieces of 16 bytes, as they lie. Then a thread has
// one line of the left operand for one block of 64 k, and all columns of the right one; or, where that is too few threads, and
// in code that does not know how many columns there are, one of its columns. Four k of all columns are four times as many
// numbers in line, so they are read in fours whatever the number of columns. The blocks' sums are in shared memory, and are
// added in ascending order, as the dot order has it.
//
// All k come at once where they have room, else in parts, the next one while one is multiplied (matrix_narrow_cut.h).
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_f32_part.h"
#include "emulator/device/matrix_narrow_cut.h"
#include "emulator/device/matrix_small.h"

namespace trek::device {

namespace narrow {

using matrix_f32::Float4;
using small::least;

// Starts bringing the k [k, k + there) of so many lines to `panel`: from `data`, where the first of them at the first k
// is, in bytes of memory from one line or k to the next.
TREK_TILE void bring_lines(const Task& task, const NarrowSide& side, const std::byte* data,
                           int64_t pitch, uint32_t lines, uint32_t k, uint32_t there,
                           uint32_t panel) {
  const uint32_t rows = side.by_line != 0 ? lines : there;
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < rows * side.pieces; i += kBlockThreads) {
    const uint32_t row = i / side.pieces;
    const uint32_t piece = i - row * side.pieces;
    if (piece * kPieceK >= (side.by_line != 0 ? there : lines)) continue;
    const uint32_t blocks = (side.by_line != 0 ? piece * kPieceK : row) / kBlock;
    const uint32_t apart = blocks * (side.block - kBlock * (side.by_line != 0 ? 4 : side.line));
    const int64_t first =
        side.by_line != 0 ? row * pitch + 4 * int64_t{k} : (int64_t{k} + row) * pitch;
    copy_ahead<kPiece>(panel + row * side.line + piece * kPiece + apart,
                       data + first + piece * kPiece);
  }
}
// The same of all columns at a k, which follow each other in memory.
TREK_TILE void bring_run(const Task& task, const NarrowSide& side, const std::byte* data,
                         uint32_t k, uint32_t there, uint32_t panel) {
  const uint32_t pieces = there * side.line / kPiece;
  const uint32_t of_a_block = kBlock * side.line / kPiece;
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < pieces; i += kBlockThreads)
    copy_ahead<kPiece>(panel + i * kPiece + i / of_a_block * kPiece,
                       data + int64_t{k} * side.line + i * kPiece);
}

TREK_TILE float load_one(uint32_t at) { return semantics::from_bits<float>(tensor::load_word(at)); }
TREK_TILE Float4 load_four(uint32_t at) {
  uint32_t piece[4];
  tensor::load_piece(piece, at);
  Float4 value;
  TREK_UNROLLED
  for (uint32_t e = 0; e < 4; ++e) value[e] = semantics::from_bits<float>(piece[e]);
  return value;
}

// Four k of a line from `at` on.
TREK_TILE Float4 load_line(const NarrowSide& side, uint32_t at) {
  if (side.by_line != 0) return load_four(at);
  return Float4{load_one(at), load_one(at + side.line), load_one(at + 2 * side.line),
                load_one(at + 3 * side.line)};
}
// What lies from a k to the fourth one behind it.
TREK_TILE uint32_t four_k(const NarrowSide& side) {
  return side.by_line != 0 ? kPiece : kPieceK * side.line;
}

// Adds the products of a line's block of so many k with all columns.
TREK_TILE void multiply_all(const NarrowSide& left, const NarrowSide& right, uint32_t columns,
                            uint32_t left_at, uint32_t right_at, uint32_t k,
                            float (&sum)[kNarrowColumns]) {
  TREK_ROLLED
  for (uint32_t four = 0; four < k / kPieceK; ++four) {
    const Float4 a = load_line(left, left_at + four * four_k(left));
    const uint32_t from = right_at + four * four_k(right);
    float b[kPieceK * kNarrowColumns];  // k by k; or column by column
    each_row<kNarrowColumns>(columns, [&](uint32_t i) TREK_TILE_LAMBDA {
      const Float4 value = load_four(from + i * (right.by_line != 0 ? right.line : kPiece));
      TREK_UNROLLED
      for (uint32_t e = 0; e < kPieceK; ++e) b[kPieceK * i + e] = value[e];
    });
    TREK_UNROLLED
    for (uint32_t e = 0; e < kPieceK; ++e)
      each_row<kNarrowColumns>(columns, [&](uint32_t c) TREK_TILE_LAMBDA {
        sum[c] =
            semantics::fma(a[e], b[right.by_line != 0 ? kPieceK * c + e : columns * e + c], sum[c]);
      });
  }
}
// And with one.
TREK_TILE float multiply_one(const NarrowSide& left, const NarrowSide& right, uint32_t left_at,
                             uint32_t right_at, uint32_t k) {
  constexpr uint32_t kAhead =
      kSpecialised ? 4 : 1;  // fours of which all that is read is on its way
  float sum = 0;
  uint32_t four = 0;
  const auto multiply = [&]<uint32_t kFours>() TREK_TILE_LAMBDA {
    Float4 a[kFours];
    Float4 b[kFours];
    TREK_UNROLLED
    for (uint32_t i = 0; i < kFours; ++i) {
      a[i] = load_line(left, left_at + (four + i) * four_k(left));
      b[i] = load_line(right, right_at + (four + i) * four_k(right));
    }
    TREK_UNROLLED
    for (uint32_t i = 0; i < kFours; ++i) {
      TREK_UNROLLED
      for (uint32_t e = 0; e < kPieceK; ++e) sum = semantics::fma(a[i][e], b[i][e], sum);
    }
    four += kFours;
  };
  TREK_ROLLED
  while (four + kAhead <= k / kPieceK) multiply.template operator()<kAhead>();
  if constexpr (kAhead != 1) {
    TREK_ROLLED
    while (four < k / kPieceK) multiply.template operator()<1>();
  }
  return sum;
}

// The sums of a part's blocks, of which `block` is the first: [block][line][column].
TREK_TILE void multiply_part(const Task& task, const Narrow& cut, uint32_t most_lines,
                             uint32_t lines, uint32_t columns, uint32_t block, uint32_t there,
                             uint32_t slot) {
  float* sums = task.shared<float>(shared_at::kValues);
  const uint32_t blocks = (there + kBlock - 1) / kBlock;
  // Which number of a column a register has must be known to the code.
  const bool all_columns = kSpecialised && cut.all_columns != 0;
  const uint32_t each = all_columns ? 1 : columns;
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < most_lines * each * blocks; i += kBlockThreads) {
    const uint32_t line = i % most_lines;
    if (line >= lines) continue;
    const uint32_t of_block = i / most_lines % each;
    const uint32_t b = i / (most_lines * each);
    const uint32_t k = least(there - b * kBlock, kBlock);
    const uint32_t left =
        slot + b * cut.left.block + line * (cut.left.by_line != 0 ? cut.left.line : 4);
    const uint32_t right = slot + cut.right_at + b * cut.right.block;
    float* to = sums + ((block + b) * lines + line) * columns;
    if (!all_columns) {
      const uint32_t column = of_block * (cut.right.by_line != 0 ? cut.right.line : 4);
      to[of_block] = multiply_one(cut.left, cut.right, left, right + column, k);
      continue;
    }
    if constexpr (kSpecialised) {
      float sum[kNarrowColumns] = {};
      multiply_all(cut.left, cut.right, columns, left, right, k, sum);
      each_row<kNarrowColumns>(columns, [&](uint32_t c) TREK_TILE_LAMBDA { to[c] = sum[c]; });
    }
  }
}

// The outputs of a tile, row by row, and what steps of a tail have beside one of them.
struct Outputs {
  const tensor::Tile& tile;
  uint32_t count;
  uint32_t columns;
};
struct Beside {
  float step[kMaxTail];
};
TREK_TILE int64_t element_of(const Task& task, const Outputs& outputs, uint32_t i) {
  const Matrix& of = task.node().matrix;
  return (outputs.tile.batch * of.m + outputs.tile.first_row) * of.n + i;
}
TREK_TILE bool in_registers(const Task& task) {
  return task.node().matrix.tail_steps != Matrix::kNoTail;
}
TREK_TILE float load_beside(const Task& task, const Outputs& outputs, uint32_t i, uint32_t step) {
  return small::load_beside(task, task.node(), task.node().matrix.tail[step], i % outputs.columns,
                            element_of(task, outputs, i));
}
TREK_TILE void load_beside(const Task& task, const Outputs& outputs, uint32_t i, Beside& beside) {
  if (!in_registers(task) || i >= outputs.count) return;
  each_row<kMaxTail>(task.node().matrix.tail_steps, [&](uint32_t s) TREK_TILE_LAMBDA {
    beside.step[s] = load_beside(task, outputs, i, s);
  });
}
// The sums of an output's blocks to the result, or where the tail is not one for registers to those of the first block.
// beside(s): what the s-th step has beside the value.
template <class Beside>
TREK_TILE void give(const Task& task, const Outputs& outputs, uint32_t i, uint32_t blocks,
                    Beside beside) {
  if (i >= outputs.count) return;
  const Matrix& of = task.node().matrix;
  float* sums = task.shared<float>(shared_at::kValues);
  float value = thin::sum_of_blocks(sums + i, blocks, outputs.count);
  if (!in_registers(task)) {
    sums[i] = value;
    return;
  }
  each_row<kMaxTail>(of.tail_steps, [&](uint32_t s) TREK_TILE_LAMBDA {
    value = thin::apply_tail_step(of.tail[s], value, beside(s));
  });
  const Operand& to = task.node().result(0);
  store32(task.memory(to), static_cast<DType>(to.dtype), element_of(task, outputs, i),
          bits_of(value));
}

}  // namespace narrow

// The tile of number `number` of a node whose product is `narrow`.
TREK_UNIT_CALL void multiply_tile_narrow(Task task, int64_t number) {
  using namespace narrow;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const Narrow& cut = of.narrow;
  const tensor::Tile tile = tensor::tile_of(of, number);
  const auto lines = static_cast<uint32_t>(tile.end_row - tile.first_row);
  const auto most_lines = static_cast<uint32_t>(of.m < of.tile_rows ? of.m : of.tile_rows);
  const auto columns = static_cast<uint32_t>(of.n);
  const auto k_end = static_cast<uint32_t>(of.k);
  const std::byte* left =
      task.memory(node.operand(0)) +
      4 * (tensor::matrix_of(node, of.a_batch, tile) * of.a_matrix + tile.first_row * of.a_row);
  const std::byte* right =
      task.memory(node.operand(1)) + 4 * (tensor::matrix_of(node, of.b_batch, tile) * of.b_matrix);
  const int64_t left_pitch = 4 * (cut.left.by_line != 0 ? of.a_row : of.a_k);
  const uint32_t ring = shared_address(task.shared<std::byte>(cut.ring));
  const auto there = [&](uint32_t part)
                         TREK_TILE_LAMBDA { return least(k_end - part * cut.depth, cut.depth); };
  const auto slot_of = [&](uint32_t part)
                           TREK_TILE_LAMBDA { return ring + part % kMostSlots * cut.slot; };
  const auto ask = [&](uint32_t part) TREK_TILE_LAMBDA {
    const uint32_t k = part * cut.depth;
    const uint32_t slot = slot_of(part);
    bring_lines(task, cut.left, left, left_pitch, lines, k, there(part), slot);
    if (cut.right.by_line != 0)
      bring_lines(task, cut.right, right, 4 * of.b_column, columns, k, there(part),
                  slot + cut.right_at);
    else
      bring_run(task, cut.right, right, k, there(part), slot + cut.right_at);
  };
  if (!kSpecialised && waits_interpreted(node) && !await_inputs()) return;
  // What tails read is asked for while operands are on their way: of as many outputs as registers are for, which are none in
  // code that does not know the steps.
  constexpr uint32_t kAhead = kSpecialised ? 2 : 0;
  const Outputs outputs = {tile, lines * columns, columns};
  Beside ahead[kAhead + 1] = {};
  TREK_ROLLED
  for (uint32_t part = 0; part <= cut.parts; ++part) {
    if (part < cut.parts) ask(part);
    commit_copies();
    if (part == 0) {
      TREK_UNROLLED
      for (uint32_t a = 0; a < kAhead; ++a)
        load_beside(task, outputs, task.thread() + a * kBlockThreads, ahead[a]);
      continue;
    }
    wait_for_copies(1);
    task.sync();
    multiply_part(task, cut, most_lines, lines, columns, (part - 1) * cut.depth / kBlock,
                  there(part - 1), slot_of(part - 1));
    task.sync();
  }
  const uint32_t blocks = (k_end + kBlock - 1) / kBlock;
  TREK_UNROLLED
  for (uint32_t a = 0; a < kAhead; ++a)
    give(task, outputs, task.thread() + a * kBlockThreads, blocks,
         [&](uint32_t s) TREK_TILE_LAMBDA { return ahead[a].step[s]; });
  TREK_ROLLED
  for (uint32_t i = task.thread() + kAhead * kBlockThreads; i < outputs.count; i += kBlockThreads)
    give(task, outputs, i, blocks,
         [&](uint32_t s) TREK_TILE_LAMBDA { return load_beside(task, outputs, i, s); });
  if (of.tail_steps != Matrix::kNoTail) return;
  task.sync();
  tensor::deliver_staged(task, tile.batch, tile.first_row, tile.first_column, lines, columns);
}

}  // namespace trek::device

#endif  // __CUDA__
