// Moving boxes of elements: what slice, pad, concat, permute, broadcast and their kin have in common.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/ref/step.h"

namespace trek::ref {

// Elements at the same index of two strided views. Strides are in elements; `from` may have strides 0.
struct Box {
  int rank = 0;
  int64_t dims[isa::kMaxRank] = {};
  int64_t to[isa::kMaxRank] = {};
  int64_t from[isa::kMaxRank] = {};

  void add(int64_t dim, int64_t to_stride, int64_t from_stride) {
    dims[rank] = dim;
    to[rank] = to_stride;
    from[rank] = from_stride;
    ++rank;
  }
};

// The row-major strides of a shape, in elements.
struct Strides {
  explicit Strides(const isa::Shape& shape);
  int64_t operator[](int axis) const { return strides[axis]; }
  int64_t strides[isa::kMaxRank] = {};
};

// Copies elements of `bytes` bytes (1, 2, 4 or 8).
void copy_box(const Step& step, std::byte* to, const std::byte* from, Box box, int bytes);

}  // namespace trek::ref
