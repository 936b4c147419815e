// The kernels behind the ceilings: what a device can do at most, each in its simplest form that reaches
// it. Compiled for sm_80 by clang-19 without the CUDA SDK.
#include <cstdint>

#include "emulator/measure/kernels/grid.h"
#include "emulator/measure/philox.h"

using trek::device::thread_in_grid;
using trek::device::threads_in_grid;

// Sixteen bytes that are loaded and stored at once; of a struct clang makes two loads.
using Float4 = float __attribute__((ext_vector_type(4)));

TREK_KERNEL nothing() {}

// count elements of four floats each.
TREK_KERNEL copy(Float4* to, const Float4* from, uint64_t count) {
  for (uint64_t i = thread_in_grid(); i < count; i += threads_in_grid()) to[i] = from[i];
}

TREK_KERNEL add(Float4* to, const Float4* a, const Float4* b, uint64_t count) {
  for (uint64_t i = thread_in_grid(); i < count; i += threads_in_grid()) {
    to[i] = a[i] + b[i];
  }
}

// `count` barriers across the grid, whose blocks are all resident. The counter is never reset: it stands
// at `base` when the first block comes, counts one per block and barrier, and wraps harmlessly.
TREK_KERNEL barriers(unsigned* counter, unsigned base, unsigned count) {
  const unsigned blocks = __nvvm_read_ptx_sreg_nctaid_x();
  for (unsigned i = 1; i <= count; ++i) {
    __syncthreads();
    if (__nvvm_read_ptx_sreg_tid_x() == 0) {
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
      unsigned seen;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
      } while (static_cast<int>(seen - (base + i * blocks)) < 0);
    }
    __syncthreads();
  }
}

TREK_KERNEL fill_f32(float* to, uint64_t count, uint64_t key) {
  for (uint64_t i = thread_in_grid(); i < count; i += threads_in_grid()) {
    to[i] = trek::measure::random_element(key, i);
  }
}

TREK_KERNEL fill_bf16(uint16_t* to, uint64_t count, uint64_t key) {
  for (uint64_t i = thread_in_grid(); i < count; i += threads_in_grid()) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to[i]) : "f"(trek::measure::random_element(key, i)));
  }
}

TREK_KERNEL fill_f16(uint16_t* to, uint64_t count, uint64_t key) {
  for (uint64_t i = thread_in_grid(); i < count; i += threads_in_grid()) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to[i]) : "f"(trek::measure::random_element(key, i)));
  }
}
