// Descriptors without addresses, so that nodes which differ in their addresses alone share a function; random numbers
// also where they differ in their keys and bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trek::jit {

// Where the arena has place i, as an offset in a descriptor without addresses: far from all other places.
inline constexpr int64_t kPlaceBytes = int64_t{1} << 40;
// Places begin at multiples of this; what an offset has beyond is part of the descriptor.
inline constexpr int64_t kPlaceAlignment = 256;

struct Placed {
  std::vector<std::byte>
      record;  // the descriptor, with kPlaceBytes × (place + 1) + offset % 256 for each offset
  // Bytes from the arena to each, multiples of kPlaceAlignment; from `first_number` on the numbers themselves, whose
  // place is this list.
  std::vector<int64_t> places;
  size_t first_number = 0;
};
// Equal offsets have one place; what lies at different ones never overlaps, since a plan places tensors of one node
// apart.
Placed without_addresses(std::span<const std::byte> record);

}  // namespace trek::jit
