// Our own declarations of the CUDA Driver API against cuda.h, where it is installed: the numbers, the
// layouts, and each function's parameters. It fails to compile when one differs.
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <catch2/catch.hpp>
#include <cuda.h>

#include "emulator/driver/cuda.h"

namespace trek::driver {
namespace {

// NOLINTBEGIN(bugprone-sizeof-expression,misc-redundant-expression): of template arguments
// Alike for a caller: both pointers, or both plain values of one size.
template <class Ours, class Theirs>
inline constexpr bool kAlike =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>;

template <class Ours, class Theirs>
inline constexpr bool kSameSignature = false;
template <class... Ours, class... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
inline constexpr bool kSameSignature<CuResult(Ours...), CUresult(Theirs...)> =
    (kAlike<Ours, Theirs> && ...);
// NOLINTEND(bugprone-sizeof-expression,misc-redundant-expression)

#define TREK_CUDA(name, symbol, parameters) \
  static_assert(kSameSignature<CuResult parameters, decltype(::symbol)>, #symbol);
#include "emulator/driver/cuda_api.def"
#undef TREK_CUDA

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}

using D = DeviceAttribute;
static_assert(same(D::clock_rate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
static_assert(same(D::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(same(D::memory_clock_rate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
static_assert(same(D::memory_bus_width, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
static_assert(same(D::l2_cache_size, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
static_assert(same(D::max_threads_per_multiprocessor,
                   CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR));
static_assert(same(D::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(same(D::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(same(D::max_shared_per_multiprocessor,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
static_assert(same(D::max_shared_per_block_optin,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));

using F = FunctionAttribute;
static_assert(same(F::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(same(F::shared_size, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
static_assert(same(F::local_size, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
static_assert(same(F::registers, CU_FUNC_ATTRIBUTE_NUM_REGS));
static_assert(same(F::max_dynamic_shared_size, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));

static_assert(same(JitOption::error_log_buffer, CU_JIT_ERROR_LOG_BUFFER));
static_assert(same(JitOption::error_log_buffer_size, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES));
static_assert(same(JitInput::ptx, CU_JIT_INPUT_PTX));

using L = LaunchAttributeId;
static_assert(same(L::cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE));
static_assert(same(L::cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
static_assert(same(L::programmatic_stream_serialization,
                   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));

static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));

static_assert(same(kCudaSuccess, CUDA_SUCCESS));
static_assert(same(kCudaErrorNotReady, CUDA_ERROR_NOT_READY));
static_assert(same(kStreamNonBlocking, CU_STREAM_NON_BLOCKING));
static_assert(same(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE));
static_assert(same(kHostAllocDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP));
static_assert(same(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));

TEST_CASE("the driver API is declared as in cuda.h") {
  // What the static assertions cannot see: where a flag lies in the attribute's union.
  CUlaunchAttributeValue value{};
  value.cooperative = 1;
  LaunchAttributeValue ours{};
  ours.flag = 1;
  CHECK(std::memcmp(&value, &ours, sizeof ours.flag) == 0);
}

}  // namespace
}  // namespace trek::driver
