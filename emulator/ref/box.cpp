#include "emulator/ref/box.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace trek::ref {
namespace {

constexpr int64_t kGrainBytes = 131'072;  // below this, another thread costs more than it does

// Drops axes of size 1 and merges neighbours that are one axis in both views.
Box merged(const Box& box) {
  Box out;
  for (int axis = 0; axis < box.rank; ++axis) {
    if (box.dims[axis] == 1) continue;
    const int last = out.rank - 1;
    if (last >= 0 && out.to[last] == box.to[axis] * box.dims[axis] &&
        out.from[last] == box.from[axis] * box.dims[axis]) {
      out.dims[last] *= box.dims[axis];
      out.to[last] = box.to[axis];
      out.from[last] = box.from[axis];
    } else {
      out.add(box.dims[axis], box.to[axis], box.from[axis]);
    }
  }
  if (out.rank == 0) out.add(1, 1, 1);
  return out;
}

// The offsets of position `at` of the first `rank` axes.
std::pair<int64_t, int64_t> offsets(const Box& box, int rank, int64_t at) {
  int64_t to = 0;
  int64_t from = 0;
  for (int axis = rank - 1; axis >= 0; --axis) {
    const int64_t index = at % box.dims[axis];
    at /= box.dims[axis];
    to += index * box.to[axis];
    from += index * box.from[axis];
  }
  return {to, from};
}

template <class T>
void copy_line(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
               int64_t n) {
  auto* r = reinterpret_cast<T*>(to);
  const auto* x = reinterpret_cast<const T*>(from);
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(r, x, static_cast<size_t>(n) * sizeof(T));
  } else if (to_stride == 1 && from_stride == 0) {
    std::fill_n(r, n, *x);
  } else {
    for (int64_t i = 0; i < n; ++i) r[i * to_stride] = x[i * from_stride];
  }
}

using CopyLine = void (*)(std::byte*, int64_t, const std::byte*, int64_t, int64_t);
CopyLine copy_line_of(int bytes) {
  switch (bytes) {
    case 1:
      return copy_line<uint8_t>;
    case 2:
      return copy_line<uint16_t>;
    case 4:
      return copy_line<uint32_t>;
    default:
      return copy_line<uint64_t>;
  }
}

void copy_lines(const Step& step, std::byte* to, const std::byte* from, const Box& box, int bytes) {
  const int last = box.rank - 1;
  int64_t lines = 1;
  for (int axis = 0; axis < last; ++axis) lines *= box.dims[axis];
  const CopyLine copy = copy_line_of(bytes);
  const int64_t n = box.dims[last];
  if (lines == 1) {
    step.pool().ranges(n, kGrainBytes / bytes, 64, [&](int64_t begin, int64_t end) {
      copy(to + begin * box.to[last] * bytes, box.to[last], from + begin * box.from[last] * bytes,
           box.from[last], end - begin);
    });
    return;
  }
  step.pool().ranges(lines, kGrainBytes / (n * bytes), 1, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const auto [t, f] = offsets(box, last, line);
      copy(to + t * bytes, box.to[last], from + f * bytes, box.from[last], n);
    }
  });
}

// The last axis is dense in `to` and `dense` is in `from`: their matrix is transposed.
void transpose_box(const Step& step, std::byte* to, const std::byte* from, Box box, int dense,
                   int bytes) {
  const int last = box.rank - 1;
  std::rotate(box.dims + dense, box.dims + dense + 1, box.dims + last);
  std::rotate(box.to + dense, box.to + dense + 1, box.to + last);
  std::rotate(box.from + dense, box.from + dense + 1, box.from + last);
  const int64_t columns = box.dims[last - 1];  // dense in from
  const int64_t rows = box.dims[last];
  constexpr int64_t kBand = 64;
  const int64_t bands = (columns + kBand - 1) / kBand;
  int64_t matrices = 1;
  for (int axis = 0; axis < last - 1; ++axis) matrices *= box.dims[axis];
  const int64_t band_bytes = kBand * rows * bytes;
  step.pool().ranges(
      matrices * bands, kGrainBytes / band_bytes, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const auto [t, f] = offsets(box, last - 1, i / bands);
          const int64_t column = i % bands * kBand;
          step.kernels().transpose(to + (t + column * box.to[last - 1]) * bytes, box.to[last - 1],
                                   from + (f + column) * bytes, box.from[last], rows,
                                   std::min(kBand, columns - column), bytes);
        }
      });
}

}  // namespace

Strides::Strides(const isa::Shape& shape) {
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
}

void copy_box(const Step& step, std::byte* to, const std::byte* from, Box box, int bytes) {
  if (std::find(box.dims, box.dims + box.rank, 0) != box.dims + box.rank) return;
  box = merged(box);
  const int last = box.rank - 1;
  const auto* dense = std::find(box.from, box.from + last, 1);
  const bool transposed =
      last > 0 && box.to[last] == 1 && box.from[last] > 1 && dense != box.from + last;
  if (transposed)
    return transpose_box(step, to, from, box, static_cast<int>(dense - box.from), bytes);
  copy_lines(step, to, from, box, bytes);
}

}  // namespace trek::ref
