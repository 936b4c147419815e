// Kernels: the loops of the reference engine and of the JIT's products, compiled once for each level of vector
// instructions.
//
// A kernel is a plain function over plain data, on one thread, over a range of its work: which ranges,
// on how many threads and whether an operand is legal is decided by its caller. All
// levels give the same bits, because no kernel's order of operations depends on the width of a vector.
//
// What must hold in the files of this folder, whose flags other files do not have: no function with
// external linkage but the tables, and no inline function or template of the standard library that
// might be emitted, because a linker may keep that copy for the whole program and a machine without
// these instructions would then fail before it is refused by name. tests/unit/ref checks the object
// files for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa/ops.h"
#include "isa/types.h"

namespace trek::kernels {

using isa::DType;
using isa::Opcode;

// ---- elements ------------------------------------------------------------------------------------

// r[i] = f(x[i], y[i], z[i]) for n consecutive elements in the lane type that the function is for; r may
// be one of the operands. `attributes` are two numbers of that type.
using ElementFunction = void (*)(void* r, const void* x, const void* y, const void* z,
                                 const void* attributes, int64_t n);

// Elements are worked on in tiles, so that conversions and broadcasts stay in the first-level cache.
inline constexpr int64_t kTile = 1024;

// An operand as seen through the index of the result: stride 0 on the axes along which it repeats.
// Adjacent axes are merged where they can be.
struct TileOperand {
  const std::byte* data = nullptr;
  DType dtype = DType::none;
  DType lane = DType::none;  // what its elements are converted to
  bool dense = false;        // element i of the result meets element i of the operand
  int rank = 0;
  int64_t dims[isa::kMaxRank] = {};
  int64_t strides[isa::kMaxRank] = {};  // in elements
};

struct PointwiseTask {
  ElementFunction function = nullptr;
  int operands = 0;
  TileOperand operand[3];
  std::byte* result = nullptr;
  DType dtype = DType::none;  // of the result
  DType lane = DType::none;   // what the function gives
  alignas(8) std::byte attributes[16] = {};
};

// ---- reductions ----------------------------------------------------------------------------------

enum class Join : uint8_t { sum, product, greatest, least };

// One step of a reduction: from elements to tile results. The lane type is f32, f64, i32, i64 or u64:
// any that holds the elements, and whose sums and products agree with theirs modulo 2^n.
struct ReduceTask {
  const std::byte* x = nullptr;
  DType dtype = DType::none;  // of x
  DType lane = DType::none;
  Join join = Join::sum;
  bool square = false;  // squares are reduced
  // Axes of the reduced index, outermost first, merged.
  int rank = 0;
  int64_t dims[isa::kMaxRank] = {};
  int64_t strides[isa::kMaxRank] = {};
  // Axes of the kept index, outermost first, merged.
  int kept_rank = 0;
  int64_t kept_dims[isa::kMaxRank] = {};
  int64_t kept_strides[isa::kMaxRank] = {};
  int64_t n = 0;
  int64_t kept = 0;  // results; those along the innermost kept axis are worked on together where
                     // it is the innermost of all
  std::byte* tiles = nullptr;  // [ceil(n / 1024)][kept] in the lane type
};

struct ArgTask {
  ReduceTask where;  // of which x, dtype and the axes are used
  bool least = false;
  int64_t* index = nullptr;  // [kept]
};

struct CumsumTask {
  const std::byte* x = nullptr;
  std::byte* r = nullptr;
  DType dtype = DType::none;
  int64_t n = 0;
  int64_t inner = 0;  // elements between neighbours along the axis
};

// ---- matrix --------------------------------------------------------------------------------------

// Panels hold operands as the tile kernel reads them, in the lane type (f32, f64, i32 or i64), for at
// most one segment of k. A left panel is cut into blocks of 64 k, each [row][64], or [64][row] where
// `by_k`; the last block may be shorter in [64][row]. A right panel is [k][column].
struct PackTask {
  const std::byte* source = nullptr;  // the element at line 0, k 0; lines are rows or columns
  DType dtype = DType::none;
  DType lane = DType::none;
  int64_t line_stride = 0;  // in elements; this one or the next is 1
  int64_t k_stride = 0;
  int64_t lines = 0;  // that exist
  int64_t width = 0;  // of the panel, in lines: the others are zeros
  int64_t k = 0;
  bool by_k = false;
  std::byte* panel = nullptr;
};

// What the tile kernel can do at once: rows of a left panel, vectors of a right one.
struct MatrixShape {
  int64_t most_rows = 0;     // 1 and every even number up to this one
  int64_t most_vectors = 0;  // every number up to this one
  int64_t lanes = 0;         // elements of a vector
};

// The dot products of one left panel with one right panel over one segment.
struct TileTask {
  DType lane = DType::none;
  const std::byte* left = nullptr;
  const std::byte* right = nullptr;
  bool by_k = false;
  int64_t rows = 0;
  int64_t vectors = 0;
  int64_t k = 0;
  std::byte* out = nullptr;  // [rows][vectors × lanes]
};

// What follows a tile's dot products: × scale, + bias, tail, conversion to the result.
struct FinishTask {
  DType lane = DType::none;
  std::byte* tile = nullptr;  // [rows][stride]; overwritten
  int64_t stride = 0;
  int64_t rows = 0;     // that exist
  int64_t columns = 0;  // that exist
  bool has_scale = false;
  double scale = 0;
  const std::byte* bias = nullptr;  // at row 0, column 0; or null
  DType bias_dtype = DType::none;
  int64_t bias_row_stride = 0;
  int64_t bias_column_stride = 0;  // 0 or 1
  ElementFunction tail = nullptr;
  const std::byte* tail_attributes = nullptr;
  std::byte* result = nullptr;  // at row 0, column 0
  DType dtype = DType::none;
  int64_t result_stride = 0;
};

// A vector times a matrix [k][n] of floats whose rows lie `stride` apart: columns [begin, end).
struct VectorTask {
  DType dtype = DType::none;  // of the matrix
  DType lane = DType::none;
  const std::byte* left = nullptr;  // k elements of the lane type
  const std::byte* right = nullptr;
  int64_t k = 0;
  int64_t stride = 0;
  std::byte* out = nullptr;  // in the lane type, from column `begin` on
};

// ---- losses --------------------------------------------------------------------------------------

// A few rows of n elements one after the other, in the compute type. They are worked on as one run
// where that keeps vectors full, so callers give some thousand elements, or one row, at a time.
struct SoftmaxRows {
  DType lane = DType::none;
  const std::byte* x = nullptr;
  std::byte* r = nullptr;
  int64_t rows = 0;
  int64_t n = 0;
};
struct SoftmaxGradRows {
  DType lane = DType::none;
  const std::byte* dy = nullptr;
  const std::byte* y = nullptr;
  std::byte* r = nullptr;
  int64_t rows = 0;
  int64_t n = 0;
};
struct CrossEntropyRows {
  DType lane = DType::none;
  const std::byte* z = nullptr;
  const int64_t* classes = nullptr;
  std::byte* loss = nullptr;      // per row, or null
  std::byte* gradient = nullptr;  // like z: scratch, or the gradient where it is wanted
  bool wants_gradient = false;
  bool mean = false;  // the gradient is divided by `count`
  int64_t count = 0;
  const std::byte* factor = nullptr;  // then multiplied by these, `factor_stride` apart; or null
  int64_t factor_stride = 0;          // 0 or 1
  int64_t rows = 0;
  int64_t n = 0;
};

// ---- optimizers ----------------------------------------------------------------------------------

struct OptimizerTask {
  Opcode opcode = Opcode::Sgd;
  DType dtype = DType::none;
  std::byte* w = nullptr;
  std::byte* m = nullptr;  // of the compute type
  std::byte* v = nullptr;
  const std::byte* g = nullptr;
  double real[6] = {};  // the numeric attributes of the row in their order, exact
  int64_t step = 0;
  bool nesterov = false;
};

// ---- random --------------------------------------------------------------------------------------

struct RandomTask {
  uint64_t key = 0;
  uint64_t offset = 0;
  DType dtype = DType::none;  // of the result
  double a = 0;               // low, or mean
  double b = 0;               // high, or deviation
  std::byte* r = nullptr;
};

struct DropoutTask {
  uint64_t key = 0;
  uint64_t offset = 0;
  DType dtype = DType::none;
  double p = 0;
  const std::byte* x = nullptr;
  std::byte* y = nullptr;
  std::byte* kept = nullptr;  // written by dropout, read by its gradient
};

// ---- the table -----------------------------------------------------------------------------------

struct Kernels {
  const char* level;

  // n elements of one type as another; the ranges do not overlap, or are one if the types are of a size.
  void (*convert)(void* r, DType to, const void* x, DType from, int64_t n);
  // The function of a pointwise instruction for a lane type, or null.
  ElementFunction (*element)(Opcode opcode, DType lane);
  // Elements [begin, end) of the result.
  void (*pointwise)(const PointwiseTask& task, int64_t begin, int64_t end);
  // The first i in [0, n) whose element is 0; outside 0 <= element < limit; not finite. n if none.
  int64_t (*first_zero)(const void* x, DType dtype, int64_t n);
  int64_t (*first_outside)(const void* x, DType dtype, int64_t n, int64_t limit);
  int64_t (*first_not_finite)(const void* x, DType dtype, int64_t n);

  // Units of work [begin, end) of a reduction: results in column groups, tile by tile.
  int64_t (*reduce_units)(const ReduceTask& task);
  void (*reduce)(const ReduceTask& task, int64_t begin, int64_t end);
  void (*arg)(const ArgTask& task, int64_t begin, int64_t end);  // results [begin, end)
  // Lines [begin, end): line (o, i) starts at element o × n × inner + i.
  void (*cumsum)(const CumsumTask& task, int64_t begin, int64_t end);

  MatrixShape (*matrix_shape)(DType lane);
  void (*pack_left)(const PackTask& task);
  void (*pack_right)(const PackTask& task);
  void (*tile)(const TileTask& task);
  void (*add)(void* total, const void* part, DType lane, int64_t n);  // total += part
  void (*finish)(const FinishTask& task);
  void (*vector_matrix)(const VectorTask& task, int64_t begin, int64_t end);

  void (*softmax)(const SoftmaxRows& rows);
  void (*log_softmax)(const SoftmaxRows& rows);
  void (*softmax_grad)(const SoftmaxGradRows& rows);
  void (*log_softmax_grad)(const SoftmaxGradRows& rows);
  void (*cross_entropy)(const CrossEntropyRows& rows);

  void (*optimize)(const OptimizerTask& task, int64_t begin, int64_t end);

  void (*uniform)(const RandomTask& task, int64_t begin, int64_t end);
  void (*normal)(const RandomTask& task, int64_t begin, int64_t end);
  void (*bernoulli)(const RandomTask& task, int64_t begin, int64_t end);  // a: the probability
  void (*words)(const RandomTask& task, int64_t begin, int64_t end);      // r: u32
  void (*dropout)(const DropoutTask& task, int64_t begin, int64_t end);
  void (*dropout_grad)(const DropoutTask& task, int64_t begin, int64_t end);  // x: dy, y: dx

  // 2-D transposition of elements of 1, 2, 4 or 8 bytes: r[j × r_stride + i] = x[i × x_stride + j].
  void (*transpose)(void* r, int64_t r_stride, const void* x, int64_t x_stride, int64_t rows,
                    int64_t columns, int element_bytes);
};

// The table of a level that this build has.
#define TREK_DECLARE_LEVEL(level) \
  namespace level {               \
  const Kernels& kernels();       \
  }
TREK_DECLARE_LEVEL(avx512)
TREK_DECLARE_LEVEL(avx2)
TREK_DECLARE_LEVEL(portable)
#undef TREK_DECLARE_LEVEL

}  // namespace trek::kernels
