// Bits of one element as a number and back, for constants of a module.
//
// The isa folder does not depend on the engines' arithmetic: these are the exact conversions that a
// parser, printer or host needs one at a time, in integer and double arithmetic that any machine has.
#pragma once

#include <cstdint>
#include <optional>

#include "isa/types.h"

namespace trek::isa {

// The value of an element of a float type, exact. f64 passes through.
double bits_to_double(DType dtype, uint64_t bits);
// The bits of the element of a float type nearest to `value` (ties to even); overflow gives infinity,
// or in f8e4m3 NaN. Every NaN gives the type's canonical quiet NaN.
uint64_t double_to_bits(DType dtype, double value);
// The bits of an integer or bool element, sign-extended to 64 for signed types; nothing where `value`
// does not fit. `is_unsigned` says that `value` carries a u64.
std::optional<uint64_t> integer_to_bits(DType dtype, int64_t value, bool is_unsigned = false);

}  // namespace trek::isa
