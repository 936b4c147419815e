// A GPU as a machine: the Driver API, and the persistent kernel.
#include <algorithm>
#include <atomic>
#include <bit>

#include <fmt/format.h>
#include <generated/resident.h>

#include "emulator/driver/memory.h"
#include "emulator/driver/module.h"
#include "emulator/resident/machine.h"
#include "emulator/resident/pipeline.h"

namespace trek::resident {
namespace {

using driver::Result;
using driver::Status;

constexpr uint32_t kSharedBytes = (sizeof(Shared) + 127) / 128 * 128 + device::kSharedBytes;

class Gpu : public Machine {
 public:
  Gpu(driver::Context context, driver::Stream stream, driver::Stream side, driver::Module module,
      driver::Kernel kernel)
      : context_(std::move(context)),
        stream_(std::move(stream)),
        side_(std::move(side)),
        module_(std::move(module)),
        kernel_(std::move(kernel)),
        copies_tensors_(static_cast<bool>(module_.global("resident_copies_tensors"))) {}

  std::string name() const override { return context_.device().name; }
  int processors() const override { return context_.device().multiprocessors; }
  uint32_t scratch_bytes() const override { return device::kSharedBytes; }
  Result<uint64_t> free_memory() const override;
  Result<Memory> allocate(uint64_t bytes) const override;
  Result<Memory> allocate_shared(uint64_t bytes) const override;
  Status upload(uint64_t address, std::span<const std::byte> from) const override;
  Status download(uint64_t address, std::span<std::byte> to) const override;
  Status zero(uint64_t address, uint64_t bytes) const override;
  Status start(const Launch& launch, std::shared_ptr<const HostCode> /*code*/) const override;
  Result<bool> is_done() const override { return stream_.is_done(); }
  Status peek(uint64_t address, std::span<std::byte> to) const override;
  Status poke(uint64_t address, uint64_t value) const override;
  bool copies_tensors() const override { return copies_tensors_; }
  Result<std::array<std::byte, device::kTensorMapBytes>> tensor_map(
      uint64_t address, const device::TensorMap& map) const override;

 private:
  const driver::CudaApi& api() const { return context_.api(); }
  driver::Context context_;
  driver::Stream stream_;
  driver::Stream side_;  // reaches a launch that is running
  driver::Module module_;
  driver::Kernel kernel_;
  bool copies_tensors_;  // the kernel is one of sm_90a
  mutable std::atomic<bool> launched_ = false;
};

Result<uint64_t> Gpu::free_memory() const {
  if (Status status = context_.make_current(); !status) return status.error();
  auto free = context_.free_memory();
  if (!free || launched_) return free;
  // The first launch takes the stacks of all threads that the device can hold.
  const driver::DeviceInfo& device = context_.device();
  const uint64_t stacks = static_cast<uint64_t>(kernel_.local_bytes()) *
                          static_cast<uint64_t>(device.max_threads_per_multiprocessor) *
                          static_cast<uint64_t>(device.multiprocessors);
  return *free - std::min(*free, stacks);
}

Result<Memory> Gpu::allocate(uint64_t bytes) const {
  if (Status status = context_.make_current(); !status) return status.error();
  auto buffer = driver::DeviceBuffer::allocate(context_, bytes);
  if (!buffer) return buffer.error();
  auto owner = std::make_shared<driver::DeviceBuffer>(buffer.take());
  return Memory{owner->address(), bytes, {}, owner};
}

Result<Memory> Gpu::allocate_shared(uint64_t bytes) const {
  if (Status status = context_.make_current(); !status) return status.error();
  auto buffer = driver::PinnedBuffer::allocate(context_, bytes);
  if (!buffer) return buffer.error();
  auto owner = std::make_shared<driver::PinnedBuffer>(buffer.take());
  return Memory{owner->device_address(), bytes, owner->bytes(), owner};
}

Status Gpu::upload(uint64_t address, std::span<const std::byte> from) const {
  if (from.empty()) return driver::Done{};
  if (Status status = context_.make_current(); !status) return status.error();
  Status status =
      api().check(api().memcpy_to_device(address, from.data(), from.size(), stream_.handle()),
                  fmt::format("copying {} bytes to {}", from.size(), name()));
  return status ? stream_.synchronize() : std::move(status);
}

Status Gpu::download(uint64_t address, std::span<std::byte> to) const {
  if (to.empty()) return driver::Done{};
  if (Status status = context_.make_current(); !status) return status.error();
  Status status = api().check(api().memcpy_to_host(to.data(), address, to.size(), stream_.handle()),
                              fmt::format("copying {} bytes from {}", to.size(), name()));
  return status ? stream_.synchronize() : std::move(status);
}

Status Gpu::peek(uint64_t address, std::span<std::byte> to) const {
  Status status = api().check(api().memcpy_to_host(to.data(), address, to.size(), side_.handle()),
                              fmt::format("looking at a launch on {}", name()));
  return status ? side_.synchronize() : std::move(status);
}

Status Gpu::poke(uint64_t address, uint64_t value) const {
  Status status = api().check(api().memcpy_to_device(address, &value, sizeof value, side_.handle()),
                              fmt::format("ending a launch on {}", name()));
  return status ? side_.synchronize() : std::move(status);
}

Result<std::array<std::byte, device::kTensorMapBytes>> Gpu::tensor_map(
    uint64_t address, const device::TensorMap& map) const {
  static_assert(sizeof(driver::CuTensorMap) == device::kTensorMapBytes);
  driver::CuTensorMap encoded{};
  std::array<uint64_t, 3> sizes{};
  std::array<uint64_t, 2> strides{};
  std::copy(map.sizes.begin(), map.sizes.end(), sizes.begin());
  std::copy(map.strides.begin(), map.strides.end(), strides.begin());
  const std::array<uint32_t, 3> ones = {1, 1, 1};
  const auto type = map.dtype == isa::DType::f32   ? driver::TensorMapType::f32
                    : map.dtype == isa::DType::f16 ? driver::TensorMapType::f16
                                                   : driver::TensorMapType::bf16;
  const int64_t row = int64_t{map.box[0]} * isa::byte_size(map.dtype);
  if (Status status =
          api().check(api().tensor_map_encode_tiled(
                          &encoded, type, 3, reinterpret_cast<void*>(address), sizes.data(),
                          strides.data(), map.box.data(), ones.data(), driver::kInterleaveNone,
                          row == device::kTensorMapRow ? driver::kSwizzle128 : driver::kSwizzleNone,
                          driver::kL2Promotion256, driver::kFillZeros),
                      fmt::format("describing a tensor of {} x {} x {} to {}", map.sizes[0],
                                  map.sizes[1], map.sizes[2], name()));
      !status)
    return status.error();
  return std::bit_cast<std::array<std::byte, device::kTensorMapBytes>>(encoded);
}

Status Gpu::zero(uint64_t address, uint64_t bytes) const {
  if (bytes == 0) return driver::Done{};
  if (Status status = context_.make_current(); !status) return status.error();
  return api().check(api().memset_bytes(address, 0, bytes, stream_.handle()),
                     fmt::format("zeroing {} bytes on {}", bytes, name()));
}

Status Gpu::start(const Launch& launch, std::shared_ptr<const HostCode>) const {
  if (Status status = context_.make_current(); !status) return status.error();
  driver::LaunchShape shape;
  shape.grid = {launch.processors, 1, 1};
  shape.block = {kThreads, 1, 1};
  shape.shared_bytes = kSharedBytes;
  shape.cooperative = true;  // all blocks at once, or not at all
  launched_ = true;
  return kernel_.launch(stream_, shape, launch);
}

// A block with all the shared memory that it needs.
Status allow_blocks(const driver::Kernel& kernel, const driver::DeviceInfo& device) {
  if (Status status = kernel.allow_shared_bytes(kSharedBytes); !status) return status.error();
  auto blocks = kernel.resident_blocks(kThreads, kSharedBytes);
  if (!blocks) return blocks.error();
  if (*blocks >= 1) return driver::Done{};
  return driver::Error{"preparing the resident emulator", "",
                       fmt::format("no block of it fits a multiprocessor of {}", device.name)};
}

}  // namespace

Result<std::string> gpu_level(const driver::DeviceInfo& device) {
  if (kSharedBytes > device.shared_bytes_per_block)
    return driver::Error{"", "",
                         fmt::format("a block of the resident emulator needs {} bytes of shared "
                                     "memory, {} has {}",
                                     kSharedBytes, device.name, device.shared_bytes_per_block)};
  auto images = fat_binaries::resident.images_for(device);
  if (!images) return images.error();
  return images->front()->text();
}

Result<std::shared_ptr<const Machine>> open_gpu(const driver::Cuda& cuda, int ordinal,
                                                Phases& phases) {
  auto context = driver::Context::open(cuda, ordinal);
  if (!context) return context.error();
  auto stream = driver::Stream::create(*context);
  if (!stream) return stream.error();
  auto side = driver::Stream::create(*context);
  if (!side) return side.error();
  phases.end("context");
  auto module = driver::Module::load(*context, fat_binaries::resident);
  if (!module) return module.error();
  auto kernel = module->kernel("resident");
  if (!kernel) return kernel.error();
  if (Status status = allow_blocks(*kernel, context->device()); !status) return status.error();
  phases.end("kernel");
  return std::shared_ptr<const Machine>(std::make_shared<Gpu>(
      context.take(), stream.take(), side.take(), module.take(), kernel.take()));
}

}  // namespace trek::resident
