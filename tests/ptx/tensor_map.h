// What cuTensorMapEncodeTiled writes here, 128 bytes that the tensor copy engine reads: a device's own layout is
// nobody's affair.
#pragma once

#include <cstdint>

namespace trek::ptx {

inline constexpr uint32_t kMostAxes = 3;

struct TensorMap {
  uint64_t mark = 0;
  uint64_t address = 0;
  uint64_t sizes[kMostAxes] = {};    // elements, from the innermost axis on
  uint64_t strides[kMostAxes] = {};  // bytes
  uint32_t box[kMostAxes] = {};      // elements
  uint32_t element_bytes = 0;
  uint32_t rounds_to_tf32 = 0;
  uint32_t swizzle = 0;  // 3: the pieces of 16 bytes of eight rows of 128; 0: none
  uint32_t axes = 0;
};
inline constexpr uint64_t kTensorMapMark = 0x70616d726f736e74;
static_assert(sizeof(TensorMap) <= 128);

// Where a byte goes among rows of 128 bytes that are swizzled.
inline uint32_t swizzled(uint32_t at) { return at ^ (at >> 7 & 7) << 4; }

}  // namespace trek::ptx
