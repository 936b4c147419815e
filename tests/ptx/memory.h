// The memory of the interpreted device: allocations of this process, at the addresses that it has them. What a kernel
// touches outside of them is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace trek::ptx {

struct Range {
  uint64_t first = 0;
  uint64_t end = 0;
  bool holds(uint64_t address, uint64_t bytes) const {
    return address >= first && address <= end && bytes <= end - address;
  }
};

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes) : bytes_(bytes) {}

  // Zero where there is no room. What has been allocated holds ones everywhere, which are no number of any type.
  uint64_t allocate(size_t bytes);
  bool free(uint64_t address);
  // The allocation in which an address lies, or close behind which; empty where there is none.
  Range find(uint64_t address) const;
  size_t bytes() const { return bytes_; }
  size_t free_bytes() const;

 private:
  size_t bytes_;
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> ends_;  // of allocations, by where they begin
  size_t taken_ = 0;
};

}  // namespace trek::ptx
