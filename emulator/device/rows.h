// Rows of f32 or bf16 as they lie, without the general way of stage.h, which takes longer to stage and to wait than there is
// to do: softmax and cross-entropy of rows of at most kShortRow elements, a warp or less each. Device only.
//
// The reduction order (isa/semantics/reduce.h) of up to 1024 elements is that of a warp: lane j has partial j,
// the join of every 32nd element from j on, and partials fold by halves.
#pragma once

#ifdef __CUDA__

#include "emulator/device/reduce_order.h"

namespace trek::device::rows {

inline constexpr uint32_t kValues = kShortRow / 32;  // of a lane
inline constexpr uint32_t kTile = semantics::kReductionTile;
inline constexpr uint32_t kTeam = kMostBlockThreads / 32;  // warps that a block may have
TREK_UNIT uint32_t team() { return block_threads() / 32; }

TREK_UNIT float from_lane(float value, uint32_t lane) {
  return as_float(static_cast<uint32_t>(__nvvm_shfl_sync_idx_i32(
      0xFFFFFFFF, static_cast<int>(bits_of(value)), static_cast<int>(lane), 31)));
}
TREK_UNIT uint32_t from_below(uint32_t value, uint32_t lanes) {
  return static_cast<uint32_t>(
      __nvvm_shfl_sync_down_i32(0xFFFFFFFF, static_cast<int>(value), static_cast<int>(lanes), 31));
}
TREK_UNIT float from_below(float value, uint32_t lanes) {
  return as_float(from_below(bits_of(value), lanes));
}

// The lanes that have a row of n elements: 8, 16 or 32, so that several short rows are worked on at once.
// Element i is lane i mod 32's; all lanes of the warp go through what follows together.
struct Lanes {
  TREK_ON_DEVICE Lanes(const Task& task, uint32_t row_n)
      : Lanes(task, row_n,
              row_n <= 8    ? 8
              : row_n <= 16 ? 16
                            : 32) {}
  TREK_ON_DEVICE Lanes(const Task& task, uint32_t row_n, uint32_t lanes)
      : n(row_n), width(lanes), lane(task.thread() % lanes) {
    first = task.thread() % 32 - lane;
  }
  TREK_ON_DEVICE uint32_t rows() const { return block_threads() / width; }  // at once, of the block
  TREK_ON_DEVICE bool has(uint32_t i) const { return lane + 32 * i < n; }

  uint32_t n;
  uint32_t width;
  uint32_t lane;   // in the row
  uint32_t first;  // the row's first, in the warp
};

// What a lane has of a row: kOf of kValues, in code for rows of at most 32 x kOf elements.
template <uint32_t kOf = kValues>
struct Row {
  float x[kOf];
};

template <uint32_t kOf = kValues>
TREK_UNIT Row<kOf> load(const float* from, const Lanes& of) {
  Row<kOf> row;
#pragma unroll
  for (uint32_t i = 0; i < kOf; ++i) row.x[i] = of.has(i) ? from[of.lane + 32 * i] : 0.0f;
  return row;
}

// The partials of lanes 0, 1, ... folded by halves, of which there are at most n; what lane 0 has holds.
template <class Join>
TREK_UNIT float fold(float value, uint32_t lane, uint32_t n, Join join) {
#pragma unroll
  for (uint32_t half = 16; half > 0; half /= 2) {
    const float other = from_below(value, half);
    if (lane < half && lane + half < (n < 2 * half ? n : 2 * half)) value = join(value, other);
  }
  return value;
}
// All elements joined, for all lanes of the row.
template <uint32_t kOf, class Join>
TREK_UNIT float reduce(const Row<kOf>& row, const Lanes& of, Join join) {
  float value = row.x[0];
#pragma unroll
  for (uint32_t i = 1; i < kOf; ++i)
    if (of.has(i)) value = join(value, row.x[i]);
  return from_lane(fold(value, of.lane, of.n, join), of.first);
}
template <uint32_t kOf>
TREK_UNIT float greatest(const Row<kOf>& row, const Lanes& of) {
  return reduce(row, of, [](float a, float b) { return semantics::max(a, b); });
}
template <uint32_t kOf>
TREK_UNIT float sum(const Row<kOf>& row, const Lanes& of) {
  return reduce(row, of, [](float a, float b) { return semantics::add(a, b); });
}

// Calls f(row, exists) for rows [first, end), for all lanes of a warp together; one that does not exist is the
// last again.
template <class F>
TREK_UNIT void each_row(const Task& task, const Lanes& of, int64_t first, int64_t end, F f) {
  TREK_ROLLED
  for (int64_t of_warp = first + task.thread() / 32 * (32 / of.width); of_warp < end;
       of_warp += of.rows()) {
    const int64_t row = of_warp + of.first / of.width;
    f(row < end ? row : end - 1, row < end);
  }
}

// What softmax and the losses share: e = exp(x - most), and their sum.
template <uint32_t kOf>
struct Soft {
  Row<kOf> e;
  float most;
  float sum;
};
template <uint32_t kOf>
TREK_UNIT Soft<kOf> soften(const Row<kOf>& x, const Lanes& of) {
  Soft<kOf> soft;
  soft.most = greatest(x, of);
#pragma unroll
  for (uint32_t i = 0; i < kOf; ++i)
    soft.e.x[i] = of.has(i) ? semantics::exp_negative(x.x[i] - soft.most) : 0.0f;
  soft.sum = sum(soft.e, of);
  return soft;
}

TREK_UNIT const float* memory_of(const Task& task, const Operand& operand) {
  return reinterpret_cast<const float*>(task.memory(operand));
}

// softmax and log_softmax of rows [first, end).
TREK_UNIT_CALL void softmax(Task task, int64_t first, int64_t end) {
  const Node& node = task.node();
  const Lanes lanes(task, static_cast<uint32_t>(node.lines.n));
  const float* from = memory_of(task, node.operand(0));
  std::byte* to = task.memory(node.result(0));
  const auto type = static_cast<DType>(node.result(0).dtype);  // f32, or what f32 is rounded to
  const bool log = static_cast<Opcode>(node.opcode) == Opcode::LogSoftmax;
  each_row(task, lanes, first, end, [&](int64_t row, bool exists) {
    const Row<> x = load(from + row * lanes.n, lanes);
    const Soft<kValues> soft = soften(x, lanes);
    const float log_sum = log ? semantics::log(soft.sum) : 0.0f;
#pragma unroll
    for (uint32_t i = 0; i < kValues; ++i)
      if (exists && lanes.has(i))
        store32(to, type, row * lanes.n + lanes.lane + 32 * i,
                bits_of(log ? (x.x[i] - soft.most) - log_sum : soft.e.x[i] / soft.sum));
  });
}

// The loss of a row of logits x, whose class is `own`, and where that is wanted its gradient: of `rows` rows, or with 0 one that
// is no mean's. give(at, share) takes what a lane has of it.
template <uint32_t kOf, class Give>
TREK_TILE void lose(const Row<kOf>& x, const Lanes& of, int64_t own, float* loss, bool gradient,
                    float rows, Give give) {
  const Soft<kOf> soft = soften(x, of);
#pragma unroll
  for (uint32_t i = 0; i < kOf; ++i) {
    const uint32_t at = of.lane + 32 * i;
    if (!of.has(i)) continue;
    if (at == own) *loss = semantics::log(soft.sum) - (x.x[i] - soft.most);
    if (!gradient) continue;
    float share = soft.e.x[i] / soft.sum;
    if (at == own) share = share - 1.0f;
    give(at, rows != 0 ? share / rows : share);
  }
}

// cross_entropy and cross_entropy.with_grad of rows [first, end), of which those whose class does not exist fail. Losses go to
// `losses`, by row.
template <uint32_t kOf>
TREK_UNIT_CALL void cross_entropy_of(Task task, int64_t first, int64_t end, float* losses,
                                     bool gradient, bool mean) {
  const Node& node = task.node();
  const Lanes lanes(task, static_cast<uint32_t>(node.lines.n));
  const float* from = memory_of(task, node.operand(0));
  float* to = reinterpret_cast<float*>(task.memory(node.result(gradient ? 1 : 0)));
  const float rows = mean ? static_cast<float>(node.lines.lines) : 0;
  each_row(task, lanes, first, end, [&](int64_t row, bool exists) {
    const Row<kOf> x = load<kOf>(from + row * lanes.n, lanes);
    const auto own = static_cast<int64_t>(operand_of(task, 1, row));
    if (own < 0 || own >= node.lines.n) task.fail(row);
    lose(x, lanes, exists ? own : -1, losses + row, gradient, rows,
         [&](uint32_t at, float share) TREK_TILE_LAMBDA {
           if (exists) to[row * lanes.n + at] = share;
         });
  });
}
TREK_UNIT void cross_entropy(const Task& task, int64_t first, int64_t end, float* losses,
                             bool gradient, bool mean) {
  if (task.node().lines.n <= 32)
    return cross_entropy_of<1>(task, first, end, losses, gradient, mean);
  cross_entropy_of<kValues>(task, first, end, losses, gradient, mean);
}

// The sum of up to 1024 numbers in shared memory, at byte offset `at`, for the first warp.
TREK_UNIT float sum_of_tile(const Task& task, uint32_t at, uint32_t n) {
  const Lanes lanes(task, 32 < n ? 32 : n);
  const float* from = task.shared<float>(at);
  const uint32_t lane = task.thread();
  Row<1> row{};
  if (lane < n) row.x[0] = from[lane];
  for (uint32_t i = lane + 32; i < n; i += 32) row.x[0] = semantics::add(row.x[0], from[i]);
  return sum(row, lanes);
}

}  // namespace trek::device::rows

#endif  // __CUDA__
