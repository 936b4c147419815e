// Where a lane of a product by tensor cores stands in its result, and what its outputs are packed to. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/shared.h"
#include "emulator/device/tensor_core.h"
#include "isa/semantics/elements.h"

namespace trek::device::tensor {

// Where a lane stands in the result. Rows and columns are those of one matrix of the batch.
struct Spot {
  int64_t batch;
  uint32_t row;     // of the upper row
  uint32_t column;  // of the strip
  uint32_t end_row;
  uint32_t end_column;
};

TREK_TILE float f16_as_float(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
// Two floats rounded to a type of 16 bits, the first in the lower half.
TREK_TILE uint32_t packed(bool is_bf16, float low, float high) {
  uint32_t both;
  if (is_bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
TREK_TILE float unpacked(bool is_bf16, uint32_t half) {
  return is_bf16 ? semantics::from_bits<float>(half << 16)
                 : f16_as_float(static_cast<uint16_t>(half));
}

// The lane's place in its upper row of a tensor that is laid out as the result is.
TREK_TILE std::byte* place_in(const Task& task, const Operand& operand, const Spot& spot,
                              uint32_t column) {
  const Matrix& of = task.node().matrix;
  const auto bytes = static_cast<int64_t>(size_of(static_cast<DType>(operand.dtype)));
  return task.memory(operand) + ((spot.batch * of.m + spot.row) * of.n + column) * bytes;
}

// Two lanes whose numbers differ by kApart exchange a word: what the lower one has in x, and the other in w.
template <int kApart>
TREK_TILE void turn_by(uint32_t& w, uint32_t& x, uint32_t lane) {
  const bool upper = (lane & kApart) != 0;
  const uint32_t got = shuffled<kApart>(upper ? w : x);
  w = upper ? got : w;
  x = upper ? x : got;
}

}  // namespace trek::device::tensor

#endif  // __CUDA__
