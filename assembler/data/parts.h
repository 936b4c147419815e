// What the readers of data files share. Not for others to include.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "assembler/data/data.h"

namespace trek::data {

inline isa::Problem problem(isa::ErrorCode code, std::string message) {
  isa::Problem made;
  made.code = code;
  made.message = std::move(message);
  return made;
}

// A file that is not what its format says.
inline isa::Problem bad(std::string_view name, std::string_view format, std::string_view what) {
  return problem(isa::ErrorCode::DataFormat,
                 fmt::format("'{}' is no {} file: {}", name, format, what));
}

// The byte count of `shape`, or nothing where the ISA has no such tensor.
std::optional<uint64_t> byte_count(isa::DType dtype, const isa::Shape& shape);

// Turns big-endian elements of `size` bytes into little-endian ones, or back.
void swap_bytes(std::span<std::byte> bytes, size_t size);

// The elements of an array in column-major order, in row-major order.
std::vector<std::byte> from_column_major(std::span<const std::byte> bytes, const isa::Shape& shape,
                                         size_t size);

// A numpy file holds types that numpy lacks as their bits; `untyped` says that it did so, and then
// dtype is none or the type that 2 untyped bytes mean (bf16).
struct NpyArray {
  DataArray array;
  size_t item_size = 0;
  bool untyped = false;
};
isa::Result<NpyArray> parse_npy_array(std::span<const std::byte> bytes, std::string_view name);

}  // namespace trek::data
