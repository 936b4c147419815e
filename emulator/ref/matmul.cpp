// The matrix product: packed into panels, then tile by tile.
//
// The result is cut into blocks, and K into segments of 4096, the unit of the dot order. For each, all
// panels of both operands are packed, then all tiles are worked on; both phases are spread over the
// threads. With one segment a tile is finished (scale, bias, tail, conversion) while it is in the
// first-level cache; with several, their totals wait in scratch memory.
#include <algorithm>
#include <cstring>

#include "emulator/ref/box.h"
#include "emulator/ref/execute.h"
#include "isa/convert.h"
#include "isa/semantics/dot.h"

namespace trek::ref {
namespace {

using isa::Shape;
using semantics::kDotBlock;
using semantics::kDotSegment;

constexpr int64_t kBlockElements = 4'194'304;  // of one operand, packed
constexpr int64_t kResidentBytes = 655'360;    // of left panels that stay in a cache
constexpr int64_t kParallelWork = 65'536;      // multiply-adds worth a thread
constexpr int64_t kMostTile = 448;             // 14 rows of 32: the largest tile of any level

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One matrix of a batch, seen from the lines (rows of a, columns of b) that are multiplied.
struct Side {
  const std::byte* data = nullptr;
  int64_t line_stride = 0;
  int64_t k_stride = 0;
};

// What does not differ between the matrices of a batch.
struct Product {
  DType dtype = DType::none;
  DType lane = DType::none;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  FinishTask finish;  // but for the places
  MatrixShape shape;
  int64_t rows = 0;  // of a left panel
  int64_t m_block = 0;
  int64_t n_block = 0;
  alignas(8) std::byte tail_attributes[16] = {};

  int64_t columns() const { return shape.most_vectors * shape.lanes; }  // of a right panel
  int64_t lane_bytes() const { return isa::byte_size(lane); }
  int64_t segment() const { return std::min<int64_t>(k, kDotSegment); }
  int64_t segments() const { return std::max<int64_t>(1, ceil_div(k, kDotSegment)); }
};

// Panels whose rows add up to as little more than `m` as may be; a taller one is a little better.
int64_t choose_rows(int64_t m, int64_t most) {
  int64_t best = 1;
  int64_t best_cost = INT64_MAX;
  for (int64_t rows = most; rows >= 1; rows -= rows > 2 ? 2 : 1) {
    const int64_t cost = ceil_div(m, rows) * (rows + 1);
    if (cost < best_cost) {
      best = rows;
      best_cost = cost;
    }
  }
  return best;
}

// The bytes of scratch memory that one matrix product needs.
struct Scratch {
  explicit Scratch(const Product& p) {
    const int64_t k = ceil_div(p.segment(), kDotBlock) * kDotBlock;
    left = ceil_div(p.m_block, p.rows) * p.rows * k * p.lane_bytes();
    right = ceil_div(p.n_block, p.columns()) * p.columns() * k * p.lane_bytes();
    left = ceil_div(left, 64) * 64;
    right = ceil_div(right, 64) * 64;
    totals = p.segments() == 1 ? 0
                               : ceil_div(p.m_block, p.rows) * ceil_div(p.n_block, p.columns()) *
                                     p.rows * p.columns() * p.lane_bytes();
  }
  int64_t bytes() const { return left + right + totals; }
  int64_t left = 0;
  int64_t right = 0;
  int64_t totals = 0;
};

// Multiplies one pair of matrices. `parallel`: on all threads, else on this one.
class MatrixProduct {
 public:
  MatrixProduct(const Step& step, const Product& product, bool parallel)
      : step_(step), p_(product), parallel_(parallel), scratch_(product) {}

  void run(const Side& a, const Side& b, const FinishTask& finish, std::byte* memory) {
    a_ = a;
    b_ = b;
    finish_ = finish;
    left_ = memory;
    right_ = memory + scratch_.left;
    totals_ = memory + scratch_.left + scratch_.right;
    for (n_begin_ = 0; n_begin_ < p_.n; n_begin_ += p_.n_block)
      for (m_begin_ = 0; m_begin_ < p_.m; m_begin_ += p_.m_block)
        for (segment_ = 0; segment_ < p_.segments(); ++segment_) multiply_block();
  }

 private:
  template <class Body>
  void each(int64_t tasks, Body&& body) {
    if (parallel_) return step_.pool().run(tasks, body);
    for (int64_t i = 0; i < tasks; ++i) body(i);
  }

  void multiply_block() {
    m_end_ = std::min(p_.m, m_begin_ + p_.m_block);
    n_end_ = std::min(p_.n, n_begin_ + p_.n_block);
    k_begin_ = segment_ * kDotSegment;
    k_ = std::min<int64_t>(p_.k - k_begin_, kDotSegment);
    const int64_t left_panels = ceil_div(m_end_ - m_begin_, p_.rows);
    const int64_t right_panels = ceil_div(n_end_ - n_begin_, p_.columns());
    each(left_panels + right_panels, [&](int64_t i) {
      if (i < left_panels) {
        pack_left(i);
      } else {
        pack_right(i - left_panels);
      }
    });
    // A task is a right panel and a part of the left ones. A part fits the second-level cache and
    // meets all right panels before the next part comes; there are enough tasks for all threads.
    const int64_t wanted =
        parallel_ ? ceil_div(int64_t{4} * step_.pool().threads(), right_panels) : 1;
    const int64_t resident = ceil_div(left_panels * left_panel_bytes(), kResidentBytes);
    const int64_t parts = std::clamp<int64_t>(std::max(wanted, resident), 1, left_panels);
    each(parts * right_panels, [&](int64_t i) {
      const int64_t part = i / right_panels;
      for (int64_t row = left_panels * part / parts; row < left_panels * (part + 1) / parts; ++row)
        multiply_tile(row, i % right_panels);
    });
  }

  int64_t left_panel_bytes() const {
    return p_.rows * ceil_div(k_, kDotBlock) * kDotBlock * p_.lane_bytes();
  }
  int64_t right_panel_bytes() const {
    return p_.columns() * ceil_div(k_, kDotBlock) * kDotBlock * p_.lane_bytes();
  }
  // A last right panel of few columns is one vector wide.
  int64_t vectors_of(int64_t panel) const {
    const int64_t left = n_end_ - n_begin_ - panel * p_.columns();
    return std::min(p_.shape.most_vectors, ceil_div(left, p_.shape.lanes));
  }

  PackTask pack(const Side& side, int64_t first_line, int64_t end, int64_t width) const {
    PackTask task;
    task.source = side.data + (first_line * side.line_stride + k_begin_ * side.k_stride) *
                                  isa::byte_size(p_.dtype);
    task.dtype = p_.dtype;
    task.lane = p_.lane;
    task.line_stride = side.line_stride;
    task.k_stride = side.k_stride;
    task.width = width;
    task.lines = std::min(width, end - first_line);
    task.k = k_;
    return task;
  }
  bool left_by_k() const { return a_.k_stride != 1; }

  void pack_left(int64_t panel) const {
    PackTask task = pack(a_, m_begin_ + panel * p_.rows, m_end_, p_.rows);
    task.by_k = left_by_k();
    task.panel = left_ + panel * left_panel_bytes();
    step_.kernels().pack_left(task);
  }
  void pack_right(int64_t panel) const {
    PackTask task =
        pack(b_, n_begin_ + panel * p_.columns(), n_end_, vectors_of(panel) * p_.shape.lanes);
    task.panel = right_ + panel * right_panel_bytes();
    step_.kernels().pack_right(task);
  }

  void multiply_tile(int64_t row_panel, int64_t column_panel) const {
    alignas(64) std::byte sums[kMostTile * 8];
    TileTask task;
    task.lane = p_.lane;
    task.left = left_ + row_panel * left_panel_bytes();
    task.right = right_ + column_panel * right_panel_bytes();
    task.by_k = left_by_k();
    task.rows = p_.rows;
    task.vectors = vectors_of(column_panel);
    task.k = k_;
    task.out = sums;
    const int64_t elements = p_.rows * task.vectors * p_.shape.lanes;
    const auto bytes = static_cast<size_t>(elements * p_.lane_bytes());
    if (k_ == 0) std::memset(sums, 0, bytes);
    step_.kernels().tile(task);
    if (p_.segments() > 1) {
      const int64_t right_panels = ceil_div(n_end_ - n_begin_, p_.columns());
      std::byte* total = totals_ + (row_panel * right_panels + column_panel) * p_.rows *
                                       p_.columns() * p_.lane_bytes();
      if (segment_ == 0) {
        std::memcpy(total, sums, bytes);
      } else {
        step_.kernels().add(total, sums, p_.lane, elements);
      }
      if (segment_ + 1 < p_.segments()) return;
      std::memcpy(sums, total, bytes);
    }
    finish_tile(sums, m_begin_ + row_panel * p_.rows, n_begin_ + column_panel * p_.columns(),
                task.vectors * p_.shape.lanes);
  }

  void finish_tile(std::byte* sums, int64_t row, int64_t column, int64_t stride) const {
    FinishTask task = finish_;
    task.tile = sums;
    task.stride = stride;
    task.rows = std::min(p_.rows, m_end_ - row);
    task.columns = std::min(stride, n_end_ - column);
    task.result += (row * task.result_stride + column) * isa::byte_size(task.dtype);
    if (task.bias != nullptr)
      task.bias += (row * task.bias_row_stride + column * task.bias_column_stride) *
                   isa::byte_size(task.bias_dtype);
    step_.kernels().finish(task);
  }

  const Step& step_;
  const Product& p_;
  bool parallel_;
  Scratch scratch_;
  Side a_;
  Side b_;
  FinishTask finish_;
  std::byte* left_ = nullptr;
  std::byte* right_ = nullptr;
  std::byte* totals_ = nullptr;
  int64_t m_begin_ = 0;
  int64_t m_end_ = 0;
  int64_t n_begin_ = 0;
  int64_t n_end_ = 0;
  int64_t segment_ = 0;
  int64_t k_begin_ = 0;
  int64_t k_ = 0;
};

// One row times a matrix whose rows lie one after the other: nothing is packed, the matrix is read once.
Status multiply_vector(const Step& step, const Product& p, const Side& a, const Side& b,
                       const FinishTask& finish) {
  const uint64_t bytes = static_cast<uint64_t>((p.k + p.n) * p.lane_bytes());
  const Buffer scratch = step.scratch(bytes);
  if (!scratch) return step.out_of_memory(bytes);
  std::byte* sums = scratch.data() + p.k * p.lane_bytes();
  step.kernels().convert(scratch.data(), p.lane, a.data, p.dtype, p.k);
  VectorTask task;
  task.dtype = p.dtype;
  task.lane = p.lane;
  task.left = scratch.data();
  task.right = b.data;
  task.k = p.k;
  task.stride = b.k_stride;
  if (p.k == 0) std::memset(sums, 0, static_cast<size_t>(p.n * p.lane_bytes()));
  step.pool().ranges(p.n, kParallelWork / std::max<int64_t>(1, p.k), 64,
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
    if (p_.n == 1 && p_.m > 1) swap_sides();
    p_.rows = choose_rows(p_.m, p_.shape.most_rows);
    const int64_t k = std::max<int64_t>(kDotBlock, p_.segment());
    p_.m_block =
        std::min(p_.m, ceil_div(std::max<int64_t>(256, kBlockElements / k), p_.rows) * p_.rows);
    p_.n_block = std::min(
        p_.n, ceil_div(std::max<int64_t>(256, kBlockElements / k), p_.columns()) * p_.columns());
    return p_.m == 1 && b_side_.line_stride == 1 && isa::is_real(p_.lane) ? multiply_rows()
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
    p_.shape = step_.kernels().matrix_shape(p_.lane);
    p_.m = shape[rank - 2];
    p_.n = shape[rank - 1];
    const bool ta = step_.flag("ta");
    const bool tb = step_.flag("tb");
    p_.k = a_.shape()[a_.shape().rank() - (ta ? 2 : 1)];
    batch_ = r_.elements() / (p_.m * p_.n);
    a_side_ = {a_.data, ta ? 1 : p_.k, ta ? p_.m : 1};
    b_side_ = {b_.data, tb ? p_.k : 1, tb ? 1 : p_.n};
    describe_finish();
  }

  void describe_finish() {
    FinishTask& f = p_.finish;
    f.lane = p_.lane;
    f.dtype = r_.dtype();
    f.result = r_.data;
    f.result_stride = p_.n;
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
    const bool one_b = b_.elements() == p_.k * p_.n;
    const bool one_bias = p_.finish.bias == nullptr ||
                          (step_.operand(2).elements() <= p_.n && p_.finish.bias_row_stride == 0);
    return one_b && one_bias && a_side_.k_stride == 1 && a_.elements() == batch_ * p_.m * p_.k;
  }
  void join_rows() {
    p_.m *= batch_;
    batch_ = 1;
  }

  // A matrix times a vector is that vector times the transposed matrix, whose lanes are then full.
  void swap_sides() {
    std::swap(a_side_, b_side_);
    std::swap(p_.m, p_.n);
    std::swap(p_.finish.bias_row_stride, p_.finish.bias_column_stride);
    swapped_ = true;
    p_.finish.result_stride = p_.n;
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
    const int64_t a_size = (swapped_ ? p_.n : p_.m) * p_.k;
    const int64_t b_size = (swapped_ ? p_.m : p_.n) * p_.k;
    of_a.data += matrix_of(a_.shape(), r_.shape(), i) * a_size * bytes;
    of_b.data += matrix_of(b_.shape(), r_.shape(), i) * b_size * bytes;
    finish.result += i * p_.m * p_.n * isa::byte_size(finish.dtype);
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
    const int64_t work = p_.m * p_.n * std::max<int64_t>(1, p_.k);
    const int threads = step_.pool().threads();
    // Many small matrices are spread over the threads whole, large ones tile by tile.
    const bool whole = batch_ >= threads && threads > 1 && work < 64 * kParallelWork;
    const bool parallel = !whole && work >= 2 * kParallelWork;
    const int64_t parts = whole && batch_ * work >= 2 * kParallelWork ? threads : 1;
    const Scratch scratch(p_);
    const auto bytes = static_cast<uint64_t>(scratch.bytes() * parts);
    const Buffer memory = step_.scratch(bytes);
    if (!memory) return step_.out_of_memory(bytes);
    step_.pool().run(parts, [&](int64_t part) {
      MatrixProduct product(step_, p_, parallel);
      std::byte* own = memory.data() + part * scratch.bytes();
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
