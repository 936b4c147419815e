#include "emulator/driver/memory.h"

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

namespace trek::driver {
namespace {

void require_range(uint64_t offset, uint64_t count, uint64_t size) {
  if (offset <= size && count <= size - offset) return;
  fmt::print(stderr, "trek: {} bytes at {} lie outside a device buffer of {}\n", count, offset,
             size);
  std::abort();
}

}  // namespace

Result<DeviceBuffer> DeviceBuffer::allocate(const Context& context, uint64_t bytes) {
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  const CudaApi& api = context.api();
  CuDevicePointer pointer = 0;
  const CuResult result = api.mem_alloc(&pointer, bytes);
  if (result != kCudaSuccess) {
    const Result<uint64_t> free = context.free_memory();
    const std::string left = free ? fmt::format(", where {} are free", *free) : "";
    return api
        .check(result, fmt::format("allocating {} bytes on device {}{}", bytes,
                                   context.device().ordinal, left))
        .error();
  }
  buffer.handle_ = {context, pointer};
  buffer.bytes_ = bytes;
  return buffer;
}

Status DeviceBuffer::upload(const Stream& stream, std::span<const std::byte> from,
                            uint64_t offset) const {
  require_range(offset, from.size(), bytes());
  if (from.empty()) return Done{};
  const CudaApi& api = handle_.api();
  return api.check(
      api.memcpy_to_device(address() + offset, from.data(), from.size(), stream.handle()),
      fmt::format("copying {} bytes to device {}", from.size(), handle_.device()));
}

Status DeviceBuffer::download(const Stream& stream, std::span<std::byte> to,
                              uint64_t offset) const {
  require_range(offset, to.size(), bytes());
  if (to.empty()) return Done{};
  const CudaApi& api = handle_.api();
  return api.check(api.memcpy_to_host(to.data(), address() + offset, to.size(), stream.handle()),
                   fmt::format("copying {} bytes from device {}", to.size(), handle_.device()));
}

Status DeviceBuffer::copy_from(const Stream& stream, const DeviceBuffer& from) const {
  require_range(0, from.bytes(), bytes());
  if (from.bytes() == 0) return Done{};
  const CudaApi& api = handle_.api();
  return api.check(
      api.memcpy_on_device(address(), from.address(), from.bytes(), stream.handle()),
      fmt::format("copying {} bytes within device {}", from.bytes(), handle_.device()));
}

Status DeviceBuffer::fill(const Stream& stream, std::byte value) const {
  if (bytes_ == 0) return Done{};
  const CudaApi& api = handle_.api();
  return api.check(
      api.memset_bytes(address(), static_cast<unsigned char>(value), bytes_, stream.handle()),
      fmt::format("filling {} bytes on device {}", bytes_, handle_.device()));
}

Result<PinnedBuffer> PinnedBuffer::allocate(const Context& context, uint64_t bytes) {
  PinnedBuffer buffer;
  if (bytes == 0) return buffer;
  const CudaApi& api = context.api();
  void* pointer = nullptr;
  Status status =
      api.check(api.mem_host_alloc(&pointer, bytes, kHostAllocPortable | kHostAllocDeviceMap),
                fmt::format("allocating {} bytes of page-locked memory", bytes));
  if (!status) return status.error();
  buffer.handle_ = {context, pointer};
  buffer.bytes_ = bytes;
  status = api.check(api.mem_host_get_device_pointer(&buffer.device_address_, pointer, 0),
                     "asking where the device sees page-locked memory");
  if (!status) return status.error();
  return buffer;
}

}  // namespace trek::driver
