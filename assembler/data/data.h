// Data files: .npy, IDX (also gzipped), raw bytes and safetensors, as typed arrays.
//
// What a file says about itself is never trusted: every length is checked against the bytes that
// are there before anything is allocated, and a gzipped file is inflated no further than its own
// header announces. Elements come back little-endian, row-major, without padding; bool is one byte,
// 0 or 1.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/result.h"
#include "isa/types.h"

namespace trek {

struct DataArray {
  isa::DType dtype = isa::DType::none;
  isa::Shape shape;
  std::vector<std::byte> bytes;
};

struct NamedArray {
  std::string name;
  isa::DType dtype = isa::DType::none;
  isa::Shape shape;
  std::span<const std::byte> bytes;
};

// Readers. Problems carry the file's name in their message; codes are file-unreadable, data-format,
// data-type and data-shape.
isa::Result<DataArray> read_npy(const std::filesystem::path& path);
isa::Result<DataArray> read_idx(const std::filesystem::path& path);
isa::Result<DataArray> read_raw(const std::filesystem::path& path, const isa::Type& wanted);
isa::Result<DataArray> read_safetensors(const std::filesystem::path& path, std::string_view member);
// The names of the tensors in a safetensors file, as they lie in it.
isa::Result<std::vector<std::string>> list_safetensors(const std::filesystem::path& path);

// Reads a file of `format` ("npy", "idx", "raw", "safetensors") for a tensor of type `wanted`:
// element types must agree (a numpy file has no bf16 and f8, whose bits it holds as V2, V1, u2 or
// u1), shapes may differ by dimensions that are split or merged: the element count decides. The
// result has the wanted shape.
isa::Result<DataArray> read_data(std::string_view format, const std::filesystem::path& path,
                                 std::string_view member, const isa::Type& wanted);

// The same from memory; `name` stands for the file in messages.
isa::Result<DataArray> parse_npy(std::span<const std::byte> bytes, std::string_view name);
isa::Result<DataArray> parse_idx(std::span<const std::byte> bytes, std::string_view name);
isa::Result<DataArray> parse_raw(std::span<const std::byte> bytes, std::string_view name,
                                 const isa::Type& wanted);
isa::Result<DataArray> parse_safetensors(std::span<const std::byte> bytes, std::string_view name,
                                         std::string_view member);
isa::Result<std::vector<std::string>> parse_safetensors_names(std::span<const std::byte> bytes,
                                                              std::string_view name);
isa::Result<DataArray> parse_data(std::string_view format, std::span<const std::byte> bytes,
                                  std::string_view name, std::string_view member,
                                  const isa::Type& wanted);

// Whether `format` is one that read_data knows; the names, for messages.
bool is_data_format(std::string_view format);

// The whole of a file, or file-unreadable.
isa::Result<std::vector<std::byte>> read_file(const std::filesystem::path& path);

// Writers: no problems on success, else output-unwritable. A full disk or a stop leaves the old file
// whole and nothing else (new_file.h); a device, a pipe or one of our own streams is written to directly.
isa::Problems write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
isa::Problems write_npy(const std::filesystem::path& path, isa::DType dtype,
                        const isa::Shape& shape, std::span<const std::byte> bytes);
isa::Problems write_safetensors(const std::filesystem::path& path,
                                std::span<const NamedArray> arrays);

}  // namespace trek
