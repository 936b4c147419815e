// Elements that say themselves when they are there: words in memory of eight bytes, four of them elements and four the
// number of the trip that they are of. Device only.
//
// A task that waits for what others give waits for their counters, which they raise once the second-level cache has all that
// they wrote; then it reads. Where the encoder says so (emulator/resident/tags.h), it is given a second time, in words, and
// who reads these asks for them until all are of the trip that is wanted: an element is there as soon as its word is.
//
// The words of a node are its own, and all zero when a launch begins.
#pragma once

#ifdef __CUDA__

#include "emulator/device/shared.h"
#include "emulator/device/word_places.h"

namespace trek::device {

// The frame's: the number of the trip; whether it is its loop's first; whether the block must leave, for who has asked in vain for a while; and, by one
// thread, that what the task waited for is there.
extern "C" TREK_ON_DEVICE uint32_t trek_tag();
extern "C" TREK_ON_DEVICE bool trek_is_first_trip();
extern "C" TREK_ON_DEVICE bool trek_leaves();
extern "C" TREK_ON_DEVICE void trek_inputs_came();

inline constexpr uint32_t kPatience = 256;  // how often one asks before one looks whether to leave

TREK_TILE uint32_t tag_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
TREK_TILE uint64_t word_of(uint32_t tag, uint32_t value) { return uint64_t{tag} << 32 | value; }

TREK_TILE uint64_t ask_once(const std::byte* at) {
  uint64_t word;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
  return word;
}
// Asks until a word that has been asked for is of a trip. Where the block must leave, it may be anything.
TREK_TILE void ask_until(uint64_t& word, const std::byte* at, uint32_t tag) {
  TREK_ROLLED
  for (uint32_t spins = 1; tag_of(word) != tag; ++spins) {
    if (spins % kPatience == 0 && trek_leaves()) break;
    word = ask_once(at);
  }
}
TREK_TILE void give_word(std::byte* at, uint32_t tag, uint32_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(word_of(tag, value))
               : "memory");
}

}  // namespace trek::device

#endif  // __CUDA__
