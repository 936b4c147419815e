// The matrix product in the dot order of isa/semantics/dot.h: a tile of dot products whose block sums
// live in registers, and the packing that lays operands out for it.
//
// A lane of a vector is one dot product, so its order does not depend on the width of the vector. A
// block of 64 k is 64 steps of fused multiply-adds into registers that start at +0; then the block's
// sums join the segment's, which stay in the first-level cache.
#include "emulator/kernels/vectors.h"
#include "isa/semantics/dot.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

using semantics::kDotBlock;

constexpr int kVectors = 2;
// Accumulators fill the registers but for the right vectors and a left element.
constexpr int kRows = kRegisters == 32 ? 14 : 6;

// `length` steps of a block; then its sums start those of the segment in `out`, or join them.
template <class C, int kHeight, int kWidth, bool kByK>
TREK_FN void block(const C* left, const C* right, int64_t length, C* out, bool first) {
  Vector<C> sum[kHeight][kWidth] = {};
  for (int64_t k = 0; k < length; ++k) {
    Vector<C> b[kWidth];
#pragma GCC unroll 2
    for (int v = 0; v < kWidth; ++v) b[v] = load(right + (k * kWidth + v) * kLanes<C>);
#pragma GCC unroll 16
    for (int r = 0; r < kHeight; ++r) {
      const Vector<C> a =
          broadcast(kByK ? left[k * kHeight + r] : left[int64_t{r} * kDotBlock + k]);
#pragma GCC unroll 2
      for (int v = 0; v < kWidth; ++v) sum[r][v] = multiply_add<C>(a, b[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kHeight; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kWidth; ++v) {
      C* to = out + (r * kWidth + v) * kLanes<C>;
      store(to, first ? sum[r][v] : load(to) + sum[r][v]);
    }
  }
}

template <class C, int kHeight, int kWidth, bool kByK>
void tile(const TileTask& task) {
  const auto* left = reinterpret_cast<const C*>(task.left);
  const auto* right = reinterpret_cast<const C*>(task.right);
  auto* out = reinterpret_cast<C*>(task.out);
  for (int64_t k = 0; k < task.k; k += kDotBlock) {
    const int64_t length = least(kDotBlock, task.k - k);
    block<C, kHeight, kWidth, kByK>(left, right, length, out, k == 0);
    left += kHeight * kDotBlock;
    right += kWidth * kLanes<C> * kDotBlock;
  }
}

template <class C, int kHeight>
void tile_of_height(const TileTask& task) {
  if (task.vectors == 1) {
    if (task.by_k) return tile<C, kHeight, 1, true>(task);
    return tile<C, kHeight, 1, false>(task);
  }
  if (task.by_k) return tile<C, kHeight, kVectors, true>(task);
  tile<C, kHeight, kVectors, false>(task);
}

// 1 row, or an even number of them.
template <class C, int kHeight>
void tile_up_to(const TileTask& task) {
  if (task.rows == kHeight) return tile_of_height<C, kHeight>(task);
  if constexpr (kHeight > 2) return tile_up_to<C, kHeight - 2>(task);
  tile_of_height<C, 1>(task);
}

// Integers are accumulated unsigned, so that they wrap.
template <class F>
void with_lane(DType lane, F&& f) {
  switch (lane) {
    case DType::f64:
      return f(Tag<double>{});
    case DType::i32:
      return f(Tag<uint32_t>{});
    case DType::i64:
      return f(Tag<uint64_t>{});
    default:
      return f(Tag<float>{});
  }
}

// A copy whose length is mostly the one that the compiler knows, of a full panel or tile.
template <int64_t kUsual, class C>
TREK_FN void copy_line(C* to, const C* from, int64_t n) {
  if (n == kUsual) {
    __builtin_memcpy(to, from, kUsual * sizeof(C));
  } else {
    __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(C));
  }
}
template <class C>
inline constexpr int64_t kColumns = int64_t{kVectors} * kLanes<C>;

// `k` elements side by side become lines of a panel: out[k × width + line]. Converted first where they
// must be, a few columns of the source at a time.
template <class C>
void pack_across(const PackTask& task, C* out) {
  constexpr int64_t kRun = 64;
  C buffer[kRun];
  const int64_t bytes = bytes_of(task.dtype);
  if (task.dtype == task.lane) {
    return transpose_block(out, task.width, task.source, task.line_stride, task.lines, task.k,
                           static_cast<int>(bytes));
  }
  for (int64_t line = 0; line < task.lines; ++line) {
    for (int64_t k = 0; k < task.k; k += kRun) {
      const int64_t run = least(kRun, task.k - k);
      const std::byte* from = task.source + (line * task.line_stride + k) * bytes;
      convert_run(buffer, task.lane, from, task.dtype, run);
      for (int64_t i = 0; i < run; ++i) out[(k + i) * task.width + line] = buffer[i];
    }
  }
}

// Lines side by side stay so.
template <class C>
void pack_along(const PackTask& task, C* out) {
  const int64_t bytes = bytes_of(task.dtype);
  for (int64_t k = 0; k < task.k; ++k) {
    const std::byte* from = task.source + k * task.k_stride * bytes;
    C* to = out + k * task.width;
    if (task.dtype == task.lane) {
      copy_line<kColumns<C>>(to, reinterpret_cast<const C*>(from), task.lines);
    } else {
      convert_run(to, task.lane, from, task.dtype, task.lines);
    }
    for (int64_t line = task.lines; line < task.width; ++line) to[line] = C(0);
  }
}

// [k][line]
template <class C>
void pack_by_k(const PackTask& task) {
  auto* out = reinterpret_cast<C*>(task.panel);
  if (task.line_stride == 1) return pack_along(task, out);
  pack_across(task, out);
  for (int64_t k = 0; k < task.k; ++k)
    for (int64_t line = task.lines; line < task.width; ++line) out[k * task.width + line] = C(0);
}

// Blocks of [line][64], from lines whose k lie side by side.
template <class C>
void pack_by_line(const PackTask& task) {
  auto* out = reinterpret_cast<C*>(task.panel);
  const int64_t bytes = bytes_of(task.dtype);
  for (int64_t k = 0; k < task.k; k += kDotBlock) {
    const int64_t run = least(kDotBlock, task.k - k);
    for (int64_t line = 0; line < task.width; ++line, out += kDotBlock) {
      if (line < task.lines) {
        const std::byte* from = task.source + (line * task.line_stride + k) * bytes;
        if (task.dtype == task.lane) {
          copy_line<kDotBlock>(out, reinterpret_cast<const C*>(from), run);
        } else {
          convert_run(out, task.lane, from, task.dtype, run);
        }
      } else {
        for (int64_t i = 0; i < run; ++i) out[i] = C(0);
      }
    }
  }
}

template <class C>
void finish_as(const FinishTask& task) {
  auto* tile = reinterpret_cast<C*>(task.tile);
  C buffer[kTile];
  for (int64_t r = 0; r < task.rows; ++r) {
    C* row = tile + r * task.stride;
    if constexpr (semantics::kIsFloat<C>) {
      const C scale = static_cast<C>(task.scale);
      for (int64_t c = 0; task.has_scale && c < task.columns; ++c) row[c] = row[c] * scale;
    }
    if (task.bias == nullptr) continue;
    const std::byte* bias = task.bias + r * task.bias_row_stride * bytes_of(task.bias_dtype);
    convert_run(buffer, task.lane, bias, task.bias_dtype,
                task.bias_column_stride == 0 ? 1 : task.columns);
    if (task.bias_column_stride == 0) {
      for (int64_t c = 0; c < task.columns; ++c) row[c] = row[c] + buffer[0];
    } else {
      for (int64_t c = 0; c < task.columns; ++c) row[c] = row[c] + buffer[c];
    }
  }
  if (task.tail != nullptr) {
    // The whole tile at once: its absent rows and columns are zeros, or what follows from them.
    task.tail(tile, tile, tile, tile, task.tail_attributes, task.rows * task.stride);
  }
  for (int64_t r = 0; r < task.rows; ++r) {
    std::byte* to = task.result + r * task.result_stride * bytes_of(task.dtype);
    const C* row = tile + r * task.stride;
    if (task.dtype == task.lane) {
      copy_line<kColumns<C>>(reinterpret_cast<C*>(to), row, task.columns);
    } else {
      convert_run(to, task.dtype, row, task.lane, task.columns);
    }
  }
}

// Columns [begin, end) of a vector times a matrix: a block's sums for a run of columns, eight rows of
// the matrix at a time.
template <class C>
void multiply_columns(const VectorTask& task, int64_t begin, int64_t end) {
  constexpr int64_t kRun = 512;
  constexpr int64_t kStep = 8;
  const auto* left = reinterpret_cast<const C*>(task.left);
  const int64_t bytes = bytes_of(task.dtype);
  const int64_t n = end - begin;
  alignas(64) C sum[kRun];
  alignas(64) C segment[kRun];
  alignas(64) C converted[kStep][kRun];
  auto* total = reinterpret_cast<C*>(task.out);
  for (int64_t k = 0; k < task.k; k += kDotBlock) {
    const int64_t length = least(kDotBlock, task.k - k);
    for (int64_t c = 0; c < n; ++c) sum[c] = C(0);
    for (int64_t step = 0; step < length; step += kStep) {
      const C* row[kStep];
      const int64_t rows = least(kStep, length - step);
      for (int64_t i = 0; i < rows; ++i) {
        const std::byte* from = task.right + ((k + step + i) * task.stride + begin) * bytes;
        row[i] = as_type<C>(from, task.dtype, n, converted[i]);
      }
      const C* a = left + k + step;
      if (rows == kStep) {
        TREK_VECTORISE
        for (int64_t c = 0; c < n; ++c) {
          C s = sum[c];
#pragma GCC unroll 8
          for (int i = 0; i < kStep; ++i) s = semantics::fma(a[i], row[i][c], s);
          sum[c] = s;
        }
      } else {
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t c = 0; c < n; ++c) sum[c] = semantics::fma(a[i], row[i][c], sum[c]);
      }
    }
    const bool starts = k % semantics::kDotSegment == 0;
    for (int64_t c = 0; c < n; ++c) segment[c] = starts ? sum[c] : segment[c] + sum[c];
    if ((k + kDotBlock) % semantics::kDotSegment != 0 && k + kDotBlock < task.k) continue;
    const bool first = k < semantics::kDotSegment;
    for (int64_t c = 0; c < n; ++c) total[c] = first ? segment[c] : total[c] + segment[c];
  }
}

}  // namespace

MatrixShape shape_of_tiles(DType lane) {
  MatrixShape shape = {kRows, kVectors, 0};
  with_lane(lane, [&](auto tag) { shape.lanes = kLanes<typename decltype(tag)::Type>; });
  return shape;
}

void pack_left_panel(const PackTask& task) {
  with_lane(task.lane, [&](auto tag) {
    using C = typename decltype(tag)::Type;
    if (task.by_k) return pack_by_k<C>(task);
    pack_by_line<C>(task);
  });
}

void pack_right_panel(const PackTask& task) {
  with_lane(task.lane, [&](auto tag) { pack_by_k<typename decltype(tag)::Type>(task); });
}

void run_tile(const TileTask& task) {
  with_lane(task.lane, [&](auto tag) { tile_up_to<typename decltype(tag)::Type, kRows>(task); });
}

void add_totals(void* total, const void* part, DType lane, int64_t n) {
  with_lane(lane, [&](auto tag) {
    using C = typename decltype(tag)::Type;
    auto* to = static_cast<C*>(total);
    const auto* from = static_cast<const C*>(part);
    for (int64_t i = 0; i < n; ++i) to[i] = to[i] + from[i];
  });
}

void finish_tile(const FinishTask& task) {
  with_lane(task.lane, [&](auto tag) { finish_as<typename decltype(tag)::Type>(task); });
}

void multiply_vector(const VectorTask& task, int64_t begin, int64_t end) {
  constexpr int64_t kRun = 512;
  with_compute(task.lane, [&](auto tag) {
    using C = typename decltype(tag)::Type;
    VectorTask part = task;
    for (int64_t at = begin; at < end; at += kRun) {
      part.out = task.out + (at - begin) * static_cast<int64_t>(sizeof(C));
      multiply_columns<C>(part, at, least(end, at + kRun));
    }
  });
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
