#include "emulator/driver/support.h"

#include <fstream>

#include <fmt/format.h>

#include "emulator/driver/cuda.h"

namespace trek::driver {

GpuSupport describe_gpu_support() {
  const Result<Cuda> cuda = Cuda::load();
  if (!cuda) return {false, {cuda.error().text()}};
  const Result<std::vector<DeviceInfo>> devices = cuda->devices();
  if (!devices) return {false, {devices.error().text()}};
  GpuSupport support;
  for (const DeviceInfo& device : *devices) {
    if (device.supported()) {
      support.available = true;
      support.lines.push_back(fmt::format("device {}: {}, driver for CUDA {}", device.ordinal,
                                          device.text(), cuda->version().text()));
    } else {
      support.lines.push_back(
          fmt::format("device {}: refused: {}", device.ordinal, device.refusal()));
    }
  }
  return support;
}

std::string nvidia_driver_version() {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  ..."; the words between differ.
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.find_first_not_of("0123456789.") == std::string::npos &&
        word.find('.') != std::string::npos) {
      return word;
    }
  }
  return "";
}

}  // namespace trek::driver
