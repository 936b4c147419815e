// Reductions in the order of isa/semantics/reduce.h, one tile of 1024 elements at a time. The 32
// partials are lanes of vectors where the reduced elements of a result lie side by side (rows), and 32
// rows of vectors where results do (columns).
#include "isa/semantics/reduce.h"

#include "emulator/kernels/loops.h"
#include "isa/semantics/compare.h"
#include "isa/semantics/integer.h"
#include "isa/semantics/rounding.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

using semantics::kPartials;
using semantics::kReductionTile;

constexpr int64_t kColumns = 64;  // results worked on together

struct Sum {
  template <class C>
  TREK_FN C join(C a, C b) {
    if constexpr (semantics::kIsFloat<C>)
      return a + b;
    else
      return semantics::add(a, b);
  }
};
struct Product {
  template <class C>
  TREK_FN C join(C a, C b) {
    if constexpr (semantics::kIsFloat<C>)
      return a * b;
    else
      return semantics::mul(a, b);
  }
};
struct Greatest {
  template <class C>
  TREK_FN C join(C a, C b) {
    return semantics::max(a, b);
  }
};
struct Least {
  template <class C>
  TREK_FN C join(C a, C b) {
    return semantics::min(a, b);
  }
};

// A position in a product of axes, and the element it stands for.
struct Position {
  int64_t index[isa::kMaxRank];
  int64_t offset;
};

Position position(int64_t at, int rank, const int64_t* dims, const int64_t* strides) {
  Position p = {};
  for (int axis = rank - 1; axis >= 0; --axis) {
    p.index[axis] = at % dims[axis];
    at /= dims[axis];
    p.offset += p.index[axis] * strides[axis];
  }
  return p;
}

// `steps` elements on along the last axis, which ends no earlier.
inline void advance(Position& p, int64_t steps, int rank, const int64_t* dims,
                    const int64_t* strides) {
  p.index[rank - 1] += steps;
  p.offset += steps * strides[rank - 1];
  for (int axis = rank - 1; axis > 0 && p.index[axis] == dims[axis]; --axis) {
    p.offset += strides[axis - 1] - p.index[axis] * strides[axis];
    p.index[axis] = 0;
    ++p.index[axis - 1];
  }
}

// A tile of at most 1024 consecutive elements.
template <class J, class C>
C reduce_tile(const C* x, int64_t n) {
  C partial[kPartials] = {};
  const int64_t first = least(n, kPartials);
  for (int64_t j = 0; j < first; ++j) partial[j] = x[j];
  int64_t i = kPartials;
  for (; i + kPartials <= n; i += kPartials) {
    for (int64_t j = 0; j < kPartials; ++j) partial[j] = J::join(partial[j], x[i + j]);
  }
  for (int64_t j = 0; i + j < n; ++j) partial[j] = J::join(partial[j], x[i + j]);
  semantics::fold(partial, static_cast<int>(first), [](C a, C b) { return J::join(a, b); });
  return partial[0];
}

// `n` elements from x on, stride apart, in the lane type and as they enter the reduction.
template <class C>
const C* enter(const ReduceTask& task, int64_t offset, int64_t stride, int64_t n, C* buffer,
               std::byte* raw) {
  const int64_t bytes = bytes_of(task.dtype);
  const auto bring = [&](const std::byte* data, C* out) {
    const std::byte* from = data + offset * bytes;
    if (stride != 1) {
      for (int64_t i = 0; i < n; ++i)
        __builtin_memcpy(raw + i * bytes, from + i * stride * bytes, static_cast<size_t>(bytes));
      from = raw;
    }
    if (task.dtype == task.lane && stride == 1) return reinterpret_cast<const C*>(from);
    convert_run(out, task.lane, from, task.dtype, n);
    return static_cast<const C*>(out);
  };
  const C* x = bring(task.x, buffer);
  if constexpr (semantics::kIsFloat<C>) {
    if (task.square) {
      for (int64_t i = 0; i < n; ++i) buffer[i] = x[i] * x[i];
      return buffer;
    }
  }
  return x;
}

// Tile `t` of one result whose elements begin at `base`.
template <class J, class C>
C reduce_row(const ReduceTask& task, int64_t base, int64_t t) {
  alignas(64) C buffer[kReductionTile];
  alignas(64) std::byte raw[kReductionTile * 8];
  const int64_t begin = t * kReductionTile;
  const int64_t n = least(kReductionTile, task.n - begin);
  const int last = task.rank - 1;
  if (task.rank == 1) {
    const int64_t offset = base + begin * task.strides[0];
    return reduce_tile<J>(enter<C>(task, offset, task.strides[0], n, buffer, raw), n);
  }
  Position p = position(begin, task.rank, task.dims, task.strides);
  int64_t done = 0;
  do {
    const int64_t run = least(task.dims[last] - p.index[last], n - done);
    const C* x = enter<C>(task, base + p.offset, task.strides[last], run, buffer + done, raw);
    if (x != buffer + done)
      __builtin_memcpy(buffer + done, x, static_cast<size_t>(run) * sizeof(C));
    advance(p, run, task.rank, task.dims, task.strides);
    done += run;
  } while (done < n);
  return reduce_tile<J>(buffer, n);
}

// Tile `t` of `width` results side by side, whose elements begin at `base`.
template <class J, class C>
void reduce_columns(const ReduceTask& task, int64_t base, int64_t t, int64_t width, C* out) {
  alignas(64) C partial[kPartials][kColumns];
  alignas(64) C buffer[kColumns];
  std::byte raw[kColumns * 8];
  const int64_t begin = t * kReductionTile;
  const int64_t n = least(kReductionTile, task.n - begin);
  Position p = position(begin, task.rank, task.dims, task.strides);
  for (int64_t i = 0; i < n; ++i) {
    const C* x = enter<C>(task, base + p.offset, 1, width, buffer, raw);
    C* into = partial[i % kPartials];
    if (i < kPartials) {
      for (int64_t c = 0; c < width; ++c) into[c] = x[c];
    } else {
      TREK_VECTORISE
      for (int64_t c = 0; c < width; ++c) into[c] = J::join(into[c], x[c]);
    }
    advance(p, 1, task.rank, task.dims, task.strides);
  }
  int64_t present = least(n, kPartials);
  for (int64_t half = kPartials / 2; half > 0; half /= 2) {
    for (int64_t j = 0; j + half < present && j < half; ++j) {
      TREK_VECTORISE
      for (int64_t c = 0; c < width; ++c)
        partial[j][c] = J::join(partial[j][c], partial[j + half][c]);
    }
    present = least(present, half);
  }
  for (int64_t c = 0; c < width; ++c) out[c] = partial[0][c];
}

// Whether neighbouring results have neighbouring elements.
bool in_columns(const ReduceTask& task) {
  const int last = task.kept_rank - 1;
  return last >= 0 && task.kept_strides[last] == 1 && task.kept_dims[last] > 1;
}

int64_t groups(const ReduceTask& task) {
  if (!in_columns(task)) return task.kept;
  const int64_t inner = task.kept_dims[task.kept_rank - 1];
  return task.kept / inner * ((inner + kColumns - 1) / kColumns);
}

template <class J, class C>
void reduce_range(const ReduceTask& task, int64_t begin, int64_t end) {
  const int64_t in_tile = groups(task);
  auto* tiles = reinterpret_cast<C*>(task.tiles);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t t = unit / in_tile;
    const int64_t group = unit % in_tile;
    C* out = tiles + t * task.kept;
    if (!in_columns(task)) {
      const int64_t base =
          position(group, task.kept_rank, task.kept_dims, task.kept_strides).offset;
      out[group] = reduce_row<J, C>(task, base, t);
      continue;
    }
    const int last = task.kept_rank - 1;
    const int64_t inner = task.kept_dims[last];
    const int64_t in_row = (inner + kColumns - 1) / kColumns;
    const int64_t row = group / in_row;
    const int64_t column = group % in_row * kColumns;
    const int64_t base = position(row, last, task.kept_dims, task.kept_strides).offset + column;
    reduce_columns<J, C>(task, base, t, least(kColumns, inner - column),
                         out + row * inner + column);
  }
}

template <class C>
void reduce_by(const ReduceTask& task, int64_t begin, int64_t end) {
  switch (task.join) {
    case Join::sum:
      return reduce_range<Sum, C>(task, begin, end);
    case Join::product:
      return reduce_range<Product, C>(task, begin, end);
    case Join::greatest:
      return reduce_range<Greatest, C>(task, begin, end);
    case Join::least:
      return reduce_range<Least, C>(task, begin, end);
  }
}

struct Added {
  template <class C>
  C operator()(C a, C b) const {
    return a + b;
  }
};

// The sum of a row of any length.
template <class C>
C sum_row(const C* x, int64_t n) {
  if (n <= kReductionTile) return reduce_tile<Sum>(x, n);
  semantics::Ordered<C, Added> above{Added{}};
  for (int64_t at = 0; at < n; at += kReductionTile)
    above.push(reduce_tile<Sum>(x + at, least(kReductionTile, n - at)));
  return above.finish(C(0));
}

template <bool kLeast, class T>
void arg_range(const ArgTask& task, int64_t begin, int64_t end) {
  const ReduceTask& where = task.where;
  const auto* x = reinterpret_cast<const T*>(where.x);
  const int last = where.rank - 1;
  const int64_t stride = where.strides[last];
  for (int64_t result = begin; result < end; ++result) {
    const T* base =
        x + position(result, where.kept_rank, where.kept_dims, where.kept_strides).offset;
    Position p = position(0, where.rank, where.dims, where.strides);
    semantics::OrderKeyOf<T> best = 0;
    int64_t at = 0;
    for (int64_t done = 0; done < where.n;) {
      const T* run = base + p.offset;
      for (int64_t i = 0; i < where.dims[last]; ++i) {
        const T element = run[i * stride];
        const auto key = kLeast ? semantics::least_key(element) : semantics::order_key(element);
        if (key > best || (done == 0 && i == 0)) {
          best = key;
          at = done + i;
        }
      }
      advance(p, where.dims[last], where.rank, where.dims, where.strides);
      done += where.dims[last];
    }
    task.index[result] = at;
  }
}

}  // namespace

int64_t count_reduce_units(const ReduceTask& task) {
  return groups(task) * ((task.n + kReductionTile - 1) / kReductionTile);
}

void run_reduce(const ReduceTask& task, int64_t begin, int64_t end) {
  switch (task.lane) {
    case DType::f64:
      return reduce_by<double>(task, begin, end);
    case DType::i32:
      return reduce_by<int32_t>(task, begin, end);
    case DType::i64:
      return reduce_by<int64_t>(task, begin, end);
    case DType::u64:
      return reduce_by<uint64_t>(task, begin, end);
    default:
      return reduce_by<float>(task, begin, end);
  }
}

float reduce_sum(const float* x, int64_t n) { return sum_row(x, n); }
double reduce_sum(const double* x, int64_t n) { return sum_row(x, n); }

void run_arg(const ArgTask& task, int64_t begin, int64_t end) {
  with_type(task.where.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (task.least) return arg_range<true, T>(task, begin, end);
    arg_range<false, T>(task, begin, end);
  });
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
