// Reductions: the operand's axes are sorted into reduced and kept ones; kernels make tile results, then
// tile results of those, until one is left for each element of the result.
#include "emulator/ref/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "emulator/ref/box.h"
#include "emulator/ref/execute.h"
#include "isa/semantics/reduce.h"

namespace trek::ref {
namespace {

using kernels::ArgTask;
using kernels::CumsumTask;
using kernels::Join;
using kernels::ReduceTask;

using isa::Shape;

constexpr int64_t kGrain = 32'768;  // elements worth a thread

// Appends an axis, or merges it into the last one.
void add_axis(int& rank, int64_t* dims, int64_t* strides, int64_t dim, int64_t stride) {
  if (dim == 1) return;
  if (rank > 0 && strides[rank - 1] == stride * dim) {
    dims[rank - 1] *= dim;
    strides[rank - 1] = stride;
    return;
  }
  dims[rank] = dim;
  strides[rank] = stride;
  ++rank;
}

// The reduction of operand 0 over the axes that the instruction names, or all.
ReduceTask task_of(const Step& step) {
  const Tensor& x = step.operand(0);
  const Shape& shape = x.shape();
  const Step::Integers axes = step.integers("axis");
  bool reduced[isa::kMaxRank] = {};
  for (int i = 0; i < axes.count; ++i)
    reduced[axes[i] < 0 ? axes[i] + shape.rank() : axes[i]] = true;
  if (!step.has("axis")) std::fill_n(reduced, isa::kMaxRank, true);

  ReduceTask task;
  task.x = x.data;
  task.dtype = x.dtype();
  task.n = 1;
  task.kept = 1;
  const Strides strides(shape);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (reduced[axis]) {
      task.n *= shape[axis];
      add_axis(task.rank, task.dims, task.strides, shape[axis], strides[axis]);
    } else {
      task.kept *= shape[axis];
      add_axis(task.kept_rank, task.kept_dims, task.kept_strides, shape[axis], strides[axis]);
    }
  }
  if (task.rank == 0) {
    task.rank = 1;
    task.dims[0] = 1;
    task.strides[0] = 1;
  }
  return task;
}

// A lane type in which sums and products agree with those of `dtype` modulo 2^n.
DType wrapping_lane(DType dtype) {
  if (isa::is_real(dtype)) return isa::compute_type(dtype);
  return isa::byte_size(dtype) == 8 ? DType::i64 : DType::i32;
}

// A lane type that holds every element of `dtype` in its order.
DType ordering_lane(DType dtype) {
  if (isa::is_real(dtype)) return isa::compute_type(dtype);
  if (dtype == DType::u64) return dtype;
  return isa::byte_size(dtype) == 8 || dtype == DType::u32 ? DType::i64 : DType::i32;
}

// Reduces into the result; `finish(values, lane)` may still change the results in the lane type.
template <class Finish>
Status reduce_into_result(Step& step, ReduceTask task, double identity, Finish&& finish) {
  const Tensor& r = step.result(0);
  if (task.kept == 0) return nullptr;
  const int64_t bytes = task.kept * isa::byte_size(task.lane);
  std::byte* out = r.data;
  Buffer scratch;
  if (task.lane != r.dtype()) {
    scratch = step.scratch(static_cast<uint64_t>(bytes));
    if (!scratch) return step.out_of_memory(static_cast<uint64_t>(bytes));
    out = scratch.data();
  }
  if (task.n == 0) {
    for (int64_t i = 0; i < task.kept; ++i)
      step.kernels().convert(out + i * isa::byte_size(task.lane), task.lane, &identity, DType::f64,
                             1);
  } else if (Status status = reduce_to(step, task, out)) {
    return status;
  }
  finish(out);
  if (out != r.data) step.kernels().convert(r.data, r.dtype(), out, task.lane, task.kept);
  return nullptr;
}

Status reduce(Step& step, Join join, DType lane, double identity) {
  ReduceTask task = task_of(step);
  task.join = join;
  task.lane = lane;
  return reduce_into_result(step, task, identity, [](std::byte*) {});
}

// Calls f(values) with the `n` results as floats or doubles.
template <class F>
void as_reals(std::byte* values, DType lane, F&& f) {
  if (lane == DType::f64) {
    f(reinterpret_cast<double*>(values));
  } else {
    f(reinterpret_cast<float*>(values));
  }
}

Status arg(Step& step, bool least) {
  const Tensor& r = step.result(0);
  ArgTask task;
  task.where = task_of(step);
  task.least = least;
  const int64_t kept = task.where.kept;
  const uint64_t bytes = static_cast<uint64_t>(kept) * sizeof(int64_t);
  Buffer indices = step.scratch(bytes);
  if (!indices) return step.out_of_memory(bytes);
  task.index = reinterpret_cast<int64_t*>(indices.data());
  const int64_t grain = kGrain / std::max<int64_t>(1, task.where.n);
  step.pool().ranges(kept, grain, 1,
                     [&](int64_t begin, int64_t end) { step.kernels().arg(task, begin, end); });
  step.kernels().convert(r.data, r.dtype(), task.index, DType::i64, kept);
  return nullptr;
}

}  // namespace

ReduceTask reduce_all(const std::byte* x, DType dtype, DType lane, int64_t n) {
  ReduceTask task;
  task.x = x;
  task.dtype = dtype;
  task.lane = lane;
  task.rank = 1;
  task.dims[0] = n;
  task.strides[0] = 1;
  task.n = n;
  task.kept = 1;
  return task;
}

Status reduce_to(const Step& step, ReduceTask task, std::byte* out) {
  Buffer source;  // the tile results that are being reduced
  while (true) {
    const int64_t tiles = (task.n + semantics::kReductionTile - 1) / semantics::kReductionTile;
    const auto bytes = static_cast<uint64_t>(tiles * task.kept * isa::byte_size(task.lane));
    Buffer made;
    if (tiles > 1) {
      made = step.scratch(bytes);
      if (!made) return step.out_of_memory(bytes);
    }
    task.tiles = made ? made.data() : out;
    const int64_t units = step.kernels().reduce_units(task);
    const int64_t in_unit = std::max<int64_t>(1, task.kept * task.n / units);
    step.pool().ranges(units, kGrain / in_unit, 1, [&](int64_t begin, int64_t end) {
      step.kernels().reduce(task, begin, end);
    });
    if (tiles == 1) return nullptr;
    // [tiles][kept], dense, and squared only once.
    source = std::move(made);
    task.x = source.data();
    task.dtype = task.lane;
    task.square = false;
    task.n = tiles;
    task.rank = 1;
    task.dims[0] = tiles;
    task.strides[0] = task.kept;
    task.kept_rank = task.kept == 1 ? 0 : 1;
    task.kept_dims[0] = task.kept;
    task.kept_strides[0] = 1;
  }
}

Status execute(Op<Opcode::Sum>, Step& step) {
  return reduce(step, Join::sum, wrapping_lane(step.operand(0).dtype()), 0);
}

Status execute(Op<Opcode::Prod>, Step& step) {
  return reduce(step, Join::product, wrapping_lane(step.operand(0).dtype()), 1);
}

Status execute(Op<Opcode::Max>, Step& step) {
  return reduce(step, Join::greatest, ordering_lane(step.operand(0).dtype()), 0);
}

Status execute(Op<Opcode::Min>, Step& step) {
  return reduce(step, Join::least, ordering_lane(step.operand(0).dtype()), 0);
}

Status execute(Op<Opcode::Mean>, Step& step) {
  ReduceTask task = task_of(step);
  task.lane = isa::compute_type(task.dtype);
  return reduce_into_result(step, task, 0, [&](std::byte* out) {
    as_reals(out, task.lane, [&](auto* values) {
      using C = std::remove_reference_t<decltype(*values)>;
      const C count = static_cast<C>(task.n);
      for (int64_t i = 0; i < task.kept; ++i) values[i] = values[i] / count;
    });
  });
}

Status execute(Op<Opcode::Norm2>, Step& step) {
  ReduceTask task = task_of(step);
  task.lane = isa::compute_type(task.dtype);
  task.square = true;
  return reduce_into_result(step, task, 0, [&](std::byte* out) {
    as_reals(out, task.lane, [&](auto* values) {
      for (int64_t i = 0; i < task.kept; ++i) values[i] = std::sqrt(values[i]);
    });
  });
}

Status execute(Op<Opcode::Argmax>, Step& step) { return arg(step, false); }

Status execute(Op<Opcode::Argmin>, Step& step) { return arg(step, true); }

Status execute(Op<Opcode::Cumsum>, Step& step) {
  const Tensor& x = step.operand(0);
  const Shape& shape = x.shape();
  if (x.elements() == 0) return nullptr;
  const int axis = step.axis(shape.rank());
  CumsumTask task;
  task.x = x.data;
  task.r = step.result(0).data;
  task.dtype = x.dtype();
  task.n = shape[axis];
  task.inner = Strides(shape)[axis];
  step.pool().ranges(x.elements() / task.n, kGrain / task.n, 64,
                     [&](int64_t begin, int64_t end) { step.kernels().cumsum(task, begin, end); });
  return nullptr;
}

}  // namespace trek::ref
