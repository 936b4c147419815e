// The CUDA driver of this machine, found at run time: libcuda.so.1, its functions, its devices.
//
//   Result<Cuda> cuda = Cuda::load();            // or why there is none
//   Result<std::vector<DeviceInfo>> devices = cuda->devices();
//
// Loading initialises the driver and checks that it is new enough. $TREK_CUDA_LIBRARY names another file
// in place of libcuda.so.1.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/driver/cuda_types.h"
#include "emulator/driver/error.h"

namespace trek::driver {

// The driver's functions; all of them are there once it is loaded.
struct CudaApi {
#define TREK_CUDA(name, symbol, parameters) CuResult(*name) parameters = nullptr;
#include "emulator/driver/cuda_api.def"
#undef TREK_CUDA

  // Nothing, or the error of a call: `doing` says what was being attempted.
  Status check(CuResult result, std::string doing) const;
};

struct Version {
  int major = 0;
  int minor = 0;
  auto operator<=>(const Version&) const = default;
  std::string text() const;  // "13.0"
};

// The oldest driver and device that Trek runs on: PTX 8.0, and mma.sync with bf16 and cp.async.
inline constexpr Version kOldestDriver = {12, 0};
inline constexpr Version kOldestCapability = {8, 0};

struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  Version capability;
  int multiprocessors = 0;
  uint64_t memory_bytes = 0;
  uint64_t l2_bytes = 0;
  int clock_khz = 0;         // of the multiprocessors, at most
  int memory_clock_khz = 0;  // at most
  int memory_bus_bits = 0;
  int max_threads_per_multiprocessor = 0;
  uint64_t shared_bytes_per_block = 0;  // at most, once a kernel has asked for it
  uint64_t shared_bytes_per_multiprocessor = 0;

  // Whether Trek's kernels run on it; if not, `refusal()` says why.
  bool supported() const { return capability >= kOldestCapability; }
  std::string refusal() const;
  // "NVIDIA H200, compute capability 9.0, 132 multiprocessors at 1980 MHz, 139.8 GiB, L2 60 MiB"
  std::string text() const;
};

class Cuda {
 public:
  static Result<Cuda> load();

  const CudaApi& api() const { return *api_; }
  std::shared_ptr<const CudaApi> shared_api() const { return api_; }
  Version version() const { return version_; }
  const std::string& file() const { return file_; }
  // Every device, also those that Trek refuses. No device at all is an error that says so.
  Result<std::vector<DeviceInfo>> devices() const;
  Result<DeviceInfo> device(int ordinal) const;

 private:
  std::shared_ptr<const CudaApi> api_;
  Version version_;
  std::string file_;
};

}  // namespace trek::driver
