// Lines of f32 or bf16 whose elements are one stride apart, as they lie: reductions, argmax and argmin, a warp for a tile of
// 1024, and of lines side by side a lane for a line (rows.h has the order). Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/own_fours.h"
#include "emulator/device/rows.h"

namespace trek::device::rows {

inline constexpr uint32_t kAtOnce = 8;  // elements that a lane asks for

template <DType kType>
TREK_UNIT float load_as(const std::byte* at) {
  if constexpr (kType == DType::f32) return as_float(read<uint32_t>(at, 0));
  return as_float(uint32_t{read<uint16_t>(at, 0)} << 16);
}

// Calls f(i, element i) for i = first, first + step, ... < n, ascending, of elements `pitch` bytes apart.
template <DType kType, class F>
TREK_UNIT void each_element(const std::byte* from, int64_t pitch, uint32_t first, uint32_t step,
                            uint32_t n, F f) {
  TREK_ROLLED
  for (uint32_t begin = first; begin < n; begin += kAtOnce * step) {
    float x[kAtOnce];
#pragma unroll
    for (uint32_t e = 0; e < kAtOnce; ++e)
      x[e] = begin + e * step < n ? load_as<kType>(from + (begin + e * step) * pitch) : 0.0f;
#pragma unroll
    for (uint32_t e = 0; e < kAtOnce; ++e)
      if (begin + e * step < n) f(begin + e * step, x[e]);
  }
}

// A tile joined; what lane 0 has holds.
template <DType kType, class Join>
TREK_UNIT float join_tile(const std::byte* from, int64_t pitch, uint32_t lane, uint32_t n,
                          bool squares, Join join) {
  float value = 0;
  each_element<kType>(from, pitch, lane, 32, n, [&](uint32_t i, float x) {
    const float term = squares ? x * x : x;
    value = i == lane ? term : join(value, term);
  });
  return fold(value, lane, n, join);
}

// A row of n floats in shared memory at byte offset `at` joined, of at most a tile; what lane 0 has holds.
TREK_UNIT float join_shared(const Task& task, Opcode opcode, uint32_t at, uint32_t lane,
                            uint32_t n) {
  const auto* row = task.shared<const std::byte>(at);
  const auto by = [&](auto join) {
    return join_tile<DType::f32>(row, 4, lane, n, opcode == Opcode::Norm2, join);
  };
  switch (opcode) {
    case Opcode::Prod:
      return by([](float a, float b) { return semantics::mul(a, b); });
    case Opcode::Max:
      return by([](float a, float b) { return semantics::max(a, b); });
    case Opcode::Min:
      return by([](float a, float b) { return semantics::min(a, b); });
    default:
      return by([](float a, float b) { return semantics::add(a, b); });
  }
}

// How the lines of a node lie.
struct Lying {
  TREK_ON_DEVICE Lying(const Task& task, const Node& node)
      : memory(task.memory(node.operand(node.lines.source))),
        type(static_cast<DType>(node.operand(node.lines.source).dtype)),
        pitch(int64_t{node.lines.stride} * size_of(type)) {}
  TREK_ON_DEVICE const std::byte* line(const Node& node, int64_t l) const {
    return memory + place_here(node, node.lines.kept, l) * size_of(type);
  }

  const std::byte* memory;
  DType type;
  int64_t pitch;  // bytes
};

// Lines that are not rows but columns: what lies side by side are elements of neighbouring lines. So a lane has a line,
// and a warp four of the 32 partials of its warp's lines, [partial][line] at `partials`.
inline constexpr uint32_t kColumns = 32;
inline constexpr uint32_t kFewColumns = 8;  // of fewer, lanes have elements of one line
inline constexpr uint32_t kOfWarp = 4;
inline constexpr uint32_t kSums = kSharedBytes - 4 * kTile;  // of tiles, of up to so many lines
template <DType kType, class Join>
TREK_UNIT void join_columns(const std::byte* from, int64_t pitch, uint32_t first, uint32_t n,
                            bool squares, Join join, float* partials) {
  constexpr uint32_t kDeep = 4;
  float value[kOfWarp] = {0, 0, 0, 0};
  TREK_ROLLED
  for (uint32_t begin = first; begin < n; begin += 32 * kDeep) {
    float x[kDeep][kOfWarp];
#pragma unroll
    for (uint32_t e = 0; e < kDeep; ++e)
#pragma unroll
      for (uint32_t q = 0; q < kOfWarp; ++q) {
        const uint32_t i = begin + 32 * e + q;
        x[e][q] = i < n ? load_as<kType>(from + i * pitch) : 0.0f;
      }
#pragma unroll
    for (uint32_t e = 0; e < kDeep; ++e)
#pragma unroll
      for (uint32_t q = 0; q < kOfWarp; ++q) {
        if (begin + 32 * e + q >= n) continue;
        const float term = squares ? x[e][q] * x[e][q] : x[e][q];
        value[q] = e == 0 && begin == first ? term : join(value[q], term);
      }
  }
#pragma unroll
  for (uint32_t q = 0; q < kOfWarp; ++q) partials[(first + q) * kColumns] = value[q];
}

// The partials of a column, of which there are at most n, folded by halves.
template <class Join>
TREK_UNIT float fold_column(const float* partials, uint32_t n, Join join) {
  float value[32];
#pragma unroll
  for (uint32_t p = 0; p < 32; ++p) value[p] = partials[p * kColumns];
#pragma unroll
  for (uint32_t half = 16; half > 0; half /= 2)
#pragma unroll
    for (uint32_t p = 0; p < half; ++p)
      if (p + half < n) value[p] = join(value[p], value[p + half]);
  return value[0];
}

// Has all that a tile of 32 columns reads come to shared memory at once, [element][column]: from there a warp's lanes read
// neighbours, as from memory, where all of them would wait for each sixteenth of it. A sync at the end.
inline constexpr uint32_t kBroughtColumns =
    shared_at::kValues + 4 * 32 * kColumns;  // behind partials
static_assert(kBroughtColumns + 4 * kColumns * kTile <= kSums);
TREK_UNIT void bring_columns(const Task& task, const std::byte* from, int64_t pitch, uint32_t n) {
  constexpr uint32_t kPieces = kColumns / 4;  // of an element of all columns, of 16 bytes
  const uint32_t to = shared_address(task.shared<std::byte>(kBroughtColumns));
  TREK_ROLLED
  for (uint32_t i = task.thread(); i < n * kPieces; i += kBlockThreads)
    copy_ahead<16>(to + 16 * i, from + i / kPieces * pitch + 16 * (i % kPieces));
  commit_copies();
  wait_for_copies(0);
  task.sync();
}

// A line of at most kFew elements, each of which is a partial: what joins tiles of a long reduction has many such.
inline constexpr uint32_t kFew = 8;
template <DType kType, class Join>
TREK_UNIT float join_few(const std::byte* from, int64_t pitch, uint32_t n, bool squares,
                         Join join) {
  float value[kFew];
  TREK_UNROLLED
  for (uint32_t i = 0; i < kFew; ++i) value[i] = i < n ? load_as<kType>(from + i * pitch) : 0.0f;
  TREK_UNROLLED
  for (uint32_t i = 0; i < kFew; ++i) value[i] = squares ? value[i] * value[i] : value[i];
  TREK_UNROLLED
  for (uint32_t half = kFew / 2; half > 0; half /= 2) {
    TREK_UNROLLED
    for (uint32_t i = 0; i < half; ++i)
      if (i + half < n) value[i] = join(value[i], value[i + half]);
  }
  return value[0];
}

// Joins tile t of `lines` columns from `line` on: sums[l * tiles + t]. A sync at the end.
template <class Join>
TREK_UNIT void join_tile_of_columns(const Task& task, const Lying& lying, int64_t line,
                                    uint32_t lines, uint32_t t, uint32_t tiles, bool squares,
                                    Join join, float* sums) {
  const Node& node = task.node();
  const uint32_t lane = task.thread() % 32;
  const uint32_t left = static_cast<uint32_t>(node.lines.n) - t * kTile;
  const uint32_t n = left < kTile ? left : kTile;
  float* partials = task.shared<float>(shared_at::kValues) + lane;
  const auto join_all = [&](auto join_some) {
    TREK_ROLLED
    for (uint32_t first = kOfWarp * (task.thread() / 32); first < 32; first += kOfWarp * team())
      join_some(first);
  };
  const std::byte* begin = lying.line(node, line) + t * kTile * lying.pitch;
  if (kSpecialised && n > kTile / 8 && lying.type == DType::f32 && lines == kColumns &&
      task.threads() == kBlockThreads &&
      lying.line(node, line + kColumns - 1) - lying.line(node, line) == 4 * (kColumns - 1) &&
      lying.pitch % 16 == 0 && reinterpret_cast<uintptr_t>(begin) % 16 == 0) {
    bring_columns(task, begin, lying.pitch, n);
    const auto* column = task.shared<const std::byte>(kBroughtColumns) + 4 * lane;
    join_all([&](uint32_t first) {
      join_columns<DType::f32>(column, 4 * kColumns, first, n, squares, join, partials);
    });
  } else {
    const std::byte* from =
        lying.line(node, line + (lane < lines ? lane : lines - 1)) + t * kTile * lying.pitch;
    join_all([&](uint32_t first) {
      lying.type == DType::f32
          ? join_columns<DType::f32>(from, lying.pitch, first, n, squares, join, partials)
          : join_columns<DType::bf16>(from, lying.pitch, first, n, squares, join, partials);
    });
  }
  task.sync();
  if (task.thread() < lines) sums[lane * tiles + t] = fold_column(partials, n, join);
  task.sync();
}

// Reduces lines [line, end), of at most kMostTiles tiles.
template <class Join>
TREK_UNIT void reduce_by(const Task& task, int64_t line, int64_t end, Join join) {
  const Node& node = task.node();
  const Lying lying(task, node);
  const auto opcode = static_cast<Opcode>(node.opcode);
  const bool squares =
      static_cast<Strided>(node.lines.strided) == Strided::squares || opcode == Opcode::Norm2;
  const auto n = static_cast<uint32_t>(node.lines.n);
  const uint32_t tiles = (n + kTile - 1) / kTile;
  const uint32_t lane = task.thread() % 32;
  const uint32_t warp = task.thread() / 32;
  auto* sums = task.shared<float>(kSums);  // [line][tile]
  TREK_ROLLED
  while (line < end) {
    const bool are_few = kSpecialised && n <= kFew;
    const bool columns = node.lines.across != 0 && end - line >= kFewColumns && !are_few;
    const uint32_t most = columns ? kColumns : 1024 / tiles;
    const uint32_t lines = end - line < most ? static_cast<uint32_t>(end - line) : most;
    if (are_few) {
      TREK_ROLLED
      for (uint32_t l = task.thread(); l < lines; l += task.threads()) {
        const std::byte* from = lying.line(node, line + l);
        sums[l] = lying.type == DType::f32
                      ? join_few<DType::f32>(from, lying.pitch, n, squares, join)
                      : join_few<DType::bf16>(from, lying.pitch, n, squares, join);
      }
      task.sync();
    } else if (columns) {
      TREK_ROLLED
      for (uint32_t t = 0; t < tiles; ++t)
        join_tile_of_columns(task, lying, line, lines, t, tiles, squares, join, sums);
    } else {
      TREK_ROLLED
      for (uint32_t p = warp; p < lines * tiles; p += team()) {
        const uint32_t l = tiles == 1 ? p : p / tiles;
        const uint32_t first = (p - l * tiles) * kTile;
        const std::byte* from = lying.line(node, line + l) + first * lying.pitch;
        const uint32_t left = n - first < kTile ? n - first : kTile;
        const float sum =
            lying.type == DType::f32
                ? join_tile<DType::f32>(from, lying.pitch, lane, left, squares, join)
                : join_tile<DType::bf16>(from, lying.pitch, lane, left, squares, join);
        if (lane == 0) sums[p] = sum;
      }
      task.sync();
    }
    if (tiles > 1) {
      TREK_ROLLED
      for (uint32_t l = warp; l < lines; l += team()) {
        const float sum = fold(lane < tiles ? sums[l * tiles + lane] : 0.0f, lane, tiles, join);
        if (lane == 0) sums[l * tiles] = sum;
      }
      task.sync();
    }
    for (uint32_t l = task.thread(); l < lines; l += task.threads()) {
      float value = sums[l * tiles];
      if (opcode == Opcode::Mean) value = value / static_cast<float>(n);
      if (opcode == Opcode::Norm2) value = semantics::sqrt(value);
      deliver_one(task, bits_of(value), line + l);
    }
    task.sync();
    line += lines;
  }
}
TREK_UNIT_CALL void reduce(Task task, int64_t line, int64_t end) {
  switch (static_cast<Opcode>(task.node().opcode)) {
    case Opcode::Prod:
      return reduce_by(task, line, end, [](float a, float b) { return semantics::mul(a, b); });
    case Opcode::Max:
      return reduce_by(task, line, end, [](float a, float b) { return semantics::max(a, b); });
    case Opcode::Min:
      return reduce_by(task, line, end, [](float a, float b) { return semantics::min(a, b); });
    default:
      return reduce_by(task, line, end, [](float a, float b) { return semantics::add(a, b); });
  }
}

// The element with the greatest key, and of these the first. No element has the key 0.
struct Best {
  uint32_t key;
  uint32_t at;
  TREK_ON_DEVICE void look(uint32_t other_key, uint32_t other_at) {
    if (other_key < key || (other_key == key && other_at >= at)) return;
    key = other_key;
    at = other_at;
  }
};

// The best of a line of floats in line, from a multiple of 16 bytes on, for one of the block's threads: fours, which come
// to shared memory in groups, many of them at once, each thread its own; and what is behind them. Which of a four it is is
// asked at the end, of one, and of others only what their greatest is.
TREK_UNIT Best best_of_fours(const Task& task, const std::byte* from, uint32_t n, bool least) {
  constexpr uint32_t kGroup = 4;
  constexpr uint32_t kGroups = 6;
  using Ring = OwnFours<shared_at::kWork + 1024>;
  static_assert(kGroup * kGroups <= Ring::kMost);
  const Ring ring(task);
  const uint32_t thread = task.thread();
  const uint32_t threads = kBlockThreads;
  const uint32_t fours = n / 4;
  const uint32_t groups = (fours + kGroup * threads - 1) / (kGroup * threads);
  const auto place = [&](uint32_t g, uint32_t e) { return (g * kGroup + e) * threads + thread; };
  const auto slot = [&](uint32_t g, uint32_t e) { return g % kGroups * kGroup + e; };
  const auto ask = [&](uint32_t g) {
#pragma unroll
    for (uint32_t e = 0; e < kGroup; ++e)
      if (place(g, e) < fours) ring.ask(slot(g, e), from + size_t{16} * place(g, e));
    commit_copies();
  };
  uint32_t key = 0;
  uint32_t best_four = 0;
  // The least is the greatest of those with the other sign.
  const uint32_t flips = least ? 1u << 31 : 0;
  const auto element = [&](const Words& four, uint32_t j) { return as_float(four.e[j] ^ flips); };
  TREK_ROLLED
  for (uint32_t g = 0; g + 1 < kGroups; ++g) ask(g);
  TREK_ROLLED
  for (uint32_t g = 0; g < groups; ++g) {
    ask(g + kGroups - 1);
    wait_for_copies(kGroups - 1);
#pragma unroll
    for (uint32_t e = 0; e < kGroup; ++e) {
      if (place(g, e) >= fours) continue;
      const auto four = ring.get<Words>(slot(g, e));
      const uint32_t most =
          semantics::order_key(semantics::max(semantics::max(element(four, 0), element(four, 1)),
                                              semantics::max(element(four, 2), element(four, 3))));
      // Ascending, so that an equal key comes too late.
      if (most > key) {
        key = most;
        best_four = place(g, e);
      }
    }
  }
  Best best{0, ~0u};
  if (key != 0) {
    const auto four = read<Words>(from, best_four);
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j)
      best.look(semantics::order_key(element(four, j)), 4 * best_four + j);
  }
  if (thread < n % 4)
    best.look(semantics::order_key(as_float(read<uint32_t>(from, 4 * fours + thread) ^ flips)),
              4 * fours + thread);
  return best;
}

// argmax and argmin of lines [line, end). One line is the whole block's where there are few.
TREK_UNIT_CALL void find_best(Task task, int64_t line, int64_t end) {
  constexpr uint32_t kLines = 32;
  const Node& node = task.node();
  const Lying lying(task, node);
  const bool least = static_cast<Opcode>(node.opcode) == Opcode::Argmin;
  const auto n = static_cast<uint32_t>(node.lines.n);
  const uint32_t lane = task.thread() % 32;
  const uint32_t warp = task.thread() / 32;
  auto* of_warps = task.shared<Best>(shared_at::kWork);
  auto* found = task.shared<int64_t>(shared_at::kValues);
  TREK_ROLLED
  while (line < end) {
    const uint32_t lines = end - line < kLines ? static_cast<uint32_t>(end - line) : kLines;
    const bool together = lines < team();
    TREK_ROLLED
    for (uint32_t l = together ? 0 : warp; l < lines; l += together ? 1 : team()) {
      const std::byte* from = lying.line(node, line + l);
      Best best{0, ~0u};
      const auto key_of = [&](float x) {
        return least ? semantics::least_key(x) : semantics::order_key(x);
      };
      const auto look = [&](uint32_t i, float x) { best.look(key_of(x), i); };
      const uint32_t first = together ? task.thread() : lane;
      const uint32_t step = together ? task.threads() : 32;
      // In the resident kernel products by tensor cores lose registers where this is; that for chains has none.
      if ((kSpecialised || kForChains) && together && task.threads() == kBlockThreads &&
          lying.type == DType::f32 && lying.pitch == 4 &&
          reinterpret_cast<uintptr_t>(from) % 16 == 0)
        best = best_of_fours(task, from, n, least);
      else if (lying.type == DType::f32)
        each_element<DType::f32>(from, lying.pitch, first, step, n, look);
      else
        each_element<DType::bf16>(from, lying.pitch, first, step, n, look);
#pragma unroll
      for (uint32_t half = 16; half > 0; half /= 2)
        best.look(from_below(best.key, half), from_below(best.at, half));
      if (!together) {
        if (lane == 0) found[l] = best.at;
        continue;
      }
      if (lane == 0) of_warps[warp] = best;
      task.sync();
      if (task.thread() == 0) {
        TREK_ROLLED
        for (uint32_t w = 1; w < team(); ++w) best.look(of_warps[w].key, of_warps[w].at);
        found[l] = best.at;
      }
      task.sync();
    }
    task.sync();
    deliver_range(task, line, lines);
    task.sync();
    line += lines;
  }
}

}  // namespace trek::device::rows

#endif  // __CUDA__
