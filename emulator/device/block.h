// What runs a unit: a block of threads with memory that they share. On the device a block is part of the
// resident kernel; on a host it is one thread, or several real ones where tests look for races. Units are
// written against this header alone, so they are one source for both.
//
// A unit is a function that all threads of a block enter together. Work is dealt out by
// `for (i = block.thread; i < n; i += block.threads)`, so any number of threads gives the same bits, and
// what one thread writes another reads only after a sync.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDA__
#define TREK_ON_DEVICE __attribute__((device))
// Compiled for Hopper itself: its tensor copy engine and products of warpgroups are there.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TREK_SM90A
#endif
#else
#define TREK_ON_DEVICE
#include <atomic>
#endif

// A function of the units. Device code is one translation unit, so nothing is left to a linker.
#define TREK_UNIT TREK_ON_DEVICE static inline
// One that is called and not copied into its callers: what is large, or called from several units. Where code is
// made for one node (TREK_SPECIALISED: emulator/jit) all is copied, since most of it then falls away.
#ifdef TREK_SPECIALISED
#define TREK_UNIT_CALL TREK_ON_DEVICE __attribute__((unused)) static inline
#else
#define TREK_UNIT_CALL TREK_ON_DEVICE __attribute__((unused, noinline)) static
#endif

// Before a loop that is to stay one: what is rare must not take room.
#if defined(__clang__) && !defined(TREK_SPECIALISED)
#define TREK_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define TREK_ROLLED
#endif

// Before a loop whose turns are to be there one by one, because they name registers.
#ifdef __clang__
#define TREK_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define TREK_UNROLLED
#endif

// What holds accumulators must be copied into its caller, or they go through memory; lambdas and
// members too.
#define TREK_TILE TREK_ON_DEVICE static inline __attribute__((always_inline))
#define TREK_TILE_LAMBDA __attribute__((always_inline))
#define TREK_TILE_MEMBER TREK_ON_DEVICE __attribute__((always_inline))

namespace trek::device {

// Whether code is made for one node, where that is a choice between two ways of doing something.
#ifdef TREK_SPECIALISED
inline constexpr bool kSpecialised = true;
#else
inline constexpr bool kSpecialised = false;
#endif

// Whether the kernel is the resident one for chains of small products (emulator/resident/README.md), which has few units.
#ifdef TREK_FOR_CHAINS
inline constexpr bool kForChains = true;
#else
inline constexpr bool kForChains = false;
#endif

// Calls act(i) for i = 0 ... n - 1, n at most kMost, of a table of the node. In code that is made for one node the turns
// stand one by one: what is read by a number that changes is read from memory, and is not known.
template <uint32_t kMost, class Act>
TREK_TILE void each_row(uint32_t n, Act act) {
#ifdef TREK_SPECIALISED
  TREK_UNROLLED
  for (uint32_t i = 0; i < kMost; ++i)
    if (i < n) act(i);
#else
  TREK_ROLLED
  for (uint32_t i = 0; i < n; ++i) act(i);
#endif
}

#ifdef __CUDA__
// The address that instructions on shared memory take.
TREK_ON_DEVICE static inline __attribute__((always_inline)) uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(
      reinterpret_cast<uintptr_t>((__attribute__((address_space(3))) const void*)p));
}
// The same place, which the compiler then knows to be in the device's memory.
TREK_ON_DEVICE static inline __attribute__((always_inline)) std::byte* in_device_memory(
    std::byte* p) {
  return (std::byte*)(__attribute__((address_space(1))) std::byte*)p;
}
#else
inline std::byte* in_device_memory(std::byte* p) { return p; }
#endif

// Two builds of the units: the core has all that f32, f16, bf16, f8 and bool networks want, with integers and
// moves of any type; the full one has f64 and the sums and products of integers besides, and is larger.
// Described::needs_full says what a node wants. Define TREK_DEVICE_CORE for the core.
#ifdef TREK_DEVICE_CORE
inline constexpr bool kFull = false;
#else
inline constexpr bool kFull = true;
#endif

// Threads that take part in units on the device, and the bytes they share there: four slots of the largest parts
// of a product (matrix_ring_90a.h), and what stands beside them.
inline constexpr uint32_t kBlockThreads = 256;
inline constexpr uint32_t kMostBlockThreads = 768;  // of a kernel that is made for one program
inline constexpr uint32_t kSharedBytes = 195 * 1024;
inline constexpr uint32_t kMaxBlockThreads = 256;  // of a host's block too

#ifdef __CUDA__
#ifdef TREK_SPECIALISED
// The JIT gives them: multiples of 32, as many as the registers of a program's code allow.
extern "C" __attribute__((device, const)) uint32_t trek_block_threads();
TREK_UNIT uint32_t block_threads() { return trek_block_threads(); }
#else
TREK_UNIT constexpr uint32_t block_threads() { return kBlockThreads; }
#endif
// The named barrier `number` of so many threads. That of all threads of units is 1: the other warps of the kernel do
// not take part.
TREK_UNIT void meet(uint32_t number, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// Has the line of an address brought to the second-level cache.
TREK_UNIT void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
#else
inline void prefetch(const void* /*at*/) {}
#endif

struct Block {
  uint32_t thread = 0;
  uint32_t threads = 1;  // 1 ... kMaxBlockThreads
  std::byte* shared =
      nullptr;  // 16-byte aligned, on the device the first of the dynamic shared memory; its bytes
                // are not defined at the start of a unit, but for shared_at::kKept: those are zero
                // at the first, and what the last one left
  uint32_t shared_bytes = 0;  // at least kSharedBytes
#ifdef __CUDA__
  TREK_ON_DEVICE void sync() const { meet(1, block_threads()); }
#else
  void (*barrier)(void*) = nullptr;  // of a block with more than one thread
  void* barrier_of = nullptr;
  void sync() const {
    if (barrier != nullptr) barrier(barrier_of);
  }
#endif
};

// A guest fault: the lowest element holds. `value` and `extra` say what was met, for the host's words:
//   index-out-of-range   the index, and the axis of a box (slice, update, load, store) or the size of the
//                        axis (gather, scatter, one_hot, losses)
//   divide-by-zero       nothing
//   not-finite           the element as bits of an f64
//   invalid-argument     the step as it is; the probability as bits of an f64
struct Fault {
  uint32_t code;    // isa::TrapCode; 0: none
  int64_t element;  // row-major, in the tensor that the instruction's trap speaks of; -1: none
  int64_t value;
  int64_t extra;
};

inline constexpr Fault kNoFault = {0, INT64_MAX, 0, 0};
TREK_UNIT bool is_fault(const Fault& fault) { return fault.element != INT64_MAX; }

// What is outside of the node: the arena that its offsets are of, the host's random seed, and the values
// of the loop counters that it reads, in the order of Described::counter_regions.
struct Environment {
  std::byte* arena = nullptr;
  uint64_t seed = 0;
  const int64_t* counters = nullptr;
};

// Lowers *to to value, whoever else does so at the same time.
TREK_UNIT void lower_to(int64_t* to, int64_t value) {
#ifdef __CUDA__
  asm volatile("red.min.s64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#elif defined(TREK_SPECIALISED)  // one thread
  if (value < *to) *to = value;
#else
  std::atomic_ref<int64_t> at(*to);
  int64_t seen = at.load(std::memory_order_relaxed);
  while (value < seen && !at.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
#endif
}

// Adds to a count that several threads raise.
TREK_UNIT void raise_by(uint32_t* to, uint32_t value) {
#ifdef __CUDA__
  asm volatile("red.add.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
#elif defined(TREK_SPECIALISED)
  *to += value;
#else
  std::atomic_ref<uint32_t>(*to).fetch_add(value, std::memory_order_relaxed);
#endif
}

}  // namespace trek::device
