// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011):
// a random word is a function of a key and a counter, so any element can be made at any time.
#pragma once

#include "isa/semantics/target.h"

namespace trek::semantics {

struct RandomWords {
  std::uint32_t lane[4];
};

// The four words of a counter. Both key and counter go in with their low words first; the upper half
// of the 128-bit counter is 0.
TREK_FN RandomWords philox(std::uint64_t key, std::uint64_t counter) {
  std::uint32_t key_low = static_cast<std::uint32_t>(key);
  std::uint32_t key_high = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t c0 = static_cast<std::uint32_t>(counter);
  std::uint32_t c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = 0;
  std::uint32_t c3 = 0;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t odd = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(odd >> 32) ^ c1 ^ key_low;
    c1 = static_cast<std::uint32_t>(odd);
    c2 = static_cast<std::uint32_t>(even >> 32) ^ c3 ^ key_high;
    c3 = static_cast<std::uint32_t>(even);
    key_low += 0x9E3779B9;
    key_high += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

// The word of element i of a sequence that begins at counter `offset` (which wraps).
TREK_FN std::uint32_t random_word(std::uint64_t key, std::uint64_t offset, std::uint64_t i) {
  return philox(key, offset + i / 4).lane[i % 4];
}

// A key as a host's seed changes it; seed 0 leaves it as written.
TREK_FN std::uint64_t seeded_key(std::uint64_t key, std::uint64_t seed) {
  return key ^ (seed * 0x9E3779B97F4A7C15u);
}

}  // namespace trek::semantics
