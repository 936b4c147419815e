// Tensors in files of the formats that a host meets: which format a file has, and reading and writing
// one tensor.
//
// The format is that of the name's ending (.npy, .idx, .gz, .safetensors, .raw, .bin); a file with
// another ending is recognised by its first bytes. `file.safetensors:member` names a tensor in a
// safetensors file; without a member it is the only one, or the one with the wanted name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "assembler/data/data.h"
#include "isa/result.h"
#include "isa/types.h"

namespace trek {

// "npy", "idx", "safetensors", "raw", or "" where the ending says nothing.
std::string_view format_of_name(std::string_view path);

// The tensor in `file` for one called `name` of type `wanted`; same elements in row-major order, whose
// shape may differ by merged or split axes.
isa::Result<DataArray> read_tensor_file(std::string_view file, std::string_view name,
                                        const isa::Type& wanted);

// The blocks in `file` for a stream: any number of them, one after the other, as [n * rows, ...] or
// [n, rows, ...].
isa::Result<DataArray> read_stream_file(std::string_view file, std::string_view name,
                                        const isa::Type& block);

// Writes a tensor in the format of the file's ending: .npy, .safetensors, .raw or .bin.
isa::Problems write_tensor_file(std::string_view file, std::string_view name, const isa::Type& type,
                                std::span<const std::byte> bytes);
bool is_writable_format(std::string_view format);

}  // namespace trek
