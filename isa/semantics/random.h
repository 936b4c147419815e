// What `uniform`, `normal`, `bernoulli` and `dropout` make of random words.
#pragma once

#include "isa/semantics/logarithm.h"
#include "isa/semantics/philox.h"
#include "isa/semantics/target.h"
#include "isa/semantics/trigonometric.h"

namespace trek::semantics {

// A word as a number in [0, 1): of 24 bits in f32, of 32 in f64.
template <Float T>
TREK_FN T unit(std::uint32_t word) {
  if constexpr (sizeof(T) == 4) {
    return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f;
  } else {
    return static_cast<double>(word) * 0x1p-32;
  }
}

// The same one step up, in (0, 1]: what a logarithm can be taken of.
template <Float T>
TREK_FN T unit_above(std::uint32_t word) {
  if constexpr (sizeof(T) == 4) {
    return static_cast<float>(static_cast<std::int32_t>(word >> 8) + 1) * 0x1p-24f;
  } else {
    return (static_cast<double>(word) + 1.0) * 0x1p-32;
  }
}

template <Float T>
TREK_FN T uniform(std::uint32_t word, T low, T high) {
  return fma(unit<T>(word), high - low, low);
}

// Two numbers of the normal distribution from two words (Box and Muller, 1958).
template <Float T>
struct NormalPair {
  T even;
  T odd;
};
template <Float T>
TREK_FN NormalPair<T> normal(std::uint32_t a, std::uint32_t b, T mean, T deviation) {
  const T radius = sqrt(T(-2) * log(unit_above<T>(a)));
  const T angle = constant<T>(0x1.921fb6p+2f, 0x1.921fb54442d18p+2) * unit<T>(b);
  return {fma(deviation, radius * cos(angle), mean), fma(deviation, radius * sin(angle), mean)};
}

// True with probability p.
TREK_FN bool bernoulli(std::uint32_t word, float p) { return unit<float>(word) < p; }

// What dropout multiplies kept elements with.
template <Float T>
TREK_FN T dropout_scale(T p) {
  return T(1) / (T(1) - p);
}

}  // namespace trek::semantics
