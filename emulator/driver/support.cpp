#include "emulator/driver/support.h"

#include <fstream>

#include <fmt/format.h>

namespace trek::driver {

std::string device_line(const DeviceInfo& device, const Cuda& cuda) {
  return fmt::format("device {}: {}, driver for CUDA {}", device.ordinal, device.text(),
                     cuda.version().text());
}

GpuSupport describe_gpu_support(const Judge& judge) {
  const Result<Cuda> cuda = Cuda::load();
  if (!cuda) return {false, {cuda.error().text()}};
  const Result<std::vector<DeviceInfo>> devices = cuda->devices();
  if (!devices) return {false, {devices.error().text()}};
  GpuSupport support;
  for (const DeviceInfo& device : *devices) {
    const auto refuse = [&](const std::string& why) {
      support.lines.push_back(fmt::format("device {}: refused: {}", device.ordinal, why));
    };
    if (!device.supported()) {
      refuse(device.refusal());
      continue;
    }
    const Result<std::string> words = judge ? judge(device) : std::string();
    if (!words) {
      refuse(words.error().text());
      continue;
    }
    support.available = true;
    support.lines.push_back(device_line(device, *cuda) + (words->empty() ? "" : ", ") + *words);
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
