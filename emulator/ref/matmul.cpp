// The matrix product: packed into panels, then tile by tile.
//
// The result is cut into blocks, and K into segments of 4096, the unit of the dot order. For each, all
// panels of both operands are packed, then all tiles are worked on; both phases are spread over the
// threads (emulator/kernels/panels.h). A tile is finished (scale, bias, tail, conversion) while its sums are in the
// first-level cache.
#include <algorithm>
#include <cstring>

#include "emulator/kernels/panels.h"
#include "emulator/ref/box.h"
#include "emulator/ref/execute.h"
#include "isa/convert.h"

namespace trek::ref {
namespace {

using isa::Shape;
using kernels::Extent;
using kernels::FinishTask;
using kernels::kTile;
using kernels::Panels;
using kernels::Side;
using kernels::VectorTask;

constexpr int64_t kBlockBytes = 16'777'216;  // of one operand, packed
constexpr int64_t kParallelWork = 65'536;    // multiply-adds worth a thread

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What does not differ between the matrices of a batch.
struct Product {
  DType dtype = DType::none;
  DType lane = DType::none;
  Extent extent;
  FinishTask finish;  // but for the places
  alignas(8) std::byte tail_attributes[16] = {};

  int64_t lane_bytes() const { return isa::byte_size(lane); }
};

// Multiplies one pair of matrices. `parallel`: on all threads, else on this one.
class MatrixProduct {
 public:
  MatrixProduct(const Step& step, const Panels& panels, bool parallel)
      : step_(step), panels_(panels), parallel_(parallel) {}

  void run(const Side& a, const Side& b, const FinishTask& finish, std::byte* memory) {
    finish_ = finish;
    panels_.bind(a, b, memory);
    for (int64_t i = 0; i < panels_.steps(); ++i) {
      panels_.begin(i);
      multiply_block();
    }
  }

 private:
  template <class Body>
  void each(int64_t tasks, Body&& body) {
    if (parallel_) return step_.pool().run(tasks, body);
    for (int64_t i = 0; i < tasks; ++i) body(i);
  }

  void multiply_block() {
    const int64_t left_panels = panels_.left_panels();
    const int64_t right_panels = panels_.right_panels();
    each(left_panels + (panels_.keeps_right() ? 0 : right_panels), [&](int64_t i) {
      if (i < left_panels) {
        panels_.pack_left(i);
      } else {
        panels_.pack_right(i - left_panels);
      }
    });
    // A task is a right panel and a part of the left ones; there are enough tasks for all threads.
    const int64_t wanted =
        parallel_ ? ceil_div(int64_t{4} * step_.pool().threads(), right_panels) : 1;
    const int64_t parts =
        std::min(left_panels, std::max<int64_t>(wanted, panels_.resident_parts()));
    each(parts * right_panels, [&](int64_t i) {
      const int64_t part = i / right_panels;
      for (int64_t row = left_panels * part / parts; row < left_panels * (part + 1) / parts; ++row)
        multiply_tile(row, i % right_panels);
    });
  }

  void multiply_tile(int64_t row_panel, int64_t column_panel) const {
    alignas(64) std::byte sums[kernels::kMostTile * 8];
    if (!panels_.multiply(row_panel, column_panel, sums)) return;
    const kernels::Tile tile = panels_.tile(row_panel, column_panel);
    FinishTask task = finish_;
    task.tile = sums;
    task.stride = tile.stride;
    task.rows = tile.rows;
    task.columns = tile.columns;
    task.result += (tile.row * task.result_stride + tile.column) * isa::byte_size(task.dtype);
    if (task.bias != nullptr)
      task.bias += (tile.row * task.bias_row_stride + tile.column * task.bias_column_stride) *
                   isa::byte_size(task.bias_dtype);
    step_.kernels().finish(task);
  }

  const Step& step_;
  Panels panels_;
  bool parallel_;
  FinishTask finish_;
};

// One row times a matrix whose rows lie one after the other: nothing is packed, the matrix is read once.
Status multiply_vector(const Step& step, const Product& p, const Side& a, const Side& b,
                       const FinishTask& finish) {
  const uint64_t bytes = static_cast<uint64_t>((p.extent.k + p.extent.n) * p.lane_bytes());
  const Buffer scratch = step.scratch(bytes);
  if (!scratch) return step.out_of_memory(bytes);
  std::byte* sums = scratch.data() + p.extent.k * p.lane_bytes();
  step.kernels().convert(scratch.data(), p.lane, a.data, p.dtype, p.extent.k);
  VectorTask task;
  task.dtype = p.dtype;
  task.lane = p.lane;
  task.left = scratch.data();
  task.right = b.data;
  task.k = p.extent.k;
  task.stride = b.k_stride;
  if (p.extent.k == 0) std::memset(sums, 0, static_cast<size_t>(p.extent.n * p.lane_bytes()));
  step.pool().ranges(p.extent.n, kParallelWork / std::max<int64_t>(1, p.extent.k), 64,
                     [&](int64_t begin, int64_t end) {
                       VectorTask part = task;
                       part.out = sums + begin * p.lane_bytes();
                       step.kernels().vector_matrix(part, begin, end);
                       for (int64_t at = begin; at < end; at += kTile) {
                         FinishTask row = finish;
                         row.rows = 1;
                         row.columns = std::min<int64_t>(kTile, end - at);
                         row.stride = row.columns;
                         row.tile = sums + at * p.lane_bytes();
                         row.result += at * isa::byte_size(row.dtype);
                         if (row.bias != nullptr)
                           row.bias += at * row.bias_column_stride * isa::byte_size(row.bias_dtype);
                         step.kernels().finish(row);
                       }
                     });
  return nullptr;
}

// Matrix `i` of a batch, as an offset in matrices of an operand whose leading axes broadcast.
int64_t matrix_of(const Shape& operand, const Shape& result, int64_t i) {
  const int lead = result.rank() - operand.rank();
  int64_t at = 0;
  int64_t stride = 1;
  for (int axis = result.rank() - 3; axis >= 0; --axis) {
    const int64_t index = i % result[axis];
    i /= result[axis];
    if (axis < lead || axis - lead >= operand.rank() - 2) continue;
    const int64_t dim = operand[axis - lead];
    if (dim != 1) at += index * stride;
    stride *= dim;
  }
  return at;
}

class Matmul {
 public:
  explicit Matmul(Step& step)
      : step_(step), a_(step.operand(0)), b_(step.operand(1)), r_(step.result(0)) {}

  Status run() {
    if (r_.elements() == 0) return nullptr;
    describe();
    if (batch_ > 1 && rows_can_join()) join_rows();
    if (p_.extent.n == 1 && p_.extent.m > 1) swap_sides();
    return p_.extent.m == 1 && b_side_.line_stride == 1 && isa::is_real(p_.lane)
               ? multiply_rows()
               : multiply_matrices();
  }

 private:
  void describe() {
    const Shape& shape = r_.shape();
    const int rank = shape.rank();
    p_.dtype = a_.dtype();
    p_.lane = isa::is_real(p_.dtype)          ? isa::compute_type(p_.dtype)
              : isa::byte_size(p_.dtype) == 8 ? DType::i64
                                              : DType::i32;
    p_.extent.m = shape[rank - 2];
    p_.extent.n = shape[rank - 1];
    const bool ta = step_.flag("ta");
    const bool tb = step_.flag("tb");
    p_.extent.k = a_.shape()[a_.shape().rank() - (ta ? 2 : 1)];
    batch_ = r_.elements() / (p_.extent.m * p_.extent.n);
    a_side_ = {a_.data, p_.dtype, ta ? 1 : p_.extent.k, ta ? p_.extent.m : 1};
    b_side_ = {b_.data, p_.dtype, tb ? p_.extent.k : 1, tb ? 1 : p_.extent.n};
    describe_finish();
  }

  void describe_finish() {
    FinishTask& f = p_.finish;
    f.lane = p_.lane;
    f.dtype = r_.dtype();
    f.result = r_.data;
    f.result_stride = p_.extent.n;
    f.has_scale = step_.has("scale");
    if (f.has_scale) f.scale = step_.real("scale");
    if (step_.has_operand(2)) {
      const Tensor& bias = step_.operand(2);
      const Shape& shape = bias.shape();
      const int rank = shape.rank();
      f.bias = bias.data;
      f.bias_dtype = bias.dtype();
      f.bias_column_stride = rank < 1 || shape[rank - 1] == 1 ? 0 : 1;
      f.bias_row_stride = rank < 2 || shape[rank - 2] == 1 ? 0 : shape[rank - 1];
    }
    if (!step_.has("tail")) return;
    const auto opcode = static_cast<isa::Opcode>(step_.attribute("tail").index());
    f.tail = step_.kernels().element(opcode, p_.lane);
    f.tail_attributes = p_.tail_attributes;
    for (const isa::AttributeInfo& attribute : isa::info(opcode).attributes)
      step_.kernels().convert(p_.tail_attributes, p_.lane, &attribute.fallback, DType::f64, 1);
  }

  // Whether the matrices of the batch are one taller matrix: b and bias are the same for all.
  bool rows_can_join() const {
    const bool one_b = b_.elements() == p_.extent.k * p_.extent.n;
    const bool one_bias =
        p_.finish.bias == nullptr ||
        (step_.operand(2).elements() <= p_.extent.n && p_.finish.bias_row_stride == 0);
    return one_b && one_bias && a_side_.k_stride == 1 &&
           a_.elements() == batch_ * p_.extent.m * p_.extent.k;
  }
  void join_rows() {
    p_.extent.m *= batch_;
    batch_ = 1;
  }

  // A matrix times a vector is that vector times the transposed matrix, whose lanes are then full.
  void swap_sides() {
    std::swap(a_side_, b_side_);
    std::swap(p_.extent.m, p_.extent.n);
    std::swap(p_.finish.bias_row_stride, p_.finish.bias_column_stride);
    swapped_ = true;
    p_.finish.result_stride = p_.extent.n;
  }

  // Moves sides, bias and result to matrix `i` of the batch.
  void at_matrix(int64_t i, Side& a, Side& b, FinishTask& finish) const {
    a = a_side_;
    b = b_side_;
    finish = p_.finish;
    if (i == 0) return;
    Side& of_a = swapped_ ? b : a;
    Side& of_b = swapped_ ? a : b;
    const int64_t bytes = isa::byte_size(p_.dtype);
    const int64_t a_size = (swapped_ ? p_.extent.n : p_.extent.m) * p_.extent.k;
    const int64_t b_size = (swapped_ ? p_.extent.m : p_.extent.n) * p_.extent.k;
    of_a.data += matrix_of(a_.shape(), r_.shape(), i) * a_size * bytes;
    of_b.data += matrix_of(b_.shape(), r_.shape(), i) * b_size * bytes;
    finish.result += i * p_.extent.m * p_.extent.n * isa::byte_size(finish.dtype);
    if (finish.bias == nullptr || step_.operand(2).shape().rank() < 3) return;
    const Shape& bias = step_.operand(2).shape();
    const int64_t bias_size = bias[bias.rank() - 1] * bias[bias.rank() - 2];
    finish.bias += matrix_of(bias, r_.shape(), i) * bias_size * isa::byte_size(finish.bias_dtype);
  }

  Status multiply_rows() {
    for (int64_t i = 0; i < batch_; ++i) {
      Side a;
      Side b;
      FinishTask finish;
      at_matrix(i, a, b, finish);
      if (Status status = multiply_vector(step_, p_, a, b, finish)) return status;
    }
    return nullptr;
  }

  Status multiply_matrices() {
    const int64_t work = p_.extent.m * p_.extent.n * std::max<int64_t>(1, p_.extent.k);
    const int threads = step_.pool().threads();
    // Many small matrices are spread over the threads whole, large ones tile by tile.
    const bool whole = batch_ >= threads && threads > 1 && work < 64 * kParallelWork;
    const bool parallel = !whole && work >= 2 * kParallelWork;
    const int64_t parts = whole && batch_ * work >= 2 * kParallelWork ? threads : 1;
    const Panels panels(step_.kernels(), p_.lane, p_.extent, kBlockBytes);
    const auto bytes = static_cast<uint64_t>(panels.scratch_bytes() * parts);
    const Buffer memory = step_.scratch(bytes);
    if (!memory) return step_.out_of_memory(bytes);
    step_.pool().run(parts, [&](int64_t part) {
      MatrixProduct product(step_, panels, parallel);
      std::byte* own = memory.data() + part * panels.scratch_bytes();
      for (int64_t i = batch_ * part / parts; i < batch_ * (part + 1) / parts; ++i) {
        Side a;
        Side b;
        FinishTask finish;
        at_matrix(i, a, b, finish);
        product.run(a, b, finish, own);
      }
    });
    return nullptr;
  }

  Step& step_;
  const Tensor& a_;
  const Tensor& b_;
  const Tensor& r_;
  Product p_;
  Side a_side_;
  Side b_side_;
  int64_t batch_ = 1;
  bool swapped_ = false;
};

}  // namespace

Status execute(Op<Opcode::Matmul>, Step& step) { return Matmul(step).run(); }

}  // namespace trek::ref
