#include "hostlib/digest.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "hostlib/values.h"
#include "isa/convert.h"

namespace trek {
namespace {

constexpr size_t kChunk = size_t{1} << 16;  // bytes, a multiple of every element size

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

Digest from(const XXH128_hash_t& hash) { return {hash.low64, hash.high64}; }

// Replaces each NaN of `bytes` by the canonical one.
void unify_nans(isa::DType dtype, std::span<std::byte> bytes) {
  const auto size = static_cast<size_t>(isa::byte_size(dtype));
  const uint64_t canonical = isa::double_to_bits(dtype, std::numeric_limits<double>::quiet_NaN());
  for (size_t at = 0; at < bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    if (is_nan(dtype, bits)) std::memcpy(bytes.data() + at, &canonical, size);
  }
}

}  // namespace

std::string Digest::text() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest digest_of_bytes(std::span<const std::byte> bytes) {
  return from(XXH3_128bits(bytes.data(), bytes.size()));
}

Digest digest(isa::DType dtype, std::span<const std::byte> bytes) {
  if (!isa::is_real(dtype)) return digest_of_bytes(bytes);
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  std::vector<std::byte> chunk(std::min(kChunk, bytes.size()));
  while (!bytes.empty()) {
    const size_t count = std::min(kChunk, bytes.size());
    std::memcpy(chunk.data(), bytes.data(), count);
    unify_nans(dtype, {chunk.data(), count});
    XXH3_128bits_update(state.get(), chunk.data(), count);
    bytes = bytes.subspan(count);
  }
  return from(XXH3_128bits_digest(state.get()));
}

}  // namespace trek
