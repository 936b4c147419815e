// The f32 matrix product on a device, by the dot order, at the speed of its multipliers.
//
// What limits it: a scheduler gives out one instruction a cycle, so whatever is no multiplication costs one,
// and a multiplication one more where two of its registers are in one bank. Shared memory gives 16 bytes to
// each lane of a warp in two and a half cycles where lanes 2n and 2n + 1 or lanes n and n ^ 2 want the same
// ones, else in four, so a patch of 8 x 8 outputs, with 64 bytes for 64 multiplications, leaves it half idle.
// A thread has 168 registers where other warps are on the multiprocessor, and one that is spilled goes to the
// second-level cache, since shared memory has taken the first. And a branch, or a load that is waited for,
// costs thirty cycles, as much as thirty multiplications.
//
// There are two ways through a part of a tile (matrix_cut.h). In a large part, 128 x 128, all lanes go through
// k together, each with an 8 x 8 patch and two sums for each of its outputs, of the block and of the segment.
// Else groups of lanes take blocks of k of their own; their sums meet in shared memory and are added in
// ascending order.
//
// Panels in shared memory hold lines (rows of the left operand, columns of the right) as [k][lines]. An
// operand whose k are neighbours in memory is transposed on the way to a large part, by copies of single
// elements, eight k of four lines at once, which pass both memories without a conflict; parts for groups
// have such an operand as [lines][k]. What is outside of the operands is not copied and stands in outputs
// that nobody takes, but for places behind the last k: they are +0 on the right and -0 on the left, whose
// product -0 changes no sum.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_cut.h"
#include "emulator/device/stage.h"

namespace trek::device {

namespace matrix_f32 {

#ifndef TREK_MARK
#define TREK_MARK(n)
#endif

// What holds accumulators must be copied into its caller, or they go through memory.
#define TREK_TILE TREK_ON_DEVICE static inline __attribute__((always_inline))

using Float4 = float __attribute__((ext_vector_type(4)));
using Float2 = float __attribute__((ext_vector_type(2)));

// Shared memory by its addresses there, in bytes.
template <typename T>
using InShared = __attribute__((address_space(3))) T;
TREK_TILE Float4 load_four(uint32_t at) { return *(InShared<const Float4>*)(uintptr_t{at}); }
TREK_TILE Float2 load_two(uint32_t at) { return *(InShared<const Float2>*)(uintptr_t{at}); }
TREK_TILE void store_four(uint32_t at, Float4 v) { *(InShared<Float4>*)(uintptr_t{at}) = v; }
TREK_TILE void store_one(uint32_t at, float v) { *(InShared<float>*)(uintptr_t{at}) = v; }
TREK_TILE uint32_t address(const Task& task, uint32_t at) {
  return shared_address(task.shared<float>(at));
}

// Copies from memory to shared memory, which arrive later; without a branch.
TREK_TILE void copy_four(bool does, uint32_t to, const std::byte* from) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %0, 0; @p cp.async.cg.shared.global [%1], [%2], 16; }" ::"r"(
          static_cast<uint32_t>(does)),
      "r"(to), "l"(from)
      : "memory");
}
TREK_TILE void copy_one(bool does, uint32_t to, const std::byte* from) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %0, 0; @p cp.async.ca.shared.global [%1], [%2], 4; }" ::"r"(
          static_cast<uint32_t>(does)),
      "r"(to), "l"(from)
      : "memory");
}
TREK_TILE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Until all but the last `pending` groups of copies of this thread have arrived.
TREK_TILE void wait_for_copies(uint32_t pending) {
  if (pending == 0)
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  else if (pending == 1)
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  else
    asm volatile("cp.async.wait_group 2;" ::: "memory");
}

// One operand of a part: line 0 at k = 0, and the lines that exist.
struct Side {
  const std::byte* data;
  uint32_t lines;
};

// A part of a tile: its first output is at (row, column), among the rows of all batches. It lies at kPart in
// shared memory, and what is read of it behind a barrier takes no registers until then.
struct alignas(16) Part {
  Cut cut;
  Side left;
  Side right;
  int64_t row;
  int64_t column;
  int64_t k_end;
  uint32_t rows;
  uint32_t columns;
  uint32_t parts;  // of the tile
};
static_assert(sizeof(Part) <= kPartBytes);
TREK_TILE const Part& part_of(const Task& task) { return *task.shared<const Part>(kPart); }

// Writes `depth` k from k on to a panel, element by element: those behind the last are `behind`.
TREK_TILE void fill(uint32_t thread, uint32_t threads, const Side& side, const CutSide& cut,
                    uint32_t width_bits, uint32_t panel, int64_t k, int64_t k_end, float behind) {
  TREK_ROLLED
  for (uint32_t i = thread; i < 1u << (cut.row_bits + width_bits); i += threads) {
    const uint32_t row = i >> width_bits;
    const uint32_t column = i & ((1u << width_bits) - 1);
    const int64_t place = k + (cut.by_line != 0 ? column : row);
    float value = behind;
    if (place < k_end && (cut.by_line != 0 ? row : column) < side.lines) {
      const int64_t from = cut.by_line != 0 ? int64_t{row} * cut.step + place * 4
                                            : place * cut.step + column * 4;
      value = *reinterpret_cast<const float*>(side.data + from);
    }
    store_one(panel + row * cut.pitch + column * 4, value);
  }
}

// ---- large parts ---------------------------------------------------------------------------------

namespace large {

inline constexpr uint32_t kPitch = (kLargeLines + kPad) * 4;  // bytes from one k to the next
inline constexpr uint32_t kPanel = kStep * kPitch;
inline constexpr uint32_t kStage = 2 * kPanel;
inline constexpr uint32_t kLastStage = kMostAhead * kStage;  // of one that ends within
inline constexpr uint32_t kSegments = kPanels + kLastStage + kStage;
inline constexpr uint32_t kTotals = kSegments + kLargeLines * kLargeLines * 4;
static_assert(kSegments % 16 == 0);
static_assert(kTotals + kLargeLines * kLargeLines * 4 <= kSharedBytes);

// Rows of a patch whose segment's sums are in registers; those of the others are in shared memory, which a
// warp visits every 64 k.
inline constexpr uint32_t kRowsInRegisters = TREK_ROWS;

// What a thread copies of one operand for each kStep k.
struct Copier {
  const std::byte* from;
  uint32_t to;       // in the panel
  uint32_t apart;    // bytes from one of its copies to the next in memory
  uint32_t to_apart; // in the panel
  uint32_t advance;  // in memory from one kStep k to the next
  uint32_t count;    // copies that are inside, of 4; of fours 1 or 0
  bool fours;

  TREK_ON_DEVICE Copier(uint32_t thread, const Side& side, const CutSide& cut) {
    uint32_t line = thread / kStep;
    uint32_t place = thread % kStep;
    fours = cut.by_line == 0 && cut.unit_bits != 0;
    apart = 32 * cut.step;
    to_apart = 32 * 4;
    advance = kStep * 4;
    count = side.lines > line ? (side.lines - line + 31) / 32 : 0;
    if (cut.by_line == 0) {
      line = fours ? thread % 32 * 4 : thread % kLargeLines;
      place = fours ? thread / 32 : thread / kLargeLines;
      apart = 2 * cut.step;
      to_apart = 2 * kPitch;
      advance = kStep * cut.step;
      count = line < side.lines ? 4 : 0;
    }
    from = side.data + (cut.by_line != 0 ? uint64_t{line} * cut.step + place * 4
                                         : uint64_t{place} * cut.step + line * 4);
    to = place * kPitch + line * 4;
  }
  // Copies the next kStep k to a panel.
  TREK_ON_DEVICE void copy(uint32_t panel) {
    if (fours) {
      copy_four(count != 0, panel + to, from);
    } else {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i)
        copy_one(i < count, panel + to + i * to_apart, from + uint64_t{i} * apart);
    }
    from += advance;
  }
};

}  // namespace large

// The part at kPart, to kValues: [rows][columns]. A function of its own, since it takes all registers.
TREK_UNIT_CALL void multiply_large(Task task) {
  using namespace large;  // NOLINT(google-build-using-namespace)
  constexpr uint32_t kSegmentSteps = kSegment / kStep;
  const uint32_t thread = task.thread();
  const uint32_t panels = address(task, kPanels);
  // A warp has 32 x 64 outputs, 4 x 2 warps the part. Lanes beside and below one another alternate.
  const uint32_t lane = thread % 32;
  const uint32_t down = thread / 64 * 32 + ((lane >> 1 & 1) | (lane >> 2 & 2)) * 4;
  const uint32_t across =
      thread / 32 % 2 * 64 + ((lane & 1) | (lane >> 1 & 2) | (lane >> 2 & 4)) * 4;
  const uint32_t left_at = panels + down * 4;
  const uint32_t right_at = panels + kPanel + across * 4;
  const Part& part = part_of(task);
  const int64_t k_end = part.k_end;
  const auto whole = static_cast<uint32_t>(k_end / kStep);
  const uint32_t steps = whole + (k_end % kStep != 0 ? 1 : 0);
  if (steps != whole) {
    const int64_t k = int64_t{whole} * kStep;
    TREK_ROLLED
    for (uint32_t i = thread; i < 2 * kStep * kLargeLines; i += kBlockThreads) {
      const bool is_left = i < kStep * kLargeLines;
      const Side& side = is_left ? part.left : part.right;
      const CutSide& cut = is_left ? part.cut.left : part.cut.right;
      const uint32_t line = i % kLargeLines;
      const uint32_t place = i / kLargeLines % kStep;
      float value = is_left ? -0.0f : 0.0f;
      if (k + place < k_end && line < side.lines)
        value = *reinterpret_cast<const float*>(
            side.data + (cut.by_line != 0 ? int64_t{line} * cut.step + (k + place) * 4
                                          : (k + place) * cut.step + line * 4));
      store_one(panels + kLastStage + (is_left ? 0 : kPanel) + place * kPitch + line * 4, value);
    }
  }
  Copier of_left(thread, part.left, part.cut.left);
  Copier of_right(thread, part.right, part.cut.right);
#pragma unroll 1
  for (uint32_t i = 0; i < kMostAhead - 1; ++i) {
    if (i < whole) {
      of_left.copy(panels + i * kStage);
      of_right.copy(panels + i * kStage + kPanel);
    }
    commit_copies();
  }

  float sum[8][8];
  float segment[kRowsInRegisters == 0 ? 1 : kRowsInRegisters][8];
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i)
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j) {
      sum[i][j] = 0;
      if (i < kRowsInRegisters) segment[i][j] = 0;
    }
  wait_for_copies(kMostAhead - 2);
  task.sync();
  // The elements of a k are loaded while those of the one before are multiplied.
  Float4 x[2][2];
  Float4 y[2];
  uint32_t slot = whole == 0 ? kLastStage : 0;
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    x[0][h] = load_four(left_at + slot + h * 16 * 4);
    y[h] = load_four(right_at + slot + h * 32 * 4);
  }

#pragma unroll 1
  for (uint32_t step = 0; step < steps; ++step) {
#pragma unroll
    for (uint32_t k = 0; k < kStep; ++k) {
      const uint32_t ahead = (k + 1) % kStep;
      if (k == 1) {
        const uint32_t next = step + kMostAhead - 1;
        if (next < whole) of_left.copy(panels + next % kMostAhead * kStage);
      }
      if (k == 3) {
        const uint32_t next = step + kMostAhead - 1;
        if (next < whole) of_right.copy(panels + next % kMostAhead * kStage + kPanel);
        commit_copies();
      }
      if (k == kStep - 1) {  // the rest of this stage is in registers
        wait_for_copies(kMostAhead - 2);
        task.sync();
        slot = step + 1 == whole ? kLastStage : (step + 1) % kMostAhead * kStage;
      }
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h)
        x[ahead % 2][h] = load_four(left_at + slot + ahead * kPitch + h * 16 * 4);
#pragma unroll
      for (uint32_t j = 0; j < 8; ++j) {
        // To and fro, so that each multiplication shares an operand with the one before.
#pragma unroll
        for (uint32_t n = 0; n < 8; ++n) {
          const uint32_t i = j % 2 == 0 ? n : 7 - n;
          sum[i][j] = semantics::fma(x[k % 2][i / 4][i % 4], y[j / 4][j % 4], sum[i][j]);
        }
        if (j % 4 == 3) y[j / 4] = load_four(right_at + slot + ahead * kPitch + j / 4 * 32 * 4);
      }
    }
    const bool last = step + 1 == steps;
    if (step % (kBlock / kStep) != kBlock / kStep - 1 && !last) continue;
    const bool begins = step % kSegmentSteps < kBlock / kStep;
    const uint32_t segments = address(task, kSegments) + thread * 16;
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j) {
#pragma unroll
      for (uint32_t i = 0; i < kRowsInRegisters; ++i)
        segment[i][j] = begins ? sum[i][j] : segment[i][j] + sum[i][j];
      // In fours in which a row's register is in the other bank than the row's element.
#pragma unroll
      for (uint32_t i = kRowsInRegisters; i < 8; i += 4) {
        const uint32_t at = segments + (i / 4 * 8 + j) * kBlockThreads * 16;
        Float4 four = {sum[i + 1][j], sum[i][j], sum[i + 3][j], sum[i + 2][j]};
        if (!begins) four = load_four(at) + four;
        store_four(at, four);
      }
#pragma unroll
      for (uint32_t i = 0; i < 8; ++i) sum[i][j] = 0;
    }
    // Totals, where there are several segments, are in shared memory too.
    if (steps <= kSegmentSteps || (step % kSegmentSteps != kSegmentSteps - 1 && !last)) continue;
    const uint32_t totals = address(task, kTotals) + thread * 16;
#pragma unroll
    for (uint32_t v = 0; v < 16; ++v) {
      const uint32_t i = v / 8 * 4;
      const uint32_t at = segments + v * kBlockThreads * 16;
      const uint32_t to = totals + v * kBlockThreads * 16;
      Float4 four;
      if (i < kRowsInRegisters)
        four = {segment[i + 1][v % 8], segment[i][v % 8], segment[i + 3][v % 8],
                segment[i + 2][v % 8]};
      else
        four = load_four(at);
      if (step >= kSegmentSteps) four = load_four(to) + four;
      store_four(to, four);
      if (i < kRowsInRegisters) {
        segment[i + 1][v % 8] = four.x;
        segment[i][v % 8] = four.y;
        segment[i + 3][v % 8] = four.z;
        segment[i + 2][v % 8] = four.w;
      } else {
        store_four(at, four);
      }
    }
  }
  // Each thread has sums of its own; now they lie in rows.
#pragma unroll
  for (uint32_t i = kRowsInRegisters; i < 8; i += 4)
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j) {
      const Float4 four = load_four(address(task, kSegments) + thread * 16 +
                                    (i / 4 * 8 + j) * kBlockThreads * 16);
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) sum[i + e][j] = four[e ^ 1];
    }
  task.sync();
  float* totals = task.shared<float>(shared_at::kValues);
  const uint32_t rows = part_of(task).rows;
  const uint32_t columns = part_of(task).columns;
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i)
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j) {
      const uint32_t row = down + i % 4 + i / 4 * 16;
      const uint32_t column = across + j % 4 + j / 4 * 32;
      if (row < rows && column < columns)
        totals[row * columns + column] = i < kRowsInRegisters ? segment[i][j] : sum[i][j];
    }
}

// ---- the result ----------------------------------------------------------------------------------

// Four elements of a row, `apart` columns from one to the next, that a step reads; those in `columns` that are
// beyond the last column are any.
TREK_TILE Float4 operand_four(const Task& task, const Operand& of, int64_t row, int64_t column,
                              uint32_t apart) {
  const Node& node = task.node();
  const int64_t n = node.matrix.n;
  const auto* data = reinterpret_cast<const float*>(task.memory(of));
  int64_t at = 0;
  int64_t step = 0;
  if (of.map.kind == Map::same) {
    at = row * n + column;
    step = 1;
  } else if (of.map.kind == Map::axes) {
    const Axis* axes = node.axis(of.map.first);
    if (of.map.count != 2 || axes[1].size != n) {
      Float4 four = 0;
      TREK_ROLLED
      for (uint32_t e = 0; e < 4 && column + e * apart < n; ++e) {
        const float value = data[place_of(node, of.map, row * n + column + e * apart)];
        four = {four.y, four.z, four.w, value};
        if (e == 3 || column + (e + 1) * apart >= n)
          for (uint32_t rest = e; rest < 3; ++rest) four = {four.y, four.z, four.w, 0.0f};
      }
      return four;
    }
    at = row * axes[0].stride + column * axes[1].stride;
    step = axes[1].stride;
  }
  if (step == 0) return data[at];
  if (step == 1 && apart == 1 && column + 3 < n && (reinterpret_cast<uint64_t>(data + at) & 15) == 0)
    return *reinterpret_cast<const Float4*>(data + at);
  Float4 four = 0;
#pragma unroll
  for (uint32_t e = 0; e < 4; ++e)
    if (column + e * apart < n) four[e] = data[at + step * e * apart];
  return four;
}

// A plain tail at such four elements.
TREK_TILE Float4 with_tail(const Task& task, int64_t row, int64_t column, uint32_t apart,
                           Float4 main) {
  const Node& node = task.node();
  const Program& program = node.deliver[0];
  Float4 value = main;
  uint32_t slot = ~0u;  // of the step before
  TREK_ROLLED
  for (uint32_t s = 0; s < program.steps; ++s) {
    const Step step = *node.step(program.first_step + s);
    Float4 in[3];
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
      const Source source = step.inputs[i];
      in[i] = main;
      if (source.kind == Source::scalar) {
        in[i] = as_float(static_cast<uint32_t>(task.scalar(source.index)));
      } else if (source.kind == Source::slot && source.index == slot) {
        in[i] = value;
      } else if (source.kind == Source::slot) {
        uint32_t load = program.first_load;
        while (node.load(load)->slot != source.index) ++load;
        in[i] = operand_four(task, node.operand(node.load(load)->operand), row, column, apart);
      }
    }
#define TREK_TAIL(Id, expression)      \
  case Opcode::Id:                     \
    _Pragma("unroll")                  \
    for (uint32_t e = 0; e < 4; ++e) { \
      const float a = in[0][e];        \
      const float b = in[1][e];        \
      const float c = in[2][e];        \
      static_cast<void>(b);            \
      static_cast<void>(c);            \
      value[e] = expression;           \
    }                                  \
    break;
    switch (static_cast<Opcode>(step.opcode)) {
      TREK_F32_TAILS(TREK_TAIL)
      default:
        break;
    }
#undef TREK_TAIL
    slot = step.slot;
  }
  return value;
}

// Gives four elements of a row of a node with a plain tail.
TREK_TILE void give_four(const Task& task, int64_t row, int64_t column, uint32_t apart,
                         int64_t end_column, Float4 main) {
  const Node& node = task.node();
  if (node.deliver[0].steps != 0) main = with_tail(task, row, column, apart, main);
  auto* to = reinterpret_cast<float*>(task.memory(node.result(0))) + row * node.matrix.n + column;
  if (apart == 1 && column + 3 < end_column && (reinterpret_cast<uint64_t>(to) & 15) == 0) {
    *reinterpret_cast<Float4*>(to) = main;
    return;
  }
#pragma unroll
  for (uint32_t e = 0; e < 4; ++e)
    if (column + e * apart < end_column) to[e * apart] = main[e];
}

// Gives the totals of a part, which are at kValues, to the result.
TREK_TILE void deliver_part(const Task& task) {
  const Node& node = task.node();
  const Part part = part_of(task);
  if (part.cut.plain_tail != 0) {
    const uint32_t width = (part.columns + 3) / 4;
    const float* totals = task.shared<const float>(shared_at::kValues);
    TREK_ROLLED
    for (uint32_t i = task.thread(); i < part.rows * width; i += kBlockThreads) {
      const uint32_t row = i / width;
      const uint32_t column = (i - row * width) * 4;
      const float* from = totals + row * part.columns + column;
      // Behind the last column there is still shared memory.
      const Float4 four = {from[0], from[1], from[2], from[3]};
      give_four(task, part.row + row, part.column + column, 1, part.column + part.columns, four);
    }
    return;
  }
  Positions where;
  where.width = part.columns;
  where.rows = node.matrix.result_rows;
  where.first_row = part.row;
  where.columns = node.matrix.result_columns;
  where.first_column = part.column;
  run(task, kDeliver, where, part.rows * part.columns, shared_at::kValues, 0);
}

// ---- parts for groups ----------------------------------------------------------------------------

namespace groups {

// The threads that copy: all of them, or the upper half where it has nothing to multiply.
struct Crew {
  uint32_t thread;
  uint32_t bits;
};

// Brings kBlock / depth of the k of `groups` blocks, from k on of the first. Only the last block may end
// before: what is behind is `behind`.
TREK_TILE void bring_side(const Crew& crew, const Side& side, const CutSide& cut,
                          uint32_t depth_bits, uint32_t to, int64_t k, uint32_t groups,
                          int64_t k_end, float behind) {
  if (k + int64_t{groups - 1} * kBlock + (1u << depth_bits) > k_end) {
    --groups;
    fill(crew.thread, 1u << crew.bits, side, cut, cut.copies_bits + cut.unit_bits,
         to + groups * cut.bytes, k + groups * kBlock, k_end, behind);
  }
  // Threads lie along the rows of panels, then across them, then over groups.
  const uint32_t column = (crew.thread & ((1u << cut.copies_bits) - 1)) << cut.unit_bits;
  const uint32_t row_step = 1u << (crew.bits - cut.copies_bits);
  const uint32_t rows = groups << cut.row_bits;
  const uint32_t row_mask = (1u << cut.row_bits) - 1;
  uint32_t lines = side.lines;  // of the rows that are inside, or of all
  if (cut.by_line == 0) lines = column < side.lines ? 1u << cut.row_bits : 0;
  const std::byte* from =
      side.data + (cut.by_line != 0 ? k * 4 : k * cut.step) + column * 4;
  to += column * 4;
  const auto each = [&](auto copy) __attribute__((always_inline)) {
#pragma unroll 1
    for (uint32_t first = crew.thread >> cut.copies_bits; first < rows; first += 4 * row_step)
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t row = first + i * row_step;
        const uint32_t group = row >> cut.row_bits;
        const uint32_t within = row & row_mask;
        copy(row < rows && within < lines, to + group * cut.bytes + within * cut.pitch,
             from + uint64_t{group} * cut.group + uint64_t{within} * cut.step);
      }
  };
  if (cut.unit_bits != 0)
    each([](bool does, uint32_t at, const std::byte* of)
             __attribute__((always_inline)) { copy_four(does, at, of); });
  else
    each([](bool does, uint32_t at, const std::byte* of)
             __attribute__((always_inline)) { copy_one(does, at, of); });
}

// Stages in the order in which they are brought and multiplied.
struct Stage {
  uint32_t first = 0;  // block of the round
  uint32_t k = 0;      // within its blocks
  uint32_t slot = 0;   // where its panels lie

  TREK_ON_DEVICE void next(const Cut& cut) {
    slot = slot + 1 == cut.ahead ? 0 : slot + 1;
    k += cut.depth;
    if (k != kBlock) return;
    k = 0;
    first += cut.groups;
  }
};

TREK_TILE uint32_t blocks_of(const Part& part) {
  return static_cast<uint32_t>((part.k_end + kBlock - 1) / kBlock);
}

TREK_TILE void bring(const Task& task, const Crew& crew, Stage& stage) {
  const Part& part = part_of(task);
  const Cut& cut = part.cut;
  const uint32_t blocks = blocks_of(part);
  if (stage.first < blocks) {
    const uint32_t here = blocks - stage.first < cut.groups ? blocks - stage.first : cut.groups;
    const uint32_t to = address(task, kPanels) + stage.slot * cut.stage;
    const int64_t k = int64_t{stage.first} * kBlock + stage.k;
    const uint32_t depth_bits = cut.depth == kStep ? 3 : 4;
    bring_side(crew, part.left, cut.left, depth_bits, to, k, here, part.k_end,
               -0.0f);
    bring_side(crew, part.right, cut.right, depth_bits, to + cut.right.first, k, here,
               part.k_end, 0.0f);
    stage.next(cut);
  }
  commit_copies();
}

// How lanes stand over the lines of one operand, M for each of them.
template <uint32_t M>
TREK_TILE uint32_t line_of(bool by_line, uint32_t lane, uint32_t lanes, uint32_t i) {
  return by_line ? lane + lanes * i : lane * 4 + lanes * 4 * (i / 4) + i % 4;
}

// Where a lane stands in its group: lanes beside and below one another alternate.
struct Lane {
  uint32_t down;
  uint32_t across;
};
TREK_TILE uint32_t even_bits(uint32_t bits) {
  return (bits & 1) | (bits >> 1 & 2) | (bits >> 2 & 4) | (bits >> 3 & 8);
}
TREK_TILE Lane lane_of(uint32_t lane, uint32_t down_bits, uint32_t across_bits) {
  const uint32_t both = down_bits < across_bits ? down_bits : across_bits;
  const uint32_t pairs = lane & ((1u << 2 * both) - 1);
  const uint32_t rest = lane >> 2 * both << both;
  return {even_bits(pairs >> 1) | (across_bits > both ? 0 : rest),
          even_bits(pairs) | (across_bits > both ? rest : 0)};
}

// The elements of a lane's M lines at two neighbouring k, k from `at` on. The next line, or the next k, is
// `step` bytes on; the other half of a patch `half`.
template <uint32_t M, bool kByLine>
TREK_TILE void load_pair(uint32_t at, uint32_t step, uint32_t half, uint32_t k, float (&to)[2][M]) {
  if constexpr (kByLine) {
#pragma unroll
    for (uint32_t i = 0; i < M; ++i) {
      const Float2 two = load_two(at + i * step + k * 4);
      to[0][i] = two.x;
      to[1][i] = two.y;
    }
  } else {
#pragma unroll
    for (uint32_t q = 0; q < 2; ++q)
#pragma unroll
      for (uint32_t f = 0; f < M / 4; ++f) {
        const Float4 four = load_four(at + (k + q) * step + f * half);
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) to[q][4 * f + e] = four[e];
      }
  }
}

// Adds the products of `depth` k to the sums of a lane's patch.
template <uint32_t M, bool kLeftByLine, bool kRightByLine>
TREK_TILE void multiply(uint32_t left, uint32_t left_step, uint32_t left_half, uint32_t right,
                        uint32_t right_step, uint32_t right_half, uint32_t depth,
                        float (&sum)[M][M]) {
  float x[2][2][M];
  float y[2][2][M];
  load_pair<M, kLeftByLine>(left, left_step, left_half, 0, x[0]);
  load_pair<M, kRightByLine>(right, right_step, right_half, 0, y[0]);
#pragma unroll 1
  for (uint32_t k = 0; k < depth; k += kStep) {
#pragma unroll
    for (uint32_t p = 0; p < kStep / 2; ++p) {
      uint32_t ahead = 2 * p + 2;
      if (p == kStep / 2 - 1) {  // behind the last, some that are not wanted
        const bool more = k + kStep < depth;
        left += more ? kStep * (kLeftByLine ? 4 : left_step) : 0;
        right += more ? kStep * (kRightByLine ? 4 : right_step) : 0;
        ahead = 0;
      }
      load_pair<M, kLeftByLine>(left, left_step, left_half, ahead, x[(p + 1) % 2]);
      load_pair<M, kRightByLine>(right, right_step, right_half, ahead, y[(p + 1) % 2]);
#pragma unroll
      for (uint32_t q = 0; q < 2; ++q)
#pragma unroll
        for (uint32_t j = 0; j < M; ++j)
#pragma unroll
          for (uint32_t n = 0; n < M; ++n) {
            const uint32_t i = j % 2 == 0 ? n : M - 1 - n;
            sum[i][j] = semantics::fma(x[p % 2][q][i], y[p % 2][q][j], sum[i][j]);
          }
    }
  }
}

// Adds the sums of blocks first ... first + here - 1, which are there for every lane, and gives the totals
// behind the last block: to the result, or where it has a tail that is not plain, to kValues. Four v of lane l
// is the v-th of its patch.
template <uint32_t M>
TREK_TILE void add_blocks(const Task& task, uint32_t first, uint32_t here) {
  constexpr uint32_t kBits = M == 8 ? 3 : 2;
  const Part& part = part_of(task);
  const Cut& cut = part.cut;
  const uint32_t blocks = blocks_of(part);
  const uint32_t down_bits = cut.row_bits - kBits;
  const uint32_t across_bits = cut.column_bits - kBits;
  const uint32_t lane_bits = down_bits + across_bits;
  const uint32_t fours = M * M / 4 << lane_bits;
  const uint32_t sums = address(task, cut.sums);
  const uint32_t segments = sums + cut.groups * fours * 16;
  const uint32_t totals = segments + fours * 16;
  const uint32_t step = 16u << lane_bits;
  TREK_ROLLED
  for (uint32_t f = task.thread(); f < fours; f += kBlockThreads) {
    const uint32_t v = f >> lane_bits;
    const uint32_t lane = f & ((1u << lane_bits) - 1);
    uint32_t at = sums + (((v * cut.groups) << lane_bits) + lane) * 16;
    Float4 segment = 0;
    Float4 total = 0;
    if (blocks <= kMostGroups) {  // one segment
      uint32_t block = first;
      if (first != 0) {
        segment = load_four(segments + f * 16);
      } else {
        segment = load_four(at);
        at += step;
        ++block;
      }
#pragma unroll 4
      for (; block < first + here; ++block, at += step) segment = segment + load_four(at);
      total = segment;
    } else {
      if (first % kMostGroups != 0) segment = load_four(segments + f * 16);
      TREK_ROLLED
      for (uint32_t block = first; block < first + here; ++block, at += step) {
        const Float4 sum = load_four(at);
        segment = block % kMostGroups == 0 ? sum : segment + sum;
        if (block % kMostGroups != kMostGroups - 1 && block + 1 != blocks) continue;
        total = segment;
        if (block >= kMostGroups) total = load_four(totals + f * 16) + segment;
        if (block + 1 != blocks) store_four(totals + f * 16, total);
      }
    }
    if (first + here < blocks) {
      store_four(segments + f * 16, segment);
      continue;
    }
    const Lane stands = lane_of(lane, down_bits, across_bits);
    const bool by_line = cut.right.by_line != 0;
    const uint32_t row =
        line_of<M>(cut.left.by_line != 0, stands.down, 1u << down_bits, v / (M / 4));
    const uint32_t column =
        line_of<M>(by_line, stands.across, 1u << across_bits, v % (M / 4) * 4);
    const uint32_t apart = by_line ? 1u << across_bits : 1;
    if (row >= part.rows) continue;
    if (cut.plain_tail != 0) {
      if (column < part.columns)
        give_four(task, part.row + row, part.column + column, apart, part.column + part.columns,
                  total);
    } else {
      float* to = task.shared<float>(shared_at::kValues) + row * part.columns;
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e)
        if (column + e * apart < part.columns) to[column + e * apart] = total[e];
    }
  }
}

}  // namespace groups

// Multiplies a part by groups, and gives it as add_blocks() says.
template <uint32_t M>
TREK_TILE void multiply_groups(const Task& task) {
  using namespace groups;  // NOLINT(google-build-using-namespace)
  constexpr uint32_t kBits = M == 8 ? 3 : 2;
  Stage next;
  Crew crew = {task.thread(), 8};
  TREK_ROLLED
  for (uint32_t i = 1; i < part_of(task).cut.ahead; ++i) bring(task, crew, next);
  TREK_MARK(2)
  uint32_t lane_bits = part_of(task).cut.row_bits + part_of(task).cut.column_bits - 2 * kBits;
  if (uint32_t{part_of(task).cut.groups} << lane_bits <= kBlockThreads / 2)
    crew = {task.thread() - kBlockThreads / 2, 7};

  float sum[M][M];
  Stage stage;
  TREK_ROLLED
  do {
    const uint32_t first = stage.first;
#pragma unroll
    for (uint32_t i = 0; i < M; ++i)
#pragma unroll
      for (uint32_t j = 0; j < M; ++j) sum[i][j] = 0;
    TREK_ROLLED
    do {
      wait_for_copies(part_of(task).cut.ahead - 2);
      task.sync();
      if (first == 0 && stage.k == 0) { TREK_MARK(3) }
      if (crew.thread < kBlockThreads)
        bring(task, crew, next);
      else
        commit_copies();  // none, so that all count alike
      if (first == 0 && stage.k == 0) { TREK_MARK(4) }
      asm volatile("" ::: "memory");
      const Part& part = part_of(task);
      const Cut& cut = part.cut;
      const uint32_t slot = address(task, kPanels) + stage.slot * cut.stage;
      stage.next(cut);
      const uint32_t left_here = blocks_of(part) - first;
      const uint32_t here = left_here < cut.groups ? left_here : cut.groups;
      if ((task.thread() & ~31u) >> lane_bits >= here) continue;  // the warp has no block
      const uint32_t down_bits = cut.row_bits - kBits;
      const uint32_t across_bits = cut.column_bits - kBits;
      const uint32_t group = task.thread() >> lane_bits;
      const uint32_t panel = group < here ? group : here - 1;
      const Lane stands =
          lane_of(task.thread() & ((1u << lane_bits) - 1), down_bits, across_bits);
      const bool left_by_line = cut.left.by_line != 0;
      const bool right_by_line = cut.right.by_line != 0;
      const uint32_t left = slot + panel * cut.left.bytes +
                            stands.down * (left_by_line ? cut.left.pitch : 16);
      const uint32_t right = slot + cut.right.first + panel * cut.right.bytes +
                             stands.across * (right_by_line ? cut.right.pitch : 16);
      const auto with = [&]<bool kLeft, bool kRight>() __attribute__((always_inline)) {
        multiply<M, kLeft, kRight>(
            left, kLeft ? cut.left.pitch << down_bits : cut.left.pitch, 16u << down_bits, right,
            kRight ? cut.right.pitch << across_bits : cut.right.pitch, 16u << across_bits,
            cut.depth, sum);
      };
      if (left_by_line && right_by_line)
        with.template operator()<true, true>();
      else if (left_by_line)
        with.template operator()<true, false>();
      else if (right_by_line)
        with.template operator()<false, true>();
      else
        with.template operator()<false, false>();
    } while (stage.k != 0);
    TREK_MARK(5)
    asm volatile("" ::: "memory");
    const Cut& cut = part_of(task).cut;
    const uint32_t blocks = blocks_of(part_of(task));
    const uint32_t here = blocks - first < cut.groups ? blocks - first : cut.groups;
    if (cut.sums == shared_at::kWork) task.sync();  // over panels, which have been read
    if (task.thread() >> lane_bits < here) {
      // Four v of lane l of group g is at v x groups x lanes + g x lanes + l.
      const uint32_t to = address(task, cut.sums) + task.thread() * 16;
      const uint32_t step = uint32_t{cut.groups} << (lane_bits + 4);
#pragma unroll
      for (uint32_t v = 0; v < M * M / 4; ++v) {
        const float* four = &sum[v / (M / 4)][v % (M / 4) * 4];
        store_four(to + v * step, Float4{four[0], four[1], four[2], four[3]});
      }
    }
    task.sync();
    TREK_MARK(6)
    add_blocks<M>(task, first, here);
  } while (stage.first < blocks_of(part_of(task)));
}

// Whether a node's product comes here: f32 throughout, in a program's narrow form.
TREK_TILE bool suits(const Node& node) {
  return node.matrix.cut.patch != 0 && node.deliver[0].narrow != 0;
}

TREK_TILE int64_t quotient(int64_t a, int64_t b) {
  if ((a | b) >> 32 == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return divided_slowly(a, b);
}

// Writes part `number` of a tile to kPart; by one thread.
TREK_TILE void describe_part(const Task& task, int64_t tile, uint32_t number) {
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  Part& part = *task.shared<Part>(kPart);
  part.cut = of.cut;
  int64_t down = quotient(tile, of.across);
  int64_t column = (tile - down * of.across) * of.tile_columns;
  const std::byte* a = task.memory(node.operand(0));
  const std::byte* b = task.memory(node.operand(1));
  int64_t batch_row = 0;
  if (down >= of.down) {
    const int64_t batch = quotient(down, of.down);
    down -= batch * of.down;
    batch_row = batch * of.m;
    a += place_of(node, of.a_batch, batch) * of.a_matrix * 4;
    b += place_of(node, of.b_batch, batch) * of.b_matrix * 4;
  }
  int64_t row = down * of.tile_rows;
  int64_t rows = of.m - row < of.tile_rows ? of.m - row : of.tile_rows;
  int64_t columns = of.n - column < of.tile_columns ? of.n - column : of.tile_columns;
  const uint32_t most_rows = 1u << of.cut.row_bits;
  const uint32_t most_columns = 1u << of.cut.column_bits;
  const auto across = static_cast<uint32_t>((columns + most_columns - 1) >> of.cut.column_bits);
  part.parts = across * static_cast<uint32_t>((rows + most_rows - 1) >> of.cut.row_bits);
  if (number != 0) {
    const uint32_t part_down = number / across * most_rows;
    const uint32_t part_across = number % across * most_columns;
    row += part_down;
    rows -= part_down;
    column += part_across;
    columns -= part_across;
  }
  part.rows = rows < most_rows ? static_cast<uint32_t>(rows) : most_rows;
  part.columns = columns < most_columns ? static_cast<uint32_t>(columns) : most_columns;
  part.left = {a + row * of.a_row * 4, part.rows};
  part.right = {b + column * of.b_column * 4, part.columns};
  part.row = batch_row + row;
  part.column = column;
  part.k_end = of.k;
}

}  // namespace matrix_f32

// The tile of number `tile` of a node that suits.
TREK_TILE void multiply_tile_f32(const Task& task, int64_t tile) {
  using namespace matrix_f32;  // NOLINT(google-build-using-namespace)
  uint32_t number = 0;
  TREK_ROLLED
  do {
    if (task.thread() == 0) describe_part(task, tile, number);
    task.sync();
    TREK_MARK(1)
    const uint32_t patch = part_of(task).cut.patch;
    bool delivers = true;
    if (part_of(task).k_end == 0) {
      for (uint32_t i = task.thread(); i < part_of(task).rows * part_of(task).columns;
           i += kBlockThreads)
        task.shared<float>(shared_at::kValues)[i] = 0;
    } else if (patch == kLargePatch) {
      multiply_large(task);
    } else {
      if (patch == 8)
        multiply_groups<8>(task);
      else
        multiply_groups<4>(task);
      delivers = part_of(task).cut.plain_tail == 0;
    }
    TREK_MARK(7)
    task.sync();
    TREK_MARK(8)
    const uint32_t parts = part_of(task).parts;
    if (delivers) {
      deliver_part(task);
      TREK_MARK(9)
      task.sync();
    }
    if (++number >= parts) break;
    task.sync();  // before the next part is described
  } while (true);
}

#undef TREK_TILE

}  // namespace trek::device

#endif  // __CUDA__
