// The digest of a tensor: XXH3-128 of its bytes, every NaN first made the one canonical NaN of its type.
// Equal digests are how the project says "equal to the bit" between engines, threads, compilers and
// file forms; the same function of the bytes, without the step for NaNs, guards external data files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "isa/types.h"

namespace trek {

struct Digest {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Digest&) const = default;
  std::string text() const;  // 32 hexadecimal digits, as `xxhsum -H2` prints them
};

Digest digest(isa::DType dtype, std::span<const std::byte> bytes);
Digest digest_of_bytes(std::span<const std::byte> bytes);

}  // namespace trek
