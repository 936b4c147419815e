// The matrix product of emulator/jit on a host, where code is made for one node (TREK_SPECIALISED) and until it is:
// packing and multiplying are functions of the process, over the kernels of emulator/kernels, and give the sums of one part of
// the tile after the other. What follows them (scale, bias, tail, the conversion to the result) is the node's
// deliver program, made for it.
#pragma once

#include "emulator/device/stage.h"

namespace trek::device {

// A tile's product, by the dot order. Strides are of elements.
struct PanelProduct {
  const std::byte* left;
  const std::byte* right;
  int64_t left_line;
  int64_t left_k;
  int64_t right_line;
  int64_t right_k;
  int64_t m;
  int64_t n;
  int64_t k;
  uint8_t type;  // DType of both operands
  uint8_t lane;  // of the sums: f32, f64, i32 or i64
};

// Rows and columns of the tile whose sums are there.
struct PanelPart {
  int64_t row;
  int64_t column;
  uint32_t m;
  uint32_t n;
};

// What a processor has behind its shared memory for a product's panels.
inline constexpr uint32_t kPanelBytes = 24 * 1024 * 1024;
inline constexpr uint32_t kMostPanelSums = 512;  // of a part

}  // namespace trek::device

extern "C" {
// Begins a product in `memory`, kPanelBytes of 64-byte alignment.
void trek_product_begin(const trek::device::PanelProduct* product, std::byte* memory);
// The sums [m][n] of its next part, at most kMostPanelSums of them, and where they belong; 0: there is none left.
uint64_t trek_product_next(std::byte* memory, std::byte* sums, trek::device::PanelPart* part);
}

#ifndef __CUDA__
namespace trek::device {

// The tile of number `tile`; A: the type of the sums, unsigned for integers.
template <typename A>
TREK_UNIT void multiply_panels(const Task& task, int64_t tile) {
  const Node& node = task.node();
  const Matrix& of = node.matrix;
  const auto type = static_cast<DType>(node.operand(0).dtype);
  const int64_t batch = tile / (of.down * of.across);
  const int64_t within = tile - batch * of.down * of.across;
  const int64_t row = within / of.across * of.tile_rows;
  const int64_t column = within % of.across * of.tile_columns;
  const int64_t a_at = place_of(node, of.a_batch, batch) * of.a_matrix + row * of.a_row;
  const int64_t b_at = place_of(node, of.b_batch, batch) * of.b_matrix + column * of.b_column;
  const DType lane = semantics::kIsFloat<A> ? (sizeof(A) == 8 ? DType::f64 : DType::f32)
                                            : (sizeof(A) == 8 ? DType::i64 : DType::i32);
  const PanelProduct product = {task.memory(node.operand(0)) + a_at * size_of(type),
                                task.memory(node.operand(1)) + b_at * size_of(type),
                                of.a_row,
                                of.a_k,
                                of.b_column,
                                of.b_k,
                                of.m - row < of.tile_rows ? of.m - row : of.tile_rows,
                                of.n - column < of.tile_columns ? of.n - column : of.tile_columns,
                                of.k,
                                static_cast<uint8_t>(type),
                                static_cast<uint8_t>(lane)};
  auto* memory = task.shared<std::byte>(kSharedBytes);
  auto* sums = task.shared<std::byte>(shared_at::kValues);
  trek_product_begin(&product, memory);
  PanelPart part;  // NOLINT(cppcoreguidelines-pro-type-member-init): what it is filled with
  while (trek_product_next(memory, sums, &part) != 0) {
    const uint32_t count = part.m * part.n;
    // The last first, since a wide register form takes more room than what stands there.
    if (kShift<A> != shift_of(node))
      for (uint32_t i = count; i-- > 0;)
        Staged<A>{shared_at::kValues, shift_of(node)}.put(
            task, i, reinterpret_cast<const Aliased<A>*>(sums)[i]);
    Positions where;
    where.width = part.n;
    where.rows = of.result_rows;
    where.first_row = batch * of.m + row + part.row;
    where.columns = of.result_columns;
    where.first_column = column + part.column;
    run(task, kDeliver, where, count, shared_at::kValues, 0);
  }
}

}  // namespace trek::device
#endif
