// The types and numbers of the CUDA Driver API that Trek uses, written from its public documentation so
// that no CUDA header is needed to build. They are the API's binary interface and cannot change; where
// cuda.h is at hand, tests/unit/driver compares each of them with it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trek::driver {

using CuResult = int;
using CuDevice = int;
using CuDevicePointer = uint64_t;  // an address on the device
using CuContext = struct CuContextOpaque*;
using CuStream = struct CuStreamOpaque*;
using CuEvent = struct CuEventOpaque*;
using CuLinkState = struct CuLinkStateOpaque*;
using CuModule = struct CuModuleOpaque*;
using CuFunction = struct CuFunctionOpaque*;
using CuGraph = struct CuGraphOpaque*;
using CuGraphExec = struct CuGraphExecOpaque*;
using CuGraphNode = struct CuGraphNodeOpaque*;

inline constexpr CuResult kCudaSuccess = 0;
inline constexpr CuResult kCudaErrorNoDevice = 100;
inline constexpr CuResult kCudaErrorNotReady = 600;

enum class DeviceAttribute : int {
  clock_rate = 13,  // kHz
  multiprocessor_count = 16,
  memory_clock_rate = 36,  // kHz
  memory_bus_width = 37,   // bits
  l2_cache_size = 38,
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_per_multiprocessor = 81,
  max_shared_per_block_optin = 97,
};

enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  shared_size = 1,
  local_size = 3,
  registers = 4,
  max_dynamic_shared_size = 8,
};

enum class JitOption : int {
  error_log_buffer = 5,
  error_log_buffer_size = 6,
};

enum class JitInput : int {
  ptx = 1,
};

enum class LaunchAttributeId : int {
  cooperative = 2,
  cluster_dimension = 4,
  programmatic_stream_serialization = 6,
};

union LaunchAttributeValue {
  char reserved[64];
  struct {
    unsigned x, y, z;
  } cluster;
  int flag;  // cooperative, programmatic_stream_serialization
};

struct LaunchAttribute {
  LaunchAttributeId id;
  char padding[4];
  LaunchAttributeValue value;
};

struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  CuStream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// A tensor as the copy engine of sm_90 sees it; device memory holds it as it is.
struct alignas(64) CuTensorMap {
  uint64_t opaque[16];
};

enum class TensorMapType : int {
  f16 = 6,
  f32 = 7,
  bf16 = 9,
  tf32 = 11,  // elements are f32 in memory, and rounded as they are copied
};

inline constexpr int kInterleaveNone = 0;
inline constexpr int kSwizzleNone = 0;
inline constexpr int kSwizzle128 = 3;
inline constexpr int kL2Promotion128 = 2;
inline constexpr int kFillZeros = 0;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostAllocDeviceMap = 2;
inline constexpr int kCaptureThreadLocal = 1;

}  // namespace trek::driver
