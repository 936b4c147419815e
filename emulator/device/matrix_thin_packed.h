// The columns of a thin product's tile side by side in memory, as they lie in shared memory: in compiled code on a device,
// in loops.
//
// A tile's part of each row of the right operand is a few sectors, each a request of its own: of 3072 rows the requests
// alone take 1.5 µs, in which nothing else comes to memory, the counter that says that the task before is over least of
// all (H200). Nothing writes such an operand, so in the first trip a task leaves what it has brought to shared memory in
// a place of its own, and in all others brings that, line by line.
#pragma once

#include "emulator/device/matrix_thin_tail.h"

namespace trek::device::thin {

#if defined(TREK_SPECIALISED) && defined(__CUDA__)

// The frame's: whether a task's columns have been packed in this launch, by the number that its record has for that; and
// that they now have. All threads ask in one task, one says so.
extern "C" TREK_ON_DEVICE bool trek_is_packed(uint32_t number);
extern "C" TREK_ON_DEVICE void trek_has_packed(uint32_t number);

class Packed {
 public:
  TREK_TILE_MEMBER Packed(const Task& task, const Node& node, int64_t tile, int64_t count)
      : packs_(node.areas_at != 0 && node.areas().packed != Areas::kNone) {
    if (!packs_) return;
    at_ = task.at(node.areas().packed) + static_cast<size_t>(tile) * node.matrix.thin.cut.bytes;
    number_ = static_cast<uint32_t>(count - 1);
    is_there_ = trek_is_packed(number_);
  }
  TREK_TILE_MEMBER bool is_there() const { return packs_ && is_there_; }

  // Asks for all of it.
  TREK_TILE_MEMBER void ask(const Task& task, const Work& work) const {
    const Thin& cut = work.cut();
    TREK_ROLLED
    for (uint32_t i = kPiece * task.thread(); i < cut.bytes; i += kPiece * task.threads())
      copy<kPiece>(task, cut.panels + i, at_ + i);
    commit_copies();
  }
  // Behind a sync with all of it in shared memory, which stays there until the next.
  TREK_TILE_MEMBER void leave(const Task& task, const Work& work) const {
    if (!packs_ || is_there_) return;
    const Thin& cut = work.cut();
    const auto* from = task.shared<const std::byte>(cut.panels);
    TREK_ROLLED
    for (uint32_t i = kPiece * task.thread(); i < cut.bytes; i += kPiece * task.threads())
      *reinterpret_cast<Words*>(at_ + i) = *reinterpret_cast<const Words*>(ahead_of(from, i));
    if (task.thread() == 0) trek_has_packed(number_);
  }

 private:
  bool packs_;
  bool is_there_ = false;
  uint32_t number_ = 0;
  std::byte* at_ = nullptr;
};

#else

// Elsewhere none is.
class Packed {
 public:
  TREK_TILE_MEMBER Packed(const Task& /*task*/, const Node& /*node*/, int64_t /*tile*/,
                          int64_t /*count*/) {}
  TREK_TILE_MEMBER bool is_there() const { return false; }
  TREK_TILE_MEMBER void ask(const Task& /*task*/, const Work& /*work*/) const {}
  TREK_TILE_MEMBER void leave(const Task& /*task*/, const Work& /*work*/) const {}
};

#endif

}  // namespace trek::device::thin
