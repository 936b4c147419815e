// Matrix products of f16, bf16 or f32 by tensor cores, under fast numerics: sums are f32 in an order of the
// hardware's own. Of 16 bits every product is exact; f32 operands are rounded to tf32. Device only.
//
// A tile is worked on in parts of 128 rows by part_columns. Both operands come to shared memory in slots of
// 128 bytes of k, several slots ahead of their use. What is outside of an operand is 0 in both, so any m, n and k
// will do.
//
// There are two ways through a part. This file has the one that any GPU from sm_80 on can go: copies of 16
// bytes by all threads, eight warps of 64 × 32 outputs, parts of 128 × 128; of operands whose lines are not
// 16-byte aligned the aligned pieces around them are brought, and shifted where they have arrived.
// matrix_tensor_90a.h has Hopper's.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_tail.h"
#include "emulator/device/matrix_tile.h"
#include "emulator/device/pieces.h"
#include "emulator/device/stage.h"

namespace trek::device {

namespace tensor {

// The deliver program over outputs that are in shared memory at kValues, [rows][columns]: its results are
// there after a sync, which is the caller's.
TREK_UNIT_CALL void deliver_staged(Task task, int64_t batch, int64_t row, int64_t column,
                                   uint32_t rows, uint32_t columns) {
  const Matrix& of = task.node().matrix;
  Positions where;
  where.width = columns;
  where.rows = of.result_rows;
  where.first_row = batch * of.m + row;
  where.columns = of.result_columns;
  where.first_column = column;
  run(task, kDeliver, where, rows * columns, shared_at::kValues, 0);
}

// One operand of a part: 128 of its lines (rows of the left, columns of the right) from `data` on.
struct Side {
  const std::byte* data;
  int64_t pitch;   // bytes from one line to the next, or from one k to the next
  uint32_t lines;  // that exist
  bool aligned;    // all pieces of neighbours are 16-byte aligned
};
TREK_TILE Side side_of(const std::byte* data, int64_t pitch, int64_t lines) {
  return {data, pitch, static_cast<uint32_t>(lines < kPartRows ? lines : kPartRows),
          bytes_before(data) == 0 && pitch % 16 == 0};
}

// A panel has 128 rows of 64 or 32 elements: so many k of a line; or so many lines at one k, where the next lines
// come after all k of the first. A row has a piece of 16 bytes more than that, which keeps eight rows of one column
// in eight banks, and is there for rows that begin between two pieces of memory.
inline constexpr uint32_t kRowPieces = 8;  // of a row's elements
inline constexpr uint32_t kPanelRow = kRowBytes + 16;
inline constexpr uint32_t kPanelBytes = kPartRows * kPanelRow;
inline constexpr uint32_t kRing = 4;
inline constexpr uint32_t kRingAt = (shared_at::kSlots + 127) / 128 * 128;
static_assert(kRingAt + kRing * 2 * kPanelBytes <= kSharedBytes);

TREK_TILE uint32_t at_most(int64_t value, uint32_t most) {
  return value < 0 ? 0 : value < most ? static_cast<uint32_t>(value) : most;
}

// The elements of a panel's row in memory, neighbours, and how many of them exist.
struct PanelRow {
  const std::byte* data;
  uint32_t count;
};
template <uint32_t kBytes, bool kByLine>
TREK_TILE PanelRow row_of(const Side& side, int64_t k, int64_t there, uint32_t row) {
  constexpr uint32_t kRow = row_elements(kBytes);
  if constexpr (kByLine)
    return {side.data + row * side.pitch + kBytes * k, row < side.lines ? at_most(there, kRow) : 0};
  const uint32_t place = row % kRow;
  const uint32_t line = row - place;
  return {side.data + (k + place) * side.pitch + kBytes * line,
          place < there ? at_most(int64_t{side.lines} - line, kRow) : 0};
}

// A thread brings a piece of every 32nd row; the eight lanes of a row are of one warp. Rows of lines that do not
// exist are left as they are, since outputs of those are not given.
inline constexpr uint32_t kRowsApart = kBlockThreads / kRowPieces;
template <uint32_t kBytes, bool kByLine>
TREK_TILE uint32_t rows_of(const Side& side) {
  constexpr uint32_t kRow = row_elements(kBytes);
  if constexpr (kByLine) return side.lines;
  return (side.lines + kRow - 1) / kRow * kRow;
}

// Starts bringing the places of k from `k` on, `there` of which exist, to the panel at `to`. What a row has in
// front of its first element up to a piece of memory comes with it; what does not exist is 0.
template <uint32_t kBytes, bool kByLine>
TREK_TILE void fetch(const Task& task, const Side& side, int64_t k, int64_t there, uint32_t to) {
  const uint32_t first = opaque(task.thread()) / kRowPieces;
  const uint32_t piece = opaque(task.thread()) % kRowPieces;
  const uint32_t rows = rows_of<kBytes, kByLine>(side);
#pragma unroll
  for (uint32_t p = 0; p < kPartRows; p += kRowsApart) {
    if (p >= rows) break;
    const PanelRow row = row_of<kBytes, kByLine>(side, k, there, first + p);
    const std::byte* data = row.count == 0 ? side.data : row.data;
    const std::byte* from = data - bytes_before(data);
    const int64_t bytes = row.count == 0 ? 0 : bytes_before(data) + kBytes * row.count;
    const uint32_t at = to + (first + p) * kPanelRow + 16 * piece;
    const uint32_t exist = at_most(bytes - 16 * piece, 16);
    copy_16(at, exist == 0 ? from : from + 16 * piece, exist);
    if (side.aligned || piece != 0) continue;
    const uint32_t behind = at_most(bytes - kRowBytes, 16);
    copy_16(at + kRowBytes, behind == 0 ? from : from + kRowBytes, behind);
  }
}

// Moves the elements of the rows that fetch() has brought, once they are there, to the rows' beginnings. Nobody
// else is needed: the lanes of a row exchange its pieces.
template <uint32_t kBytes, bool kByLine>
TREK_TILE void align_rows(const Task& task, const Side& side, int64_t k, uint32_t panel) {
  constexpr uint32_t kRows = kPartRows / kRowsApart;
  const uint32_t first = opaque(task.thread()) / kRowPieces;
  const uint32_t at = panel + first * kPanelRow + opaque(task.thread()) % kRowPieces * 16;
  const uint32_t rows = rows_of<kBytes, kByLine>(side);
  Pieces pieces[kRows] = {};
  warp_sync();
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    if (r * kRowsApart >= rows) break;
    load_piece(pieces[r].first, at + r * kRowsApart * kPanelRow);
    load_piece(pieces[r].second, at + r * kRowsApart * kPanelRow + 16);
  }
  warp_sync();
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    if (r * kRowsApart >= rows) break;
    const PanelRow row = row_of<kBytes, kByLine>(side, k, 0, first + r * kRowsApart);
    uint32_t piece[4];
    take_piece(pieces[r], bytes_before(row.data), piece);
    store_piece(at + r * kRowsApart * kPanelRow, piece);
  }
}

inline constexpr uint32_t kWarpRows = 64;
inline constexpr uint32_t kWarpColumns = 32;
inline constexpr uint32_t kWarpsAcross = 4;

// Four matrices of 8 lines by 16 bytes of k from (line, k) on, for this lane. The four are two of lines by two of k:
// lines first where `lines_first`, as a left operand wants them.
template <Factors kFactors, bool kByLine>
TREK_TILE void load_fragment(uint32_t (&to)[4], uint32_t panel, uint32_t lane, uint32_t line,
                             uint32_t k, bool lines_first) {
  constexpr uint32_t kBytes = kBytesOf<kFactors>;
  constexpr uint32_t kRow = row_elements(kBytes);
  constexpr uint32_t kDeep = 16 / kBytes;  // k of a matrix
  if constexpr (kFactors == Factors::tf32 && !kByLine) {
    // Words cannot be transposed on the way: each of a lane's is a load of its own.
    const uint32_t at =
        panel + (line / kRow * kRow + k + lane % 4) * kPanelRow + kBytes * (line % kRow + lane / 4);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      to[i] = load_word(at + (lines_first ? i % 2 : i / 2) * 8 * kBytes +
                        (lines_first ? i / 2 : i % 2) * kDeep * kPanelRow);
  } else {
    const uint32_t which = lane / 8;
    line += (lines_first ? which % 2 : which / 2) * 8;
    k += (lines_first ? which / 2 : which % 2) * kDeep;
    const uint32_t row = kByLine ? line : line / kRow * kRow + k;
    load_matrices<!kByLine>(
        to, panel + (row + lane % 8) * kPanelRow + kBytes * (kByLine ? k : line % kRow));
  }
  if constexpr (kFactors == Factors::tf32)
#pragma unroll
    for (uint32_t& word : to) word = rounded_to_tf32(word);
}

// A warp's outputs, and of each slot's k those that it multiplies: of a part of few columns several warps have
// the same outputs, and every `ways`-th piece of 32 bytes of k from `way` on.
struct Share {
  uint32_t row;
  uint32_t column;
  uint32_t rows;  // that exist
  uint32_t columns;
  uint32_t way;
  uint32_t ways;
};
TREK_TILE Share share_of(uint32_t warp, const Side& left, const Side& right) {
  const uint32_t across = right.lines <= kWarpColumns ? 1 : right.lines <= 2 * kWarpColumns ? 2 : 4;
  const uint32_t row = warp / kWarpsAcross * kWarpRows;
  const uint32_t column = warp % across * kWarpColumns;
  return {row,
          column,
          at_most(int64_t{left.lines} - row, kWarpRows),
          at_most(int64_t{right.lines} - column, kWarpColumns),
          warp % kWarpsAcross / across,
          kWarpsAcross / across};
}

// Adds the products of a slot's k to a warp's outputs, 16 rows by 8 columns at a time where any exist.
template <Factors kFactors, bool kAByLine, bool kBByLine>
TREK_TILE void multiply_slot(uint32_t left, uint32_t right, uint32_t lane, const Share& share,
                             float (&sum)[kWarpRows / 16][kWarpColumns / 2]) {
#pragma unroll
  for (uint32_t piece = 0; piece < kRowBytes / kProductBytes; ++piece) {
    if (piece % share.ways != share.way) continue;
    const uint32_t k = piece * kProductBytes / kBytesOf<kFactors>;
    uint32_t a[kWarpRows / 16][4];
    uint32_t b[kWarpColumns / 16][4];
#pragma unroll
    for (uint32_t i = 0; i < kWarpRows / 16; ++i)
      load_fragment<kFactors, kAByLine>(a[i], left, lane, share.row + 16 * i, k, true);
#pragma unroll
    for (uint32_t j = 0; j < kWarpColumns / 16; ++j)
      load_fragment<kFactors, kBByLine>(b[j], right, lane, share.column + 16 * j, k, false);
#pragma unroll
    for (uint32_t i = 0; i < kWarpRows / 16; ++i) {
      if (16 * i >= share.rows) break;
#pragma unroll
      for (uint32_t j = 0; j < kWarpColumns / 8; ++j)
        if (8 * j < share.columns)
          multiply<kFactors>(sum[i] + 4 * j, a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
}

// Adds up the sums of warps that have the same outputs, in the order of their k: the first of them has all.
TREK_TILE void join(const Task& task, const Share& share,
                    float (&sum)[kWarpRows / 16][kWarpColumns / 2]) {
  constexpr uint32_t kOfWarp = kWarpRows * kWarpColumns;
  if (share.ways == 1) return;
  const uint32_t warp = opaque(task.thread()) / 32;
  const uint32_t lane = opaque(task.thread()) % 32;
  float* sums = task.shared<float>(kRingAt) + lane;
  if (share.way != 0)
#pragma unroll
    for (uint32_t i = 0; i < kOfWarp / 32; ++i)
      sums[warp * kOfWarp + 32 * i] = sum[i / (kWarpColumns / 2)][i % (kWarpColumns / 2)];
  task.sync();
  const uint32_t apart = kWarpsAcross / share.ways;  // warps
  if (share.way == 0) {
    TREK_ROLLED
    for (uint32_t way = 1; way < share.ways; ++way)
#pragma unroll
      for (uint32_t i = 0; i < kOfWarp / 32; ++i)
        sum[i / (kWarpColumns / 2)][i % (kWarpColumns / 2)] +=
            sums[(warp + way * apart) * kOfWarp + 32 * i];
  }
  task.sync();
}

// All of k for a part.
template <Factors kFactors, bool kAByLine, bool kBByLine>
TREK_TILE void multiply_part(const Task& task, const Side& left, const Side& right, int64_t k_end,
                             const Share& share, float (&sum)[kWarpRows / 16][kWarpColumns / 2]) {
  constexpr uint32_t kBytes = kBytesOf<kFactors>;
  constexpr uint32_t kDepth = row_elements(kBytes);
  const uint32_t ring = shared_address(task.shared<std::byte>(kRingAt));
  const auto steps = static_cast<uint32_t>((k_end + kDepth - 1) / kDepth);
  const auto bring = [&](uint32_t step) TREK_TILE_LAMBDA {
    if (step < steps) {
      const uint32_t slot = ring + step % kRing * 2 * kPanelBytes;
      const int64_t k = int64_t{step} * kDepth;
      fetch<kBytes, kAByLine>(task, left, k, k_end - k, slot);
      fetch<kBytes, kBByLine>(task, right, k, k_end - k, slot + kPanelBytes);
    }
    commit_copies();
  };
#pragma unroll
  for (uint32_t i = 0; i < kWarpRows / 16; ++i)
#pragma unroll
    for (uint32_t j = 0; j < kWarpColumns / 2; ++j) sum[i][j] = 0;
  TREK_ROLLED
  for (uint32_t step = 0; step + 1 < kRing; ++step) bring(step);
  TREK_ROLLED
  for (uint32_t step = 0; step < steps; ++step) {
    const uint32_t slot = ring + step % kRing * 2 * kPanelBytes;
    wait_for_copies(kRing - 2);
    if (!left.aligned) align_rows<kBytes, kAByLine>(task, left, int64_t{step} * kDepth, slot);
    if (!right.aligned)
      align_rows<kBytes, kBByLine>(task, right, int64_t{step} * kDepth, slot + kPanelBytes);
    task.sync();  // everybody's copies are there, and the slot before has been read
    bring(step + kRing - 1);
    if (share.rows != 0 && share.columns != 0)
      multiply_slot<kFactors, kAByLine, kBByLine>(slot, slot + kPanelBytes, task.thread() % 32,
                                                  share, sum);
  }
  wait_for_copies(0);
  task.sync();
  join(task, share, sum);
}

}  // namespace tensor

// The part at (row, column) of a matrix of the batch, which ends at (end_row, end_column): to the result, or
// where the tail is not one for registers to shared memory at kValues, [rows][columns] of f32.
TREK_UNIT_CALL void multiply_part_tensor(Task task, int64_t batch, uint32_t row, uint32_t column,
                                         uint32_t end_row, uint32_t end_column) {
  using namespace tensor;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const bool a_by_line = of.a_k == 1;
  const bool b_by_line = of.b_k == 1;
  const auto type = static_cast<DType>(node.operand(0).dtype);
  const int64_t bytes = size_of(type);
  const std::byte* a = task.memory(node.operand(0)) +
                       bytes * (place_of(node, of.a_batch, batch) * of.a_matrix + row * of.a_row);
  const std::byte* b =
      task.memory(node.operand(1)) +
      bytes * (place_of(node, of.b_batch, batch) * of.b_matrix + column * of.b_column);
  const Side left = side_of(a, bytes * (a_by_line ? of.a_row : of.a_k), end_row - row);
  const Side right = side_of(b, bytes * (b_by_line ? of.b_column : of.b_k), end_column - column);
  const Share share = share_of(task.thread() / 32, left, right);
  float sum[kWarpRows / 16][kWarpColumns / 2];
  const auto part = [&]<Factors kFactors>() TREK_TILE_LAMBDA {
    if (a_by_line && b_by_line)
      multiply_part<kFactors, true, true>(task, left, right, of.k, share, sum);
    else if (a_by_line)
      multiply_part<kFactors, true, false>(task, left, right, of.k, share, sum);
    else if (b_by_line)
      multiply_part<kFactors, false, true>(task, left, right, of.k, share, sum);
    else
      multiply_part<kFactors, false, false>(task, left, right, of.k, share, sum);
  };
  if (type == DType::f32)
    part.template operator()<Factors::tf32>();
  else if (type == DType::bf16)
    part.template operator()<Factors::bf16>();
  else
    part.template operator()<Factors::f16>();
#pragma unroll
  for (uint32_t i = 0; i < kWarpRows / 16; ++i) {
    if (share.way != 0) break;
    const uint32_t my_row = share.row + 16 * i;
    if (of.tail_steps != Matrix::kNoTail)
      give_outputs(task, {batch, row + my_row, column + share.column, end_row, end_column}, sum[i]);
    else
      stage_outputs(task, my_row, share.column, left.lines, right.lines, false, sum[i]);
  }
  task.sync();
}

// The tile of number `tile` of a node whose product is `tensor`.
TREK_UNIT_CALL void multiply_tile_tensor(Task task, int64_t number) {
  const Matrix& of = task.node().matrix;
  const tensor::Tile tile = tensor::tile_of(of, number);
  for (int64_t row = tile.first_row; row < tile.end_row; row += kPartRows)
    for (int64_t column = tile.first_column; column < tile.end_column; column += kPartRows) {
      multiply_part_tensor(task, tile.batch, static_cast<uint32_t>(row),
                           static_cast<uint32_t>(column), static_cast<uint32_t>(tile.end_row),
                           static_cast<uint32_t>(tile.end_column));
      if (of.tail_steps != Matrix::kNoTail) continue;
      const int64_t rows = tile.end_row - row;
      const int64_t columns = tile.end_column - column;
      tensor::deliver_staged(task, tile.batch, row, column,
                             static_cast<uint32_t>(rows < kPartRows ? rows : kPartRows),
                             static_cast<uint32_t>(columns < kPartRows ? columns : kPartRows));
      task.sync();
    }
}

}  // namespace trek::device

#endif  // __CUDA__
