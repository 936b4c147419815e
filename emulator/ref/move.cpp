// Moves: elements go where their index says, unchanged but by `cast`.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "emulator/ref/box.h"
#include "emulator/ref/execute.h"
#include "emulator/ref/index.h"

namespace trek::ref {
namespace {

using kernels::kTile;
using kernels::PointwiseTask;

using isa::Shape;
using isa::TrapCode;

constexpr int64_t kGrain = 32'768;  // elements worth a thread

int element_bytes(const Tensor& tensor) { return isa::byte_size(tensor.dtype()); }

// Traps where a box of `span` elements from `at` leaves an axis.
Status check_box(int axis, int64_t at, int64_t span, int64_t size) {
  if (at >= 0 && at <= size - span) return nullptr;
  return trap(TrapCode::IndexOutOfRange, -1,
              fmt::format("{} elements from {} on leave axis {} of size {}", span, at, axis, size));
}

// A tensor as [outer][axis][inner].
struct AroundAxis {
  int64_t outer = 1;
  int64_t inner = 1;
  AroundAxis(const Shape& shape, int axis) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

// One value everywhere.
void fill(const Step& step, const Tensor& r, const void* value) {
  Box box;
  box.add(r.elements(), 1, 0);
  copy_box(step, r.data, static_cast<const std::byte*>(value), box, element_bytes(r));
}

}  // namespace

Status execute(Op<Opcode::Copy>, Step& step) {
  step.share_operand();
  return nullptr;
}

Status execute(Op<Opcode::Reshape>, Step& step) {
  step.share_operand();
  return nullptr;
}

Status execute(Op<Opcode::Cast>, Step& step) {
  const Tensor& x = step.operand(0);
  const Tensor& r = step.result(0);
  step.pool().ranges(r.elements(), kGrain, kTile, [&](int64_t begin, int64_t end) {
    step.kernels().convert(r.data + begin * element_bytes(r), r.dtype(),
                           x.data + begin * element_bytes(x), x.dtype(), end - begin);
  });
  return nullptr;
}

Status execute(Op<Opcode::Fill>, Step& step) {
  const Tensor& value = step.operand(0);
  const Tensor& r = step.result(0);
  alignas(8) std::byte converted[8];
  step.kernels().convert(converted, r.dtype(), value.data, value.dtype(), 1);
  fill(step, r, converted);
  return nullptr;
}

Status execute(Op<Opcode::Iota>, Step& step) {
  const Tensor& r = step.result(0);
  const int axis = step.axis(r.shape().rank());
  const int64_t n = r.shape()[axis];
  const auto start = static_cast<uint64_t>(step.integer("start"));
  const auto stride = static_cast<uint64_t>(step.integer("step"));
  const uint64_t bytes = static_cast<uint64_t>(n) * 16;
  const Buffer line = step.scratch(bytes);
  if (!line) return step.out_of_memory(bytes);
  auto* numbers = reinterpret_cast<uint64_t*>(line.data());
  for (int64_t i = 0; i < n; ++i) numbers[i] = start + stride * static_cast<uint64_t>(i);
  std::byte* values = line.data() + 8 * n;
  step.kernels().convert(values, r.dtype(), numbers, DType::i64, n);
  const Strides to(r.shape());
  Box box;
  for (int i = 0; i < r.shape().rank(); ++i) box.add(r.shape()[i], to[i], i == axis ? 1 : 0);
  copy_box(step, r.data, values, box, element_bytes(r));
  return nullptr;
}

Status execute(Op<Opcode::Permute>, Step& step) {
  const Tensor& x = step.operand(0);
  const Tensor& r = step.result(0);
  const Step::Integers axes = step.integers("axes");
  const Strides from(x.shape());
  const Strides to(r.shape());
  const int rank = x.shape().rank();
  Box box;
  for (int i = 0; i < rank; ++i) {
    const auto axis = static_cast<int>(axes[i] < 0 ? axes[i] + rank : axes[i]);
    box.add(r.shape()[i], to[i], from[axis]);
  }
  copy_box(step, r.data, x.data, box, element_bytes(r));
  return nullptr;
}

Status execute(Op<Opcode::Slice>, Step& step) {
  const Tensor& x = step.operand(0);
  const Tensor& r = step.result(0);
  const Step::Integers at = step.integers("at");
  const Step::Integers stride = step.integers("stride");
  const Strides from(x.shape());
  const Strides to(r.shape());
  Box box;
  int64_t offset = 0;
  for (int i = 0; i < x.shape().rank(); ++i) {
    const int64_t apart = stride.count == 0 ? 1 : stride[i];
    const int64_t size = r.shape()[i];
    const int64_t span = size == 0 ? 0 : (size - 1) * apart + 1;
    if (Status status = check_box(i, at[i], span, x.shape()[i])) return status;
    offset += at[i] * from[i];
    box.add(size, to[i], from[i] * apart);
  }
  copy_box(step, r.data, x.data + offset * element_bytes(x), box, element_bytes(r));
  return nullptr;
}

Status execute(Op<Opcode::Update>, Step& step) {
  const Tensor& y = step.operand(1);
  const Shape& shape = step.operand(0).shape();
  const Step::Integers at = step.integers("at");
  const Strides from(y.shape());
  const Strides to(shape);
  Box box;
  int64_t offset = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    if (Status status = check_box(i, at[i], y.shape()[i], shape[i])) return status;
    offset += at[i] * to[i];
    box.add(y.shape()[i], to[i], from[i]);
  }
  if (Status status = step.copy_operand()) return status;
  copy_box(step, step.result(0).data + offset * element_bytes(y), y.data, box, element_bytes(y));
  return nullptr;
}

Status execute(Op<Opcode::Concat>, Step& step) {
  const Tensor& r = step.result(0);
  const int axis = step.axis(r.shape().rank());
  const AroundAxis around(r.shape(), axis);
  const int64_t row = r.shape()[axis] * around.inner;
  int64_t offset = 0;
  for (size_t i = 0; i < step.operand_count(); ++i) {
    const Tensor& x = step.operand(i);
    const int64_t length = x.shape()[axis] * around.inner;
    Box box;
    box.add(around.outer, row, length);
    box.add(length, 1, 1);
    copy_box(step, r.data + offset * element_bytes(r), x.data, box, element_bytes(r));
    offset += length;
  }
  return nullptr;
}

Status execute(Op<Opcode::Pad>, Step& step) {
  const Tensor& x = step.operand(0);
  const Tensor& r = step.result(0);
  const Step::Integers low = step.integers("low");
  const uint64_t value = step.element_bits("value");
  fill(step, r, &value);
  const Strides from(x.shape());
  const Strides to(r.shape());
  Box box;
  int64_t offset = 0;
  for (int i = 0; i < x.shape().rank(); ++i) {
    offset += low[i] * to[i];
    box.add(x.shape()[i], to[i], from[i]);
  }
  copy_box(step, r.data + offset * element_bytes(r), x.data, box, element_bytes(r));
  return nullptr;
}

Status execute(Op<Opcode::Broadcast>, Step& step) {
  const Tensor& x = step.operand(0);
  const Tensor& r = step.result(0);
  const Strides from(x.shape());
  const Strides to(r.shape());
  const int lead = r.shape().rank() - x.shape().rank();
  Box box;
  for (int i = 0; i < r.shape().rank(); ++i) {
    const bool repeats = i < lead || x.shape()[i - lead] == 1;
    box.add(r.shape()[i], to[i], repeats ? 0 : from[i - lead]);
  }
  copy_box(step, r.data, x.data, box, element_bytes(r));
  return nullptr;
}

// ---- by index ------------------------------------------------------------------------------------

namespace {

std::string axis_text(int axis) { return fmt::format("axis {} of size", axis); }

// Calls body(outer, position, index) for every slice of an indexed axis, in order for each outer.
template <class Body>
void each_slice(const Step& step, int64_t outer, const Tensor& index, const Buffer& indices,
                int64_t slice_bytes, Body&& body) {
  const int64_t n = index.elements();
  const auto* at = reinterpret_cast<const int64_t*>(indices.data());
  const int64_t grain = 4 * kGrain / std::max<int64_t>(1, n * slice_bytes);
  step.pool().ranges(outer, grain, 1, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o)
      for (int64_t i = 0; i < n; ++i) body(o, i, at[i]);
  });
}

}  // namespace

Status execute(Op<Opcode::Gather>, Step& step) {
  const Tensor& x = step.operand(0);
  const Tensor& index = step.operand(1);
  const Tensor& r = step.result(0);
  const int axis = step.axis(x.shape().rank());
  const AroundAxis around(x.shape(), axis);
  const int64_t size = x.shape()[axis];
  Buffer indices;
  if (Status status = read_indices(step, index, size, axis_text(axis), indices)) return status;
  const auto bytes = around.inner * element_bytes(x);
  const int64_t n = index.elements();
  const auto* at = reinterpret_cast<const int64_t*>(indices.data());
  // Reading only: all slices of all outers are independent.
  step.pool().ranges(around.outer * n, 4 * kGrain / std::max<int64_t>(1, bytes), 1,
                     [&](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i)
                         std::memcpy(r.data + i * bytes,
                                     x.data + (i / n * size + at[i % n]) * bytes,
                                     static_cast<size_t>(bytes));
                     });
  return nullptr;
}

Status execute(Op<Opcode::Scatter>, Step& step) {
  const Tensor& index = step.operand(1);
  const Tensor& y = step.operand(2);
  const Shape& shape = step.operand(0).shape();
  const int axis = step.axis(shape.rank());
  const AroundAxis around(shape, axis);
  Buffer indices;
  if (Status status = read_indices(step, index, shape[axis], axis_text(axis), indices))
    return status;
  if (Status status = step.copy_operand()) return status;
  const auto bytes = around.inner * element_bytes(y);
  std::byte* r = step.result(0).data;
  each_slice(step, around.outer, index, indices, bytes, [&](int64_t o, int64_t i, int64_t at) {
    std::memcpy(r + (o * shape[axis] + at) * bytes, y.data + (o * index.elements() + i) * bytes,
                static_cast<size_t>(bytes));
  });
  return nullptr;
}

Status execute(Op<Opcode::ScatterAdd>, Step& step) {
  const Tensor& index = step.operand(1);
  const Tensor& y = step.operand(2);
  const Shape& shape = step.operand(0).shape();
  const int axis = step.axis(shape.rank());
  const AroundAxis around(shape, axis);
  Buffer indices;
  if (Status status = read_indices(step, index, shape[axis], axis_text(axis), indices))
    return status;
  if (Status status = step.copy_operand()) return status;
  const DType dtype = y.dtype();
  const DType lane = isa::compute_type(dtype);
  const auto bytes = around.inner * element_bytes(y);
  std::byte* r = step.result(0).data;
  each_slice(step, around.outer, index, indices, bytes, [&](int64_t o, int64_t i, int64_t at) {
    PointwiseTask add;
    add.function = step.kernels().element(isa::Opcode::Add, lane);
    add.operands = 2;
    add.result = r + (o * shape[axis] + at) * bytes;
    add.dtype = dtype;
    add.lane = lane;
    add.operand[0] = {.data = add.result, .dtype = dtype, .lane = lane, .dense = true};
    add.operand[1] = {.data = y.data + (o * index.elements() + i) * bytes,
                      .dtype = dtype,
                      .lane = lane,
                      .dense = true};
    step.kernels().pointwise(add, 0, around.inner);
  });
  return nullptr;
}

Status execute(Op<Opcode::OneHot>, Step& step) {
  const Tensor& index = step.operand(0);
  const Tensor& r = step.result(0);
  const int64_t depth = step.integer("depth");
  Buffer indices;
  if (Status status = read_indices(step, index, depth, "depth", indices)) return status;
  const uint64_t zero = 0;
  fill(step, r, &zero);
  alignas(8) std::byte one[8];
  const int64_t number = 1;
  step.kernels().convert(one, r.dtype(), &number, DType::i64, 1);
  const auto* at = reinterpret_cast<const int64_t*>(indices.data());
  const auto bytes = static_cast<size_t>(element_bytes(r));
  for (int64_t i = 0; i < index.elements(); ++i)
    std::memcpy(r.data + static_cast<size_t>(i * depth + at[i]) * bytes, one, bytes);
  return nullptr;
}

}  // namespace trek::ref
