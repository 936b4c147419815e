// Softmax and cross-entropy. Kernels work on rows in the compute type; an operand that is something
// else, narrower or along another axis, is brought into that form and its result back.
#include <algorithm>
#include <cstring>

#include "emulator/ref/box.h"
#include "emulator/ref/execute.h"
#include "emulator/ref/index.h"
#include "emulator/ref/reduce.h"

namespace trek::ref {
namespace {

using kernels::CrossEntropyRows;
using kernels::kTile;
using kernels::SoftmaxGradRows;
using kernels::SoftmaxRows;

constexpr int64_t kRun = 4'096;    // elements that a kernel takes at a time
constexpr int64_t kGrain = 8'192;  // elements worth a thread
constexpr int64_t kCastGrain = 32'768;

// A tensor's lines along an axis as rows of n in the compute type.
struct RowForm {
  int64_t rows = 0;
  int64_t n = 0;
  int64_t outer = 1;
  int64_t inner = 1;
  DType dtype = DType::none;
  DType lane = DType::none;

  RowForm(const Tensor& x, int axis) : dtype(x.dtype()), lane(isa::compute_type(x.dtype())) {
    n = x.shape()[axis];
    for (int i = 0; i < axis; ++i) outer *= x.shape()[i];
    for (int i = axis + 1; i < x.shape().rank(); ++i) inner *= x.shape()[i];
    rows = outer * inner;
  }
  uint64_t bytes() const { return static_cast<uint64_t>(rows * n * isa::byte_size(lane)); }
  int64_t element(int64_t row) const { return row * n * isa::byte_size(lane); }
  bool is_tensor() const { return inner == 1 && dtype == lane; }
};

void cast_run(const Step& step, std::byte* r, DType to, const std::byte* x, DType from, int64_t n) {
  step.pool().ranges(n, kCastGrain, kTile, [&](int64_t begin, int64_t end) {
    step.kernels().convert(r + begin * isa::byte_size(to), to, x + begin * isa::byte_size(from),
                           from, end - begin);
  });
}

// The rows of an operand: its own memory where they lie there as wanted.
Status rows_of(const Step& step, const RowForm& form, const Tensor& x, Buffer& scratch,
               const std::byte*& rows) {
  rows = x.data;
  if (form.is_tensor()) return nullptr;
  scratch = step.scratch(form.bytes());
  if (!scratch) return step.out_of_memory(form.bytes());
  rows = scratch.data();
  if (form.inner == 1) {
    cast_run(step, scratch.data(), form.lane, x.data, form.dtype, x.elements());
    return nullptr;
  }
  Buffer wide;
  const std::byte* from = x.data;
  if (form.dtype != form.lane) {
    wide = step.scratch(form.bytes());
    if (!wide) return step.out_of_memory(form.bytes());
    cast_run(step, wide.data(), form.lane, x.data, form.dtype, x.elements());
    from = wide.data();
  }
  Box box;
  box.add(form.outer, form.n * form.inner, form.n * form.inner);
  box.add(form.inner, form.n, 1);
  box.add(form.n, 1, form.inner);
  copy_box(step, scratch.data(), from, box, isa::byte_size(form.lane));
  return nullptr;
}

// Where the rows of a result are made: in the result itself where they lie there as wanted.
Status room_for(const Step& step, const RowForm& form, const Tensor& r, Buffer& scratch,
                std::byte*& rows) {
  rows = r.data;
  if (form.is_tensor()) return nullptr;
  scratch = step.scratch(form.bytes());
  if (!scratch) return step.out_of_memory(form.bytes());
  rows = scratch.data();
  return nullptr;
}

// Brings rows that were made elsewhere into the result.
Status deliver(const Step& step, const RowForm& form, const Tensor& r, const std::byte* rows) {
  if (form.is_tensor()) return nullptr;
  const std::byte* from = rows;
  Buffer narrow;
  if (form.dtype != form.lane) {
    std::byte* to = r.data;
    if (form.inner != 1) {
      narrow = step.scratch(static_cast<uint64_t>(r.bytes()));
      if (!narrow) return step.out_of_memory(static_cast<uint64_t>(r.bytes()));
      to = narrow.data();
    }
    cast_run(step, to, form.dtype, rows, form.lane, r.elements());
    from = to;
  }
  if (form.inner == 1) return nullptr;
  Box box;
  box.add(form.outer, form.n * form.inner, form.n * form.inner);
  box.add(form.n, form.inner, 1);
  box.add(form.inner, 1, form.n);
  copy_box(step, r.data, from, box, isa::byte_size(form.dtype));
  return nullptr;
}

// Calls body(first, rows) for runs of rows, on all threads.
template <class Body>
void each_run(const Step& step, const RowForm& form, Body&& body) {
  const int64_t together = std::max<int64_t>(1, kRun / form.n);
  step.pool().ranges(form.rows, kGrain / form.n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += together) body(row, std::min(together, end - row));
  });
}

Status softmax(Step& step, void (*kernel)(const SoftmaxRows&)) {
  const Tensor& x = step.operand(0);
  const Tensor& r = step.result(0);
  if (x.elements() == 0) return nullptr;
  const RowForm form(x, step.axis(x.shape().rank()));
  Buffer in;
  Buffer out;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  if (Status status = rows_of(step, form, x, in, from)) return status;
  if (Status status = room_for(step, form, r, out, to)) return status;
  each_run(step, form, [&](int64_t row, int64_t rows) {
    kernel({form.lane, from + form.element(row), to + form.element(row), rows, form.n});
  });
  return deliver(step, form, r, to);
}

Status softmax_grad(Step& step, void (*kernel)(const SoftmaxGradRows&)) {
  const Tensor& dy = step.operand(0);
  const Tensor& y = step.operand(1);
  const Tensor& r = step.result(0);
  if (y.elements() == 0) return nullptr;
  const RowForm form(y, step.axis(y.shape().rank()));
  Buffer in_dy;
  Buffer in_y;
  Buffer out;
  const std::byte* from_dy = nullptr;
  const std::byte* from_y = nullptr;
  std::byte* to = nullptr;
  if (Status status = rows_of(step, form, dy, in_dy, from_dy)) return status;
  if (Status status = rows_of(step, form, y, in_y, from_y)) return status;
  if (Status status = room_for(step, form, r, out, to)) return status;
  each_run(step, form, [&](int64_t row, int64_t rows) {
    const int64_t at = form.element(row);
    kernel({form.lane, from_dy + at, from_y + at, to + at, rows, form.n});
  });
  return deliver(step, form, r, to);
}

// ---- cross-entropy -------------------------------------------------------------------------------

enum Reduction { kMean = 0, kSum = 1 };  // the choices in the order of the row; else none

// The mean or sum of the rows' losses.
Status combine(const Step& step, const std::byte* losses, DType lane, int64_t rows,
               std::byte* out) {
  if (rows == 0) {
    std::memset(out, 0, static_cast<size_t>(isa::byte_size(lane)));
  } else if (Status status = reduce_to(step, reduce_all(losses, lane, lane, rows), out)) {
    return status;
  }
  if (step.choice("reduction") != kMean) return nullptr;
  if (lane == DType::f64) {
    *reinterpret_cast<double*>(out) /= static_cast<double>(rows);
  } else {
    *reinterpret_cast<float*>(out) /= static_cast<float>(rows);
  }
  return nullptr;
}

struct CrossEntropy {
  const Tensor* z = nullptr;
  const Tensor* classes = nullptr;
  const Tensor* loss = nullptr;      // a result, or null
  const Tensor* gradient = nullptr;  // a result, or null
  const Tensor* factor = nullptr;    // an operand, or null
};

Status cross_entropy(Step& step, const CrossEntropy& of) {
  const RowForm form(*of.z, of.z->shape().rank() - 1);
  const int reduction = step.choice("reduction");
  const bool combined = reduction == kMean || reduction == kSum;
  Buffer classes;
  if (Status status =
          read_indices(step, *of.classes, form.n, "the classes, of which there are", classes))
    return status;
  const uint64_t loss_bytes = static_cast<uint64_t>(form.rows * isa::byte_size(form.lane));
  Buffer in;
  Buffer made;
  Buffer losses;
  const std::byte* from = nullptr;
  if (Status status = rows_of(step, form, *of.z, in, from)) return status;
  std::byte* gradient = nullptr;
  if (of.gradient != nullptr) {
    if (Status status = room_for(step, form, *of.gradient, made, gradient)) return status;
  } else {
    made = step.scratch(form.bytes());
    if (!made) return step.out_of_memory(form.bytes());
    gradient = made.data();
  }
  std::byte* loss = of.loss == nullptr ? nullptr : of.loss->data;
  if (of.loss != nullptr && combined) {
    losses = step.scratch(loss_bytes);
    if (!losses) return step.out_of_memory(loss_bytes);
    loss = losses.data();
  }
  if (form.n > 0)
    each_run(step, form, [&](int64_t row, int64_t rows) {
      CrossEntropyRows task;
      task.lane = form.lane;
      task.z = from + form.element(row);
      task.classes = reinterpret_cast<const int64_t*>(classes.data()) + row;
      task.loss = loss == nullptr ? nullptr : loss + row * isa::byte_size(form.lane);
      task.gradient = gradient + form.element(row);
      task.wants_gradient = of.gradient != nullptr;
      task.mean = reduction == kMean;
      task.count = form.rows;
      task.factor_stride = combined ? 0 : 1;
      if (of.factor != nullptr)
        task.factor = of.factor->data + (combined ? 0 : row * isa::byte_size(form.lane));
      task.rows = rows;
      task.n = form.n;
      step.kernels().cross_entropy(task);
    });
  if (of.gradient != nullptr)
    if (Status status = deliver(step, form, *of.gradient, gradient)) return status;
  if (of.loss == nullptr || !combined) return nullptr;
  return combine(step, loss, form.lane, form.rows, of.loss->data);
}

}  // namespace

Status execute(Op<Opcode::Softmax>, Step& step) { return softmax(step, step.kernels().softmax); }

Status execute(Op<Opcode::LogSoftmax>, Step& step) {
  return softmax(step, step.kernels().log_softmax);
}

Status execute(Op<Opcode::SoftmaxGrad>, Step& step) {
  return softmax_grad(step, step.kernels().softmax_grad);
}

Status execute(Op<Opcode::LogSoftmaxGrad>, Step& step) {
  return softmax_grad(step, step.kernels().log_softmax_grad);
}

Status execute(Op<Opcode::CrossEntropy>, Step& step) {
  return cross_entropy(
      step, {.z = &step.operand(0), .classes = &step.operand(1), .loss = &step.result(0)});
}

Status execute(Op<Opcode::CrossEntropyGrad>, Step& step) {
  return cross_entropy(step, {.z = &step.operand(1),
                              .classes = &step.operand(2),
                              .gradient = &step.result(0),
                              .factor = &step.operand(0)});
}

Status execute(Op<Opcode::CrossEntropyWithGrad>, Step& step) {
  return cross_entropy(step, {.z = &step.operand(0),
                              .classes = &step.operand(1),
                              .loss = &step.result(0),
                              .gradient = &step.result(1)});
}

}  // namespace trek::ref
