// Small products of f16 or bf16 by tensor cores, under fast numerics, whose operands lie at any address. Device only.
//
// A few thousand outputs, few columns or few rows: what counts is to have both operands on their way at once, and to
// meet few instructions. Both come as they lie, in runs of neighbouring elements, as the aligned pieces of 16 bytes
// around each run (cp.async), so odd lines are copied like others, and a run begins in shared memory as far behind a
// piece as it does in memory; or all runs as one, where they follow each other. What is behind the last k is 0. Then a warp has 16 rows by 8 columns at a time, whose
// elements it reads one by one. Where there are fewer such outputs than warps, several warps share their k; the
// sums are in shared memory, and are added in the order of those warps.
//
// All k come at once where they have room, else in parts of `depth`, the next ones while one is multiplied
// (matrix_small_cut.h).
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_small_cut.h"
#include "emulator/device/matrix_tensor.h"
#include "emulator/device/matrix_thin_tail.h"

namespace trek::device {

namespace small {

using tensor::Factors;
using tensor::opaque;

// One operand of a tile.
struct Side {
  const std::byte* data;  // of its first line, at the first k
  uint32_t pitch;         // of memory, from a run to the next
  uint32_t lines;
  uint32_t run;   // of shared memory
  uint32_t bits;  // lanes that bring a run
  bool by_line;   // a run is a line's k
  // A run is all lines at a k, the next one begins where it ends, and so it does in shared memory.
  TREK_TILE_MEMBER bool is_one_run() const { return bits == kAllLanes; }
};

// Starts bringing the places [k, k + there) to `panel`, with zeros behind them up to a multiple of kDepth. As many
// lanes as a run has pieces bring it, or a warp.
TREK_TILE void bring(const Task& task, const Side& side, uint32_t k, uint32_t there,
                     uint32_t panel) {
  const uint32_t whole = rounded_up(there, kDepth);
  uint32_t runs = side.by_line ? side.lines : whole;
  uint32_t exist = side.by_line ? side.lines : there;
  uint32_t bytes = 2 * (side.by_line ? there : side.lines);
  uint32_t room = side.run;  // that is written of a run
  if (side.is_one_run()) {
    bytes = there * side.pitch;
    room = rounded_up(whole * side.pitch + 14, 16);
    runs = exist = 1;
  }
  const uint32_t apart = kBlockThreads >> side.bits;  // runs
  const uint32_t lanes = 1 << side.bits;
  uint32_t run = task.thread() >> side.bits;
  const uint32_t first = 16 * (task.thread() & (lanes - 1));
  const std::byte* data =
      side.data + uint64_t{k} * (side.by_line ? 2 : side.pitch) + uint64_t{run} * side.pitch;
  uint32_t to = panel + run * side.run;
  TREK_ROLLED
  for (; run < runs; run += apart) {
    const uint32_t before = bytes_before(data);
    const std::byte* from = data - before;
    const uint32_t end = run < exist ? before + bytes : 0;
    TREK_ROLLED
    for (uint32_t at = first; at < room; at += 16 * lanes) {
      const uint32_t copied = at < end ? least(end - at, 16) : 0;
      tensor::copy_16(to + at, copied == 0 ? side.data - bytes_before(side.data) : from + at,
                      copied);
    }
    data += uint64_t{apart} * side.pitch;
    to += apart * side.run;
  }
}

// A side's part that is in shared memory: where each run begins there. Parts begin at multiples of 16 k, so a run
// lies behind a piece as the first part's does.
struct Panel {
  uint32_t at;
  uint32_t run;
  uint32_t before;  // of the first run
  uint32_t apart;   // of the runs
  TREK_TILE_MEMBER uint32_t begin(uint32_t number) const {
    return at + number * run + ((before + number * apart) & 15);
  }
};
TREK_TILE Panel panel_of(const Side& side, uint32_t at) {
  return {at, side.run, bytes_before(side.data), side.is_one_run() ? 0 : side.pitch & 15};
}

TREK_TILE uint32_t load_pair(uint32_t first, uint32_t second) {
  uint16_t low;
  uint16_t high;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(low) : "r"(first) : "memory");
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(high) : "r"(second) : "memory");
  return low | uint32_t{high} << 16;
}

// Where code is made for one product, a warp has two blocks of columns, which share what it reads of the left operand, four
// steps of k are read before the first of them is multiplied, and of operands whose runs are whole pieces a fragment is read
// at once. A kernel that interprets has neither the registers nor the room for so many forms.
inline constexpr uint32_t kAcross = kSpecialised ? kWide / kColumns : 1;  // blocks of columns
inline constexpr uint32_t kAhead = kSpecialised ? 4 : 1;                  // steps of k

// How a panel is read: its runs are lines of neighbouring k; they are whole pieces; it has eight lines at most.
struct Reading {
  bool by_line;
  bool in_pieces = false;
  bool is_short = false;
};

// The lines that a warp multiplies, so many times eight from `first` on of those that a panel has; one that there is not is
// the last again.
template <uint32_t kEights>
struct Lines {
  Panel panel;
  Reading reading;
  uint32_t all;
  uint32_t first;
  uint32_t begin[kEights];  // of this lane's: its run, or its place in every run
};
template <uint32_t kEights>
TREK_TILE Lines<kEights> lines_of(const Panel& panel, Reading reading, uint32_t all, uint32_t first,
                                  uint32_t lane) {
  Lines<kEights> lines = {panel, reading, all, first, {}};
#pragma unroll
  for (uint32_t i = 0; i < kEights; ++i) {
    const uint32_t line = least(first + 8 * i + lane / 4, all - 1);
    lines.begin[i] = reading.by_line ? panel.begin(line) : 2 * line;
  }
  return lines;
}
// A row of the four matrices of 8 x 8 that are two times eight lines at two times eight k, in the order of load(): lane l has
// row l mod 8 of matrix l / 8, which is a line's k, or all lines at a k.
TREK_TILE uint32_t piece_at(const Lines<2>& lines, uint32_t k, uint32_t lane) {
  const uint32_t row = lane % 8;
  const uint32_t line = lines.first + lane / 8 % 2 * 8;
  k += lane / 16 * 8;
  if (lines.reading.by_line) return lines.panel.begin(least(line + row, lines.all - 1)) + 2 * k;
  return lines.panel.begin(k + row) + 2 * least(line, (lines.all - 1) / 8 * 8);
}
// The elements that this lane gives to a product at `k`, which are at two and two places of k:
// pair[kEights * half + eight].
template <uint32_t kEights>
TREK_TILE void load(const Lines<kEights>& lines, uint32_t k, uint32_t lane,
                    uint32_t (&pair)[2 * kEights]) {
  const Reading& reading = lines.reading;
  if constexpr (kSpecialised) {
    if (reading.in_pieces) {
      if (reading.by_line)
        tensor::load_matrices<false>(pair, piece_at(lines, k, lane));
      else
        tensor::load_matrices<true>(pair, piece_at(lines, k, lane));
      return;
    }
  }
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t at = k + 2 * (lane % 4) + 8 * half;
    const uint32_t first = reading.by_line ? 2 * at : lines.panel.begin(at);
    const uint32_t second = reading.by_line ? first + 2 : lines.panel.begin(at + 1);
#pragma unroll
    for (uint32_t i = 0; i < kEights; ++i)
      pair[kEights * half + i] = i > 0 && reading.is_short
                                     ? 0
                                     : load_pair(lines.begin[i] + first, lines.begin[i] + second);
  }
}

// The warps of a tile: its outputs, 16 by 8 kAcross at a time, and how many warps share the k of the same ones.
struct Warps {
  uint32_t across;  // blocks of outputs
  uint32_t blocks;
  uint32_t ways;
};

// Calls act(x, i, at) for this lane's outputs of a block that begins at `row` and `column`: the i-th of the x-th eight
// columns, and its place among the sums of a tile of so many rows and columns.
template <class Act>
TREK_TILE void each_output(uint32_t row, uint32_t column, uint32_t rows, uint32_t columns,
                           uint32_t lane, Act act) {
#pragma unroll
  for (uint32_t x = 0; x < kAcross; ++x)
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t r = row + lane / 4 + i / 2 * 8;
      const uint32_t c = column + 2 * (lane % 4) + x * kColumns + i % 2;
      if (r < rows && c < columns) act(x, i, r * columns + c);
    }
}

// sum += the products of kSteps steps of k, `apart` from each other.
template <uint32_t kSteps>
TREK_TILE void multiply_steps(const Lines<2>& left, const Lines<kAcross>& right, uint32_t k,
                              uint32_t apart, uint32_t lane, bool is_bf16,
                              float (&sum)[kAcross][4]) {
  uint32_t a[kSteps][4];
  uint32_t b[kSteps][2 * kAcross];
#pragma unroll
  for (uint32_t s = 0; s < kSteps; ++s) {
    load(left, k + s * apart, lane, a[s]);
    load(right, k + s * apart, lane, b[s]);
  }
#pragma unroll
  for (uint32_t s = 0; s < kSteps; ++s)
#pragma unroll
    for (uint32_t x = 0; x < kAcross; ++x) {
      if (x > 0 && right.reading.is_short) continue;
      if (is_bf16)
        tensor::multiply<Factors::bf16>(sum[x], a[s], b[s][x], b[s][kAcross + x]);
      else
        tensor::multiply<Factors::f16>(sum[x], a[s], b[s][x], b[s][kAcross + x]);
    }
}

// Adds the products of a part's k to the sums, [way][row][column].
TREK_TILE void multiply_part(const Task& task, const Side& left, const Side& right, Reading of_left,
                             Reading of_right, const Warps& warps, bool is_bf16, bool is_first,
                             uint32_t depth, uint32_t slot, uint32_t right_at) {
  const Panel a_panel = panel_of(left, slot);
  const Panel b_panel = panel_of(right, slot + right_at);
  const uint32_t warp = opaque(task.thread()) / 32;
  const uint32_t lane = opaque(task.thread()) % 32;
  const uint32_t way = warp % warps.ways;
  const uint32_t apart = warps.ways * kDepth;
  float* sums = task.shared<float>(shared_at::kValues) + way * left.lines * right.lines;
  TREK_ROLLED
  for (uint32_t block = warp / warps.ways; block < warps.blocks; block += kWarps / warps.ways) {
    const uint32_t down = block / warps.across;
    const uint32_t row = down * kRows;
    const uint32_t column = (block - down * warps.across) * kColumns * kAcross;
    const Lines<2> a = lines_of<2>(a_panel, of_left, left.lines, row, lane);
    const Lines<kAcross> b = lines_of<kAcross>(b_panel, of_right, right.lines, column, lane);
    float sum[kAcross][4] = {};
    const auto each = [&](auto act) TREK_TILE_LAMBDA {
      each_output(row, column, left.lines, right.lines, lane, act);
    };
    if (!is_first)
      each([&](uint32_t x, uint32_t i, uint32_t at) TREK_TILE_LAMBDA { sum[x][i] = sums[at]; });
    uint32_t k = way * kDepth;
    if constexpr (kAhead > 1) {
      TREK_ROLLED
      for (; k + (kAhead - 1) * apart < depth; k += kAhead * apart)
        multiply_steps<kAhead>(a, b, k, apart, lane, is_bf16, sum);
    }
    TREK_ROLLED
    for (; k < depth; k += apart) multiply_steps<1>(a, b, k, apart, lane, is_bf16, sum);
    each([&](uint32_t x, uint32_t i, uint32_t at) TREK_TILE_LAMBDA { sums[at] = sum[x][i]; });
  }
}

// What a step of a tail has beside the value of an output in this column, of this element.
TREK_TILE float load_beside(const Task& task, const Node& node, const TailStep& step,
                            int64_t column, int64_t element) {
  if (step.second == TailStep::scalar) return as_float(task.scalar(step.index));
  if (!step.reads_operand()) return 0;
  const Operand& from = node.operand(step.index);
  return as_float(load32(task.memory(from), static_cast<DType>(from.dtype),
                         step.second == TailStep::row ? column : element));
}

// The sums of an output's warps to the result, or where the tail is not one for registers to those of the first warp.
TREK_TILE void finish(const Task& task, const tensor::Tile& tile, uint32_t rows, uint32_t columns,
                      uint32_t ways) {
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const Operand& to = node.result(0);
  const bool in_registers = of.tail_steps != Matrix::kNoTail;
  float* sums = task.shared<float>(shared_at::kValues);
  const uint32_t outputs = rows * columns;
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < outputs; i += kBlockThreads) {
    float value = thin::sum_of_blocks(sums + i, ways, outputs);
    if (!in_registers) {
      sums[i] = value;
      continue;
    }
    const uint32_t row = i / columns;
    const int64_t column = tile.first_column + (i - row * columns);
    const int64_t element = (tile.batch * of.m + tile.first_row + row) * of.n + column;
    each_row<kMaxTail>(of.tail_steps, [&](uint32_t s) TREK_TILE_LAMBDA {
      const TailStep step = of.tail[s];
      value = thin::apply_tail_step(step, value, load_beside(task, node, step, column, element));
    });
    store32(task.memory(to), static_cast<DType>(to.dtype), element, bits_of(value));
  }
}

}  // namespace small

// The tile of number `number` of a node whose product is `small`.
TREK_UNIT_CALL void multiply_tile_small(Task task, int64_t number) {
  using namespace small;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const Small& cut = of.small;
  const tensor::Tile tile = tensor::tile_of(of, number);
  const auto rows = static_cast<uint32_t>(tile.end_row - tile.first_row);
  const auto columns = static_cast<uint32_t>(tile.end_column - tile.first_column);
  const bool a_by_line = of.a_k == 1;
  const bool b_by_line = of.b_k == 1;
  const Side left = {
      task.memory(node.operand(0)) +
          2 * (tensor::matrix_of(node, of.a_batch, tile) * of.a_matrix + tile.first_row * of.a_row),
      static_cast<uint32_t>(2 * (a_by_line ? of.a_row : of.a_k)),
      rows,
      cut.left_run,
      cut.left_bits,
      a_by_line};
  const Side right = {
      task.memory(node.operand(1)) + 2 * (tensor::matrix_of(node, of.b_batch, tile) * of.b_matrix +
                                          tile.first_column * of.b_column),
      static_cast<uint32_t>(2 * (b_by_line ? of.b_column : of.b_k)),
      columns,
      cut.right_run,
      cut.right_bits,
      b_by_line};
  Warps warps;
  warps.across = (columns + kColumns * kAcross - 1) / (kColumns * kAcross);
  warps.blocks = (rows + kRows - 1) / kRows * warps.across;
  warps.ways = ways_of(warps.blocks);
  const bool is_bf16 = static_cast<DType>(node.operand(0).dtype) == DType::bf16;
  const auto k_end = static_cast<uint32_t>(of.k);
  const uint32_t ring = shared_address(task.shared<std::byte>(cut.ring));
  const auto there = [&](uint32_t part)
                         TREK_TILE_LAMBDA { return least(k_end - part * cut.depth, cut.depth); };
  const auto ask = [&](uint32_t part) TREK_TILE_LAMBDA {
    if (part < cut.parts) {
      const uint32_t slot = ring + (part & (cut.slots - 1U)) * cut.slot;
      bring(task, left, part * cut.depth, there(part), slot);
      bring(task, right, part * cut.depth, there(part), slot + cut.right);
    }
    commit_copies();
  };
  const uint32_t ahead = cut.slots - 1;
  // Compiled programs ask for operands that nothing writes before the task's inputs are there.
  const bool waits = kSpecialised && waits_itself(node);
  if (waits) {
    TREK_ROLLED
    for (uint32_t turn = 0; turn < ahead; ++turn) ask(turn);
    if (!await_inputs()) {
      wait_for_copies(0);
      return task.sync();
    }
  }
  TREK_ROLLED
  for (uint32_t turn = waits ? ahead : 0; turn < cut.parts + ahead; ++turn) {
    if (turn >= ahead) {
      wait_for_copies(ahead - 1);
      task.sync();  // everybody's copies are there, and the slot before has been read
    }
    ask(turn);
    if (turn < ahead) continue;
    const uint32_t part = turn - ahead;
    const uint32_t slot = ring + (part & (cut.slots - 1U)) * cut.slot;
    const uint32_t depth = rounded_up(there(part), kDepth);
    const auto multiply = [&](Reading of_left, Reading of_right) TREK_TILE_LAMBDA {
      multiply_part(task, left, right, of_left, of_right, warps, is_bf16, part == 0, depth, slot,
                    cut.right);
    };
    if constexpr (kSpecialised) {
      multiply({a_by_line, cut.left_in_pieces, of.m <= kColumns},
               {b_by_line, cut.right_in_pieces, of.tile_columns <= kColumns || of.n <= kColumns});
    } else if (a_by_line) {
      b_by_line ? multiply({true}, {true}) : multiply({true}, {false});
    } else {
      b_by_line ? multiply({false}, {true}) : multiply({false}, {false});
    }
  }
  wait_for_copies(0);
  task.sync();
  finish(task, tile, rows, columns, warps.ways);
  if (of.tail_steps != Matrix::kNoTail) return;
  task.sync();
  tensor::deliver_staged(task, tile.batch, tile.first_row, tile.first_column, rows, columns);
}

}  // namespace trek::device

#endif  // __CUDA__
