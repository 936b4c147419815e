// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011):
// random data that host and device make alike, and resampling that gives the same interval every time.
#pragma once

#include <cstdint>

#ifdef __CUDA__
#define TREK_MEASURE_TARGET __attribute__((host)) __attribute__((device))
#else
#define TREK_MEASURE_TARGET
#endif

namespace trek::measure {

struct Philox4 {
  uint32_t lane[4];
};

// Block `counter` of the sequence `key`.
TREK_MEASURE_TARGET inline Philox4 philox(uint64_t key, uint64_t counter) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  Philox4 x = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * x.lane[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * x.lane[2];
    x = {{static_cast<uint32_t>(p1 >> 32) ^ x.lane[1] ^ k0, static_cast<uint32_t>(p1),
          static_cast<uint32_t>(p0 >> 32) ^ x.lane[3] ^ k1, static_cast<uint32_t>(p0)}};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

// Element `index` of a tensor of random data: the sum of four uniform numbers, scaled to unit variance.
// Near enough to a normal distribution for what data costs, and exactly the same on host and device.
TREK_MEASURE_TARGET inline float random_element(uint64_t key, uint64_t index) {
  const Philox4 block = philox(key, index);
  int32_t sum = 0;  // of 22-bit numbers, mean 2^23: exact in float
  for (const uint32_t lane : block.lane) sum += static_cast<int32_t>(lane >> 10);
  return static_cast<float>(sum - (1 << 23)) * 0x1.bb67aep-22f;  // sqrt(3) / 2^22
}

}  // namespace trek::measure
