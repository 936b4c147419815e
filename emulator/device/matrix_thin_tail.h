// A task of a thin product, and the tail that an output goes through: see matrix_thin.h.
#pragma once

#include "emulator/device/copies.h"
#include "emulator/device/matrix_thin_cut.h"
#include "emulator/device/stage.h"
#include "emulator/device/word_places.h"

namespace trek::device::thin {

inline constexpr uint32_t kAddends = 8;  // sums that a thread reads before it adds

// A task: the node, and where its tile lies.
struct Work {
  const Task& task;
  const Node& node;
  std::byte* arena;
  const std::byte* left;   // the first row, where the node does not make it
  const std::byte* right;  // the first column
  int64_t first;           // the first output
  uint32_t column;         // and its column
  uint32_t columns;
  int64_t row;          // of all rows of the left operand, the first of the tile
  int64_t counter = 0;  // of the loop, where it says which slices there are

  TREK_ON_DEVICE const Matrix& matrix() const { return node.matrix; }
  TREK_ON_DEVICE const Thin& cut() const { return node.matrix.thin.cut; }
  TREK_ON_DEVICE const ThinGroup& group() const { return node.matrix.thin.group; }
  TREK_ON_DEVICE bool is_group() const { return group().products != 0; }
  // What lies at an offset of the descriptor's. The resident kernel has no context here yet.
  TREK_TILE_MEMBER std::byte* at(int64_t offset) const {
#ifdef TREK_SPECIALISED
    return task.at(offset);
#else
    return arena + offset;
#endif
  }
  TREK_TILE_MEMBER std::byte* memory(const Operand& operand) const { return at(operand.offset); }
  // The same of what may be a slice.
  TREK_TILE_MEMBER std::byte* memory_of_slice(const Operand& operand) const {
    std::byte* from = memory(operand);
    if (operand.slice == 0) return from;
    return from + counter * node.axis(operand.slice - 1u)->stride *
                      static_cast<int64_t>(size_of(static_cast<DType>(operand.dtype)));
  }
  TREK_ON_DEVICE bool in_registers() const { return node.matrix.tail_steps != Matrix::kNoTail; }
};

#if defined(__CUDA__) && !defined(TREK_SPECIALISED)
// The frame's: counter `number` of those that the task reads (Environment::counters).
extern "C" TREK_ON_DEVICE int64_t trek_counter(uint32_t number);
#endif
// The counter that says which slices a trip has.
TREK_TILE int64_t counter_of_slices([[maybe_unused]] const Task& task, const Node& node) {
  const uint32_t scalar = node.matrix.thin.group.counter;
  if (scalar == 0) return 0;
#if defined(__CUDA__) && !defined(TREK_SPECIALISED)
  return trek_counter(static_cast<uint32_t>(node.scalar(scalar - 1).value));
#else
  return static_cast<int64_t>(task.scalar(scalar - 1));
#endif
}

// Where element k of row r of the left operand is staged, in floats; and that of the first row, in bytes of shared memory.
TREK_TILE uint32_t left_at(const Work& work, uint32_t r, uint32_t k) {
  return r * work.cut().blocks * (kBlock + kLeftPad) + k + k / kBlock * kLeftPad;
}
TREK_TILE uint32_t row_place(const Work& work, uint32_t k) {
  return shared_at::kValues + 4 * left_at(work, 0, k);
}

// Places in shared memory are of 32 bits.
template <typename T>
TREK_TILE T* ahead_of(T* at, uint32_t elements) {
  return at + elements;
}

// kBytes from memory to shared memory, which arrive before wait_for_copies() has returned.
template <uint32_t kBytes>
TREK_TILE void copy(const Task& task, uint32_t to, const std::byte* from) {
#ifdef __CUDA__
  if constexpr (kBytes > 2)
    copy_ahead<kBytes>(shared_address(task.shared<std::byte>(to)), from);
  else
    *task.shared<Aliased<uint16_t>>(to) = read<uint16_t>(from, 0);
#else
  __builtin_memcpy(task.shared<std::byte>(to), from, kBytes);
#endif
}

// An output: its element of the result, and its column.
struct Output {
  int64_t element;
  uint32_t column;
};
// Output i of a part of so many columns that is `ahead` columns from the tile's first.
TREK_TILE Output output_of(const Work& work, uint32_t columns, uint32_t ahead, uint32_t i) {
  const uint32_t row = work.cut().rows == 1 ? 0 : i / columns;
  const uint32_t column = ahead + (i - row * columns);
  return {work.first + row * work.matrix().n + column, work.column + column};
}

// Whether a thread has one output of the tile or none.
TREK_TILE bool is_alone(const Task& task, const Work& work) {
  return work.cut().alone != 0 && task.threads() == kBlockThreads;
}

// Where what a step of the tail has beside the sum is kept until it is wanted.
TREK_TILE uint32_t beside_at(const Task& task, uint32_t step) {
  return shared_at::kSlots + 4 * (step * task.threads() + task.thread());
}
TREK_TILE bool is_operand(const TailStep& step) {
  return step.second == TailStep::row || step.second == TailStep::elements;
}
// Where it lies, in elements.
TREK_TILE int64_t beside_of(const TailStep& step, const Output& output) {
  return step.second == TailStep::row ? output.column : output.element;
}
// Calls act(number, step) for every step of the tail.
template <class Act>
TREK_TILE void each_step(const Work& work, Act act) {
  each_row<kMaxTail>(work.matrix().tail_steps,
                     [&](uint32_t s) TREK_TILE_LAMBDA { act(s, work.matrix().tail[s]); });
}
// Asks for an element of an operand, which lies at `at`, to be a word at `to`. Copies are of no group yet.
TREK_TILE void load_beside(const Task& task, const Operand& from, const std::byte* at,
                           int64_t place, uint32_t to) {
  const auto type = static_cast<DType>(from.dtype);
  if (type == DType::f32)
    copy<4>(task, to, at + 4 * place);
  else
    *task.shared<Aliased<uint32_t>>(to) = load32(at, type, place);
}
// Asks for all that the tail has beside a sum.
TREK_TILE void load_tail(const Task& task, const Work& work, const Output& output) {
  each_step(work, [&](uint32_t s, const TailStep step) TREK_TILE_LAMBDA {
    if (is_operand(step))
      load_beside(task, work.node.operand(step.index), work.memory(work.node.operand(step.index)),
                  beside_of(step, output), beside_at(task, s));
  });
}
// Has all that brought to the second-level cache.
TREK_TILE void prefetch_tail(const Work& work, const Output& output) {
  each_step(work, [&](uint32_t /*s*/, const TailStep step) TREK_TILE_LAMBDA {
    if (!is_operand(step)) return;
    const Operand& from = work.node.operand(step.index);
    device::prefetch(work.memory(from) +
                     beside_of(step, output) * size_of(static_cast<DType>(from.dtype)));
  });
}
TREK_TILE uint32_t load_one(const Work& work, const Operand& from, int64_t place) {
  return load32(work.memory(from), static_cast<DType>(from.dtype), place);
}
// A step of a tail, from the value before it and what stands beside it.
TREK_TILE float apply_tail_step(const TailStep& step, float value, float beside) {
  switch (static_cast<Opcode>(step.opcode)) {
    case Opcode::Add:
      value = semantics::add(value, beside);
      break;
    case Opcode::Mul:
      value = semantics::mul(value, beside);
      break;
    case Opcode::Relu:
      value = semantics::relu(value);
      break;
    case Opcode::ReluGrad:
      value = semantics::relu_grad(value, beside);
      break;
    case Opcode::Cast:
      break;
    default:
      value = as_float(apply_real32(static_cast<Opcode>(step.opcode), bits_of(value), 0, 0, 0, 0));
      break;
  }
  return rounded(static_cast<DType>(step.to), value);
}
TREK_TILE float apply_tail(const Task& task, const Work& work, const Output& output, float value) {
  const bool loaded = is_alone(task, work);
  each_step(work, [&](uint32_t s, const TailStep step) TREK_TILE_LAMBDA {
    float beside = 0;
    if (step.second == TailStep::scalar)
      beside = as_float(static_cast<uint64_t>(work.node.scalar(step.index).value));
    else if (is_operand(step))
      beside =
          as_float(loaded ? *task.shared<Aliased<uint32_t>>(beside_at(task, s))
                          : load_one(work, work.node.operand(step.index), beside_of(step, output)));
    value = apply_tail_step(step, value, beside);
  });
  return value;
}

// The sum of an output's blocks in ascending order, of which one is at `sums`, the next `pitch` behind it.
TREK_TILE float sum_of_blocks(const float* sums, uint32_t blocks, uint32_t pitch) {
  float total = -0.0f;  // to which the first adds nothing
  uint32_t b = 0;
  // A block that there is not adds -0, which changes nothing.
  const auto add = [&](auto exists) TREK_TILE_LAMBDA {
    float addend[kAddends];
    TREK_UNROLLED
    for (uint32_t j = 0; j < kAddends; ++j) addend[j] = exists(j) ? sums[(b + j) * pitch] : -0.0f;
    TREK_UNROLLED
    for (const float next : addend) total = semantics::add(total, next);
  };
  TREK_ROLLED
  for (; b + kAddends <= blocks; b += kAddends) add([](uint32_t) { return true; });
  if (b < blocks) add([&](uint32_t j) { return b + j < blocks; });
  return total;
}

}  // namespace trek::device::thin
