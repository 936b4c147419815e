// Memory for tensors and registers: counted, limited, reused.
//
// A Buffer is a shared handle to a block of bytes. Registers, arguments and carried values that are the
// same tensor share one block; who writes asks first whether the block is his alone (is_unique). Freed
// blocks are kept for the next allocation of their size, because a training loop asks for the same
// sizes in every trip and fresh pages from the system cost more than most instructions.
//
// Used by the one thread that executes instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace trek::ref {

class Memory;

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other) : block_(other.block_) { retain(); }
  Buffer(Buffer&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Buffer& operator=(const Buffer& other) { return *this = Buffer(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));  // what was here goes with it
    std::swap(block_, taken.block_);
    return *this;
  }
  ~Buffer() { release(); }

  explicit operator bool() const { return block_ != nullptr; }
  std::byte* data() const { return block_->data; }
  bool is_unique() const { return block_->references == 1; }
  void reset() { *this = Buffer(); }

 private:
  friend class Memory;
  struct Block {
    Memory* memory;
    std::byte* data;  // aligned to 64
    uint64_t bytes;   // a multiple of 64
    uint32_t references;
  };
  explicit Buffer(Block* block) : block_(block) { retain(); }
  void retain() const {
    if (block_ != nullptr) ++block_->references;
  }
  void release();

  Block* block_ = nullptr;
};

class Memory {
 public:
  // `limit` 0: what the machine has to give now.
  explicit Memory(uint64_t limit);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // A block of at least `bytes` bytes with any contents, or no buffer where the limit is reached.
  Buffer allocate(uint64_t bytes);

  uint64_t limit() const { return limit_; }
  uint64_t in_use() const { return in_use_; }
  uint64_t peak() const { return peak_; }

 private:
  friend class Buffer;
  void give_back(Buffer::Block* block);
  void drop_cache();

  uint64_t limit_;
  uint64_t in_use_ = 0;
  uint64_t peak_ = 0;
  uint64_t cached_ = 0;
  std::unordered_map<uint64_t, std::vector<Buffer::Block*>> cache_;  // by size
};

}  // namespace trek::ref
