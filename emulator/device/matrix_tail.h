// From accumulators in registers to the result of a fast product: the steps of the node's deliver program
// where they are simple (Matrix::tail), and stores of 16 bytes where lines of the result are aligned for them.
// Device only.
//
// A warp of either unit has its outputs as the tensor cores give them: of 16 rows and every eight columns,
// lane l has columns 2 (l mod 4) and the next, in rows l / 4 and l / 4 + 8. A strip is 16 rows by 2 kCount
// columns of which a lane has kCount outputs: four of every eight columns, the upper row's two, then the
// lower row's. Beside 128 accumulators a thread has 40 registers: addresses are two pointers, of the lane's
// place in its upper and in its lower row, and constants.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_spot.h"
#include "emulator/device/matrix_tail_lines.h"

namespace trek::device::tensor {

// How the outputs of a lane's strip lie, two neighbouring columns after the other: of pair p so many rows below the first,
// and so many times eight columns further on; and which pair is the first of the same columns.
struct Upright {
  TREK_ON_DEVICE static constexpr uint32_t down(uint32_t pair) { return pair % 2 * 8; }
  TREK_ON_DEVICE static constexpr uint32_t across(uint32_t pair) { return pair / 2; }
  TREK_ON_DEVICE static constexpr uint32_t first(uint32_t pair) { return pair - pair % 2; }
};
// Of a transposed part whose left operand comes to registers (below).
struct Stacked {
  TREK_ON_DEVICE static constexpr uint32_t down(uint32_t pair) { return pair / 2 * 8 + pair % 2; }
  TREK_ON_DEVICE static constexpr uint32_t across(uint32_t) { return 0; }
  TREK_ON_DEVICE static constexpr uint32_t first(uint32_t) { return 0; }
};

// Two neighbours of a tensor.
template <bool kF32>
TREK_TILE void load_pair(float& first, float& second, const std::byte* from, uint32_t column,
                         bool is_bf16) {
  if constexpr (kF32) {
    asm volatile("ld.global.v2.f32 {%0, %1}, [%2];"
                 : "=f"(first), "=f"(second)
                 : "l"(from + column * 4)
                 : "memory");
  } else {
    const auto both = read<uint32_t>(from + column * 2, 0);
    first = unpacked(is_bf16, both & 0xFFFF);
    second = unpacked(is_bf16, both >> 16);
  }
}
// Where code is made for one product, all operands of a strip are asked for before the first of them is used, and strips are
// longer; a kernel that interprets has no registers for that.
//
// v = apply(v, second) for a strip, where `second` are two elements for every pair: from `upper` on, `to_lower` bytes from row
// to the eighth below; 0 where all rows have the same.
template <class Layout, bool kF32, uint32_t kCount, class Apply>
TREK_TILE void apply_to_pairs(const std::byte* upper, int64_t to_lower, bool is_bf16,
                              const Spot& spot, uint32_t column, float (&v)[kCount], Apply apply) {
  const auto is_outside = [&](uint32_t pair) TREK_TILE_LAMBDA {
    return spot.row + Layout::down(pair) >= spot.end_row ||
           column + Layout::across(pair) * 8 >= spot.end_column;
  };
  const auto load = [&](uint32_t pair, float& first, float& second) TREK_TILE_LAMBDA {
    constexpr uint32_t kLower = 8;
    const uint32_t down = Layout::down(pair);
    const std::byte* at = down == 0        ? upper
                          : down == kLower ? upper + to_lower
                                           : upper + down * (to_lower / kLower);
    load_pair<kF32>(first, second, at, Layout::across(pair) * 8, is_bf16);
  };
  if constexpr (kSpecialised) {
    float second[kCount] = {};
#pragma unroll
    for (uint32_t pair = 0; pair < kCount / 2; ++pair) {
      const uint32_t first = Layout::first(pair);
      if (to_lower == 0 && first != pair) {
        second[2 * pair] = second[2 * first];
        second[2 * pair + 1] = second[2 * first + 1];
      } else if (!is_outside(pair)) {
        load(pair, second[2 * pair], second[2 * pair + 1]);
      }
    }
    // What is not there is worked out in vain.
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) v[i] = apply(v[i], second[i]);
  } else {
#pragma unroll
    for (uint32_t pair = 0; pair < kCount / 2; ++pair) {
      if (is_outside(pair)) continue;
      float first;
      float second;
      load(pair, first, second);
      v[2 * pair] = apply(v[2 * pair], first);
      v[2 * pair + 1] = apply(v[2 * pair + 1], second);
    }
  }
}
template <class Layout, uint32_t kCount, class Apply>
TREK_TILE void apply_step(const Task& task, const TailStep& step, const Spot& spot, uint32_t column,
                          float (&v)[kCount], Apply apply) {
  if (step.second == TailStep::none || step.second == TailStep::scalar) {
    const float second = step.second == TailStep::scalar ? as_float(task.scalar(step.index)) : 0.0f;
#pragma unroll
    for (uint32_t i = 0; i < kCount; ++i) v[i] = apply(v[i], second);
    return;
  }
  const Operand& from = task.node().operand(step.index);
  const auto type = static_cast<DType>(from.dtype);
  const bool all = step.second == TailStep::elements;
  const auto bytes = static_cast<int64_t>(size_of(type));
  const std::byte* upper =
      all ? place_in(task, from, spot, column) : task.memory(from) + column * bytes;
  const int64_t to_lower = all ? 8 * task.node().matrix.n * bytes : 0;
  if (type == DType::f32)
    apply_to_pairs<Layout, true>(upper, to_lower, false, spot, column, v, apply);
  else
    apply_to_pairs<Layout, false>(upper, to_lower, type == DType::bf16, spot, column, v, apply);
}

// The tail's steps on a strip. `column` is the lane's first.
template <class Layout, uint32_t kCount>
TREK_TILE void apply_tail(const Task& task, const Spot& spot, uint32_t column, float (&v)[kCount]) {
  const Matrix& of = task.node().matrix;
  const auto take = [&](const TailStep& step) TREK_TILE_LAMBDA {
    const auto each = [&](auto apply) TREK_TILE_LAMBDA {
      apply_step<Layout>(task, step, spot, column, v, apply);
    };
    switch (static_cast<Opcode>(step.opcode)) {
      case Opcode::Add:
        each([](float a, float b) TREK_TILE_LAMBDA { return semantics::add(a, b); });
        break;
      case Opcode::Mul:
        each([](float a, float b) TREK_TILE_LAMBDA { return semantics::mul(a, b); });
        break;
      case Opcode::Relu:
        each([](float a, float) TREK_TILE_LAMBDA { return semantics::relu(a); });
        break;
      case Opcode::ReluGrad:
        each([](float a, float b) TREK_TILE_LAMBDA { return semantics::relu_grad(a, b); });
        break;
      default:  // a conversion
        break;
    }
    if (static_cast<DType>(step.to) == DType::f32) return;
    const bool is_bf16 = static_cast<DType>(step.to) == DType::bf16;
#pragma unroll
    for (uint32_t i = 0; i < kCount; i += 2) {
      const uint32_t both = packed(is_bf16, v[i], v[i + 1]);
      v[i] = unpacked(is_bf16, both & 0xFFFF);
      v[i + 1] = unpacked(is_bf16, both >> 16);
    }
  };
  if constexpr (kSpecialised) {  // each step is code of its own
    each_row<kMaxTail>(of.tail_steps, [&](uint32_t s) TREK_TILE_LAMBDA { take(of.tail[s]); });
  } else {
    TREK_ROLLED
    for (uint32_t s = 0; s < of.tail_steps; ++s) take(of.tail[s]);
  }
}

// Four lanes side by side turn the 4 × 4 words of theirs: afterwards lane i has the i-th of each.
TREK_TILE void turn(uint32_t (&w)[4], uint32_t lane) {
  turn_by<1>(w[0], w[1], lane);
  turn_by<1>(w[2], w[3], lane);
  turn_by<2>(w[0], w[2], lane);
  turn_by<2>(w[1], w[3], lane);
}

TREK_TILE void store_piece_at(std::byte* to, const uint32_t (&w)[4]) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(w[0]), "r"(w[1]),
               "r"(w[2]), "r"(w[3])
               : "memory");
}

// Two lanes side by side have of 16 columns four each, in pairs of 16 bits: those of columns 2 (lane mod 4) and the next, and
// of the same eight columns behind. So four lanes store 32 bytes of a line.
TREK_TILE uint32_t column_of_four(const Spot& spot, uint32_t lane) {
  return spot.column + 8 * (lane % 2) + 4 * (lane % 4 / 2);
}
TREK_TILE void store_four(std::byte* to, uint32_t lane, bool there, uint32_t first,
                          uint32_t second) {
  turn_by<1>(first, second, lane);
  if (there)
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(first), "r"(second) : "memory");
}
template <uint32_t kFirst = 0, uint32_t kCount>
TREK_TILE void store_fours(const Task& task, const Spot& spot, uint32_t lane, bool is_bf16,
                           const float (&v)[kCount]) {
  const uint32_t column = column_of_four(spot, lane);
  std::byte* upper = place_in(task, task.node().result(0), spot, column);
  std::byte* lower = upper + 16 * task.node().matrix.n;
#pragma unroll
  for (uint32_t i = kFirst; i < kCount; i += 8)
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h)
      store_four((h == 0 ? upper : lower) + 4 * i, lane,
                 spot.row + 8 * h < spot.end_row && column + 2 * i < spot.end_column,
                 packed(is_bf16, v[i + 2 * h], v[i + 2 * h + 1]),
                 packed(is_bf16, v[i + 4 + 2 * h], v[i + 4 + 2 * h + 1]));
}

// Stores all of v, from the lane's place on: 16 bits an element, in pieces of eight columns.
template <uint32_t kCount>
TREK_TILE void store_pieces(const Task& task, const Spot& spot, uint32_t lane, bool is_bf16,
                            const float (&v)[kCount]) {
  constexpr uint32_t kWhole = kCount / 16 * 16;  // of 32 columns
  const uint32_t column = spot.column + 8 * (lane % 4);
  std::byte* upper = place_in(task, task.node().result(0), spot, column);
  std::byte* lower = upper + 16 * task.node().matrix.n;
#pragma unroll
  for (uint32_t i = 0; i < kWhole; i += 16)
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      uint32_t w[4];
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j)
        w[j] = packed(is_bf16, v[i + 4 * j + 2 * h], v[i + 4 * j + 2 * h + 1]);
      turn(w, lane);
      if (spot.row + 8 * h < spot.end_row && column + 2 * i < spot.end_column)
        store_piece_at((h == 0 ? upper : lower) + 4 * i, w);
    }
  if constexpr (kWhole != kCount) store_fours<kWhole>(task, spot, lane, is_bf16, v);
}
// The same of f32, in pieces of four columns: two lanes side by side have of 16 columns four each.
template <uint32_t kCount>
TREK_TILE void store_f32(const Task& task, const Spot& spot, uint32_t lane,
                         const float (&v)[kCount]) {
  static_assert(kCount % 8 == 0);
  const uint32_t column = spot.column + 8 * (lane % 2) + 4 * (lane % 4 / 2);
  std::byte* upper = place_in(task, task.node().result(0), spot, column);
  std::byte* lower = upper + 32 * task.node().matrix.n;
#pragma unroll
  for (uint32_t i = 0; i < kCount; i += 8)
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      uint32_t w[4];
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        w[j] = semantics::to_bits(v[i + 2 * h + j]);
        w[j + 2] = semantics::to_bits(v[i + 4 + 2 * h + j]);
        turn_by<1>(w[j], w[j + 2], lane);
      }
      if (spot.row + 8 * h < spot.end_row && column + 2 * i < spot.end_column)
        store_piece_at((h == 0 ? upper : lower) + 8 * i, w);
    }
}
template <uint32_t kCount>
TREK_TILE void store(const Task& task, const Spot& spot, uint32_t lane, const float (&v)[kCount]) {
  const auto type = static_cast<DType>(task.node().result(0).dtype);
  if (type == DType::f32)
    store_f32(task, spot, lane, v);
  else
    store_pieces(task, spot, lane, type == DType::bf16, v);
}

// Of v the first kEnd where lines do not begin at multiples of 16 bytes. `spot` is the lane's.
template <uint32_t kEnd, uint32_t kCount>
TREK_TILE void store_unaligned(const Task& task, Spot spot, uint32_t lane,
                               const float (&v)[kCount]) {
  const auto type = static_cast<DType>(task.node().result(0).dtype);
  if constexpr (kSpecialised) {
    spot.row -= lane / 4;
    if (type == DType::f32)
      store_lines<true, 0, kEnd>(task, spot, lane, false, v);
    else
      store_lines<false, 0, kEnd>(task, spot, lane, type == DType::bf16, v);
  } else if (type != DType::f32 && task.node().matrix.n % 4 == 0) {
    store_fours(task, spot, lane, type == DType::bf16, v);
  } else {
    store_apart(task, spot, lane, type, v);
  }
}

// Whether a lane's strip may have 32 outputs beside the others.
template <uint32_t kCount>
inline constexpr bool kLongStrip = kSpecialised && kCount % 32 == 0 && kCount <= 96;

// Moves a lane's other outputs to where the strip was that has been given.
template <uint32_t kStrip, uint32_t kCount>
TREK_TILE void drop_strip(float (&v)[kCount]) {
#pragma unroll
  for (uint32_t i = 0; i + kStrip < kCount; ++i) v[i] = v[i + kStrip];
}

// Of compiled programs all of v where nothing else is to be done, 64 columns at a time.
template <uint32_t kCount>
TREK_TILE void store_all_unaligned(const Task& task, Spot spot, uint32_t lane, float (&v)[kCount]) {
  constexpr uint32_t kLong = 32;
  constexpr uint32_t kRest = kCount % kLong;
  TREK_ROLLED
  for (uint32_t i = 0; i < kCount / kLong; ++i) {
    store_unaligned<kLong>(task, spot, lane, v);
    spot.column += 2 * kLong;
    drop_strip<kLong>(v);
  }
  if constexpr (kRest != 0) store_unaligned<kRest>(task, spot, lane, v);
}

// Gives the accumulators of a warp to the result, from spot.row and spot.column on, which are the warp's.
// Where there are steps, or an interpreting kernel has lines of the result that are not aligned, 32 columns go through them
// at a time, and the others are moved along: a register cannot be chosen at run time, and code for each would be large.
template <uint32_t kCount>
TREK_TILE void give_outputs(const Task& task, Spot spot, float (&v)[kCount]) {
  // Outputs of a lane: with their operands they fit beside the others.
  constexpr uint32_t kStrip = kLongStrip<kCount> ? 32 : kCount % 16 == 0 ? 16 : 8;
  const uint32_t lane = opaque(task.thread()) % 32;
  const bool aligned = task.node().matrix.n % 8 == 0;
  spot.row += lane / 4;
  if (task.node().matrix.tail_steps == 0 && aligned) return store(task, spot, lane, v);
  if constexpr (kSpecialised) {
    if (task.node().matrix.tail_steps == 0) return store_all_unaligned(task, spot, lane, v);
  }
  TREK_ROLLED
  for (uint32_t i = 0; i < kCount; i += kStrip) {
    float strip[kStrip];
#pragma unroll
    for (uint32_t j = 0; j < kStrip; ++j) strip[j] = v[j];
    apply_tail<Upright>(task, spot, spot.column + 2 * (lane % 4), strip);
    if (aligned)
      store(task, spot, lane, strip);
    else
      store_unaligned<kStrip>(task, spot, lane, strip);
    spot.column += 2 * kStrip;
    drop_strip<kStrip>(v);
  }
}

// Where parts are transposed a warp has 16 columns of the result, and of its rows as many as it has columns elsewhere.
TREK_TILE uint32_t turned(uint32_t pair) {
  uint32_t got;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(got) : "r"(pair));
  return got;
}
// Turns 16 by 16 outputs of a warp around: four of every eight columns become those of eight rows.
TREK_TILE void turn_strip(const float (&from)[8], float (&to)[8]) {
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h)
#pragma unroll
    for (uint32_t g = 0; g < 2; ++g) {
      const uint32_t first = semantics::to_bits(from[4 * h + 2 * g]);
      const uint32_t second = semantics::to_bits(from[4 * h + 2 * g + 1]);
      const uint32_t low = turned((first & 0xFFFF) | second << 16);
      const uint32_t high = turned(first >> 16 | (second & 0xFFFF0000));
      to[4 * g + 2 * h] = semantics::from_bits<float>((low & 0xFFFF) | high << 16);
      to[4 * g + 2 * h + 1] = semantics::from_bits<float>(low >> 16 | (high & 0xFFFF0000));
    }
}
// Gives the accumulators of a warp, from spot.row and spot.column of the result on.
template <uint32_t kCount>
TREK_TILE void give_transposed(const Task& task, Spot spot, float (&v)[kCount]) {
  constexpr uint32_t kStrip = 8;
  const uint32_t lane = opaque(task.thread()) % 32;
  const Matrix& of = task.node().matrix;
  const auto type = static_cast<DType>(task.node().result(0).dtype);
  spot.row += lane / 4;
  if (of.tail_steps == 0 && type != DType::f32 && of.n % 4 == 0) {
    const uint32_t column = column_of_four(spot, lane);
    const bool is_there = column < spot.end_column;
    std::byte* to = place_in(task, task.node().result(0), spot, column);
#pragma unroll
    for (uint32_t i = 0; i < kCount; i += 4) {
      const bool is_bf16 = type == DType::bf16;
      store_four(to + 4 * i * of.n, lane, is_there && spot.row + 2 * i < spot.end_row,
                 turned(packed(is_bf16, v[i], v[i + 1])),
                 turned(packed(is_bf16, v[i + 2], v[i + 3])));
    }
    return;
  }
  TREK_ROLLED
  for (uint32_t i = 0; i < kCount; i += kStrip) {
    float strip[kStrip];
    float outputs[kStrip];
#pragma unroll
    for (uint32_t j = 0; j < kStrip; ++j) strip[j] = v[j];
    turn_strip(strip, outputs);
    apply_tail<Upright>(task, spot, spot.column + 2 * (lane % 4), outputs);
    if (of.n % 8 == 0)
      store(task, spot, lane, outputs);
    else
      store_unaligned<kStrip>(task, spot, lane, outputs);
    spot.row += 2 * kStrip;
    drop_strip<kStrip>(v);
  }
}

// Where the left operand comes to registers (matrix_tensor_90a.h) a lane has not two columns of two rows, but two rows side
// by side, the first of which is this for a thread of the block: so it reads both at once, half a warp reads from all
// banks, and eight lanes have eight rows that are neighbours.
TREK_TILE uint32_t line_of_pair(uint32_t thread) {
  const uint32_t warp = thread / 32;
  const uint32_t of_lane = thread % 32 / 4;
  return warp / 2 * 32 + warp % 2 * 8 + of_lane / 4 * 4 + of_lane / 2 % 2 * 16 + of_lane % 2 * 2;
}
// Gives the accumulators of a transposed part of such a product, from spot.row and spot.column of the result on, which are
// the part's: pairs of neighbouring columns.
template <uint32_t kCount>
TREK_TILE void give_pairs(const Task& task, Spot spot, float (&v)[kCount]) {
  constexpr uint32_t kStrip = kLongStrip<kCount> ? 32 : 16;
  static_assert(kCount % kStrip == 0);
  const Matrix& of = task.node().matrix;
  const auto type = static_cast<DType>(task.node().result(0).dtype);
  const auto line = of.n * static_cast<int64_t>(size_of(type));
  const uint32_t lane = opaque(task.thread()) % 32;
  spot.row += 2 * (lane % 4);
  spot.column += line_of_pair(opaque(task.thread()));
  if (spot.column >= spot.end_column) return;
  TREK_ROLLED
  for (uint32_t i = 0; i < kCount; i += kStrip) {
    float strip[kStrip];
#pragma unroll
    for (uint32_t j = 0; j < kStrip; j += 4) {
      strip[j] = v[j];
      strip[j + 1] = v[j + 2];
      strip[j + 2] = v[j + 1];
      strip[j + 3] = v[j + 3];
    }
    apply_tail<Stacked>(task, spot, spot.column, strip);
    std::byte* to = place_in(task, task.node().result(0), spot, spot.column);
#pragma unroll
    for (uint32_t pair = 0; pair < kStrip / 2; ++pair) {
      const uint32_t down = Stacked::down(pair);
      if (spot.row + down >= spot.end_row) continue;
      if (type == DType::f32)
        asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(to + down * line),
                     "f"(strip[2 * pair]), "f"(strip[2 * pair + 1])
                     : "memory");
      else
        write<uint32_t>(to + down * line, 0,
                        packed(type == DType::bf16, strip[2 * pair], strip[2 * pair + 1]));
    }
    spot.row += 2 * kStrip;
    drop_strip<kStrip>(v);
  }
}

// Puts outputs to shared memory at kValues, as [rows][columns] of f32, for tails that run() executes; of a transposed part as
// [columns][rows]. `row` and `column` are the warp's within that; where it has pairs of rows, `row` is the part's.
template <bool kPairs = false, uint32_t kCount>
TREK_TILE void stage_outputs(const Task& task, uint32_t row, uint32_t column, uint32_t rows,
                             uint32_t columns, bool transposed, const float (&v)[kCount]) {
  constexpr uint32_t kApart = kPairs ? 1 : 8;
  const uint32_t lane = opaque(task.thread()) % 32;
  row += kPairs ? line_of_pair(opaque(task.thread())) : lane / 4;
  column += 2 * (lane % 4);
  const uint32_t down = transposed ? 1 : columns;
  const uint32_t across = transposed ? rows : 1;
  float* upper = task.shared<float>(shared_at::kValues) + row * down + column * across;
  float* lower = upper + kApart * down;
#pragma unroll
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint32_t x = i / 4 * 8 + i % 2;
    if (row + (i % 4 < 2 ? 0 : kApart) < rows && column + x < columns)
      (i % 4 < 2 ? upper : lower)[x * across] = v[i];
  }
}

}  // namespace trek::device::tensor

#endif  // __CUDA__
