// The host's side of the comparison: the same functions, compiled with AVX2 and FMA. Whoever calls
// anything here has asked the processor for both.
#pragma once

#include <cstdint>
#include <span>

namespace trek::bits {

// One function in one type.
struct HostFunction {
  const char* name;  // "exp"
  const char* type;  // "f32"
  bool every;        // over all inputs, or over drawn ones
  int bytes;         // of a result
  // The hash of one block of inputs.
  uint64_t (*hash)(uint64_t block);
  // The bits of the result of one input.
  uint64_t (*result_bits)(uint64_t index);
};

std::span<const HostFunction> host_functions();

// The arguments of an input, for a message: "x = 0x1.8p+1 (40400000)".
void describe_input(const HostFunction& function, uint64_t index, char* text, int size);

}  // namespace trek::bits
