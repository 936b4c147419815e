// Softmax and cross-entropy of rows of f32 that lie in line and have more than kShortRow and at most kLongRow elements:
// read once, kept in registers, written once. Device only.
//
// A warp has a tile of the reduction order (1024 elements, of which lane j has every 32nd from j on), so a row has as
// many warps as tiles, and the block as many rows at once as it has warps for: a group. While a group is worked on the
// next one is on its way.
#pragma once

#ifdef __CUDA__

#include "emulator/device/divisor.h"
#include "emulator/device/rows.h"

namespace trek::device::rows {

inline constexpr uint32_t kOfTile = kTile / 32;  // elements of a lane

// Which tile of which row of a group a warp has; one that has none does as the first does, and gives nothing.
struct Part {
  TREK_ON_DEVICE Part(const Task& task, uint32_t row_n)
      : n(row_n),
        tiles((row_n + kTile - 1) / kTile),
        rows(kTeam / tiles),
        lane(task.thread() % 32) {
    warp = task.thread() / 32;
    has_row = warp < rows * tiles;
    row = has_row ? warp / tiles : 0;
    const uint32_t tile = has_row ? warp - row * tiles : 0;
    first = tile * kTile;
    length = n - first < kTile ? n - first : kTile;
  }
  // Code that is made for one n knows where all tiles are whole.
  TREK_ON_DEVICE bool has(uint32_t i) const { return n % kTile == 0 || lane + 32 * i < length; }

  uint32_t n;
  uint32_t tiles;  // of a row
  uint32_t rows;   // of a group
  uint32_t lane;
  uint32_t warp;
  uint32_t row;     // in the group
  uint32_t first;   // element of the row
  uint32_t length;  // elements
  bool has_row;
};

struct Tile {
  float x[kOfTile];
};

TREK_UNIT Tile load(const float* row, const Part& of) {
  const float* from = row + of.first + of.lane;
  Tile tile;
#pragma unroll
  for (uint32_t i = 0; i < kOfTile; ++i) tile.x[i] = of.has(i) ? from[32 * i] : 0.0f;
  return tile;
}

// All elements of a row joined, for all lanes that have it. `at` are numbers of shared memory, one for each warp; they
// may be written again after another sync. A sync in between.
template <class Join>
TREK_UNIT float reduce(const Task& task, const Tile& tile, const Part& of, uint32_t at, Join join) {
  float value = tile.x[0];
#pragma unroll
  for (uint32_t i = 1; i < kOfTile; ++i)
    if (of.has(i)) value = join(value, tile.x[i]);
  value = fold(value, of.lane, of.length, join);
  auto* tiles = task.shared<float>(at);
  if (of.lane == 0) tiles[of.warp] = value;
  task.sync();
  value = of.lane < of.tiles ? tiles[of.row * of.tiles + of.lane] : 0.0f;
  return from_lane(fold(value, of.lane, of.tiles, join), 0);
}

// What is shared by the elements of a row: their maximum, and the sum of e^(x - maximum).
struct Whole {
  float most;
  float sum;
};

// Calls f(row, from, whole, e) for rows [first, end), for all lanes of a warp together: `from` is where the warp's tile
// begins, e are its e^(x - maximum).
template <class F>
TREK_UNIT void each_long_row(const Task& task, const Part& of, int64_t first, int64_t end, F f) {
  constexpr uint32_t kGreatest = shared_at::kWork;
  constexpr uint32_t kSums = kGreatest + 4 * kTeam;
  const float* memory = memory_of(task, task.node().operand(0));
  // A row that does not exist is the last again.
  const auto row_at = [&](int64_t group) {
    const int64_t row = group + of.row;
    return memory + (row < end ? row : end - 1) * of.n;
  };
  Tile x = load(row_at(first), of);
  TREK_ROLLED
  for (int64_t group = first; group < end; group += of.rows) {
    Whole whole;
    whole.most =
        reduce(task, x, of, kGreatest, [](float a, float b) { return semantics::max(a, b); });
    const Tile next = load(row_at(group + of.rows), of);
#pragma unroll
    for (uint32_t i = 0; i < kOfTile; ++i) x.x[i] = semantics::exp(x.x[i] - whole.most);
    whole.sum = reduce(task, x, of, kSums, [](float a, float b) { return semantics::add(a, b); });
    const int64_t row = group + of.row;
    if (of.has_row && row < end) f(row, memory + row * of.n + of.first, whole, x);
    x = next;
  }
}

// Whether all of a warp's exponentials can be divided by a Divisor.
TREK_UNIT bool divide_well(const Tile& e, const Part& of) {
  bool all = true;
#pragma unroll
  for (uint32_t i = 0; i < kOfTile; ++i)
    if (of.has(i) && !(e.x[i] >= Divisor::kLeast) && e.x[i] != 0.0f) all = false;
  return __nvvm_vote_all_sync(0xFFFFFFFF, all);
}

// softmax and log_softmax of rows [first, end).
TREK_UNIT_CALL void long_softmax(Task task, int64_t first, int64_t end) {
  const Node& node = task.node();
  const Part of(task, static_cast<uint32_t>(node.lines.n));
  std::byte* to = task.memory(node.result(0));
  const auto type = static_cast<DType>(node.result(0).dtype);  // f32, or what f32 is rounded to
  const bool log = static_cast<Opcode>(node.opcode) == Opcode::LogSoftmax;
  each_long_row(task, of, first, end,
                [&](int64_t row, const float* from, const Whole& whole, const Tile& e) {
                  const int64_t begin = row * of.n + of.first + of.lane;
                  if (!log && Divisor::is_good(whole.sum) && divide_well(e, of)) {
                    const Divisor by(whole.sum);
                    if (type == DType::f32) {
                      float* out = reinterpret_cast<float*>(to) + begin;
#pragma unroll
                      for (uint32_t i = 0; i < kOfTile; ++i)
                        if (of.has(i)) out[32 * i] = by.divide(e.x[i]);
                      return;
                    }
#pragma unroll
                    for (uint32_t i = 0; i < kOfTile; ++i)
                      if (of.has(i)) store32(to, type, begin + 32 * i, bits_of(by.divide(e.x[i])));
                    return;
                  }
                  const float log_sum = log ? semantics::log(whole.sum) : 0.0f;
                  TREK_ROLLED
                  for (uint32_t i = of.lane; i < of.length; i += 32) {
                    const float x = from[i] - whole.most;
                    const float y = log ? x - log_sum : semantics::exp(x) / whole.sum;
                    store32(to, type, begin - of.lane + i, bits_of(y));
                  }
                });
}

// cross_entropy and cross_entropy.with_grad of rows [first, end), whose classes exist. Losses go to `losses`, by row.
TREK_UNIT_CALL void long_cross_entropy(Task task, int64_t first, int64_t end, float* losses,
                                       bool gradient, bool mean) {
  const Node& node = task.node();
  const Part of(task, static_cast<uint32_t>(node.lines.n));
  float* to = reinterpret_cast<float*>(task.memory(node.result(gradient ? 1 : 0)));
  const auto rows = static_cast<float>(node.lines.lines);
  const Divisor by_rows(rows);
  each_long_row(task, of, first, end,
                [&](int64_t row, const float* from, const Whole& whole, const Tile& e) {
                  // Where the row's own class lies in the tile.
                  const uint32_t own = static_cast<uint32_t>(operand_of(task, 1, row)) - of.first;
                  if (own < of.length && own % 32 == of.lane)
                    losses[row] = semantics::log(whole.sum) - (from[own] - whole.most);
                  if (!gradient) return;
                  float* begin = to + row * of.n + of.first + of.lane;
                  if (Divisor::is_good(whole.sum) && (!mean || Divisor::is_good(rows)) &&
                      divide_well(e, of)) {
                    const Divisor by(whole.sum);
#pragma unroll
                    for (uint32_t i = 0; i < kOfTile; ++i) {
                      float share = by.divide(e.x[i]);
                      if (of.lane + 32 * i == own) share = share - 1.0f;
                      if (of.has(i)) begin[32 * i] = mean ? by_rows.divide(share) : share;
                    }
                    return;
                  }
                  TREK_ROLLED
                  for (uint32_t i = of.lane; i < of.length; i += 32) {
                    float share = semantics::exp(from[i] - whole.most) / whole.sum;
                    if (i == own) share = share - 1.0f;
                    begin[i - of.lane] = mean ? share / rows : share;
                  }
                });
}

}  // namespace trek::device::rows

#endif  // __CUDA__
