// The device's side of the comparison: one kernel a function and type that hashes blocks of inputs, and
// one that gives the results of a range, to find the first that differs.
#include "emulator/measure/kernels/grid.h"
#include "tests/gpu/semantics_inputs.h"

namespace trek::bits {

// Block b of the grid hashes block `first + b` of the inputs into hashes[b], which holds 0.
template <class Function, class T>
TREK_DEVICE void hash_block(uint64_t* hashes, uint64_t first) {
  const auto grid_block = static_cast<uint64_t>(__nvvm_read_ptx_sreg_ctaid_x());
  const uint64_t begin = (first + grid_block) * kBlock;
  const auto stride = static_cast<uint64_t>(__nvvm_read_ptx_sreg_ntid_x());
  uint64_t sum = 0;
  for (uint64_t i = __nvvm_read_ptx_sreg_tid_x(); i < kBlock; i += stride) {
    sum += share(result<Function, T>(begin + i), begin + i);
  }
  asm volatile("red.global.add.u64 [%0], %1;" ::"l"(hashes + grid_block), "l"(sum) : "memory");
}

// results[i] of input first + i, i < count.
template <class Function, class T>
TREK_DEVICE void give_results(T* results, uint64_t first, uint64_t count) {
  for (uint64_t i = device::thread_in_grid(); i < count; i += device::threads_in_grid()) {
    results[i] = result<Function, T>(first + i);
  }
}

}  // namespace trek::bits

#define TREK_KERNELS(id, type, T)                                                  \
  TREK_KERNEL hash_##type##_##id(uint64_t* hashes, uint64_t first) {               \
    trek::bits::hash_block<trek::bits::id##_function, T>(hashes, first);           \
  }                                                                                \
  TREK_KERNEL results_##type##_##id(T* results, uint64_t first, uint64_t count) {  \
    trek::bits::give_results<trek::bits::id##_function, T>(results, first, count); \
  }
#define TREK_UNARY(id, meaning) \
  TREK_KERNELS(id, f32, float)  \
  TREK_KERNELS(id, f64, double)
#define TREK_BINARY(id, meaning) TREK_UNARY(id, meaning)
#include "tests/gpu/semantics_functions.def"
