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
// The same, neither sooner nor later.
TREK_TILE Float4 load_four_now(uint32_t at) {
  return *(InShared<const volatile Float4>*)(uintptr_t{at});
}
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

// Keeps the compiler from working out a number in another way, or long before it is wanted.
TREK_TILE void hide(uint32_t& number) { asm volatile("" : "+r"(number)); }
TREK_TILE void hide(const std::byte*& address) { asm volatile("" : "+l"(address)); }

// One operand of a part: line 0 at k = 0, and the lines that exist.
struct Side {
  const std::byte* data;
  uint32_t lines;
};

// A part of a tile: its first output is at (row, column), among the rows of all batches. It lies at kPart in
// shared memory, and what is read of it behind a barrier takes no registers until then.
struct alignas(16) Part {
  Side left;
  Side right;
  int64_t row;
  int64_t column;
  uint32_t rows;
  uint32_t columns;
  uint32_t parts;  // of the tile
};
static_assert(sizeof(Part) <= kPartBytes);
TREK_TILE const Part& part_of(const Task& task) { return *task.shared<const Part>(kPart); }

// What stands behind the last k: 0 on the right, -0 on the left.
alignas(16) TREK_ON_DEVICE static const float kBehind[8] = {0, 0, 0, 0, -0.0f, -0.0f, -0.0f, -0.0f};
TREK_TILE const std::byte* behind(bool left) {
  return reinterpret_cast<const std::byte*>(kBehind + (left ? 4 : 0));
}

// ---- large parts ---------------------------------------------------------------------------------

namespace large {

inline constexpr uint32_t kPitch = (kLargeLines + kPad) * 4;  // bytes from one k to the next
inline constexpr uint32_t kPanel = kStep * kPitch;
inline constexpr uint32_t kStage = 2 * kPanel;
inline constexpr uint32_t kLastStage = kMostAhead * kStage;  // of one that ends within
inline constexpr uint32_t kSegments = kPanels + kLastStage + kStage;
inline constexpr uint32_t kTotals = kSegments + kLargeLines * kLargeLines * 4;
inline constexpr uint32_t kZeros = kTotals + kLargeLines * kLargeLines * 4;
static_assert(kSegments % 16 == 0);
static_assert(kZeros + 16 <= kSharedBytes);

// Rows of a patch whose segment's sums are in registers; those of the others are in shared memory, which a
// warp visits every 64 k.
inline constexpr uint32_t kRowsInRegisters = TREK_ROWS;

// What a thread copies of one operand for each kStep k.
struct Copier {
  const std::byte* from;
  uint32_t to;        // in the panel
  uint32_t apart;     // bytes from one of its copies to the next in memory
  uint32_t to_apart;  // in the panel
  uint32_t advance;   // in memory from one kStep k to the next
  uint32_t count;     // copies that are inside, of 4; of fours 1 or 0
  uint32_t place;     // k of the first among kStep
  bool fours;

  TREK_ON_DEVICE Copier(uint32_t thread, const Side& side, const CutSide& cut) {
    uint32_t line = thread / kStep;
    place = thread % kStep;
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
    panel += to;
    if (fours) {
      copy_four(count != 0, panel, from);
    } else {
      const std::byte* at = from;
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        copy_one(i < count, panel, at);
        panel += to_apart;
        at += apart;
        hide(panel);
        hide(at);
      }
    }
    from += advance;
  }
  // The same where only `there` of the kStep k are before the last.
  TREK_ON_DEVICE void copy_end(uint32_t panel, uint32_t there, bool left) {
    const bool one_k = fours || to_apart == 128;  // all its copies are of one k
    TREK_ROLLED
    for (uint32_t i = 0; i < (fours ? 1 : 4); ++i) {
      const bool inside = place + (one_k ? 0 : 2 * i) < there;
      const std::byte* at = inside ? from + uint64_t{i} * apart : behind(left);
      copy_four(fours && count != 0, panel + to, at);
      copy_one(!fours && i < count, panel + to + i * to_apart, at);
    }
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
  const Matrix& of = task.node().matrix;
  const int64_t k_end = of.k;
  const auto whole = static_cast<uint32_t>(k_end / kStep);
  const auto there = static_cast<uint32_t>(k_end % kStep);
  const uint32_t steps = whole + (there != 0 ? 1 : 0);
  Copier of_left(thread, part.left, of.cut.left);
  Copier of_right(thread, part.right, of.cut.right);
  if (there != 0) {  // the last k lie apart
    Copier end_left = of_left;
    Copier end_right = of_right;
    end_left.from += uint64_t{whole} * of_left.advance;
    end_right.from += uint64_t{whole} * of_right.advance;
    end_left.copy_end(panels + kLastStage, there, true);
    end_right.copy_end(panels + kLastStage + kPanel, there, false);
  }
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
  for (uint32_t i = 0; i < kRowsInRegisters; ++i)
#pragma unroll
    for (uint32_t j = 0; j < 8; ++j) segment[i][j] = -0.0f;  // what is added first stays itself
#pragma unroll
  for (uint32_t v = kRowsInRegisters * 2; v < 16; ++v)
    store_four(address(task, kSegments) + (v * kBlockThreads + thread) * 16,
               Float4{-0.0f, -0.0f, -0.0f, -0.0f});
  const uint32_t zeros = address(task, kZeros);
  store_four(zeros, Float4{0, 0, 0, 0});
  wait_for_copies(kMostAhead - 2);
  task.sync();
  // Sums begin as fours that are loaded, two rows changed over: so each has a register in the other bank than
  // its row's element.
  const auto clear = [&](uint32_t i, uint32_t j) __attribute__((always_inline)) {
    const Float4 four = load_four_now(zeros);
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) sum[i + (e ^ 1)][j] = four[e];
  };
#pragma unroll
  for (uint32_t j = 0; j < 8; ++j) {
    clear(0, j);
    clear(4, j);
  }
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
    const uint32_t segments = address(task, kSegments) + thread * 16;
#pragma unroll
    for (uint32_t i = 0; i < kRowsInRegisters; ++i)
#pragma unroll
      for (uint32_t j = 0; j < 8; ++j) {
        segment[i][j] = segment[i][j] + sum[i][j];
        if (i % 4 == 3) clear(i - 3, j);
      }
    // Four at a time, or the compiler loads more than there are registers for. In fours in which a row's
    // register is in the other bank than the row's element.
#pragma unroll
    for (uint32_t v = kRowsInRegisters * 2; v < 16; v += 4) {
      const uint32_t at = segments + v * kBlockThreads * 16;
      Float4 four[4];
#pragma unroll
      for (uint32_t q = 0; q < 4; ++q) four[q] = load_four_now(at + q * kBlockThreads * 16);
#pragma unroll
      for (uint32_t q = 0; q < 4; ++q) {
        const uint32_t i = v / 8 * 4;
        const uint32_t j = v % 8 + q;
        const Float4 mine = {sum[i + 1][j], sum[i][j], sum[i + 3][j], sum[i + 2][j]};
        store_four(at + q * kBlockThreads * 16, four[q] + mine);
        clear(i, j);
      }
    }
    // Totals, where there are several segments, are in shared memory too.
    if (steps <= kSegmentSteps || (step % kSegmentSteps != kSegmentSteps - 1 && !last)) continue;
    const uint32_t totals = address(task, kTotals) + thread * 16;
    const bool begins = step < kSegmentSteps;
#pragma unroll
    for (uint32_t v = 0; v < 16; ++v) {
      const uint32_t i = v / 8 * 4;
      const uint32_t j = v % 8;
      const uint32_t at = segments + v * kBlockThreads * 16;
      const uint32_t to = totals + v * kBlockThreads * 16;
      Float4 four = begins ? Float4{-0.0f, -0.0f, -0.0f, -0.0f} : load_four_now(to);
      if (i < kRowsInRegisters) {
        four = four + Float4{segment[i + 1][j], segment[i][j], segment[i + 3][j], segment[i + 2][j]};
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) segment[i + e][j] = last ? four[e ^ 1] : -0.0f;
      } else {
        four = four + load_four_now(at);
        store_four(at, last ? four : Float4{-0.0f, -0.0f, -0.0f, -0.0f});
      }
      store_four(to, four);
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

// Four outputs of a row, `apart` columns from one to the next; those from column `end` on do not exist.
struct Outputs {
  int64_t row;
  int64_t column;
  uint32_t apart;
  int64_t end;

  TREK_ON_DEVICE bool in_line() const { return apart == 1 && column + 3 < end; }
};

// What stands beside four outputs in the steps of a plain tail.
TREK_TILE void load_beside(const Task& task, const Outputs& at, Float4 (&beside)[kCutTails]) {
  const Cut& cut = task.node().matrix.cut;
#pragma unroll
  for (uint32_t s = 0; s < kCutTails; ++s) {
    beside[s] = 0;
    if (s >= cut.tails) continue;
    const CutTail& tail = cut.tail[s];
    if (tail.beside == CutTail::scalar) {
      beside[s] = as_float(static_cast<uint32_t>(task.scalar(tail.scalar_index)));
    } else if (tail.beside == CutTail::operand) {
      const auto* from = reinterpret_cast<const float*>(task.context().arena + tail.offset) +
                         at.row * tail.row + at.column * tail.column;
      if (tail.column == 0) {
        beside[s] = *from;
      } else if (at.in_line() && (reinterpret_cast<uint64_t>(from) & 15) == 0) {
        beside[s] = *reinterpret_cast<const Float4*>(from);
      } else {
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e)
          if (at.column + e * at.apart < at.end) beside[s][e] = from[e * at.apart];
      }
    }
  }
}

// Gives four outputs of a node with a plain tail.
TREK_TILE void give_four(const Task& task, const Outputs& at, const Float4 (&beside)[kCutTails],
                         Float4 value) {
  const Node& node = task.node();
  const Cut& cut = node.matrix.cut;
#pragma unroll
  for (uint32_t s = 0; s < kCutTails; ++s) {
    if (s >= cut.tails) continue;
    const CutTail& tail = cut.tail[s];
    const Float4 x = tail.second != 0 ? beside[s] : value;
    const Float4 y = tail.second != 0 ? value : beside[s];
#define TREK_TAIL(Id, expression)      \
  case Opcode::Id:                     \
    _Pragma("unroll")                  \
    for (uint32_t e = 0; e < 4; ++e) { \
      const float a = x[e];            \
      const float b = y[e];            \
      static_cast<void>(b);            \
      value[e] = expression;           \
    }                                  \
    break;
    switch (static_cast<Opcode>(tail.opcode)) {
      TREK_F32_TAILS(TREK_TAIL)
      default:
        break;
    }
#undef TREK_TAIL
  }
  auto* to =
      reinterpret_cast<float*>(task.memory(node.result(0))) + at.row * node.matrix.n + at.column;
  if (at.in_line() && (reinterpret_cast<uint64_t>(to) & 15) == 0) {
    *reinterpret_cast<Float4*>(to) = value;
    return;
  }
#pragma unroll
  for (uint32_t e = 0; e < 4; ++e)
    if (at.column + e * at.apart < at.end) to[e * at.apart] = value[e];
}

// Gives the totals of a part, which are at kValues, to the result.
TREK_TILE void deliver_part(const Task& task) {
  const Node& node = task.node();
  const Part part = part_of(task);
  if (node.matrix.cut.plain != 0) {
    const uint32_t width = (part.columns + 3) / 4;
    const float* totals = task.shared<const float>(shared_at::kValues);
    TREK_ROLLED
    for (uint32_t i = task.thread(); i < part.rows * width; i += kBlockThreads) {
      const uint32_t row = i / width;
      const uint32_t column = (i - row * width) * 4;
      const Outputs at = {part.row + row, part.column + column, 1, part.column + part.columns};
      Float4 beside[kCutTails];
      load_beside(task, at, beside);
      // Behind the last column there is still shared memory.
      const float* from = totals + row * part.columns + column;
      give_four(task, at, beside, Float4{from[0], from[1], from[2], from[3]});
    }
    return;
  }
  Positions where;
  where.width = part.columns;
  where.rows = node.matrix.result_rows;
  where.first_row = part.row;
  where.columns = node.matrix.result_columns;
  where.first_column = part.column;
  const Task mine = task;  // whose address others may have
  run(mine, kDeliver, where, part.rows * part.columns, shared_at::kValues, 0);
}

// ---- parts for groups ----------------------------------------------------------------------------

namespace groups {

// Stages in the order in which they are brought and multiplied.
struct Stage {
  uint32_t first = 0;  // block of the round
  uint32_t k = 0;      // within its blocks
  uint32_t slot = 0;   // where its panels lie

  // Whether that was the last of the round.
  TREK_ON_DEVICE bool next(const Cut& cut) {
    slot = slot + 1 == cut.ahead ? 0 : slot + 1;
    k += 1u << cut.depth_bits;
    if (k != kBlock) return false;
    k = 0;
    first += cut.groups;
    return true;
  }
};

TREK_TILE uint32_t blocks_of(const Task& task) {
  return static_cast<uint32_t>((task.node().matrix.k + kBlock - 1) / kBlock);
}

// Copies one operand's part of a stage. Threads lie along the rows of panels, then across them, then over the
// panels of groups. Of the last of them `rest` of the block's k are before the last k.
TREK_TILE void bring_side(uint32_t thread, const Side& side, const CutSide& cut, uint32_t slot,
                          const Stage& stage, uint32_t groups, uint32_t rest, bool is_left) {
  const bool by_line = cut.by_line != 0;
  const bool fours = cut.unit_bits != 0;
  const uint32_t column = (thread & ((1u << cut.copies_bits) - 1)) << cut.unit_bits;
  const uint32_t rows = 1u << cut.row_bits;
  const uint32_t row_step = kBlockThreads >> cut.copies_bits;
  // A pass of the block is `together` panels, or a part of one.
  const uint32_t together_bits = cut.copies_bits + cut.row_bits <= 8
                                     ? 8u - cut.copies_bits - cut.row_bits
                                     : 0;
  const uint32_t group = thread >> cut.copies_bits >> cut.row_bits;
  uint32_t row = thread >> cut.copies_bits & (rows - 1);
  const uint64_t from_step = uint64_t{cut.group} << together_bits;
  const uint32_t to_step = cut.bytes << together_bits;
  const int32_t count = static_cast<int32_t>(groups - group + (1u << together_bits) - 1) >>
                        together_bits;
  // The copy that is of the last block.
  const uint32_t before_last = groups - 1 - group;
  const int32_t last =
      (before_last & ((1u << together_bits) - 1)) == 0 ? static_cast<int32_t>(before_last >> together_bits) : -1;
  const std::byte* data = side.data + uint64_t{stage.first + group} * cut.group +
                          uint64_t{stage.k} * (by_line ? 4 : cut.step) + column * 4;
  slot += cut.first + group * cut.bytes + column * 4;
  TREK_ROLLED
  do {
    const std::byte* from = data + uint64_t{row} * cut.step;
    uint32_t to = slot + row * cut.pitch;
    const bool exists = (by_line ? row : column) < side.lines;
    const bool ends = stage.k + (by_line ? column : row) >= rest;
    if (exists) {
      TREK_ROLLED
      for (int32_t n = 0; n < count; n += 4) {
#pragma unroll
        for (int32_t i = 0; i < 4; ++i) {
          const std::byte* at = ends && n + i == last ? behind(is_left) : from;
          copy_four(fours && n + i < count, to, at);
          copy_one(!fours && n + i < count, to, at);
          from += from_step;
          to += to_step;
        }
      }
    }
    row += row_step;
  } while (row < rows);
}

TREK_TILE void bring(const Task& task, uint32_t blocks, Stage& stage) {
  const Part& part = part_of(task);
  const Matrix& of = task.node().matrix;
  const Cut& cut = of.cut;
  uint32_t here = blocks - stage.first;
  uint32_t rest = kBlock;
  if (here <= cut.groups)
    rest = static_cast<uint32_t>(of.k) - (blocks - 1) * kBlock;
  else
    here = cut.groups;
  const uint32_t slot = address(task, kPanels) + stage.slot * cut.stage;
  bring_side(task.thread(), part.left, cut.left, slot, stage, here, rest, true);
  bring_side(task.thread(), part.right, cut.right, slot, stage, here, rest, false);
  stage.next(cut);
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

// A lane's M lines in a panel, gone through two k after two.
template <uint32_t M, bool kByLine>
struct Lines;

template <uint32_t M>
struct Lines<M, true> {
  uint32_t line[M];

  // Line 0 is at `at`, the next `step` bytes on.
  TREK_ON_DEVICE Lines(uint32_t at, uint32_t step, uint32_t) {
    hide(step);
#pragma unroll
    for (uint32_t i = 0; i < M; ++i) {
      line[i] = at;
      at += step;
    }
  }
  // To the k that is `k` on.
  TREK_ON_DEVICE void skip(uint32_t k) {
#pragma unroll
    for (uint32_t i = 0; i < M; ++i) line[i] += 4 * k;
  }
  // Line i at k and k + 1 from where it stands.
  TREK_ON_DEVICE void load(uint32_t k, uint32_t i, float (&to)[2][M]) const {
    const Float2 two = load_two(line[i] + k * 4);
    to[0][i] = two.x;
    to[1][i] = two.y;
  }
  TREK_ON_DEVICE void load_pair(uint32_t k, float (&to)[2][M]) const {
#pragma unroll
    for (uint32_t i = 0; i < M; ++i) load(k, i, to);
  }
};

template <uint32_t M>
struct Lines<M, false> {
  uint32_t at;    // of the k at hand
  uint32_t step;  // to the next
  uint32_t half;  // from one half of a patch to the other

  TREK_ON_DEVICE Lines(uint32_t first, uint32_t to_next, uint32_t to_half)
      : at(first), step(to_next), half(to_half) {}
  TREK_ON_DEVICE void next() {
    at += step;
    hide(at);
  }
  TREK_ON_DEVICE void load(uint32_t quarter, float (&to)[M]) const {
    const Float4 four = load_four(at + (quarter == 0 ? 0 : half));
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) to[4 * quarter + e] = four[e];
  }
  TREK_ON_DEVICE void load_k(float (&to)[M]) const {
#pragma unroll
    for (uint32_t f = 0; f < M / 4; ++f) load(f, to);
  }
};

// Adds the products of `depth` k to the sums of a lane's patch. What is loaded takes the place of what has been
// multiplied for the last time, so that it has 64 multiplications to arrive; only where the right operand is by
// line, or the patch is small, there are two places.
template <uint32_t M, bool kLeftByLine, bool kRightByLine>
TREK_TILE void multiply(Lines<M, kLeftByLine> left, Lines<M, kRightByLine> right, uint32_t depth,
                        float (&sum)[M][M]) {
  constexpr uint32_t kLefts = M == 4 ? 2 : 1;
  constexpr uint32_t kRights = M == 4 || kRightByLine ? 2 : 1;
  float x[kLefts][2][M];
  float y[kRights][2][M];
  const auto load_both = [](auto& lines, auto& to) __attribute__((always_inline)) {
    lines.load_k(to[0]);
    lines.next();
    lines.load_k(to[1]);
  };
  if constexpr (kLeftByLine)
    left.load_pair(0, x[0]);
  else
    load_both(left, x[0]);
  if constexpr (kRightByLine)
    right.load_pair(0, y[0]);
  else
    load_both(right, y[0]);
#pragma unroll 1
  for (uint32_t k = 0; k < depth; k += kStep) {
#pragma unroll
    for (uint32_t p = 0; p < kStep / 2; ++p) {
      // Behind the last k there is shared memory, too, and what is loaded of it is not used.
      const uint32_t ahead = 2 * p + 2;
      auto& x_now = x[p % kLefts];
      auto& x_next = x[(p + 1) % kLefts];
      auto& y_now = y[p % kRights];
      auto& y_next = y[(p + 1) % kRights];
      if constexpr (kLefts == 2) {
        if constexpr (kLeftByLine) {
          left.load_pair(ahead, x_next);
        } else {
          left.next();
          load_both(left, x_next);
        }
      }
      if constexpr (kRights == 2) {
        if constexpr (kRightByLine) {
          right.load_pair(ahead, y_next);
        } else {
          right.next();
          load_both(right, y_next);
        }
      }
#pragma unroll
      for (uint32_t q = 0; q < 2; ++q) {
        if constexpr (kLefts == 1 && !kLeftByLine) left.next();
#pragma unroll
        for (uint32_t i = 0; i < M; ++i) {
          // To and fro, so that each multiplication shares an operand with the one before.
#pragma unroll
          for (uint32_t n = 0; n < M; ++n) {
            const uint32_t j = i % 2 == 0 ? n : M - 1 - n;
            sum[i][j] = semantics::fma(x_now[q][i], y_now[q][j], sum[i][j]);
          }
          if constexpr (kLefts == 1 && kLeftByLine) {
            if (q == 1) left.load(ahead, i, x_next);
          }
          if constexpr (kLefts == 1 && !kLeftByLine) {
            if (i % 4 == 3) left.load(i / 4, x_next[q]);
          }
        }
        if constexpr (kRights == 1) {
          right.next();
          right.load_k(y_next[q]);
        }
      }
    }
    if constexpr (kLeftByLine) left.skip(kStep);
    if constexpr (kRightByLine) right.skip(kStep);
  }
}

// Adds the sums of blocks first ... first + here - 1, which are there for every lane, and gives the totals
// behind the last block: to the result, or where it has a tail that is not plain, to kValues. Four v of lane l
// of group g is at (v x groups + g) x lanes + l, and four f = v x lanes + l of the part is the v-th of lane l.
template <uint32_t M>
TREK_TILE void add_blocks(const Task& task, uint32_t first, uint32_t here, uint32_t blocks) {
  constexpr uint32_t kBits = M == 8 ? 3 : 2;
  const Part& part = part_of(task);
  const Cut& cut = task.node().matrix.cut;
  const uint32_t down_bits = cut.row_bits - kBits;
  const uint32_t across_bits = cut.column_bits - kBits;
  const uint32_t lane_bits = down_bits + across_bits;
  const uint32_t fours = M * M / 4 << lane_bits;
  const uint32_t sums = address(task, cut.sums);
  const uint32_t segments = sums + cut.groups * fours * 16;
  const uint32_t totals = segments + fours * 16;
  const uint32_t step = 16u << lane_bits;
  const bool last = first + here == blocks;
  TREK_ROLLED
  for (uint32_t f = task.thread(); f < fours; f += kBlockThreads) {
    const uint32_t v = f >> lane_bits;
    const uint32_t lane = f & ((1u << lane_bits) - 1);
    const Lane stands = lane_of(lane, down_bits, across_bits);
    const bool by_line = cut.right.by_line != 0;
    const uint32_t row =
        line_of<M>(cut.left.by_line != 0, stands.down, 1u << down_bits, v / (M / 4));
    const uint32_t column =
        line_of<M>(by_line, stands.across, 1u << across_bits, v % (M / 4) * 4);
    const bool exists = row < part.rows && column < part.columns;
    const Outputs at_outputs = {part.row + row, part.column + column,
                                by_line ? 1u << across_bits : 1, part.column + part.columns};
    const bool gives = last && exists && cut.plain != 0;
    Float4 beside[kCutTails];
    if (gives) load_beside(task, at_outputs, beside);
    uint32_t at = sums + (((v * cut.groups) << lane_bits) + lane) * 16;
    // To -0 a first sum may be added: it stays itself.
    Float4 segment = -0.0f;
    if (first % kMostGroups != 0) segment = load_four(segments + f * 16);
    Float4 total = 0;
    if (blocks <= kMostGroups) {  // one segment
#pragma unroll 4
      for (uint32_t n = 0; n < here; ++n, at += step) segment = segment + load_four(at);
      total = segment;
    } else {
      TREK_ROLLED
      for (uint32_t block = first; block < first + here; ++block, at += step) {
        segment = segment + load_four(at);
        if (block % kMostGroups != kMostGroups - 1 && block + 1 != blocks) continue;
        total = segment;
        if (block >= kMostGroups) total = load_four(totals + f * 16) + segment;
        if (block + 1 != blocks) store_four(totals + f * 16, total);
        segment = -0.0f;
      }
    }
    if (gives) {
      give_four(task, at_outputs, beside, total);
    } else if (!last) {
      store_four(segments + f * 16, segment);
    } else if (exists) {
      float* to = task.shared<float>(shared_at::kValues) + row * part.columns + column;
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e)
        if (column + e * at_outputs.apart < part.columns) to[e * at_outputs.apart] = total[e];
    }
  }
}

}  // namespace groups

// Multiplies a part by groups, and gives it as add_blocks() says.
template <uint32_t M>
TREK_TILE void multiply_groups(const Task& task) {
  using namespace groups;  // NOLINT(google-build-using-namespace)
  constexpr uint32_t kBits = M == 8 ? 3 : 2;
  const Cut& cut = task.node().matrix.cut;
  const uint32_t blocks = blocks_of(task);
  Stage next;
  const uint32_t ahead = cut.ahead;
  // All stages, if there is room for them, or all but one slot.
  const bool resident = cut.groups >= blocks && kBlock >> cut.depth_bits == ahead;
  TREK_ROLLED
  for (uint32_t i = resident ? 0 : 1; i < ahead; ++i) {
    bring(task, blocks, next);
    commit_copies();
  }
  TREK_MARK(2)

  const uint32_t down_bits = cut.row_bits - kBits;
  const uint32_t across_bits = cut.column_bits - kBits;
  const uint32_t lane_bits = down_bits + across_bits;
  const uint32_t group = task.thread() >> lane_bits;
  const Lane stands = lane_of(task.thread() & ((1u << lane_bits) - 1), down_bits, across_bits);
  const bool left_by_line = cut.left.by_line != 0;
  const bool right_by_line = cut.right.by_line != 0;
  const uint32_t left_at =
      address(task, kPanels) + stands.down * (left_by_line ? cut.left.pitch : 16);
  const uint32_t right_at = address(task, kPanels) + cut.right.first +
                            stands.across * (right_by_line ? cut.right.pitch : 16);
  const uint32_t left_step = cut.left.pitch << (left_by_line ? down_bits : 0);
  const uint32_t right_step = cut.right.pitch << (right_by_line ? across_bits : 0);

  float sum[M][M];
  Stage stage;
  TREK_ROLLED
  do {
    const uint32_t first = stage.first;
    const uint32_t here = blocks - first < cut.groups ? blocks - first : cut.groups;
    // Warps without a block wait with the others; lanes without one do as the last group does.
    const bool works = (task.thread() & ~31u) >> lane_bits < here;
    const uint32_t panel = group < here ? group : here - 1;
#pragma unroll
    for (uint32_t i = 0; i < M; ++i)
#pragma unroll
      for (uint32_t j = 0; j < M; ++j) sum[i][j] = 0;
    bool ends = false;
    TREK_ROLLED
    while (!ends) {
      if (resident) {
        const uint32_t behind = ahead - 1 - stage.slot;
        if (behind >= 3)
          asm volatile("cp.async.wait_group 3;" ::: "memory");
        else
          wait_for_copies(behind);
      } else {
        wait_for_copies(ahead - 2);
      }
      task.sync();
      if (stage.first == 0 && stage.k == 0) { TREK_MARK(3) }
      if (!resident) {
        if (next.first < blocks) bring(task, blocks, next);
        commit_copies();
      }
      if (stage.first == 0 && stage.k == 0) { TREK_MARK(4) }
      const uint32_t slot = stage.slot * cut.stage;
      ends = stage.next(cut);
      if (!works) continue;
      const uint32_t left = left_at + slot + panel * cut.left.bytes;
      const uint32_t right = right_at + slot + panel * cut.right.bytes;
      const auto with = [&]<bool kLeft, bool kRight>() __attribute__((always_inline)) {
        multiply<M, kLeft, kRight>(Lines<M, kLeft>(left, left_step, 16u << down_bits),
                                   Lines<M, kRight>(right, right_step, 16u << across_bits),
                                   1u << cut.depth_bits, sum);
      };
      if (left_by_line && right_by_line)
        with.template operator()<true, true>();
      else if (left_by_line)
        with.template operator()<true, false>();
      else if (right_by_line)
        with.template operator()<false, true>();
      else
        with.template operator()<false, false>();
    }
    TREK_MARK(5)
    if (cut.sums == shared_at::kWork) task.sync();  // over panels, which have been read
    if (group < here) {
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
    add_blocks<M>(task, first, here, blocks);
  } while (stage.first < blocks);
}

// Whether a node's product comes here: f32 throughout, in a program's narrow form.
TREK_TILE bool suits(const Node& node) {
  return node.matrix.cut.patch != 0 && node.deliver[0].narrow != 0;
}

// Writes part `number` of a tile to kPart; by one thread.
TREK_TILE void describe_part(const Task& task, int64_t tile, uint32_t number) {
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const std::byte* a = task.memory(node.operand(0));
  const std::byte* b = task.memory(node.operand(1));
  int64_t down = tile * of.cut.across_magic >> of.cut.across_shift;
  int64_t column = (tile - down * of.across) * of.tile_columns;
  int64_t batch_row = 0;
  if (down >= of.down) {
    const int64_t batch = divided_slowly(down, of.down);
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
  Part& part = *task.shared<Part>(kPart);
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
}

}  // namespace matrix_f32

// The tile of number `tile` of a node that suits.
TREK_UNIT_CALL void multiply_tile_f32(Task task, int64_t tile) {
  using namespace matrix_f32;  // NOLINT(google-build-using-namespace)
  uint32_t number = 0;
  TREK_ROLLED
  do {
    if (task.thread() == 0) describe_part(task, tile, number);
    task.sync();
    TREK_MARK(1)
    const Matrix& of = task.node().matrix;
    bool delivers = true;
    if (of.k == 0) {
      for (uint32_t i = task.thread(); i < part_of(task).rows * part_of(task).columns;
           i += kBlockThreads)
        task.shared<float>(shared_at::kValues)[i] = 0;
    } else if (of.cut.patch == kLargePatch) {
      multiply_large(task);
    } else {
      if (of.cut.patch == 8)
        multiply_groups<8>(task);
      else
        multiply_groups<4>(task);
      delivers = task.node().matrix.cut.plain == 0;
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
