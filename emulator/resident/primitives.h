// How processors and the host see each other's writes: loads that acquire, stores and additions that
// release, at the scope of the device or of the system. On a GPU they are inline PTX, because LLVM's
// NVPTX backend knows no ordered atomics; on a host, where tests run the same code with a thread for
// every processor, they are the compiler's atomics.
#pragma once

#include <cstdint>

#ifdef __CUDA__
#define TREK_RESIDENT __attribute__((device)) inline __attribute__((always_inline))
#define TREK_RESIDENT_CALL __attribute__((device, noinline, unused)) static
#else
#include <chrono>
#include <thread>
#define TREK_RESIDENT inline
#define TREK_RESIDENT_CALL inline
#endif

namespace trek::resident {

#ifdef __CUDA__

TREK_RESIDENT uint32_t load_acquire(const uint32_t* p) {
  uint32_t v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
TREK_RESIDENT uint64_t load_acquire(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
TREK_RESIDENT uint64_t load_relaxed(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
TREK_RESIDENT void store_release(uint64_t* p, uint64_t v) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
TREK_RESIDENT void store_relaxed(uint64_t* p, uint64_t v) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
TREK_RESIDENT void add_release(uint32_t* p, uint32_t n) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(n) : "memory");
}
TREK_RESIDENT void add_relaxed(uint64_t* p, uint64_t n) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(n) : "memory");
}
// Takes a lock that is free at 0; false where somebody has it.
TREK_RESIDENT bool try_lock(uint32_t* p) {
  uint32_t old;
  asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(p) : "memory");
  return old == 0;
}
TREK_RESIDENT void unlock(uint32_t* p) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(0) : "memory");
}
TREK_RESIDENT uint64_t load_acquire_system(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
TREK_RESIDENT void store_release_system(uint64_t* p, uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
TREK_RESIDENT void store_relaxed_system(uint64_t* p, uint64_t v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
TREK_RESIDENT uint64_t nanoseconds() {
  uint64_t v;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(v));
  return v;
}
TREK_RESIDENT void pause() { asm volatile("nanosleep.u32 20;" ::: "memory"); }
// Lets the next launch of a recording come to the multiprocessors, and waits until the one before is over; nothing
// in a launch that is not one of a recording.
TREK_RESIDENT void follow_launch_before() {
#ifdef TREK_SM90A
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#else

inline uint32_t load_acquire(const uint32_t* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
inline uint64_t load_acquire(const uint64_t* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
inline uint64_t load_relaxed(const uint64_t* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
inline void store_release(uint64_t* p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
inline void store_relaxed(uint64_t* p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
inline void add_release(uint32_t* p, uint32_t n) { __atomic_fetch_add(p, n, __ATOMIC_RELEASE); }
inline void add_relaxed(uint64_t* p, uint64_t n) { __atomic_fetch_add(p, n, __ATOMIC_RELAXED); }
inline bool try_lock(uint32_t* p) { return __atomic_exchange_n(p, 1U, __ATOMIC_ACQUIRE) == 0; }
inline void unlock(uint32_t* p) { __atomic_store_n(p, 0U, __ATOMIC_RELEASE); }
inline uint64_t load_acquire_system(const uint64_t* p) { return load_acquire(p); }
inline void store_release_system(uint64_t* p, uint64_t v) { store_release(p, v); }
inline void store_relaxed_system(uint64_t* p, uint64_t v) { store_relaxed(p, v); }
inline uint64_t nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}
// A look later. Who yields to the threads of other programs waits for a slice of each, milliseconds; who sleeps comes
// before them. So where a yield takes long, the next waits of this thread are sleeps.
inline void pause() {
  constexpr uint64_t kLong = 50'000;  // nanoseconds
  constexpr int kSleeps = 256;
  thread_local int sleeps = 0;
  if (sleeps > 0) {
    --sleeps;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    return;
  }
  const uint64_t before = nanoseconds();
  std::this_thread::yield();
  if (nanoseconds() - before > kLong) sleeps = kSleeps;
}

#endif

}  // namespace trek::resident
