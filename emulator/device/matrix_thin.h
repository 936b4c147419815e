// Products of few rows (at most 16) by a large matrix of f16 or bf16, under fast numerics: what a network
// does for one sample at a time. The matrix is read once, so all depends on how many of its bytes are on
// their way at a time: each of eight warps has its own part of k, and asks for the next elements before it
// multiplies those it has. Device only.
//
// Elements go from memory to registers and into tensor cores as they are, as the right operand (16 k by 8
// columns); the few rows, padded to 16, are the left one. A product of 16 k does not ask which k they are,
// as long as both operands mean the same: a lane takes elements that are neighbours in memory. Where k are
// neighbours it takes eight k of one column, for two products. Where columns are neighbours it takes V
// columns at each of four k, for V products, after pairing k with k + 1.
//
// The warps' sums meet in shared memory, and leave by the deliver program.
#pragma once

#ifdef __CUDA__

#include "emulator/device/matrix_tensor.h"

namespace trek::device {

namespace thin {

using tensor::multiply;
using tensor::opaque;
using tensor::Tile;

inline constexpr uint32_t kWarps = kBlockThreads / 32;
inline constexpr uint32_t kLeftAt = shared_at::kWork;
inline constexpr uint32_t kLeftBytes = kThinLeftBytes;
static_assert(kLeftAt + kLeftBytes <= kSharedBytes);

// How the matrix lies in registers: of kColumns columns and kK places of k a lane has kLoads pieces.
struct ByColumn {  // k are neighbours: a piece is eight k of a column
  static constexpr uint32_t kColumns = 8;
  static constexpr uint32_t kK = 32;
  static constexpr uint32_t kPieces = 1;
  static constexpr uint32_t kWords = 4;  // of a piece
  static constexpr uint32_t kSums = 1;   // products of eight columns
  static constexpr uint32_t kDepth = 4;  // steps that are on their way together
};
template <uint32_t V>
struct ByRow {  // columns are neighbours: a piece is V columns at one k
  static constexpr uint32_t kColumns = 8 * V;
  static constexpr uint32_t kK = 16;
  static constexpr uint32_t kPieces = 4;
  static constexpr uint32_t kWords = V / 2;
  static constexpr uint32_t kSums = V;
  static constexpr uint32_t kDepth = V == 8 ? 2 : 4;
};

// The bytes between two rows of the left operand: lanes of a product are in different banks.
TREK_TILE uint32_t left_pitch(int64_t k, bool by_column) {
  const auto bytes = static_cast<uint32_t>((k + 127) / 128 * 256);
  return bytes + (by_column ? 64 : 32);
}

// The left operand to shared memory, [row][k] with zeros after the last k.
TREK_TILE void stage_left(const Task& task, const std::byte* data, uint32_t pitch) {
  const Matrix& of = task.node().matrix;
  const auto places = static_cast<uint32_t>((of.k + 127) / 128 * 128);
  const auto rows = static_cast<uint32_t>(of.m);
  const auto k_end = static_cast<uint32_t>(of.k);
  const bool pieces = of.a_k == 1 && of.k % 8 == 0;  // tensors lie at multiples of 16 bytes
  for (uint32_t row = 0; row < rows; ++row) {
    const std::byte* from = data + 2 * row * of.a_row;
    const uint32_t to = kLeftAt + row * pitch;
    if (pieces) {
      for (uint32_t i = task.thread(); i < places / 8; i += kBlockThreads) {
        program_detail::Words words = {};
        if (8 * i < k_end) words = *reinterpret_cast<const program_detail::Words*>(from + 16 * i);
        *task.shared<program_detail::Words>(to + 16 * i) = words;
      }
    } else {
      for (uint32_t i = task.thread(); i < places; i += kBlockThreads)
        *task.shared<Aliased<uint16_t>>(to + 2 * i) =
            i < k_end ? read<uint16_t>(from, i * of.a_k) : uint16_t{0};
    }
  }
}

// Some bytes of the matrix, which is not read twice; zeros where they do not exist. No branch, so that the
// registers of many are chosen together.
template <uint32_t kWords>
TREK_TILE void load_piece(uint32_t (&to)[kWords], const std::byte* from, bool exists) {
  const auto flag = static_cast<uint32_t>(exists);
  if constexpr (kWords == 4)
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %5, 0; "
        "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; "
        "@p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
        : "l"(from), "r"(flag));
  else if constexpr (kWords == 2)
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; "
        "@p ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2]; }"
        : "=&r"(to[0]), "=&r"(to[1])
        : "l"(from), "r"(flag));
  else
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.u32 %0, 0; "
        "@p ld.global.L1::no_allocate.u32 %0, [%1]; }"
        : "=&r"(to[0])
        : "l"(from), "r"(flag));
}

// Halves of the same kind of two words, beside each other: of x the lower half.
template <bool kUpper>
TREK_TILE uint32_t paired(uint32_t x, uint32_t y) {
  return __nvvm_prmt(x, y, kUpper ? 0x7632 : 0x5410);
}

// What a warp multiplies: some strips of columns, and of each its own places of k.
template <class Form>
struct Slice {
  const std::byte* data;  // at the first column
  int64_t pitch;          // bytes from one k to the next, or from one column to the next
  uint32_t columns;       // that exist
  uint32_t k;             // the first
  uint32_t k_end;
  uint32_t left;  // of its lane in the left operand: where the first k of row 0 would be
  uint32_t left_pitch;
  bool upper;  // the lane's row of the left operand exists, and the row 8 below
  bool lower;
};

// The pieces of kDepth steps.
template <class Form>
struct Batch {
  uint32_t piece[Form::kDepth][Form::kPieces][Form::kWords];
};

template <class Form>
TREK_TILE void load_batch(Batch<Form>& batch, const Slice<Form>& slice, uint32_t lane,
                          uint32_t column, uint32_t k) {
  constexpr bool kByColumn = Form::kPieces == 1;
  const uint32_t across = lane / 4;
  const uint32_t down = lane % 4;
  const uint32_t my_column = column + across * (Form::kColumns / 8);
  const std::byte* at = slice.data;
  if constexpr (kByColumn)
    at += my_column * slice.pitch + 2 * (k + 8 * down);
  else
    at += (k + 4 * down) * slice.pitch + 2 * my_column;
#pragma unroll
  for (uint32_t s = 0; s < Form::kDepth; ++s)
#pragma unroll
    for (uint32_t p = 0; p < Form::kPieces; ++p) {
      const uint32_t place = k + s * Form::kK + (kByColumn ? 8 * down : 4 * down + p);
      const bool exists = my_column < slice.columns && place < slice.k_end;
      const int64_t apart =
          kByColumn ? int64_t{2 * Form::kK * s} : (Form::kK * s + p) * slice.pitch;
      load_piece(batch.piece[s][p], at + apart, exists);
    }
}

template <class Form, bool kBf16>
TREK_TILE void multiply_batch(const Task& task, const Batch<Form>& batch, const Slice<Form>& slice,
                              uint32_t k, float (&sum)[Form::kSums][4]) {
  constexpr bool kByColumn = Form::kPieces == 1;
#pragma unroll
  for (uint32_t s = 0; s < Form::kDepth; ++s) {
    // The lane's places of k: eight, or four, of row lane / 4 and of the row 8 below.
    constexpr uint32_t kLeftWords = kByColumn ? 4 : 2;
    uint32_t x[2][kLeftWords] = {};
    const uint32_t at = slice.left + 2 * (k + s * Form::kK);
    if (slice.upper) {
#pragma unroll
      for (uint32_t w = 0; w < kLeftWords; ++w) x[0][w] = task.shared<Aliased<uint32_t>>(at)[w];
    }
    if (slice.lower) {
#pragma unroll
      for (uint32_t w = 0; w < kLeftWords; ++w)
        x[1][w] = task.shared<Aliased<uint32_t>>(at + 8 * slice.left_pitch)[w];
    }
    if constexpr (kByColumn) {
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        const uint32_t a[4] = {x[0][2 * half], x[1][2 * half], x[0][2 * half + 1],
                               x[1][2 * half + 1]};
        multiply<kBf16>(sum[0], a, batch.piece[s][0][2 * half], batch.piece[s][0][2 * half + 1]);
      }
    } else {
      const uint32_t a[4] = {x[0][0], x[1][0], x[0][1], x[1][1]};
#pragma unroll
      for (uint32_t w = 0; w < Form::kWords; ++w) {
        const auto& p = batch.piece[s];
        multiply<kBf16>(sum[2 * w], a, paired<false>(p[0][w], p[1][w]),
                        paired<false>(p[2][w], p[3][w]));
        multiply<kBf16>(sum[2 * w + 1], a, paired<true>(p[0][w], p[1][w]),
                        paired<true>(p[2][w], p[3][w]));
      }
    }
  }
}

// A warp's sums of a strip to its part of shared memory at kValues: [row][columns of the group].
template <class Form>
TREK_TILE void keep_sums(const Task& task, uint32_t at, uint32_t lane, uint32_t columns,
                         uint32_t column, const Slice<Form>& slice, float (&sum)[Form::kSums][4]) {
  constexpr uint32_t kApart = Form::kColumns / 8;  // columns between those of a product
#pragma unroll
  for (uint32_t j = 0; j < Form::kSums; ++j)
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t x = column + (2 * (lane % 4) + i % 2) * kApart + j;
      const uint32_t y = lane / 4 + i / 2 * 8;
      if ((i < 2 ? slice.upper : slice.lower) && x < columns)
        *task.shared<float>(at + 4 * (y * columns + x)) = sum[j][i];
      sum[j][i] = 0;
    }
}

// All strips of a group of columns that its sums have room for. The left operand is brought meanwhile where
// `left` says where it is.
template <class Form, bool kBf16>
TREK_TILE void multiply_group(const Task& task, Slice<Form> slice, uint32_t first_k, uint32_t end_k,
                              uint32_t sums_at, const std::byte* left) {
  const uint32_t lane = opaque(task.thread()) % 32;
  constexpr uint32_t kBatchK = Form::kDepth * Form::kK;
  Batch<Form> batch[2];
  float sum[Form::kSums][4] = {};
  // The place of the next batch to be asked for, and of the next to be multiplied.
  uint32_t ask_column = 0;
  uint32_t ask_k = first_k;
  uint32_t column = 0;
  uint32_t k = first_k;
  const auto ask = [&](Batch<Form>& to) TREK_TILE_LAMBDA {
    load_batch(to, slice, lane, ask_column, ask_k);
    ask_k += kBatchK;
    if (ask_k >= end_k) {
      ask_k = first_k;
      ask_column += Form::kColumns;
    }
  };
  const auto use = [&](const Batch<Form>& from) TREK_TILE_LAMBDA {
    multiply_batch<Form, kBf16>(task, from, slice, k, sum);
    k += kBatchK;
    if (k >= end_k) {
      keep_sums(task, sums_at, lane, slice.columns, column, slice, sum);
      k = first_k;
      column += Form::kColumns;
    }
  };
  const bool any = first_k < end_k;
  if (any) ask(batch[0]);
  if (left != nullptr) {
    stage_left(task, left, slice.left_pitch);
    task.sync();
  }
  if (!any) {  // more warps than places of k: nothing is added, and nothing read behind the left operand
    TREK_ROLLED
    for (; column < slice.columns; column += Form::kColumns)
      keep_sums(task, sums_at, lane, slice.columns, column, slice, sum);
    return;
  }
  // Behind the last strip there are zeros, whose sums are nobody's.
  TREK_ROLLED
  while (column < slice.columns) {
    ask(batch[1]);
    use(batch[0]);
    ask(batch[0]);
    use(batch[1]);
  }
}

// Columns whose sums have room, of all warps and all rows.
TREK_TILE uint32_t room_for_columns(const Matrix& of) {
  return kValuesBytes / 4 / kWarps / static_cast<uint32_t>(of.m) / of.part_columns *
         of.part_columns;
}

template <class Form>
TREK_TILE void multiply_columns(const Task& task, const std::byte* a, const std::byte* b,
                                uint32_t columns) {
  constexpr bool kByColumn = Form::kPieces == 1;
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const auto rows = static_cast<uint32_t>(of.m);
  const uint32_t warp = opaque(task.thread()) / 32;
  const uint32_t lane = opaque(task.thread()) % 32;
  const uint32_t pitch = left_pitch(of.k, kByColumn);
  // A warp's places of k: whole batches, but for the last.
  constexpr uint32_t kBatchK = Form::kDepth * Form::kK;
  const auto k_end = static_cast<uint32_t>(of.k);
  const uint32_t batches = (k_end + kBatchK - 1) / kBatchK;
  const uint32_t mine = (batches + kWarps - 1) / kWarps * kBatchK;
  const uint32_t first_k = warp * mine < k_end ? warp * mine : k_end;
  const uint32_t end_k = first_k + mine < k_end ? first_k + mine : k_end;
  Slice<Form> slice;
  slice.data = b;
  slice.pitch = 2 * (kByColumn ? of.b_column : of.b_k);
  slice.columns = columns;
  slice.k_end = k_end;
  slice.left = kLeftAt + lane / 4 * pitch + (kByColumn ? 16 : 8) * (lane % 4);
  slice.left_pitch = pitch;
  slice.upper = lane / 4 < rows;
  slice.lower = lane / 4 + 8 < rows;
  const uint32_t outputs = rows * columns;
  const uint32_t sums_at = shared_at::kValues + 4 * warp * outputs;
  if (static_cast<DType>(node.operand(0).dtype) == DType::bf16)
    multiply_group<Form, true>(task, slice, first_k, end_k, sums_at, a);
  else
    multiply_group<Form, false>(task, slice, first_k, end_k, sums_at, a);
  task.sync();
  for (uint32_t i = task.thread(); i < outputs; i += kBlockThreads) {
    float* of_warps = task.shared<float>(shared_at::kValues) + i;
    float total = of_warps[0];
#pragma unroll
    for (uint32_t w = 1; w < kWarps; ++w) total += of_warps[w * outputs];
    of_warps[0] = total;
  }
  task.sync();
}

}  // namespace thin

// The products of `columns` columns from `column` on, at most as many as there is room for, to shared memory
// at kValues: [rows][columns] of f32. The first of a tile brings the left operand.
TREK_UNIT_CALL void multiply_columns_thin(Task task, int64_t batch, int64_t column,
                                          uint32_t columns, bool first) {
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const std::byte* a =
      first ? task.memory(node.operand(0)) + 2 * place_of(node, of.a_batch, batch) * of.a_matrix
            : nullptr;
  const std::byte* b = task.memory(node.operand(1)) +
                       2 * (place_of(node, of.b_batch, batch) * of.b_matrix + column * of.b_column);
  switch (of.part_columns) {
    case 8:
      return thin::multiply_columns<thin::ByColumn>(task, a, b, columns);
    case 16:
      return thin::multiply_columns<thin::ByRow<2>>(task, a, b, columns);
    case 32:
      return thin::multiply_columns<thin::ByRow<4>>(task, a, b, columns);
    default:
      return thin::multiply_columns<thin::ByRow<8>>(task, a, b, columns);
  }
}

// The tile of number `tile` of a node whose product is `thin`.
TREK_UNIT void multiply_tile_thin(const Task& task, int64_t number) {
  const Matrix& of = task.node().matrix;
  const tensor::Tile tile = tensor::tile_of(of, number);
  const int64_t room = thin::room_for_columns(of);
  for (int64_t column = tile.first_column; column < tile.end_column; column += room) {
    const int64_t left = tile.end_column - column;
    const auto columns = static_cast<uint32_t>(left < room ? left : room);
    multiply_columns_thin(task, tile.batch, column, columns, column == tile.first_column);
    tensor::deliver_staged(task, tile.batch, 0, column, static_cast<uint32_t>(of.m), columns);
    task.sync();
  }
}

}  // namespace trek::device

#endif  // __CUDA__
