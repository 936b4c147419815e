#include "emulator/driver/cuda.h"

#include <cstring>

#include <fmt/format.h>

#include "emulator/driver/library.h"

namespace trek::driver {
namespace {

// Fills the table; the first function that the library lacks is the error.
Status find_functions(const SharedLibrary& library, CudaApi& api) {
#define TREK_CUDA(name, symbol, parameters)                                                     \
  if (!library.find(#symbol, api.name)) {                                                       \
    return Error{fmt::format("{} lacks the function {}", library.file(), #symbol), "",          \
                 fmt::format("the NVIDIA driver is older than CUDA {}", kOldestDriver.text())}; \
  }
#include "emulator/driver/cuda_api.def"
#undef TREK_CUDA
  return Done{};
}

Error no_driver(Error error) {
  // The common case deserves a plain sentence; anything else keeps the loader's words.
  if (error.detail ==
      "tried libcuda.so.1 (cannot open shared object file: No such file or directory)") {
    return {"libcuda.so.1 not found", "", "no NVIDIA driver"};
  }
  return error;
}

}  // namespace

Status CudaApi::check(CuResult result, std::string doing) const {
  if (result == kCudaSuccess) return Done{};
  Error error{std::move(doing), fmt::format("CUDA error {}", result), ""};
  if (const char* name = nullptr;
      get_error_name(result, &name) == kCudaSuccess && name != nullptr) {
    error.name = name;
  }
  if (const char* words = nullptr;
      get_error_string(result, &words) == kCudaSuccess && words != nullptr) {
    error.detail = words;
  }
  return error;
}

std::string Version::text() const { return fmt::format("{}.{}", major, minor); }

std::string DeviceInfo::refusal() const {
  if (supported()) return "";
  return fmt::format("{} has compute capability {}; Trek needs {} (Ampere) or newer", name,
                     capability.text(), kOldestCapability.text());
}

std::string DeviceInfo::text() const {
  return fmt::format(
      "{}, compute capability {}, {} multiprocessors at {} MHz, {:.1f} GiB, L2 {:.0f} MiB", name,
      capability.text(), multiprocessors, clock_khz / 1000,
      static_cast<double>(memory_bytes) / 0x1p30, static_cast<double>(l2_bytes) / 0x1p20);
}

Result<Cuda> Cuda::load() {
  const std::string files[] = {"libcuda.so.1"};
  Result<SharedLibrary> library = SharedLibrary::open("TREK_CUDA_LIBRARY", files);
  if (!library) return no_driver(library.error());
  CudaApi api;
  if (Status found = find_functions(*library, api); !found) return found.error();
  const std::string& file = library->file();
  if (Status status = api.check(api.init(0), "initialising " + file); !status)
    return status.error();
  int number = 0;
  if (Status status =
          api.check(api.driver_get_version(&number), "asking " + file + " for its version");
      !status) {
    return status.error();
  }
  Cuda cuda;
  cuda.version_ = {number / 1000, number % 1000 / 10};
  if (cuda.version_ < kOldestDriver) {
    return Error{fmt::format("the NVIDIA driver supports CUDA {}", cuda.version_.text()), "",
                 fmt::format("Trek needs a driver for {} or newer", kOldestDriver.text())};
  }
  cuda.api_ = std::make_shared<const CudaApi>(api);
  cuda.file_ = file;
  return cuda;
}

Result<std::vector<DeviceInfo>> Cuda::devices() const {
  int count = 0;
  if (Status status = api_->check(api_->device_get_count(&count), "counting GPUs"); !status) {
    return status.error();
  }
  if (count == 0) return Error{"the NVIDIA driver sees no GPU", "", ""};
  std::vector<DeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Result<DeviceInfo> info = device(ordinal);
    if (!info) return info.error();
    devices.push_back(info.take());
  }
  return devices;
}

Result<DeviceInfo> Cuda::device(int ordinal) const {
  const std::string doing = fmt::format("asking device {} for its properties", ordinal);
  DeviceInfo info;
  info.ordinal = ordinal;
  CuDevice device = 0;
  char name[256] = "";
  size_t memory = 0;
  CuResult result = api_->device_get(&device, ordinal);
  if (result == kCudaSuccess) result = api_->device_get_name(name, sizeof name - 1, device);
  if (result == kCudaSuccess) result = api_->device_total_mem(&memory, device);
  const auto read = [&](DeviceAttribute attribute) {
    int value = 0;
    if (result == kCudaSuccess) result = api_->device_get_attribute(&value, attribute, device);
    return value;
  };
  info.capability = {read(DeviceAttribute::compute_capability_major),
                     read(DeviceAttribute::compute_capability_minor)};
  info.multiprocessors = read(DeviceAttribute::multiprocessor_count);
  info.l2_bytes = static_cast<uint64_t>(read(DeviceAttribute::l2_cache_size));
  info.clock_khz = read(DeviceAttribute::clock_rate);
  info.memory_clock_khz = read(DeviceAttribute::memory_clock_rate);
  info.memory_bus_bits = read(DeviceAttribute::memory_bus_width);
  info.max_threads_per_multiprocessor = read(DeviceAttribute::max_threads_per_multiprocessor);
  info.shared_bytes_per_block =
      static_cast<uint64_t>(read(DeviceAttribute::max_shared_per_block_optin));
  info.shared_bytes_per_multiprocessor =
      static_cast<uint64_t>(read(DeviceAttribute::max_shared_per_multiprocessor));
  if (Status status = api_->check(result, doing); !status) return status.error();
  info.name = name;
  info.memory_bytes = memory;
  return info;
}

}  // namespace trek::driver
