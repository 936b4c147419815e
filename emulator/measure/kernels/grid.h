// Where a thread of a kernel stands. Device code for clang-19 without the CUDA SDK: the builtins that
// the SDK's headers would name are named here.
#pragma once

#include <cstdint>

#define TREK_KERNEL extern "C" __attribute__((global)) void
#define TREK_DEVICE __attribute__((device)) static inline

namespace trek::device {

// This thread's number, and how many there are, in a grid of one dimension.
TREK_DEVICE uint64_t thread_in_grid() {
  const auto block = static_cast<uint64_t>(__nvvm_read_ptx_sreg_ctaid_x());
  return block * static_cast<uint64_t>(__nvvm_read_ptx_sreg_ntid_x()) +
         static_cast<uint64_t>(__nvvm_read_ptx_sreg_tid_x());
}
TREK_DEVICE uint64_t threads_in_grid() {
  return static_cast<uint64_t>(__nvvm_read_ptx_sreg_nctaid_x()) *
         static_cast<uint64_t>(__nvvm_read_ptx_sreg_ntid_x());
}

}  // namespace trek::device
