#include "tests/gpu/semantics_host.h"

#include <cstdio>

#include "tests/gpu/semantics_inputs.h"

namespace trek::bits {
namespace {

// Three loops over a short array each, so that each of them vectorises.
template <class Function, class T>
uint64_t hash_block(uint64_t block) {
  constexpr uint64_t kChunk = 1024;
  Arguments<T> inputs[kChunk];
  T results[kChunk];
  uint64_t sum = 0;
  for (uint64_t first = block * kBlock; first < (block + 1) * kBlock; first += kChunk) {
    for (uint64_t i = 0; i < kChunk; ++i) inputs[i] = arguments<Function, T>(first + i);
    for (uint64_t i = 0; i < kChunk; ++i) {
      results[i] = Function::apply(inputs[i].x, inputs[i].z);
    }
    for (uint64_t i = 0; i < kChunk; ++i) sum += share(results[i], first + i);
  }
  return sum;
}

template <class Function, class T>
uint64_t result_bits(uint64_t index) {
  return s::to_bits(result<Function, T>(index));
}

#define TREK_UNARY(id, meaning)                        \
  HostFunction{#id,                                    \
               "f32",                                  \
               id##_function::kEvery,                  \
               4,                                      \
               &hash_block<id##_function, float>,      \
               &result_bits<id##_function, float>},    \
      HostFunction{#id,                                \
                   "f64",                              \
                   false,                              \
                   8,                                  \
                   &hash_block<id##_function, double>, \
                   &result_bits<id##_function, double>},
#define TREK_BINARY(id, meaning) TREK_UNARY(id, meaning)
constexpr HostFunction kFunctions[] = {
#include "tests/gpu/semantics_functions.def"
};
#undef TREK_UNARY
#undef TREK_BINARY

}  // namespace

std::span<const HostFunction> host_functions() { return kFunctions; }

void describe_input(const HostFunction& function, uint64_t index, char* text, int size) {
  const auto length = static_cast<size_t>(size);
  if (function.bytes == 4) {
    const Arguments<float> a = function.every ? every(index) : pair<float>(index);
    std::snprintf(text, length, "x = %a (%08x), z = %a", static_cast<double>(a.x), s::to_bits(a.x),
                  static_cast<double>(a.z));
  } else {
    const Arguments<double> a = pair<double>(index);
    std::snprintf(text, length, "x = %a, z = %a", a.x, a.z);
  }
}

}  // namespace trek::bits
