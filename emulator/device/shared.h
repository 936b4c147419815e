// How the units divide the memory that a block shares, and the scalars that stand at its start.
#pragma once

#include "emulator/device/block.h"
#include "emulator/device/element.h"
#include "emulator/device/node.h"

namespace trek::device {

// Byte offsets in Block::shared.
namespace shared_at {
inline constexpr uint32_t kScalars = 0;                  // uint64_t[kMaxScalars], register form
inline constexpr uint32_t kCells = 960;                  // eight words of a unit's own
inline constexpr uint32_t kSlots = 1024;                 // of micro-programs
inline constexpr uint32_t kValues = kSlots + 32 * 1024;  // staged elements
inline constexpr uint32_t kWork = kValues + 64 * 1024;   // partials, panels, keys
}  // namespace shared_at
inline constexpr uint32_t kSlotBytes = 32 * 1024;
inline constexpr uint32_t kValuesBytes = 64 * 1024;
inline constexpr uint32_t kWorkBytes = kSharedBytes - shared_at::kWork;
static_assert(kMaxScalars * 8 <= shared_at::kCells);
static_assert(kNarrowSlots * kNarrowElements * 4 * kMaxBlockThreads <= kSlotBytes);
static_assert(kWideSlots * 8 * kMaxBlockThreads <= kSlotBytes);

// A task: what all its functions need.
struct Task {
  Block block;
  const Node& node;
  std::byte* arena;
  uint64_t seed;
  Fault* fault;

  TREK_ON_DEVICE uint32_t thread() const { return block.thread; }
#ifdef __CUDA__
  TREK_ON_DEVICE uint32_t threads() const { return kBlockThreads; }
#else
  uint32_t threads() const { return block.threads; }
#endif
  TREK_ON_DEVICE void sync() const { block.sync(); }
  template <typename T>
  TREK_ON_DEVICE T* shared(uint32_t at) const {
    return reinterpret_cast<T*>(block.shared + at);
  }
  TREK_ON_DEVICE uint64_t scalar(uint32_t i) const {
    return shared<uint64_t>(shared_at::kScalars)[i];
  }
  // Attribute `i` of the node's list, as the row's kinds count them.
  TREK_ON_DEVICE uint64_t attribute(uint32_t i) const { return scalar(node.first_scalar + i); }
  TREK_ON_DEVICE std::byte* memory(const Operand& operand) const { return arena + operand.offset; }
  // Element `index` of own operand i, in register form; its map is not applied.
  TREK_ON_DEVICE uint64_t operand(uint32_t i, int64_t index) const {
    const Operand& of = node.operand(i);
    return load64(memory(of), static_cast<DType>(of.dtype), index);
  }
  // Notes a fault of the node's instruction at an element; the lowest holds.
  TREK_ON_DEVICE void fail(int64_t element) const { lower_to(&fault->element, element); }
};

// Reads the scalars of a node. What follows must wait for a sync.
TREK_UNIT void read_scalars(const Task& task, const int64_t* counters) {
  for (uint32_t i = task.thread(); i < task.node.scalars; i += task.threads()) {
    const Scalar scalar = task.node.scalar(i);
    uint64_t bits = static_cast<uint64_t>(scalar.value);
    if (scalar.kind != Scalar::constant) {
      const auto from = static_cast<DType>(scalar.from);
      bits = scalar.kind == Scalar::memory ? load64(task.arena + scalar.value, from, 0)
                                           : static_cast<uint64_t>(counters[scalar.value]);
      bits = cast(from, static_cast<DType>(scalar.to), bits);
    }
    task.shared<uint64_t>(shared_at::kScalars)[i] = bits;
  }
}

}  // namespace trek::device
