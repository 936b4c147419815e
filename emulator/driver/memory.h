// Memory of the device, and memory of the host that the device reaches.
//
// Copies and fills are enqueued on a stream and done when it is synchronised; the host bytes of a copy
// must live until then. Ranges are checked here: one outside its buffer is a broken invariant of the
// caller and aborts.
#pragma once

#include <cstddef>
#include <span>

#include "emulator/driver/stream.h"

namespace trek::driver {

class DeviceBuffer {
 public:
  // Uninitialised bytes, aligned to 256. Out of memory is an error that says what was asked for and what
  // is free. A buffer of 0 bytes owns nothing.
  static Result<DeviceBuffer> allocate(const Context& context, uint64_t bytes);

  CuDevicePointer address() const { return handle_.get(); }
  uint64_t bytes() const { return handle_ ? bytes_ : 0; }

  Status upload(const Stream& stream, std::span<const std::byte> from, uint64_t offset = 0) const;
  Status download(const Stream& stream, std::span<std::byte> to, uint64_t offset = 0) const;
  // All of `from`, which must not be larger, into the beginning of this one.
  Status copy_from(const Stream& stream, const DeviceBuffer& from) const;
  Status fill(const Stream& stream, std::byte value) const;

 private:
  Owned<CuDevicePointer, &CudaApi::mem_free> handle_;
  uint64_t bytes_ = 0;
};

// Page-locked host memory, mapped into the device's address space: for mailboxes and fast copies.
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> allocate(const Context& context, uint64_t bytes);

  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(handle_.get()), handle_ ? static_cast<size_t>(bytes_) : 0};
  }
  // Where the device sees these bytes.
  CuDevicePointer device_address() const { return device_address_; }

 private:
  Owned<void*, &CudaApi::mem_free_host> handle_;
  uint64_t bytes_ = 0;
  CuDevicePointer device_address_ = 0;
};

}  // namespace trek::driver
