// What both sides of the comparison share: which input has which number, and how results become a hash.
//
// Inputs are numbered from 0; kBlock of them in a row make a block, and a block has one hash: the sum of
// a mix of each result with its number. The mix is one to one in the result's bits, so a single wrong
// result always changes the sum; several cancel with a chance of about 2^-32 a block.
#pragma once

#include <cstdint>

#include "isa/semantics/activation_gradient.h"
#include "isa/semantics/convert.h"
#include "isa/semantics/moderate.h"
#include "isa/semantics/power.h"
#include "isa/semantics/remainder.h"

namespace trek::bits {

namespace s = trek::semantics;

inline constexpr uint64_t kBlock = uint64_t{1} << 20;

// One to one on 32 bits (the finalizer of MurmurHash3).
TREK_FN uint32_t mix(uint32_t h) {
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  return h ^ (h >> 16);
}

// A result's share of its block's hash. All NaNs are one value.
TREK_FN uint64_t share(float y, uint64_t index) {
  const uint32_t bits = s::is_nan(y) ? 0x7fc00000u : s::to_bits(y);
  return mix(bits ^ (static_cast<uint32_t>(index) * 0x9e3779b1u));
}
TREK_FN uint64_t share(double y, uint64_t index) {
  const uint64_t bits = s::is_nan(y) ? uint64_t{0x7ff8} << 48 : s::to_bits(y);
  const uint32_t place = static_cast<uint32_t>(index) * 0x9e3779b1u;
  const uint32_t high = mix(static_cast<uint32_t>(bits >> 32) ^ place);
  return uint64_t{high} << 32 | mix(static_cast<uint32_t>(bits) ^ high);
}

// Random bits as a number: any bits for even numbers; for odd ones an exponent from -8 to 7, where most
// functions do their work.
TREK_FN float drawn(uint32_t bits, uint64_t index, float) {
  const uint32_t near = (bits & 0x807fffffu) | ((119 + ((bits >> 23) & 15)) << 23);
  return s::from_bits<float>((index & 1) == 0 ? bits : near);
}
TREK_FN double drawn(uint32_t bits, uint64_t index, double) {
  const uint64_t wide = uint64_t{bits} << 32 | mix(bits ^ 0x5bd1e995u);
  const uint64_t near = (wide & ((uint64_t{1} << 63) | ((uint64_t{1} << 52) - 1))) |
                        ((1015 + ((wide >> 52) & 15)) << 52);
  return s::from_bits<double>((index & 1) == 0 ? wide : near);
}

// The arguments of input `index`.
template <class T>
struct Arguments {
  T x;
  T z;
};

// Every float, in the order of its bits.
TREK_FN Arguments<float> every(uint64_t index) {
  return {s::from_bits<float>(static_cast<uint32_t>(index)), 0};
}
template <class T>
TREK_FN Arguments<T> pair(uint64_t index) {
  const auto number = static_cast<uint32_t>(index);
  return {drawn(mix(number), index, T{}), drawn(mix(number ^ 0xa5a5a5a5u), index, T{})};
}

// What quotient() is for.
template <class T>
TREK_FN bool is_moderate(T x, T z) {
  return s::abs(z) >= T(0x1p-40) && s::abs(z) <= T(0x1p41) && s::abs(x) >= T(0x1p-80) &&
         s::abs(x) <= T(0x1p80);
}

// The functions as types, with the inputs that each is asked about.
#define TREK_UNARY(id, meaning)          \
  struct id##_function {                 \
    static constexpr bool kEvery = true; \
    template <class T>                   \
    TREK_FN T apply(T x, T) {            \
      return meaning;                    \
    }                                    \
  };
#define TREK_BINARY(id, meaning)          \
  struct id##_function {                  \
    static constexpr bool kEvery = false; \
    template <class T>                    \
    TREK_FN T apply(T x, T z) {           \
      return meaning;                     \
    }                                     \
  };
#include "tests/gpu/semantics_functions.def"
#undef TREK_UNARY
#undef TREK_BINARY

// Input `index` of a function: every float for a unary one in f32, else a drawn pair.
template <class Function, class T>
TREK_FN Arguments<T> arguments(uint64_t index) {
  if constexpr (Function::kEvery && sizeof(T) == 4) {
    return every(index);
  } else {
    return pair<T>(index);
  }
}

template <class Function, class T>
TREK_FN T result(uint64_t index) {
  const Arguments<T> given = arguments<Function, T>(index);
  return Function::apply(given.x, given.z);
}

}  // namespace trek::bits
