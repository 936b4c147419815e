// The f32 matrix product on a device, by the dot order, at the speed of its multipliers.
//
// The dot order sums blocks of 64 k each on its own before it adds them up, so a small tile can give every
// warp a block of k: eight warps multiply eight blocks at once, and their sums are then added in ascending
// order. A large tile gives every warp its own outputs instead. What limits small tiles is the memory that
// the block shares (16 bytes a thread take as long as 16 multiplications), so a lane works on 4 × 4 or
// 8 × 8 outputs, from lines of four elements.
//
// Panels in shared memory, of Depth k: an operand whose k are neighbours in memory lies as
// [line][Depth + 4], one whose lines are neighbours as [Depth][lines]; what is outside of the operands is 0,
// but for the left operand behind the last k, where it is -0: a product of -0 changes no sum, not even -0.
#pragma once

#ifdef __CUDA__

#include "emulator/device/stage.h"
#include "isa/semantics/dot.h"

namespace trek::device {

namespace matrix_f32 {

// What holds accumulators must be copied into its caller, or they go through memory.
#define TREK_TILE TREK_ON_DEVICE static inline __attribute__((always_inline))

using semantics::kDotBlock;
using semantics::kDotSegment;

template <uint32_t kDepth>
inline constexpr uint32_t kLinePitch = kDepth + 4;  // keeps eight lines in different banks
inline constexpr uint32_t kWarps = kBlockThreads / 32;

using Float2 = float __attribute__((ext_vector_type(2)));
using Float4 = float __attribute__((ext_vector_type(4)));

// `bytes` of the 16 or 4 at `from` to shared memory, zeros after them.
TREK_TILE void copy16(float* to, const float* from, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
TREK_TILE void copy4(float* to, const float* from, uint32_t bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
TREK_TILE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
TREK_TILE void wait_for_copies(bool but_the_last) {
  if (but_the_last)
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  else
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

// One operand of a tile: its lines (rows of the left, columns of the right) from `data` on.
struct Side {
  const float* data;
  int64_t pitch;    // elements from one line to the next, or from one k to the next
  uint32_t lines;   // that exist
  uint32_t padded;  // lines of the panel
  bool aligned;     // all of its lines of four elements are 16-byte aligned
};

// Elements of a panel.
template <uint32_t kDepth, bool kByLine>  // kByLine: k are neighbours
TREK_TILE uint32_t panel_size(uint32_t lines) {
  return kByLine ? lines * kLinePitch<kDepth> : lines * kDepth;
}

// Starts copying the `length` places from k on.
template <uint32_t kDepth, bool kByLine>
TREK_TILE void fetch(const Task& task, const Side& side, int64_t k, uint32_t length, float* panel) {
  // Along the neighbours, and across them.
  const uint32_t along = kByLine ? kDepth : side.padded;
  const uint32_t across = kByLine ? side.padded : kDepth;
  const uint32_t along_end = kByLine ? length : side.lines;
  const uint32_t across_end = kByLine ? side.lines : length;
  const uint32_t pitch = kByLine ? kLinePitch<kDepth> : side.padded;
  const float* base = kByLine ? side.data + k : side.data + k * side.pitch;
  if (side.aligned) {
    const uint32_t chunks = along / 4;
    for (uint32_t i = task.thread(); i < chunks * across; i += kBlockThreads) {
      const uint32_t row = i / chunks;
      const uint32_t at = (i - row * chunks) * 4;
      const bool inside = row < across_end && at < along_end;
      const uint32_t there = inside ? (along_end - at < 4 ? along_end - at : 4) : 0;
      copy16(panel + row * pitch + at, inside ? base + row * side.pitch + at : side.data,
             there * 4);
    }
  } else {
    for (uint32_t i = task.thread(); i < along * across; i += kBlockThreads) {
      const uint32_t row = i / along;
      const uint32_t at = i - row * along;
      const bool inside = row < across_end && at < along_end;
      copy4(panel + row * pitch + at, inside ? base + row * side.pitch + at : side.data,
            inside ? 4 : 0);
    }
  }
}

// Makes the left panel -0 from place `length` on. The copies of all threads must be there.
template <uint32_t kDepth, bool kByLine>
TREK_TILE void end_panel(const Task& task, uint32_t lines, uint32_t length, float* panel) {
  const uint32_t tail = kDepth - length;
  for (uint32_t i = task.thread(); i < tail * lines; i += kBlockThreads) {
    const uint32_t line = i / tail;
    const uint32_t place = length + i - line * tail;
    panel[kByLine ? line * kLinePitch<kDepth> + place : place * lines + line] = -0.0f;
  }
}

// Which lines of its warp's tile a lane has: `group` of `groups`, of M lines.
template <uint32_t M, bool kByLine>
TREK_TILE uint32_t line_of(uint32_t group, uint32_t groups, uint32_t i) {
  return kByLine ? group + groups * i : group * 4 + groups * 4 * (i / 4) + i % 4;
}

// The elements of M lines at two neighbouring k.
template <uint32_t M, uint32_t kDepth, bool kByLine>
TREK_TILE void take_two(const float* panel, uint32_t pitch, uint32_t group, uint32_t groups,
                        uint32_t k, float (&values)[2][M]) {
  if constexpr (kByLine) {
#pragma unroll
    for (uint32_t i = 0; i < M; ++i) {
      const auto two = *reinterpret_cast<const Float2*>(
          panel + line_of<M, true>(group, groups, i) * kLinePitch<kDepth> + k);
      values[0][i] = two.x;
      values[1][i] = two.y;
    }
  } else {
#pragma unroll
    for (uint32_t q = 0; q < 2; ++q)
#pragma unroll
      for (uint32_t i = 0; i < M; i += 4) {
        const auto four = *reinterpret_cast<const Float4*>(panel + (k + q) * pitch +
                                                           line_of<M, false>(group, groups, i));
        values[q][i] = four.x;
        values[q][i + 1] = four.y;
        values[q][i + 2] = four.z;
        values[q][i + 3] = four.w;
      }
  }
}

// Adds the products of Depth k to the sums of a lane's M × M outputs.
template <uint32_t M, uint32_t kDepth, bool kLeftByLine, bool kRightByLine>
TREK_TILE void multiply(const float* left, uint32_t left_pitch, const float* right,
                        uint32_t right_pitch, uint32_t down, uint32_t across, float (&sum)[M][M]) {
#pragma clang loop unroll_count(M == 8 ? 1 : 4)
  for (uint32_t k = 0; k < kDepth; k += 2) {
    float x[2][M];
    float y[2][M];
    take_two<M, kDepth, kLeftByLine>(left, left_pitch, down, 4, k, x);
    take_two<M, kDepth, kRightByLine>(right, right_pitch, across, 8, k, y);
#pragma unroll
    for (uint32_t q = 0; q < 2; ++q)
#pragma unroll
      for (uint32_t i = 0; i < M; ++i)
#pragma unroll
        for (uint32_t j = 0; j < M; ++j) sum[i][j] = semantics::fma(x[q][i], y[q][j], sum[i][j]);
  }
}

template <uint32_t M>
TREK_TILE void clear(float (&sum)[M][M]) {
#pragma unroll
  for (uint32_t i = 0; i < M; ++i)
#pragma unroll
    for (uint32_t j = 0; j < M; ++j) sum[i][j] = 0;
}

// How the warps of a block stand over a tile.
struct Layout {
  uint32_t rows;  // of whole warps' tiles
  uint32_t columns;
  uint32_t across;    // warps
  uint32_t outputs;   // warps that share a block of k
  uint32_t parallel;  // blocks of k at once
};

template <uint32_t M>
TREK_TILE Layout layout_of(uint32_t rows, uint32_t columns) {
  constexpr uint32_t kRows = 4 * M;
  constexpr uint32_t kColumns = 8 * M;
  const uint32_t down = (rows + kRows - 1) / kRows;
  const uint32_t across = (columns + kColumns - 1) / kColumns;
  return {down * kRows, across * kColumns, across, down * across, kWarps / (down * across)};
}

// A tile, and where a thread stands in it.
struct Place {
  uint32_t block;  // of the blocks of k at once
  uint32_t down;   // its warp's tile
  uint32_t across;
  uint32_t lane_down;
  uint32_t lane_across;
};
TREK_TILE Place place_of_thread(uint32_t thread, const Layout& layout) {
  const uint32_t warp = thread / 32;
  const uint32_t mine = warp % layout.outputs;
  return {warp / layout.outputs, mine / layout.across, mine % layout.across, thread % 32 / 8,
          thread % 8};
}
template <uint32_t M, bool kLeftByLine>
TREK_TILE uint32_t row_of(const Place& at, uint32_t i) {
  return at.down * 4 * M + line_of<M, kLeftByLine>(at.lane_down, 4, i);
}
template <uint32_t M, bool kRightByLine>
TREK_TILE uint32_t column_of(const Place& at, uint32_t j) {
  return at.across * 8 * M + line_of<M, kRightByLine>(at.lane_across, 8, j);
}

// A lane's M × M numbers in shared memory, in lines of four side by side with those of other lanes.
template <uint32_t M>
TREK_TILE Float4* kept(float* base, uint32_t thread) {
  return reinterpret_cast<Float4*>(base) + (thread / 32) * (M * M / 4 * 32) + thread % 32;
}

// Every warp has outputs of its own, all of k: panels of the next k come while those at hand are
// multiplied. With M = 8 the segment's sums are kept in shared memory (there is one: k is at most a
// segment), because sixty-four registers more would not be had.
template <uint32_t M, bool kLeftByLine, bool kRightByLine>
TREK_TILE void multiply_outputs(const Task& task, const Side& left, const Side& right,
                                const Layout& layout, int64_t k_end, uint32_t rows,
                                uint32_t columns) {
  constexpr uint32_t kDepth = M == 8 ? 32 : 64;
  constexpr uint32_t kSteps = kDotBlock / kDepth;  // of a block
  const Place at = place_of_thread(task.thread(), layout);
  const uint32_t left_size = panel_size<kDepth, kLeftByLine>(layout.rows);
  const uint32_t pair = left_size + panel_size<kDepth, kRightByLine>(layout.columns);
  float* totals = task.shared<float>(shared_at::kValues);
  float* panels = task.shared<float>(shared_at::kWork);
  const bool two = 2 * pair <= (kSharedBytes - shared_at::kWork) / 4;
  const uint32_t left_at = kLeftByLine ? at.down * 4 * M * kLinePitch<kDepth> : at.down * 4 * M;
  const uint32_t right_at =
      kRightByLine ? at.across * 8 * M * kLinePitch<kDepth> : at.across * 8 * M;
  const auto steps = static_cast<uint32_t>((k_end + kDepth - 1) / kDepth);
  const auto fetch_pair = [&](uint32_t step) __attribute__((always_inline)) {
    float* to = panels + (two ? step % 2 * pair : 0);
    const int64_t k = int64_t{step} * kDepth;
    const auto length = static_cast<uint32_t>(k_end - k < kDepth ? k_end - k : kDepth);
    fetch<kDepth, kLeftByLine>(task, left, k, length, to);
    fetch<kDepth, kRightByLine>(task, right, k, length, to + left_size);
  };
  float sum[M][M];
  float segment[M][M];
  float total[M][M];
  clear(sum);
  if constexpr (M == 4) clear(total);
  if (steps > 0) fetch_pair(0);
  commit_copies();
  for (uint32_t step = 0; step < steps; ++step) {
    if (two && step + 1 < steps) fetch_pair(step + 1);
    commit_copies();
    wait_for_copies(two);
    task.sync();
    float* panel = panels + (two ? step % 2 * pair : 0);
    const int64_t left_over = k_end - int64_t{step} * kDepth;
    if (left_over < kDepth) {
      end_panel<kDepth, kLeftByLine>(task, layout.rows, static_cast<uint32_t>(left_over), panel);
      task.sync();
    }
    if (step % kSteps == 0) clear(sum);
    if (at.block == 0)
      multiply<M, kDepth, kLeftByLine, kRightByLine>(panel + left_at, layout.rows,
                                                     panel + left_size + right_at, layout.columns,
                                                     at.lane_down, at.lane_across, sum);
    const bool last = step + 1 == steps;
    const uint32_t block = step / kSteps;
    if (step % kSteps == kSteps - 1 || last) {
      const uint32_t within = block % (kDotSegment / kDotBlock);
      const bool ends = within == kDotSegment / kDotBlock - 1 || last;
      if constexpr (M == 4) {
#pragma unroll
        for (uint32_t i = 0; i < M; ++i)
#pragma unroll
          for (uint32_t j = 0; j < M; ++j) {
            segment[i][j] = within == 0 ? sum[i][j] : segment[i][j] + sum[i][j];
            if (ends)
              total[i][j] =
                  block < kDotSegment / kDotBlock ? segment[i][j] : total[i][j] + segment[i][j];
          }
      } else if (at.block == 0) {
        Float4* mine = kept<M>(totals, task.thread());
#pragma unroll
        for (uint32_t i = 0; i < M; ++i)
#pragma unroll
          for (uint32_t j = 0; j < M; j += 4) {
            const uint32_t v = (i * M + j) / 4 * 32;
            Float4 four = {sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]};
            if (block > 0) four = mine[v] + four;
            if (!last) {
              mine[v] = four;
            } else {
              sum[i][j] = four.x;
              sum[i][j + 1] = four.y;
              sum[i][j + 2] = four.z;
              sum[i][j + 3] = four.w;
            }
          }
      }
    }
    task.sync();
    if (!two && !last) fetch_pair(step + 1);
  }
  if (at.block != 0) return;
#pragma unroll
  for (uint32_t i = 0; i < M; ++i)
#pragma unroll
    for (uint32_t j = 0; j < M; ++j) {
      const uint32_t row = row_of<M, kLeftByLine>(at, i);
      const uint32_t column = column_of<M, kRightByLine>(at, j);
      if (row >= rows || column >= columns) continue;
      if constexpr (M == 4)
        totals[row * columns + column] = total[i][j];
      else
        totals[row * columns + column] = sum[i][j];
    }
}

// Warps share the outputs and have blocks of k of their own, whose sums meet in shared memory.
template <uint32_t M, bool kLeftByLine, bool kRightByLine>
TREK_TILE void multiply_blocks(const Task& task, const Side& left, const Side& right,
                               const Layout& layout, int64_t k_end, uint32_t rows,
                               uint32_t columns) {
  constexpr uint32_t kDepth = kDotBlock;
  constexpr uint32_t kSegmentBlocks = kDotSegment / kDotBlock;
  const Place at = place_of_thread(task.thread(), layout);
  const uint32_t left_size = panel_size<kDepth, kLeftByLine>(layout.rows);
  const uint32_t pair = left_size + panel_size<kDepth, kRightByLine>(layout.columns);
  const uint32_t outputs = layout.rows * layout.columns;
  const auto blocks = static_cast<uint32_t>((k_end + kDotBlock - 1) / kDotBlock);
  float* totals = task.shared<float>(shared_at::kValues);
  float* segments = totals + outputs;
  const uint32_t work_room = (kSharedBytes - shared_at::kWork) / 4;
  // All of k at once may lie over the totals, which come when the panels have been read.
  const bool one_round = blocks <= layout.parallel && blocks * outputs <= work_room &&
                         blocks * pair <= (kSharedBytes - shared_at::kSlots) / 4;
  float* panels = task.shared<float>(one_round ? shared_at::kSlots : shared_at::kWork);
  float* sums = task.shared<float>(shared_at::kWork);
  uint32_t at_once = layout.parallel < blocks ? layout.parallel : blocks;
  while (!one_round && at_once > 1 && (at_once * pair > work_room || at_once * outputs > work_room))
    --at_once;
  const uint32_t left_at = kLeftByLine ? at.down * 4 * M * kLinePitch<kDepth> : at.down * 4 * M;
  const uint32_t right_at =
      kRightByLine ? at.across * 8 * M * kLinePitch<kDepth> : at.across * 8 * M;
  for (uint32_t first = 0; first < blocks; first += at_once) {
    const uint32_t here = blocks - first < at_once ? blocks - first : at_once;
    for (uint32_t b = 0; b < here; ++b) {
      const int64_t k = int64_t{first + b} * kDotBlock;
      const auto length = static_cast<uint32_t>(k_end - k < kDotBlock ? k_end - k : kDotBlock);
      fetch<kDepth, kLeftByLine>(task, left, k, length, panels + b * pair);
      fetch<kDepth, kRightByLine>(task, right, k, length, panels + b * pair + left_size);
    }
    commit_copies();
    wait_for_copies(false);
    task.sync();
    const int64_t left_over = k_end - int64_t{first + here - 1} * kDotBlock;
    if (left_over < kDotBlock) {
      end_panel<kDepth, kLeftByLine>(task, layout.rows, static_cast<uint32_t>(left_over),
                                     panels + (here - 1) * pair);
      task.sync();
    }
    float sum[M][M];
    clear(sum);
    const bool works = at.block < here;
    const float* panel = panels + at.block * pair;
    if (works)
      multiply<M, kDepth, kLeftByLine, kRightByLine>(panel + left_at, layout.rows,
                                                     panel + left_size + right_at, layout.columns,
                                                     at.lane_down, at.lane_across, sum);
    task.sync();  // the panels have been read: the sums go over them
    if (works) {
#pragma unroll
      for (uint32_t i = 0; i < M; ++i)
#pragma unroll
        for (uint32_t j = 0; j < M; ++j)
          sums[at.block * outputs + row_of<M, kLeftByLine>(at, i) * layout.columns +
               column_of<M, kRightByLine>(at, j)] = sum[i][j];
    }
    task.sync();
    for (uint32_t o = task.thread(); o < outputs; o += kBlockThreads) {
      const uint32_t row = o / layout.columns;
      const uint32_t column = o - row * layout.columns;
      if (row >= rows || column >= columns) continue;
      const uint32_t place = row * columns + column;
      float segment = first % kSegmentBlocks == 0 ? 0.0f : segments[place];
      for (uint32_t b = 0; b < here; ++b) {
        const uint32_t block = first + b;
        const uint32_t within = block % kSegmentBlocks;
        const float part = sums[b * outputs + o];
        segment = within == 0 ? part : segment + part;
        if (within == kSegmentBlocks - 1 || block + 1 == blocks)
          totals[place] = block < kSegmentBlocks ? segment : totals[place] + segment;
      }
      if (first + here < blocks) segments[place] = segment;
    }
    if (first + here < blocks) task.sync();
  }
  if (blocks == 0)
    for (uint32_t o = task.thread(); o < rows * columns; o += kBlockThreads) totals[o] = 0;
}

// The part of a tile that the warps cover at once, into shared memory at kValues: [rows][columns].
template <uint32_t M, bool kLeftByLine, bool kRightByLine>
TREK_TILE void multiply_part(const Task& task, Side left, Side right, const Layout& layout,
                             int64_t k_end, uint32_t rows, uint32_t columns) {
  left.padded = layout.rows;
  right.padded = layout.columns;
  if (layout.parallel == 1)
    multiply_outputs<M, kLeftByLine, kRightByLine>(task, left, right, layout, k_end, rows, columns);
  else
    multiply_blocks<M, kLeftByLine, kRightByLine>(task, left, right, layout, k_end, rows, columns);
}

// Whether a node's product comes here: f32 throughout, each operand with neighbours that can be told.
TREK_TILE bool suits(const Node& node) {
  const Matrix& of = node.matrix;
  return static_cast<DType>(node.operand(0).dtype) == DType::f32 &&
         static_cast<DType>(node.operand(1).dtype) == DType::f32 && node.deliver[0].narrow != 0 &&
         (of.a_k == 1 || of.a_row == 1) && (of.b_k == 1 || of.b_column == 1);
}

TREK_TILE bool is_aligned(const float* data, int64_t pitch) {
  return (reinterpret_cast<uint64_t>(data) & 15) == 0 && pitch % 4 == 0;
}

}  // namespace matrix_f32

// The tile of number `tile` of a node that suits.
TREK_UNIT_CALL void multiply_tile_f32(Task task, int64_t tile) {
  using namespace matrix_f32;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const int64_t batch = tile / (of.down * of.across);
  const int64_t within = tile - batch * of.down * of.across;
  const int64_t first_row = within / of.across * of.tile_rows;
  const int64_t first_column = within % of.across * of.tile_columns;
  const int64_t end_row = of.m - first_row < of.tile_rows ? of.m : first_row + of.tile_rows;
  const int64_t end_column =
      of.n - first_column < of.tile_columns ? of.n : first_column + of.tile_columns;
  const bool left_by_line = of.a_k == 1;
  const bool right_by_line = of.b_k == 1;
  const auto* a = reinterpret_cast<const float*>(task.memory(node.operand(0))) +
                  place_of(node, of.a_batch, batch) * of.a_matrix;
  const auto* b = reinterpret_cast<const float*>(task.memory(node.operand(1))) +
                  place_of(node, of.b_batch, batch) * of.b_matrix;
  // What the warps cover at once; a larger tile is worked on in parts.
  const bool large = of.k <= kDotSegment && of.tile_rows * of.tile_columns >= 128 * 64 &&
                     of.tile_rows >= 32 && of.tile_columns >= 64;
  const int64_t most = large ? 128 : 64;
  const auto part_rows = static_cast<uint32_t>(of.tile_rows < most ? of.tile_rows : most);
  const auto part_columns = static_cast<uint32_t>(of.tile_columns < most ? of.tile_columns : most);
  for (int64_t row = first_row; row < end_row; row += part_rows)
    for (int64_t column = first_column; column < end_column; column += part_columns) {
      const auto rows =
          static_cast<uint32_t>(end_row - row < part_rows ? end_row - row : part_rows);
      const auto columns = static_cast<uint32_t>(
          end_column - column < part_columns ? end_column - column : part_columns);
      Side left = {a + row * of.a_row, left_by_line ? of.a_row : of.a_k, rows, 0, false};
      Side right = {b + column * of.b_column, right_by_line ? of.b_column : of.b_k, columns, 0,
                    false};
      left.aligned = is_aligned(left.data, left.pitch);
      right.aligned = is_aligned(right.data, right.pitch);
      Positions where;
      where.width = columns;
      where.rows = of.result_rows;
      where.first_row = batch * of.m + row;
      where.columns = of.result_columns;
      where.first_column = column;
      const auto part = [&]<uint32_t M>() __attribute__((always_inline)) {
        const Layout layout = layout_of<M>(part_rows, part_columns);
        if (left_by_line && right_by_line)
          multiply_part<M, true, true>(task, left, right, layout, of.k, rows, columns);
        else if (left_by_line)
          multiply_part<M, true, false>(task, left, right, layout, of.k, rows, columns);
        else if (right_by_line)
          multiply_part<M, false, true>(task, left, right, layout, of.k, rows, columns);
        else
          multiply_part<M, false, false>(task, left, right, layout, of.k, rows, columns);
      };
      if (large)
        part.template operator()<8>();
      else
        part.template operator()<4>();
      task.sync();
      run(task, kDeliver, where, rows * columns, shared_at::kValues, 0);
      task.sync();
    }
}

#undef TREK_TILE

}  // namespace trek::device

#endif  // __CUDA__
