// Elements and tensors as text for people, and compared to the bit.
//
// Numbers are written in the fewest digits that read back as the same bits, in the text language's own
// form (`inf`, `nan`, `true`, `{1, 2}`), so that what a run prints can be pasted into a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "isa/types.h"

namespace trek {

// The bits of the element at `index`, zero-extended.
uint64_t element_bits(isa::DType dtype, std::span<const std::byte> bytes, int64_t index);
// The value; 64-bit integers are rounded, bool is 0 or 1.
double element_number(isa::DType dtype, uint64_t bits);
// "0.5", "-3", "true", "nan".
std::string element_text(isa::DType dtype, uint64_t bits);
// "0x3f000000": as many digits as the type has.
std::string element_hex(isa::DType dtype, uint64_t bits);
// Whether an element is a NaN; integers and bool have none.
bool is_nan(isa::DType dtype, uint64_t bits);

// A scalar as `0.5`; a tensor of at most `limit` elements as `{{1, 2}, {3, 4}}`; a larger one as
// `f32[784,256] {0.1, 0.2, ...}`, its first elements.
std::string value_text(const isa::Type& type, std::span<const std::byte> bytes, int64_t limit = 16);

// "[2,5]": where the element at a row-major index stands.
std::string position_text(const isa::Shape& shape, int64_t index);

// The row-major index of the first element in which two tensors differ; all NaNs are equal.
std::optional<int64_t> first_difference(isa::DType dtype, std::span<const std::byte> a,
                                        std::span<const std::byte> b);

}  // namespace trek
