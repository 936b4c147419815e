// What this machine has for the GPU engines, in words: `trek-run --list-engines` prints it.
#pragma once

#include <string>
#include <vector>

namespace trek::driver {

struct GpuSupport {
  bool available = false;  // at least one device that Trek supports
  std::vector<std::string>
      lines;  // one per device, usable or refused; or one that says what is missing
};

// Looks for the driver and its devices. Never fails: what is missing is a line.
GpuSupport describe_gpu_support();

// The version of the NVIDIA driver that is loaded, "580.95.05", or "" where the system does not tell.
std::string nvidia_driver_version();

}  // namespace trek::driver
