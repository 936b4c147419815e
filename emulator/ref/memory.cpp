#include "emulator/ref/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace trek::ref {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMostCached = uint64_t{1} << 30;

// The number in a file that holds one, or `otherwise` ("max", no such file).
uint64_t number_in(const char* path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : otherwise;
}

}  // namespace

uint64_t available_memory() {
  uint64_t available = UINT64_MAX;
  std::ifstream info("/proc/meminfo");
  for (std::string key; info >> key;) {
    if (key == "MemAvailable:") {
      uint64_t kib = 0;
      if (info >> kib) available = kib * 1024;
      break;
    }
    info.ignore(256, '\n');
  }
  const uint64_t most = number_in("/sys/fs/cgroup/memory.max", UINT64_MAX);
  const uint64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::min(available, most == UINT64_MAX ? most : most - std::min(most, used));
}

void Buffer::release() {
  if (block_ != nullptr && --block_->references == 0) block_->memory->give_back(block_);
}

Memory::Memory(uint64_t limit) : limit_(limit != 0 ? limit : available_memory()) {}

Memory::~Memory() { drop_cache(); }

Buffer Memory::allocate(uint64_t bytes) {
  if (bytes > limit_) return {};
  const uint64_t size = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (size > limit_ - std::min(limit_, in_use_)) return {};
  Buffer::Block* block = nullptr;
  if (const auto kept = cache_.find(size); kept != cache_.end() && !kept->second.empty()) {
    block = kept->second.back();
    kept->second.pop_back();
    cached_ -= size;
  } else {
    if (size > limit_ - std::min(limit_, in_use_ + cached_)) drop_cache();
    void* data = std::aligned_alloc(kAlignment, size);
    if (data == nullptr) return {};
    block = new Buffer::Block{this, static_cast<std::byte*>(data), size, 0};
  }
  in_use_ += size;
  peak_ = std::max(peak_, in_use_);
  return Buffer(block);
}

void Memory::give_back(Buffer::Block* block) {
  in_use_ -= block->bytes;
  if (cached_ + block->bytes > kMostCached) drop_cache();
  if (block->bytes > kMostCached) {
    std::free(block->data);
    delete block;
    return;
  }
  cached_ += block->bytes;
  cache_[block->bytes].push_back(block);
}

void Memory::drop_cache() {
  for (auto& [size, blocks] : cache_)
    for (Buffer::Block* block : blocks) {
      std::free(block->data);
      delete block;
    }
  cache_.clear();
  cached_ = 0;
}

}  // namespace trek::ref
