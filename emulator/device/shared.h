// How the units divide the memory that a block shares, and a task as its functions see it.
//
// A task's surroundings (node, arena, ...) and its scalars are in shared memory, so that what a function is
// given is a thread's number and an address: registers are the scarcest thing in the kernel that holds all
// units. Functions that are called take offsets in shared memory, not pointers, for the same reason, and so
// that the compiler sees which memory it is.
#pragma once

#include "emulator/device/block.h"
#include "emulator/device/element.h"
#include "emulator/device/node.h"

namespace trek::device {

// Byte offsets in Block::shared.
namespace shared_at {
inline constexpr uint32_t kScalars = 0;  // uint64_t[kMaxScalars], register form
inline constexpr uint32_t kContext = 960;
inline constexpr uint32_t kKept = 992;     // 32 bytes that stay from task to task; zero at first
inline constexpr uint32_t kPlaces = 1016;  // the last 8 of these: matrix_thin_stays.h
inline constexpr uint32_t kSlots = 1024;   // of micro-programs
inline constexpr uint32_t kElements = kSlots + 24 * 1024;  // int64_t[4] of a thread, of narrow ones
inline constexpr uint32_t kValues = kSlots + 32 * 1024;    // staged elements
inline constexpr uint32_t kWork = kValues + 64 * 1024;     // partials, panels, keys
}  // namespace shared_at
inline constexpr uint32_t kSlotBytes = 32 * 1024;
inline constexpr uint32_t kValuesBytes = 64 * 1024;
static_assert(kMaxScalars * 8 <= shared_at::kContext);
static_assert(kNarrowSlots * kNarrowElements * 4 * kMaxBlockThreads <= 24 * 1024);
static_assert(kWideSlots * 8 * kMaxBlockThreads <= kSlotBytes);

#ifdef TREK_SPECIALISED
// Code is made for all nodes that differ in addresses alone, so these are a list of their own: numbers of 256 bytes of
// the arena. In the place of an offset its descriptor has 256 * (the address's number) + (the offset's lower 8 bits).
TREK_UNIT std::byte* address_of(std::byte* arena, const uint32_t* addresses, int64_t offset) {
  return arena + (uint64_t{addresses[offset >> 8]} << 8) + (offset & 0xFF);
}
#endif

// What is the same for all threads of a task.
struct Context {
  const Node* node;
  std::byte* arena;
  uint64_t seed;
  Fault* fault;
#ifdef TREK_SPECIALISED
  const uint32_t* addresses;
#endif
};
static_assert(offsetof(Context, node) == 0);
#ifndef TREK_SPECIALISED
static_assert(shared_at::kContext + sizeof(Context) <= shared_at::kKept);
#endif

#ifdef __CUDA__
// The memory that units share is the first of the block's dynamic shared memory, and their threads are the
// block's first: neither need be told, so a Task takes no registers.
extern __attribute__((shared, aligned(128))) std::byte memory_of_units[];
#endif

// A task: what all its functions get.
class Task {
 public:
#ifdef TREK_SPECIALISED
  // Code for one node: its context and scalars are not in the shared memory.
  TREK_ON_DEVICE Task(const Context& context, std::byte* shared, const uint64_t* scalars)
      : context_(context), shared_(shared), scalars_(scalars) {}
  TREK_ON_DEVICE const Context& context() const { return context_; }
  TREK_ON_DEVICE const uint64_t* scalars() const { return scalars_; }
  TREK_ON_DEVICE uint64_t scalar(uint32_t i) const { return scalars_[i]; }
#elif defined(__CUDA__)
  TREK_ON_DEVICE explicit Task(const Block& /*block*/) {}
#endif
#ifdef __CUDA__
  TREK_ON_DEVICE uint32_t thread() const {
    return static_cast<uint32_t>(__nvvm_read_ptx_sreg_tid_x());
  }
  TREK_ON_DEVICE uint32_t threads() const { return block_threads(); }
  TREK_ON_DEVICE void sync() const { meet(1, block_threads()); }
  // The T at a byte offset of the shared memory.
  template <typename T>
  TREK_ON_DEVICE T* shared(uint32_t at) const {
    return reinterpret_cast<T*>(memory_of_units + at);
  }
#elif defined(TREK_SPECIALISED)  // a block of one thread
  uint32_t thread() const { return 0; }
  uint32_t threads() const { return 1; }
  void sync() const {}
  template <typename T>
  T* shared(uint32_t at) const {
    return reinterpret_cast<T*>(shared_ + at);
  }
#else
  explicit Task(const Block& block) : block_(block) {}
  uint32_t thread() const { return block_.thread; }
  uint32_t threads() const { return block_.threads; }
  void sync() const { block_.sync(); }
  template <typename T>
  T* shared(uint32_t at) const {
    return reinterpret_cast<T*>(block_.shared + at);
  }
#endif

#ifndef TREK_SPECIALISED
  TREK_ON_DEVICE const Context& context() const { return *shared<Context>(shared_at::kContext); }
  TREK_ON_DEVICE uint64_t scalar(uint32_t i) const {
    return shared<uint64_t>(shared_at::kScalars)[i];
  }
#endif
  TREK_ON_DEVICE const Node& node() const { return *context().node; }
  TREK_ON_DEVICE Fault& fault() const { return *context().fault; }
  // Attribute `i` of the node's, in the order that its unit states.
  TREK_ON_DEVICE uint64_t attribute(uint32_t i) const { return scalar(node().first_scalar + i); }
  // What lies at an offset of the descriptor's.
#ifdef TREK_SPECIALISED
  TREK_ON_DEVICE std::byte* at(int64_t offset) const {
    return address_of(context_.arena, context_.addresses, offset);
  }
  TREK_ON_DEVICE std::byte* memory(const Operand& operand) const { return at(operand.offset); }
#else
  TREK_ON_DEVICE std::byte* at(int64_t offset) const { return context().arena + offset; }
  TREK_ON_DEVICE std::byte* memory(const Operand& operand) const {
    return in_device_memory(context().arena) + operand.offset;
  }
#endif
  // Notes a fault of the node's instruction at an element; the lowest holds.
  TREK_ON_DEVICE void fail(int64_t element) const { lower_to(&fault().element, element); }
  TREK_ON_DEVICE bool failed() const { return is_fault(fault()); }

#if defined(TREK_SPECIALISED) || !defined(__CUDA__)
 private:
#endif
#ifdef TREK_SPECIALISED
  Context
      context_;  // first: of a copy the JIT knows what is read at its beginning (jit/inline_calls.cpp)
  [[maybe_unused]] std::byte* shared_;  // of a host
  const uint64_t* scalars_;
#elif !defined(__CUDA__)
  Block block_;
#endif
};

// Of a unit that waits for its task's inputs itself (waits_itself(), waits_interpreted()), and says whether the task is to be
// executed: all threads call it. Elsewhere one comes to the unit when they are there.
#ifdef __CUDA__
extern "C" TREK_ON_DEVICE bool trek_await_inputs();  // the frame's (emulator/resident/called.h)
TREK_UNIT bool await_inputs() { return trek_await_inputs(); }
#else
TREK_UNIT bool await_inputs() { return true; }
#endif

// Element `index` of own operand i, in register form; its map is not applied.
TREK_UNIT_CALL uint64_t operand_of(Task task, uint32_t i, int64_t index) {
  const Operand& of = task.node().operand(i);
  return load64(task.memory(of), static_cast<DType>(of.dtype), index);
}
// Writes element `index` of result i from register form.
TREK_UNIT_CALL void give_result(Task task, uint32_t i, int64_t index, uint64_t bits) {
  const Operand& of = task.node().result(i);
  store64(task.memory(of), static_cast<DType>(of.dtype), index, bits);
}

// A scalar that is not a constant.
TREK_UNIT_CALL uint64_t changing_scalar(const Scalar& scalar, const std::byte* arena,
                                        const int64_t* counters) {
  const auto from = static_cast<DType>(scalar.from);
  const uint64_t bits = scalar.kind == Scalar::memory
                            ? load64(arena + scalar.value, from, 0)
                            : static_cast<uint64_t>(counters[scalar.value]);
  return cast(from, static_cast<DType>(scalar.to), bits);
}

#ifndef TREK_SPECIALISED
// Makes a task's surroundings and reads its scalars. What follows must wait for a sync. The thread's number is the
// block's: what depends on a Task's could be worked out once for all tasks, and would be kept in local memory.
TREK_UNIT void begin_task(const Task& task, const Block& block, const Node& node,
                          const Environment& environment, Fault* fault) {
  if (block.thread == 0)
    *task.shared<Context>(shared_at::kContext) = {&node, environment.arena, environment.seed,
                                                  fault};
  for (uint32_t i = block.thread; i < node.scalars; i += block.threads) {
    const Scalar& scalar = node.scalar(i);
    task.shared<uint64_t>(shared_at::kScalars)[i] =
        scalar.kind == Scalar::constant
            ? static_cast<uint64_t>(scalar.value)
            : changing_scalar(scalar, environment.arena, environment.counters);
  }
}
#endif

}  // namespace trek::device
