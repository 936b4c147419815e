// A node's descriptor apart from its addresses: nodes that differ in these alone have one code. So have random numbers
// that differ in their keys and bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trek::jit {

// An address is the number of 256 bytes of the arena. Where the descriptor had an offset, the record has
// 256 * (the address's index) + (the offset's lower 8 bits), by which device::address_of() finds the place. A number
// that does not change the code is in the list as two words (device::Scalar::listed).
struct Separated {
  std::vector<std::byte> record;  // a device::Node and its tables
  std::vector<uint32_t> addresses;

  static constexpr uint64_t index_of(int64_t place) { return static_cast<uint64_t>(place) >> 8; }
  static constexpr int64_t behind(int64_t place) { return place & 0xFF; }
};
Separated separated(std::span<const std::byte> record);

}  // namespace trek::jit
