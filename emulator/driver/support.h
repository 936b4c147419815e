// What this machine has for the GPU engines, in words: `trek-run --list-engines` prints it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "emulator/driver/cuda.h"

namespace trek::driver {

struct GpuSupport {
  bool available = false;  // at least one device that Trek supports
  std::vector<std::string>
      lines;  // one per device, usable or refused; or one that says what is missing
};

// What is to be said besides of a device that Trek supports, or why it is refused all the same.
using Judge = std::function<Result<std::string>(const DeviceInfo&)>;

// "device 0: NVIDIA H200, compute capability 9.0, ..., driver for CUDA 13.0"
std::string device_line(const DeviceInfo& device, const Cuda& cuda);

// Looks for the driver and its devices. Never fails: what is missing is a line.
GpuSupport describe_gpu_support(const Judge& judge = {});

// The version of the NVIDIA driver that is loaded, "580.95.05", or "" where the system does not tell.
std::string nvidia_driver_version();

}  // namespace trek::driver
