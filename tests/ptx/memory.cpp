#include "tests/ptx/memory.h"

#include <cstdlib>
#include <cstring>

namespace trek::ptx {
namespace {
constexpr size_t kAlignment = 512;
// Nobody's bytes behind each allocation, so that the end of one is not the beginning of the next.
constexpr size_t kGap = 512;
}  // namespace

uint64_t DeviceMemory::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > bytes_ - taken_) return 0;
  const size_t room = (bytes + kGap + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, room);
  if (memory == nullptr) return 0;
  std::memset(memory, 0xFF, room);
  const auto address = reinterpret_cast<uint64_t>(memory);
  ends_[address] = address + bytes;
  taken_ += bytes;
  return address;
}

bool DeviceMemory::free(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = ends_.find(address);
  if (found == ends_.end()) return false;
  taken_ -= found->second - found->first;
  ends_.erase(found);
  std::free(reinterpret_cast<void*>(address));  // NOLINT(performance-no-int-to-ptr)
  return true;
}

Range DeviceMemory::find(uint64_t address) const {
  const std::lock_guard lock(mutex_);
  auto behind = ends_.upper_bound(address);
  if (behind == ends_.begin()) return {};
  --behind;
  if (address >= behind->second + kGap) return {};
  return {behind->first, behind->second};
}

size_t DeviceMemory::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_ - taken_;
}

}  // namespace trek::ptx
