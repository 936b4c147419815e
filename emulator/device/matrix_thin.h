// Products with few rows, by the dot order: a vector, or up to four of them, times a matrix.
//
// There is one multiplication for each element of the right operand and row, so what counts is to have all
// of it on its way at once, and to be done soon after the last has come. A task copies its columns of the
// right operand to shared memory (cp.async: pieces of 16 bytes that take no registers while they are on
// their way), the left operand meanwhile; then a block of k of a column is one thread's, because the dot
// order sums blocks apart from each other, and at last a thread adds the blocks of an output in ascending
// order and takes it through the tail. More columns than there is room for come in parts, the next ones
// while one is multiplied.
//
//   ask       copies of a part: before the task's inputs are there, where nothing writes the right operand; from where
//             they lie, or from where an earlier trip has packed them (matrix_thin_packed.h)
//   stage     the left operand, as floats, or make it (matrix_thin_left.h), or gather its words (matrix_thin_tags.h)
//   multiply  the sums of blocks
//   finish    their sums, and the results
//
// What a tile needs has been worked out by describe() (matrix_thin_cut.h), because a task is short: an
// instruction that is met once in a task takes some ten cycles.
//
// In shared memory a block has a row more than it needs, or a piece: so threads beside each other, which
// have the columns of a block and then the next block, or the next block of a column, read different banks.
#pragma once

#include "emulator/device/matrix_thin_group.h"
#include "emulator/device/matrix_thin_left.h"
#include "emulator/device/matrix_thin_packed.h"

namespace trek::device {

namespace thin {

inline constexpr uint32_t kAtOnce = 16;  // k that a thread reads before it multiplies

// Where in a part its elements are: by line [column][block][k], with kPiece after a block; else [k][column],
// with a k after a block.

// Copies lines of memory in pieces of kBytes: neighbouring threads take neighbouring pieces.
template <uint32_t kBytes>
TREK_TILE void ask_pieces(const Task& task, const Work& work, const std::byte* from, uint32_t to,
                          uint32_t columns, uint32_t element) {
  const Thin cut = work.cut();  // not read anew for each copy
  const bool by_line = cut.by_line != 0;
  const uint32_t lines = by_line ? columns : cut.k;
  const uint32_t pieces = element * (by_line ? cut.k : columns) / kBytes;  // of a line
  const uint32_t of_block = element * kBlock / kBytes;
  const uint32_t of_line = line_of(cut, element);
  const uint32_t lines_on = task.threads() / pieces;
  const uint32_t pieces_on = task.threads() - lines_on * pieces;
  uint32_t line = task.thread() / pieces;
  uint32_t piece = task.thread() - line * pieces;
  TREK_ROLLED
  while (line < lines) {
    const uint32_t at =
        by_line ? line * of_line + piece / of_block * cut.row + piece % of_block * kBytes
                : (line + line / kBlock) * cut.row + piece * kBytes;
    copy<kBytes>(task, to + at, from + size_t{line} * cut.pitch + size_t{piece} * kBytes);
    line += lines_on;
    piece += pieces_on;
    if (piece >= pieces) {
      piece -= pieces;
      ++line;
    }
  }
}

// Asks for the columns of one right operand.
template <uint32_t kElement>  // bytes
TREK_TILE void ask_columns(const Task& task, const Work& work, const std::byte* from, uint32_t to,
                           uint32_t columns) {
  const Thin& cut = work.cut();
  if (cut.piece == 16)
    ask_pieces<16>(task, work, from, to, columns, kElement);
  else if (cut.piece == 8)
    ask_pieces<8>(task, work, from, to, columns, kElement);
  else if (cut.piece == 4)
    ask_pieces<4>(task, work, from, to, columns, kElement);
  else if constexpr (kElement == 2)
    ask_pieces<2>(task, work, from, to, columns, kElement);
}

// Asks for part `part`, if there is one, as a group of copies; `panels` is where the first of them goes.
template <uint32_t kElement>
TREK_TILE void ask(const Task& task, const Work& work, uint32_t part, uint32_t panels) {
  const Thin& cut = work.cut();
  const uint32_t first = part * cut.part;
  if (first < work.columns) {
    const uint32_t columns = work.columns - first < cut.part ? work.columns - first : cut.part;
    const size_t ahead = size_t{first} * (cut.by_line != 0 ? cut.pitch : kElement);
    const uint32_t to = panels + (cut.ahead == 0 ? 0 : part % (cut.ahead + 1U)) * cut.bytes;
    const uint32_t products = work.is_group() ? work.group().products : 1;
    each_row<kMaxProducts>(products, [&](uint32_t p) TREK_TILE_LAMBDA {
      ask_columns<kElement>(task, work, (p == 0 ? work.right : right_of(work, p)) + ahead,
                            to + p * work.group().panel, columns);
    });
  }
  commit_copies();
}
// Has a tile's part of a right operand that may still be written brought to the second-level cache.
template <uint32_t kElement>
TREK_TILE void prefetch_right(const Task& task, const Work& work) {
  constexpr uint32_t kLine = 128;  // of that cache
  const Thin& cut = work.cut();
  if (work.is_group()) return;
  const uint32_t lines = cut.by_line != 0 ? work.columns : cut.k;
  const uint32_t bytes = kElement * (cut.by_line != 0 ? cut.k : work.columns);
  TREK_ROLLED
  for (uint32_t line = task.thread(); line < lines; line += task.threads()) TREK_ROLLED
  for (uint32_t at = 0; at < bytes; at += kLine)
    prefetch(work.right + size_t{line} * cut.pitch + at);
}
// Asks for as many parts as there is room for.
template <uint32_t kElement>
TREK_TILE void ask_first(const Task& task, const Work& work) {
  const uint32_t parts = work.cut().ahead == 0 ? 1 : work.cut().ahead;
  TREK_ROLLED
  for (uint32_t part = 0; part < parts; ++part) ask<kElement>(task, work, part, work.cut().panels);
}

// Elements of a word that has one or two.
template <DType kType>
TREK_TILE float element_of(uint32_t word, uint32_t e) {
  if constexpr (kType == DType::f32) return as_float(word);
  const auto half = static_cast<uint16_t>(e == 0 ? word : word >> 16);
  if constexpr (kType == DType::bf16) return as_float(uint32_t{half} << 16);
  return semantics::widen(F16{half});
}
template <DType kType>
inline constexpr uint32_t kElementBytes = kType == DType::f32 ? 4 : 2;

// The left operand: [row][block][k] of float, kLeftPad after a block. Copies are of no group yet.
template <DType kType>
TREK_TILE void stage(const Task& task, const Work& work) {
  const Matrix& of = work.matrix();
  const Thin& cut = work.cut();
  constexpr uint32_t kBytes = kElementBytes<kType>;
  constexpr uint32_t kEach = 4;
  float* x = task.shared<float>(shared_at::kValues);
  const uint32_t line = cut.blocks * (kBlock + kLeftPad);
  TREK_ROLLED
  for (uint32_t r = 0; r < cut.rows; ++r) {
    const std::byte* row = work.left + r * of.a_row * kBytes;
#if defined(TREK_SPECIALISED) && defined(__CUDA__)
    if constexpr (kType != DType::f32)
      if (by_tensor_cores(cut)) {
        TREK_ROLLED
        for (uint32_t k = task.thread(); k < cut.k; k += task.threads())
          *task.shared<Aliased<uint16_t>>(row_at() + 2 * k) = read<uint16_t>(row, k * of.a_k);
        continue;
      }
#endif
    if (cut.fours != 0) {
      TREK_ROLLED
      for (uint32_t k = kEach * task.thread(); k < cut.k; k += kEach * task.threads()) {
        const uint32_t to = r * line + k + k / kBlock * kLeftPad;
        if constexpr (kType == DType::f32) {
          if (cut.copied != 0) {
            copy<4 * kEach>(task, shared_at::kValues + 4 * to, row + size_t{k} * kBytes);
            continue;
          }
        }
        struct __attribute__((may_alias, aligned(kEach * kBytes))) Piece {
          uint32_t word[kBytes];
        };
        const Piece words = *reinterpret_cast<const Piece*>(row + size_t{k} * kBytes);
        Words four{};
        TREK_UNROLLED
        for (uint32_t e = 0; e < kEach; ++e)
          four.e[e] = bits_of(element_of<kType>(words.word[e * kBytes / 4], e % (4 / kBytes)));
        *reinterpret_cast<Words*>(ahead_of(x, to)) = four;
      }
    } else {
      TREK_ROLLED
      for (uint32_t k = task.thread(); k < cut.k; k += task.threads())
        x[r * line + k + k / kBlock * kLeftPad] = as_float(load32(row, kType, k * of.a_k));
    }
  }
}

// stage() of a row that comes in words, with what the tail has of such ones: see matrix_thin_tags.h. What else it has has
// been asked for (AskedTails), or is asked for here.
template <DType kType>
TREK_TILE void bring_tagged(const Task& task, const Work& work) {
  TaggedBeside beside(task, work);
  if (kType == DType::f32 && is_carried(work.node) && trek_is_first_trip()) {
    stage<DType::f32>(task, work);
  } else if (kType == DType::f32 && is_in_part(work.node)) {
    bring_part(task, work);
  } else if (kType == DType::f32 && work.cut().k <= 2 * task.threads()) {
    AskedTwos(task, work, tag_of_row(work.node)).put(task, work);
  } else if (kType != DType::f32 && by_tensor_cores(work.cut())) {
    gather(task, work, work.cut().k / 2,
           [&](uint32_t w, uint32_t low, uint32_t high) TREK_TILE_LAMBDA {
             uint32_t* to = task.shared<uint32_t>(shared_at::kValues + 4 * w);
             to[0] = low;
             to[1] = high;
           });
  } else {
    float* x = task.shared<float>(shared_at::kValues);
    gather_row(task, work, kType, work.cut().k,
               [&](uint32_t k, float value, float next) TREK_TILE_LAMBDA {
                 float* to = x + left_at(work, 0, k);  // of one block of k
                 to[0] = value;
                 to[1] = next;
               });
  }
  beside.put(task, work);
  inputs_came(task);
}

// The elements of kColumns neighbouring columns at `at`.
template <DType kType, uint32_t kColumns>
TREK_TILE void read_columns(const std::byte* at, float (&y)[kColumns]) {
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

// sum[r][c] of a block's n of k: by line at `at` one after the other, else `pitch` bytes apart; rows of the left
// operand are `line` apart.
template <DType kType, bool kByLine, uint32_t kRows, uint32_t kColumns>
struct Blocks {
  static constexpr uint32_t kBytes = kElementBytes<kType>;
  using Column = float[kAtOnce][kColumns];

  const std::byte* at;
  const float* x;
  uint32_t pitch;
  uint32_t line;
  uint32_t rows;

  TREK_TILE_MEMBER void read(uint32_t k, Column& y) const {
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
        read_columns<kType>(ahead_of(at, (k + i) * pitch), y[i]);
    }
  }
  // A row that there is not is the first again.
  TREK_TILE_MEMBER const float* row(uint32_t r) const {
    return r < rows ? ahead_of(x, r * line) : x;
  }

  TREK_TILE_MEMBER void multiply(uint32_t n, float (&sum)[kRows][kColumns]) const {
    uint32_t k = 0;
    if (n >= kAtOnce) {
      Column next;
      read(0, next);
      TREK_ROLLED
      for (; k + kAtOnce <= n; k += kAtOnce) {
        Column y;
        TREK_UNROLLED
        for (uint32_t i = 0; i < kAtOnce; ++i) TREK_UNROLLED
        for (uint32_t c = 0; c < kColumns; ++c) y[i][c] = next[i][c];
        // The next ones are on their way meanwhile; behind the last, these again.
        read(k + 2 * kAtOnce <= n ? k + kAtOnce : k, next);
        TREK_UNROLLED
        for (uint32_t r = 0; r < kRows; ++r) TREK_UNROLLED
        for (uint32_t i = 0; i < kAtOnce; i += 4) {
          const Words four = *reinterpret_cast<const Words*>(row(r) + k + i);
          TREK_UNROLLED
          for (uint32_t e = 0; e < 4; ++e) TREK_UNROLLED
          for (uint32_t c = 0; c < kColumns; ++c)
            sum[r][c] = semantics::fma(as_float(four.e[e]), y[i + e][c], sum[r][c]);
        }
      }
    }
    TREK_ROLLED
    for (; k < n; ++k) {
      float y[kColumns];
      read_columns<kType>(ahead_of(at, k * (kByLine ? kBytes : pitch)), y);
      TREK_UNROLLED
      for (uint32_t r = 0; r < kRows; ++r) TREK_UNROLLED
      for (uint32_t c = 0; c < kColumns; ++c)
        sum[r][c] = semantics::fma(row(r)[k], y[c], sum[r][c]);
    }
  }
};

// The sums of all blocks of a part's columns. Columns that there are not may be anything.
template <DType kType, bool kByLine, uint32_t kRows, uint32_t kColumns>
TREK_TILE void multiply_blocks(const Task& task, const Work& work, uint32_t panel,
                               uint32_t columns) {
  const Thin cut = work.cut();
  const float* left = task.shared<float>(shared_at::kValues);
  float* sums = task.shared<float>(cut.sums);
  const uint32_t groups = (columns + kColumns - 1) / kColumns;
  const uint32_t by = kByLine ? cut.blocks : groups;
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < cut.blocks * groups; i += task.threads()) {
    const uint32_t above = i / by;
    const uint32_t block = kByLine ? i - above * by : above;
    const uint32_t column = kColumns * (kByLine ? above : i - above * by);
    const uint32_t at = kByLine ? (column * cut.blocks + block) * cut.row
                                : block * (kBlock + 1) * cut.row + column * kElementBytes<kType>;
    const uint32_t k = block * kBlock;
    float sum[kRows][kColumns] = {};
    const Blocks<kType, kByLine, kRows, kColumns> blocks = {
        task.shared<const std::byte>(panel + at), ahead_of(left, block * (kBlock + kLeftPad)),
        cut.row, cut.blocks * (kBlock + kLeftPad), cut.rows};
    blocks.multiply(cut.k - k < kBlock ? cut.k - k : kBlock, sum);
    TREK_UNROLLED
    for (uint32_t r = 0; r < kRows; ++r) TREK_UNROLLED
    for (uint32_t c = 0; c < kColumns; ++c)
      if (r < cut.rows && column + c < columns)
        sums[(block * cut.rows + r) * columns + column + c] = sum[r][c];
  }
}

template <DType kType, uint32_t kRows>
TREK_TILE void multiply(const Task& task, const Work& work, uint32_t panel, uint32_t columns) {
#if defined(TREK_SPECIALISED) && defined(__CUDA__)
  if constexpr (kType != DType::f32 && kRows == 1)
    if (by_tensor_cores(work.cut()))
      return multiply_by_tensor_cores<kType>(task, work, panel, columns);
#endif
  if (work.cut().by_line != 0)
    multiply_blocks<kType, true, kRows, 1>(task, work, panel, columns);
  else if (work.cut().blocks * columns <= kBlockThreads)
    multiply_blocks<kType, false, kRows, 1>(task, work, panel, columns);
  else
    multiply_blocks<kType, false, kRows, 2>(task, work, panel, columns);
}

// How many columns a tile has from `column` on. Where code is made for one node and all tiles are as wide, that is known.
TREK_TILE uint32_t columns_from(const Matrix& of, int64_t column) {
  int64_t columns = of.tile_columns;
#ifdef TREK_SPECIALISED
  if (of.n % of.tile_columns != 0)
#endif
    columns = of.n - column < columns ? of.n - column : columns;
  return static_cast<uint32_t>(columns);
}

// finish() of a tile whose outputs are a thread's each, and go to words, too.
TREK_TILE void give_tagged(const Task& task, const Work& work, const float* sums, uint32_t blocks,
                           uint32_t outputs) {
  const uint32_t i = task.thread();
  const bool has = i < outputs;
  const Output output = output_of(work, outputs, 0, has ? i : 0);
  float value = 0;
  if (has) value = apply_tail(task, work, output, sum_of_blocks(sums + i, blocks, outputs));
  give_in_words(work, has, output.element, value);
  const Operand& to = work.node.result(0);
  if (has)
    store32(work.memory(to), static_cast<DType>(to.dtype),
            place_here(work.node, to.map, output.element), bits_of(value));
}

// Adds the blocks of a part, in ascending order. Interpreted products give words where their columns stay.
template <bool kInWords = kSpecialised>
TREK_TILE void finish(const Task& task, const Work& work, uint32_t columns, uint32_t ahead) {
  const float* sums = task.shared<float>(work.cut().sums);
  const uint32_t blocks = addends_of(work.cut());
  const uint32_t outputs = work.cut().rows * columns;
  if (kInWords && gives_tagged(work.node)) return give_tagged(task, work, sums, blocks, outputs);
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < outputs; i += task.threads()) {
    const float total = sum_of_blocks(sums + i, blocks, outputs);
    const Output output = output_of(work, columns, ahead, i);
    if (work.in_registers()) {
      const Operand& to = work.node.result(0);
      store32(work.memory(to), static_cast<DType>(to.dtype),
              place_here(work.node, to.map, output.element),
              bits_of(apply_tail(task, work, output, total)));
    } else {
      if (!is_alone(task, work)) load_delivery(task, output.element);
      deliver_loaded(task, bits_of(total), output.element);
    }
  }
}

// Whether this thread has an output of a tile that is one part, and what stands beside its sum may be asked for.
TREK_TILE bool has_output(const Task& task, const Work& work) {
  return !work.is_group() && is_alone(task, work) && task.thread() < work.cut().rows * work.columns;
}
// Asks for what tails read beside the sums, where a tile is one part. Copies are of no group yet.
TREK_TILE void load_tails(const Task& task, const Work& work) {
  if (work.is_group()) return load_group(task, work);
  if (!has_output(task, work)) return;
  const Output output = output_of(work, work.columns, 0, task.thread());
  if (work.in_registers())
    load_tail(task, work, output);
  else
    load_delivery(task, output.element);
}
// Has it brought to the second-level cache, while the inputs are still being made: weights were last read a pass ago.
TREK_TILE void prefetch_tails(const Task& task, const Work& work) {
  if (has_output(task, work) && work.in_registers())
    prefetch_tail(work, output_of(work, work.columns, 0, task.thread()));
}

template <DType kType, class Ready>
TREK_TILE void multiply_tile(const Task& task, const Work& work, const Packed& packed,
                             Ready ready) {
  const bool own_rows = makes_rows(work);
  const bool early = work.cut().immutable != 0 && !(kLeftBeforeRight && own_rows);
  Columns columns_of_left{};
  load_columns(task, work, columns_of_left, false);
  if (!early) prefetch_right<kElementBytes<kType>>(task, work);
  bool goes_on = early || ready();
  if (kLeftBeforeRight && own_rows && goes_on) make_left(task, work, columns_of_left);
  if (packed.is_there())
    packed.ask(task, work);
  else if (goes_on)
    ask_first<kElementBytes<kType>>(task, work);
  const bool tagged = kSpecialised && has_tagged_left(work.node);
  AskedTails asked;
  if (early) {
    if (tagged) {
      asked.ask(task, work);
      ask_rest(task, work);
    } else {
      prefetch_tails(task, work);
    }
    goes_on = ready();
  }
  if (!goes_on) {
    wait_for_copies(0);
    task.sync();
    return;
  }
  load_columns(task, work, columns_of_left, true);
  if (tagged && !own_rows) {
    if (work.is_group()) load_group(task, work);
    bring_tagged<kType>(task, work);
  } else if (own_rows && !kLeftBeforeRight) {
    make_left(task, work, columns_of_left);
  } else {
    if (!own_rows) stage<kType>(task, work);
    load_tails(task, work);
  }
  if (tagged) asked.put(task, work);
  // Where a tile is one part, these come with it; else they come before a later one.
  if (work.cut().ahead == 0) commit_copies();
  uint32_t part = 0;
  TREK_ROLLED
  for (uint32_t column = 0; column < work.columns; column += work.cut().part, ++part) {
    const uint32_t ahead = work.cut().ahead;
    const uint32_t left = work.columns - column;
    const uint32_t columns = work.is_group() || work.cut().part < left ? work.cut().part : left;
    // Its place was read two syncs ago, or has not been.
    if (ahead > 0 || part > 0)
      ask<kElementBytes<kType>>(task, work, part + ahead, work.cut().panels);
    wait_for_copies(ahead);
    task.sync();
    const uint32_t panel =
        work.cut().panels + (ahead == 0 ? 0 : part % (ahead + 1)) * work.cut().bytes;
    if (work.cut().rows == 1)
      multiply<kType, 1>(task, work, panel, columns);
    else
      multiply<kType, kThinRows>(task, work, panel, columns);
    packed.leave(task, work);
    task.sync();
    if (work.is_group())
      finish_group(task, work);
    else
      finish(task, work, columns, column);
  }
}

// The tile of number `tile`.
TREK_TILE Work work_of(const Task& task, const Node& node, int64_t tile, std::byte* arena) {
  const Matrix& of = node.matrix;
  const Operand& left = node.operand(0);
  const Operand& right = node.operand(1);
  const uint32_t bytes = size_of(static_cast<DType>(right.dtype));
  const int64_t batch = of.across == 1 ? tile : tile < of.across ? 0 : tile / of.across;
  const auto place = [&](Map map) { return batch == 0 ? 0 : place_of(node, map, batch); };
  const int64_t column = (tile - batch * of.across) * of.tile_columns;
  Work work = {task,
               node,
               arena,
               nullptr,
               nullptr,
               batch * of.m * of.n + column,
               static_cast<uint32_t>(column),
               columns_from(of, column),
               place(of.a_batch) * of.m,
               counter_of_slices(task, node)};
  if (!makes_rows(work)) work.left = work.memory(left) + place(of.a_batch) * of.a_matrix * bytes;
  work.right =
      work.memory(right) + (place(of.b_batch) * of.b_matrix + column * of.b_column) * bytes;
  return work;
}

}  // namespace thin

// The tile of number `tile` of a node whose product is `thin`; `count` is what its task's record has for that. `ready()`
// waits until the task's inputs are there, and says whether it is to be executed at all; what nothing writes is asked for
// before. Where the tail is not one for registers, the task's surroundings must be there when it returns.
template <class Ready>
TREK_TILE void multiply_tile_thin(const Task& task, const Node& node, int64_t tile, int64_t count,
                                  std::byte* arena, Ready ready) {
  const thin::Work work = thin::work_of(task, node, tile, arena);
  const thin::Packed packed(task, node, tile, count);
  const auto type = static_cast<DType>(node.operand(1).dtype);
  if (type == DType::f32)
    thin::multiply_tile<DType::f32>(task, work, packed, ready);
  else if (type == DType::bf16)
    thin::multiply_tile<DType::bf16>(task, work, packed, ready);
  else
    thin::multiply_tile<DType::f16>(task, work, packed, ready);
}

}  // namespace trek::device
