// Pieces of 16 bytes whose first element of 16 bits lies at any address: the aligned pieces around them are
// brought, and shifted. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/block.h"

namespace trek::device {

// From the aligned piece that an address is in to the address, in bytes.
TREK_TILE uint32_t bytes_before(const std::byte* data) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data)) & 15;
}

// Two aligned pieces, one after the other.
struct Pieces {
  uint32_t first[4];
  uint32_t second[4];
};
// The piece that begins `before` bytes, an even number, behind the first one's beginning.
TREK_TILE void take_piece(const Pieces& from, uint32_t before, uint32_t (&to)[4]) {
  uint32_t w[8];
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) w[i] = i < 4 ? from.first[i] : from.second[i - 4];
#pragma unroll
  for (uint32_t i = 0; i < 6; ++i) w[i] = (before & 8) != 0 ? w[i + 2] : w[i];
#pragma unroll
  for (uint32_t i = 0; i < 5; ++i) w[i] = (before & 4) != 0 ? w[i + 1] : w[i];
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i)
    to[i] = static_cast<uint32_t>((uint64_t{w[i + 1]} << 32 | w[i]) >> (before & 2) * 8);
}

}  // namespace trek::device

#endif  // __CUDA__
