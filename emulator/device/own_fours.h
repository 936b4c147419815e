// What each thread of a block asks for in shared memory and reads itself: pieces of 16 bytes, which take no registers while they
// are on their way, and of which no other thread need know, so that it waits for its own copies alone. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/copies.h"
#include "emulator/device/shared.h"

namespace trek::device {

// From byte offset kBegin of a block's shared memory on; a block has kBlockThreads.
template <uint32_t kBegin>
class OwnFours {
 public:
  static constexpr uint32_t kFirst = kBegin;
  static constexpr uint32_t kPitch = 16 * kBlockThreads;
  static constexpr uint32_t kMost = (kSharedBytes - kBegin) / kPitch;  // of a thread

  TREK_ON_DEVICE explicit OwnFours(const Task& task) : task_(task) {}
  // Begins to bring the thread's n-th, in the group of copies that is open.
  TREK_ON_DEVICE void ask(uint32_t n, const void* from) const {
    copy_ahead<16>(shared_address(task_.shared<std::byte>(place(n))), from);
  }
  template <class Four>
  TREK_ON_DEVICE Four get(uint32_t n) const {
    return *task_.shared<const Four>(place(n));
  }
  template <class Four>
  TREK_ON_DEVICE void put(uint32_t n, Four four) const {
    *task_.shared<Four>(place(n)) = four;
  }

 private:
  TREK_ON_DEVICE uint32_t place(uint32_t n) const {
    return kBegin + n * kPitch + 16 * task_.thread();
  }
  const Task& task_;
};

}  // namespace trek::device

#endif  // __CUDA__
