// In which order a product's k come to a ring of slots where groups of warps take blocks of them by turns.
//
// A round of turns is a block for every group, and a slot has a part of a block. So that no group waits until others have
// all of theirs, a round begins with the first part of each block. Where there are no turns, a block is a slot, and all
// are of one round.
#pragma once

#include <cstdint>

#include "emulator/device/block.h"

namespace trek::device {

// The places of k at which slots begin, one after the other: from 0 on, for as long as next() says.
struct SlotOrder {
  static constexpr uint32_t kOneRound = ~0u;

  uint32_t end;
  uint32_t depth;  // of a slot
  uint32_t block;
  uint32_t round;
  uint32_t k = 0;
  uint32_t part = 0;   // of the blocks, where the slots begin in them
  uint32_t first = 0;  // of the round

  TREK_ON_DEVICE bool next() {
    k += block;
    if (k < end && k - first < round) return true;
    part += depth;
    if (part == block || first + part >= end) {
      part = 0;
      first += round;
    }
    k = first + part;
    return k < end;
  }
};

// The number in that order of the slot that begins at k; where a block is two slots, the last one may be one.
TREK_ON_DEVICE constexpr uint32_t slot_at(uint32_t k, uint32_t end, uint32_t block,
                                          uint32_t groups) {
  const uint32_t blocks = (end + block - 1) / block;
  const uint32_t number = k / block;
  const uint32_t round = number & ~(groups - 1);
  const uint32_t here = blocks - round < groups ? blocks - round : groups;
  return round + number + (k % block != 0 ? here : 0);
}

}  // namespace trek::device
