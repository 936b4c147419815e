// Softmax and cross-entropy of rows of f32 that lie in line and have more than kShortRow and at most kLongRow elements:
// read once, kept in registers, written once. Device only.
//
// A warp has a tile of the reduction order (1024 elements, of which lane j has every 32nd from j on), so a row has as
// many warps as tiles, its team, and the block as many teams as it has warps for. A team meets by itself, so that one
// waits for memory while another computes; while it works on a row the next one comes to the second-level cache.
#pragma once

#ifdef __CUDA__

#include "emulator/device/divisor.h"
#include "emulator/device/rows.h"

namespace trek::device::rows {

inline constexpr uint32_t kOfTile = kTile / 32;  // elements of a lane
// Named barriers of teams, of at least two warps each: as many as a block may have teams, behind those of the kernel.
inline constexpr uint32_t kFirstBarrier = 3;
static_assert(kFirstBarrier + kMostBlockThreads / 64 <= 16);

// Which tile of its team's rows a warp has.
struct Part {
  TREK_ON_DEVICE Part(const Task& task, uint32_t row_n)
      : n(row_n),
        tiles((row_n + kTile - 1) / kTile),
        rows(team() / tiles),
        lane(task.thread() % 32) {
    warp = task.thread() / 32;
    row = warp / tiles;
    first = (warp - row * tiles) * kTile;
    length = n - first < kTile ? n - first : kTile;
  }
  TREK_ON_DEVICE bool has_row() const { return row < rows; }
  TREK_ON_DEVICE void sync() const {
    if (tiles > 1) meet(kFirstBarrier + row, 32 * tiles);
  }
  // Code that is made for one n knows where all tiles are whole.
  TREK_ON_DEVICE bool has(uint32_t i) const { return n % kTile == 0 || lane + 32 * i < length; }

  uint32_t n;
  uint32_t tiles;  // of a row
  uint32_t rows;   // of the block at once
  uint32_t lane;
  uint32_t warp;
  uint32_t row;     // of those
  uint32_t first;   // element of the row
  uint32_t length;  // elements
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

// Has a tile brought to the second-level cache: a line of 128 bytes a lane.
TREK_UNIT void prefetch(const float* row, const Part& of) {
  if (32 * of.lane < of.length) device::prefetch(row + of.first + 32 * of.lane);
}

// All elements of a row joined, for all lanes that have it. `at` are numbers of shared memory, one for each warp; they
// may be written again after another sync of the team. One in between.
template <class Join>
TREK_UNIT float reduce(const Task& task, const Tile& tile, const Part& of, uint32_t at, Join join) {
  float value = tile.x[0];
#pragma unroll
  for (uint32_t i = 1; i < kOfTile; ++i)
    if (of.has(i)) value = join(value, tile.x[i]);
  value = fold(value, of.lane, of.length, join);
  auto* tiles = task.shared<float>(at);
  if (of.lane == 0) tiles[of.warp] = value;
  of.sync();
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
  if (!of.has_row()) return;
  const float* memory = memory_of(task, task.node().operand(0));
  TREK_ROLLED
  for (int64_t row = first + of.row; row < end; row += of.rows) {
    const float* from = memory + row * of.n;
    Tile x = load(from, of);
    if (row + of.rows < end) prefetch(from + int64_t{of.rows} * of.n, of);
    Whole whole;
    whole.most =
        reduce(task, x, of, kGreatest, [](float a, float b) { return semantics::max(a, b); });
#pragma unroll
    for (uint32_t i = 0; i < kOfTile; ++i) x.x[i] = semantics::exp_negative(x.x[i] - whole.most);
    whole.sum = reduce(task, x, of, kSums, [](float a, float b) { return semantics::add(a, b); });
    f(row, from + of.first, whole, x);
  }
}

// Whether all of a warp's exponentials can be divided by a Divisor, where their sum is a number. As integers less one,
// so that 0 is the greatest.
TREK_UNIT bool divide_well(const Tile& e, const Part& of) {
  uint32_t least = ~0u;
#pragma unroll
  for (uint32_t i = 0; i < kOfTile; ++i) {
    const uint32_t bits = bits_of(e.x[i]) - 1;
    if (of.has(i) && bits < least) least = bits;
  }
  return __nvvm_vote_all_sync(0xFFFFFFFF, least >= bits_of(Divisor::kLeast) - 1);
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
                    const float y = log ? x - log_sum : semantics::exp_negative(x) / whole.sum;
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
  const float factor = mean ? by_rows.reciprocal() : 1.0f;
  const bool multiplies = !mean || Divisor::is_power(rows);
  each_long_row(task, of, first, end,
                [&](int64_t row, const float* from, const Whole& whole, const Tile& e) {
                  // Where the row's own class lies in the tile.
                  const uint32_t own = static_cast<uint32_t>(operand_of(task, 1, row)) - of.first;
                  const bool has_own = own < of.length && own % 32 == of.lane;
                  if (has_own) losses[row] = semantics::log(whole.sum) - (from[own] - whole.most);
                  if (!gradient) return;
                  float* begin = to + row * of.n + of.first + of.lane;
                  const auto share_of = [&](uint32_t i) {
                    return semantics::exp_negative(from[i] - whole.most) / whole.sum;
                  };
                  if (Divisor::is_good(whole.sum) && (multiplies || Divisor::is_good(rows)) &&
                      divide_well(e, of)) {
                    const Divisor by(whole.sum);
                    if (multiplies) {
#pragma unroll
                      for (uint32_t i = 0; i < kOfTile; ++i)
                        if (of.has(i)) begin[32 * i] = by.divide(e.x[i]) * factor;
                    } else {
#pragma unroll
                      for (uint32_t i = 0; i < kOfTile; ++i)
                        if (of.has(i)) begin[32 * i] = by_rows.divide(by.divide(e.x[i]));
                    }
                  } else {
                    TREK_ROLLED
                    for (uint32_t i = of.lane; i < of.length; i += 32)
                      begin[i - of.lane] = mean ? share_of(i) / rows : share_of(i);
                  }
                  if (!has_own) return;
                  const float share = share_of(own) - 1.0f;
                  begin[own - of.lane] = mean ? share / rows : share;
                });
}

}  // namespace trek::device::rows

#endif  // __CUDA__
