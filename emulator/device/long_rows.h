// Softmax and cross-entropy of rows of f32 that lie in line and have more than kShortRow and at most kLongRow elements:
// read once, kept in registers, written once. Device only.
//
// A warp has a tile of the reduction order, and the team of a row meets by itself, so that one computes while another
// waits; the next rows come to shared memory meanwhile (row_ring.h).
#pragma once

#ifdef __CUDA__

#include "emulator/device/divisor.h"
#include "emulator/device/exp_near.h"
#include "emulator/device/row_ring.h"

namespace trek::device::rows {

// All elements of a row joined, for all lanes that have it. `at` are numbers of shared memory, one for each warp; they
// may be written again after another sync of the team. One in between.
template <class Join>
TREK_TILE float reduce(const Task& task, const Tile& tile, const Part& of, uint32_t at, Join join) {
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

// What is shared by the elements of a row: their maximum, and the sum of e^(x - maximum). `near`: no element of the
// warp's tile is so far below the maximum that its exponential is less than Divisor::kLeast.
struct Whole {
  float most;
  float sum;
  bool near;
};

// Shared memory: the ring, then numbers that warps exchange.
inline constexpr uint32_t kRing = shared_at::kSlots;
inline constexpr uint32_t kGreatest = kRing + kRingBytes;
inline constexpr uint32_t kExponentials = kGreatest + 4 * kTeam;
static_assert(kExponentials + 4 * kTeam <= kSharedBytes);

// Whether no element of a warp's tile is further below `most` than kNear. Not where there is a NaN or an infinity.
TREK_TILE bool is_near(const Tile& x, const Part& of, float most) {
  float least = most;
#pragma unroll
  for (uint32_t i = 0; i < kOfTile; ++i)
    if (of.has(i)) least = semantics::at_most(least, x.x[i]);
  return __nvvm_vote_all_sync(0xFFFFFFFF, least - most >= kNear);
}

// Calls look(row, ring, turn) for rows [first, end) when the warp's tile is in shared memory, then
// f(row, from, whole, e), for all lanes of a warp together: `from` is where the tile begins in memory, e are its
// e^(x - maximum).
template <class Look, class F>
TREK_TILE void each_long_row(const Task& task, const Part& of, int64_t first, int64_t end,
                             Look look, F f) {
  if (!of.has_row()) return;
  const Operand& operand = task.node().operand(0);
  const TileRing ring(task, of, operand, DType::f32, kRing, 0, kPlaces);
  const float* memory = memory_of(task, operand) + of.first;
  const auto ask = [&](int64_t row, uint32_t turn) TREK_TILE_LAMBDA {
    if (row < end) ring.ask(task, row, turn);
    commit_copies();
  };
  ask(first + of.row, 0);
  ask(first + of.row + of.rows, 1);
  uint32_t turn = 0;
  TREK_ROLLED
  for (int64_t row = first + of.row; row < end; row += of.rows) {
    wait_for_copies(1);
    warp_meets();
    Tile x = ring.tile(task, turn);
    look(row, ring, turn);
    warp_meets();
    ask(row + int64_t{kPlaces} * of.rows, turn);
    Whole whole;
    whole.most =
        reduce(task, x, of, kGreatest, [](float a, float b) { return semantics::max(a, b); });
    whole.near = is_near(x, of, whole.most);
    if (whole.near) {
#pragma unroll
      for (uint32_t i = 0; i < kOfTile; ++i) x.x[i] = exp_near(x.x[i] - whole.most);
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kOfTile; ++i) x.x[i] = semantics::exp_negative(x.x[i] - whole.most);
    }
    whole.sum =
        reduce(task, x, of, kExponentials, [](float a, float b) { return semantics::add(a, b); });
    f(row, memory + row * of.n, whole, x);
    ++turn;
  }
}

// softmax and log_softmax of rows [first, end).
TREK_UNIT_CALL void long_softmax(Task task, int64_t first, int64_t end) {
  const Node& node = task.node();
  const Part of(task, static_cast<uint32_t>(node.lines.n));
  std::byte* to = task.memory(node.result(0));
  const auto type = static_cast<DType>(node.result(0).dtype);  // f32, or what f32 is rounded to
  const bool log = static_cast<Opcode>(node.opcode) == Opcode::LogSoftmax;
  each_long_row(
      task, of, first, end, [](int64_t, const TileRing&, uint32_t) TREK_TILE_LAMBDA {},
      [&](int64_t row, const float* from, const Whole& whole, const Tile& e) TREK_TILE_LAMBDA {
        const int64_t begin = row * of.n + of.first + of.lane;
        if (!log && whole.near && Divisor::is_good(whole.sum)) {
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

// cross_entropy and cross_entropy.with_grad of rows [first, end). Losses go to `losses`, by row. Memory is not defined
// where a class does not exist.
TREK_UNIT_CALL void long_cross_entropy(Task task, int64_t first, int64_t end, float* losses,
                                       bool gradient, bool mean) {
  const Node& node = task.node();
  const Part of(task, static_cast<uint32_t>(node.lines.n));
  float* to = reinterpret_cast<float*>(task.memory(node.result(gradient ? 1 : 0)));
  const auto rows = static_cast<float>(node.lines.lines);
  const Divisor by_rows(rows);
  const float factor = mean ? by_rows.reciprocal() : 1.0f;
  const bool multiplies = !mean || Divisor::is_power(rows);
  // The next row's class is asked for a row ahead. Where a row's own class lies in the tile, and its element.
  const auto class_of = [&](int64_t row) TREK_TILE_LAMBDA {
    return row < end ? static_cast<int64_t>(operand_of(task, 1, row)) : 0;
  };
  int64_t next = class_of(first + of.row);
  uint32_t own = 0;
  float x = 0;
  each_long_row(
      task, of, first, end,
      [&](int64_t row, const TileRing& ring, uint32_t turn) TREK_TILE_LAMBDA {
        const bool exists = next >= 0 && next < of.n;
        if (!exists) task.fail(row);
        own = exists ? static_cast<uint32_t>(next) - of.first : ~0u;
        next = class_of(row + of.rows);
        if (own < of.length) x = ring.one(task, turn, own);
      },
      [&](int64_t row, const float* from, const Whole& whole, const Tile& e) TREK_TILE_LAMBDA {
        const bool has_own = own < of.length && own % 32 == of.lane;
        if (has_own) losses[row] = semantics::log(whole.sum) - (x - whole.most);
        if (!gradient) return;
        float* begin = to + row * of.n + of.first + of.lane;
        const auto share_of = [&](float logit) TREK_TILE_LAMBDA {
          return semantics::exp_negative(logit - whole.most) / whole.sum;
        };
        if (whole.near && Divisor::is_good(whole.sum) && (multiplies || Divisor::is_good(rows))) {
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
            begin[i - of.lane] = mean ? share_of(from[i]) / rows : share_of(from[i]);
        }
        if (!has_own) return;
        const float share = share_of(x) - 1.0f;
        begin[own - of.lane] = mean ? share / rows : share;
      });
}

}  // namespace trek::device::rows

#endif  // __CUDA__
