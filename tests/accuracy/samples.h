// The inputs of a measurement that is not exhaustive: numbers spread evenly over signs, exponents and
// mantissas, second arguments that make a result worth measuring, and the neighbourhoods of every
// number at which something changes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "isa/semantics/target.h"
#include "tests/accuracy/functions.h"

namespace trek::accuracy {

using semantics::from_bits;
using semantics::to_bits;
template <typename T>
using Bits = semantics::UIntOf<T>;

// splitmix64: a generator whose state is its seed and a count.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  std::uint64_t below(std::uint64_t n) { return next() % n; }

 private:
  std::uint64_t state_;
};

// A number with a uniform sign, mantissa and exponent field, the field in [from, to].
template <typename T>
T stratified(Random& random, int from, int to) {
  constexpr int kBits = semantics::Format<T>::kMantissaBits;
  const Bits<T> field =
      static_cast<Bits<T>>(from) +
      static_cast<Bits<T>>(random.below(static_cast<std::uint64_t>(to - from) + 1));
  const std::uint64_t r = random.next();
  const Bits<T> mantissa = static_cast<Bits<T>>(r >> 12) & ((Bits<T>{1} << kBits) - 1);
  const Bits<T> sign = static_cast<Bits<T>>(r & 1) << (8 * sizeof(T) - 1);
  return from_bits<T>(sign | (field << kBits) | mantissa);
}

// An eighth of the arguments lies around the function's edges, at every relative distance.
template <typename T>
T first_argument(Random& random, const Function<T>& f) {
  constexpr int kBias = semantics::Format<T>::kBias;
  constexpr int kBits = semantics::Format<T>::kMantissaBits;
  if (!f.edges.empty() && random.below(8) == 0) {
    const T distance = stratified<T>(random, kBias - kBits, kBias - 1);
    return static_cast<T>(f.edges[random.below(f.edges.size())]) * (T(1) + distance);
  }
  const bool anywhere = (random.next() & 1) != 0;
  const int from = anywhere ? 0 : std::max(kBias + f.exponent_from, 0);
  const int to = anywhere ? 2 * kBias : std::min(kBias + f.exponent_to, 2 * kBias);
  return stratified<T>(random, from, to);
}

template <typename T>
T second_argument(Random& random, const Function<T>& f, T x) {
  constexpr int kBias = semantics::Format<T>::kBias;
  const std::uint64_t choice = random.below(8);
  if (choice == 0 || f.second == Second::kNone) return stratified<T>(random, 0, 2 * kBias);
  const double most = sizeof(T) == 4 ? 152 : 1080;
  if (f.second == Second::kDivisor) {
    return choice < 5 ? static_cast<T>(x * static_cast<T>(random.unit() * 2 - 1))
                      : stratified<T>(random, std::max(0, kBias - 20), kBias + 20);
  }
  if (choice == 1) return static_cast<T>(static_cast<double>(random.below(4096)) * 0.5 - 1024);
  // The power that takes |x| to a uniform exponent, half of the time rounded to an integer.
  const double span = std::log2(std::fabs(static_cast<double>(x)));
  const double y = (random.unit() * 2 - 1) * most / span;
  return static_cast<T>((choice & 1) != 0 ? std::nearbyint(y) : y);
}

// The neighbours of the numbers at which something changes: zeros, subnormals, every power of two,
// multiples of pi/4, infinities, NaN and the function's own edges. 33 numbers around each.
template <typename T>
std::vector<T> neighbourhoods(const Function<T>& f) {
  constexpr int kBits = semantics::Format<T>::kMantissaBits;
  std::vector<T> centers(f.edges.begin(), f.edges.end());
  for (int field = 0; field <= 2 * semantics::Format<T>::kBias + 1; ++field) {
    centers.push_back(from_bits<T>(static_cast<Bits<T>>(field) << kBits));
  }
  for (int n = 1; n <= 4096; ++n) {
    centers.push_back(static_cast<T>(n * 0.78539816339744830962));
    centers.push_back(static_cast<T>(n * 0.5));
    centers.push_back(static_cast<T>(n * 0.34657359027997264));
  }
  std::vector<T> inputs;
  for (const T center : centers) {
    for (int i = -16; i <= 16; ++i) {
      const T x = from_bits<T>(to_bits(center) + static_cast<Bits<T>>(i));
      inputs.push_back(x);
      inputs.push_back(semantics::neg(x));
    }
  }
  return inputs;
}

// All the special values a second argument can have.
template <typename T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  for (const T v : {T(0), Limits::denorm_min(), Limits::min(), T(0.5), T(1), T(1.5), T(2), T(3),
                    T(4), T(7), T(0x1p23), T(0x1p24) - T(1), T(0x1p52), T(0x1p53) - T(1), T(0x1p54),
                    Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) {
    values.push_back(v);
    values.push_back(-v);
  }
  return values;
}

}  // namespace trek::accuracy
