#include "emulator/ref/memory.h"

#include <algorithm>
#include <cstdlib>

#include "emulator/loading.h"

namespace trek::ref {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMostCached = uint64_t{1} << 30;

}  // namespace

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
