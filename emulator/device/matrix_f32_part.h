// What the two ways through a part of a tile of the f32 product have in common: the part, its operands, and
// copies into shared memory. Device only; matrix_f32.h is where to start.
#pragma once

#ifdef __CUDA__

#include "emulator/device/copies.h"
#include "emulator/device/matrix_cut.h"
#include "emulator/device/stage.h"

namespace trek::device::matrix_f32 {

using Float4 = float __attribute__((ext_vector_type(4)));
using Float2 = float __attribute__((ext_vector_type(2)));

// Shared memory by its addresses there, in bytes.
template <typename T>
using InShared = __attribute__((address_space(3))) T;
TREK_TILE Float4 load_four(uint32_t at) { return *(InShared<const Float4>*)(uintptr_t{at}); }
// The same, neither sooner nor later.
TREK_TILE Float4 load_four_now(uint32_t at) {
  return *(InShared<const volatile Float4>*)(uintptr_t{at});
}
TREK_TILE float load_word(uint32_t at) { return *(InShared<const float>*)(uintptr_t{at}); }
TREK_TILE Float2 load_two(uint32_t at) { return *(InShared<const Float2>*)(uintptr_t{at}); }
TREK_TILE void store_four(uint32_t at, Float4 v) { *(InShared<Float4>*)(uintptr_t{at}) = v; }
TREK_TILE void store_one(uint32_t at, float v) { *(InShared<float>*)(uintptr_t{at}) = v; }
TREK_TILE uint32_t address(const Task& task, uint32_t at) {
  return shared_address(task.shared<float>(at));
}

// copy_ahead() of 16 bytes where `does`, without a branch.
TREK_TILE void copy_four(bool does, uint32_t to, const std::byte* from) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %0, 0; @p cp.async.cg.shared.global [%1], [%2], 16; }" ::"r"(
          static_cast<uint32_t>(does)),
      "r"(to), "l"(from)
      : "memory");
}
// An element where `does`, and else 0, without a branch and in the order of such loads.
TREK_TILE float load_one(bool does, const std::byte* from) {
  float x;
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %1, 0; mov.f32 %0, 0f00000000; @p ld.global.f32 %0, [%2]; }"
      : "=f"(x)
      : "r"(static_cast<uint32_t>(does)), "l"(from));
  return x;
}

// Where a lane stands in a warp of four lanes below one another by eight: those beside and below one another alternate.
TREK_TILE uint32_t lane_down(uint32_t lane) { return (lane >> 1 & 1) | (lane >> 2 & 2); }
TREK_TILE uint32_t lane_across(uint32_t lane) {
  return (lane & 1) | (lane >> 1 & 2) | (lane >> 2 & 4);
}

// The number of a lane's line i of an operand, counted from the first of all lanes', where the lane is the `lane`-th of `lanes`:
// every `lanes`-th, or where lines are neighbours four together.
TREK_TILE uint32_t line_of(bool by_line, uint32_t lanes, uint32_t lane, uint32_t i) {
  return by_line ? lane + lanes * i : 4 * lane + i % 4 + i / 4 * 4 * lanes;
}

// A lane's patch of outputs.
template <uint32_t kRows, uint32_t kColumns>
TREK_TILE void clear_patch(float (&sum)[kRows][kColumns]) {
#pragma unroll
  for (uint32_t i = 0; i < kRows; ++i)
#pragma unroll
    for (uint32_t j = 0; j < kColumns; ++j) sum[i][j] = 0;
}
// Its four v, row by row.
template <uint32_t kRows, uint32_t kColumns>
TREK_TILE Float4 four_of(const float (&sum)[kRows][kColumns], uint32_t v) {
  constexpr uint32_t kFours = kColumns / 4;  // of a row
  const float* four = &sum[v / kFours][v % kFours * 4];
  return {four[0], four[1], four[2], four[3]};
}

// Neighbours the other way round, as sums of columns are stored where the right operand's are loaded in fours: ptxas has a sum
// where its store wants it, and so in the other bank of registers than the number of that column. A multiplication that reads two
// numbers of one bank takes a cycle more (README.md).
TREK_TILE Float4 turned(Float4 x) { return {x[1], x[0], x[3], x[2]}; }

// Keeps the compiler from working out a number in another way, or long before it is wanted.
TREK_TILE void hide(uint32_t& number) { asm volatile("" : "+r"(number)); }
TREK_TILE void hide(const std::byte*& address) { asm volatile("" : "+l"(address)); }

// One operand of a part: line 0 at k = 0, and the lines that exist.
struct Side {
  const std::byte* data;
  uint32_t lines;
};

// A part of a tile: its first output is at (row, column), among the rows of all batches. It lies at kPart in
// shared memory, and what is read of it behind a barrier takes no registers until then.
struct alignas(16) Part {
  Side left;
  Side right;
  int64_t row;
  int64_t column;
  uint32_t rows;
  uint32_t columns;
  uint32_t parts;  // of the tile
  uint32_t k;      // of the product
};
static_assert(sizeof(Part) <= kPartBytes);
TREK_TILE const Part& part_of(const Task& task) { return *task.shared<const Part>(kPart); }
#ifdef TREK_SPECIALISED  // known to the code
TREK_TILE const Cut& kept_cut(const Task& task) { return task.node().matrix.cut; }
#else
TREK_TILE const Cut& kept_cut(const Task& task) { return *task.shared<const Cut>(kCut); }
#endif

// What stands behind the last k: 0 on the right, -0 on the left.
alignas(16) TREK_ON_DEVICE static const float kBehind[8] = {0, 0, 0, 0, -0.0f, -0.0f, -0.0f, -0.0f};
TREK_TILE const std::byte* behind(bool left) {
  return reinterpret_cast<const std::byte*>(kBehind + (left ? 4 : 0));
}

}  // namespace trek::device::matrix_f32

#endif  // __CUDA__
