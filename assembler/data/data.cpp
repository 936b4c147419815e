// What all formats share: choosing a reader, and fitting what a file holds to what a tensor is.
#include "assembler/data/data.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "assembler/data/parts.h"

namespace trek {

using data::problem;
using isa::DType;
using isa::ErrorCode;
using isa::Result;
using isa::Shape;
using isa::Type;

namespace data {

std::optional<uint64_t> byte_count(DType dtype, const Shape& shape) {
  const auto elements = shape.checked_elements();
  if (!elements) return std::nullopt;
  return static_cast<uint64_t>(*elements) * static_cast<uint64_t>(isa::byte_size(dtype));
}

void swap_bytes(std::span<std::byte> bytes, size_t size) {
  for (size_t at = 0; at + size <= bytes.size(); at += size)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
}

std::vector<std::byte> from_column_major(std::span<const std::byte> bytes, const Shape& shape,
                                         size_t size) {
  std::vector<std::byte> out(bytes.size());
  std::array<int64_t, isa::kMaxRank> index{};
  std::array<size_t, isa::kMaxRank> stride{};  // of an axis in the column-major source, in elements
  size_t step = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    stride[static_cast<size_t>(axis)] = step;
    step *= static_cast<size_t>(shape[axis]);
  }
  size_t from = 0;
  for (size_t to = 0; to + size <= out.size(); to += size) {
    std::memcpy(out.data() + to, bytes.data() + from * size, size);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      from += stride[a];
      if (++index[a] < shape[axis]) break;
      from -= stride[a] * static_cast<size_t>(shape[axis]);
      index[a] = 0;
    }
  }
  return out;
}

}  // namespace data

namespace {

constexpr std::array<std::string_view, 4> kFormats{"npy", "idx", "raw", "safetensors"};

// Whether one shape becomes the other by merging or splitting neighbouring dimensions: [60000,28,28]
// and [60000,784] do, [2,3] and [3,2] do not, though their element counts are equal.
bool is_merge(const Shape& a, const Shape& b) {
  if (a.elements() != b.elements()) return false;
  if (a.elements() == 0) return true;
  int i = 0;
  int j = 0;
  while (i < a.rank() || j < b.rank()) {
    // The least groups of dimensions from here on with equal products; one of them is a single one.
    int64_t left = 1;
    int64_t right = 1;
    int factors_left = 0;
    int factors_right = 0;
    const auto take = [](const Shape& shape, int& at, int64_t& product, int& factors) {
      product *= shape[at];
      factors += shape[at++] != 1;
    };
    if (i < a.rank()) take(a, i, left, factors_left);
    if (j < b.rank()) take(b, j, right, factors_right);
    while (left != right) {  // the products of all are equal, so the lesser side has more
      if (left < right)
        take(a, i, left, factors_left);
      else
        take(b, j, right, factors_right);
    }
    if (factors_left > 1 && factors_right > 1) return false;
  }
  return true;
}

bool is_numpy_bits(DType found, DType wanted) {
  if (!isa::is_real(wanted)) return false;
  if (wanted == DType::bf16) return found == DType::u16 || found == DType::bf16;
  const bool is_f8 = wanted == DType::f8e4m3 || wanted == DType::f8e5m2;
  return is_f8 && (found == DType::u8 || found == DType::none);
}

Result<DataArray> fit(DataArray array, bool type_fits, std::string_view name, const Type& wanted) {
  if (!type_fits)
    return problem(ErrorCode::DataType,
                   fmt::format("'{}' holds {}, the tensor is {}", name,
                               array.dtype == DType::none ? std::string("untyped bytes")
                                                          : std::string(isa::name(array.dtype)),
                               isa::name(wanted.dtype)));
  if (!is_merge(array.shape, wanted.shape))
    return problem(
        ErrorCode::DataShape,
        fmt::format("'{}' holds {}, the tensor is {}: only neighbouring dimensions may be "
                    "merged or split",
                    name, array.shape.text(), wanted.shape.text()));
  if (wanted.dtype == DType::boolean) {
    const auto wrong = std::find_if(array.bytes.begin(), array.bytes.end(),
                                    [](std::byte b) { return b > std::byte{1}; });
    if (wrong != array.bytes.end())
      return problem(ErrorCode::DataFormat,
                     fmt::format("'{}': element {} is {}, and a bool is 0 or 1", name,
                                 wrong - array.bytes.begin(), static_cast<int>(*wrong)));
  }
  array.dtype = wanted.dtype;
  array.shape = wanted.shape;
  return array;
}

}  // namespace

bool is_data_format(std::string_view format) {
  return std::find(kFormats.begin(), kFormats.end(), format) != kFormats.end();
}

Result<DataArray> parse_raw(std::span<const std::byte> bytes, std::string_view name,
                            const Type& wanted) {
  const auto size = data::byte_count(wanted.dtype, wanted.shape);
  if (!size || *size != bytes.size())
    return problem(ErrorCode::DataShape,
                   fmt::format("'{}' has {} bytes, a tensor {} has {}", name, bytes.size(),
                               wanted.text(), size ? fmt::to_string(*size) : "too many"));
  return DataArray{wanted.dtype, wanted.shape, {bytes.begin(), bytes.end()}};
}

Result<DataArray> parse_data(std::string_view format, std::span<const std::byte> bytes,
                             std::string_view name, std::string_view member, const Type& wanted) {
  if (format == "npy") {
    auto npy = data::parse_npy_array(bytes, name);
    if (!npy.ok()) return npy.take_problems();
    const DType found = npy->array.dtype;
    const bool type_fits =
        npy->untyped ? npy->item_size == static_cast<size_t>(isa::byte_size(wanted.dtype)) &&
                           is_numpy_bits(found, wanted.dtype)
                     : found == wanted.dtype || is_numpy_bits(found, wanted.dtype);
    return fit(std::move(npy->array), type_fits, name, wanted);
  }
  Result<DataArray> array =
      format == "idx"   ? parse_idx(bytes, name)
      : format == "raw" ? parse_raw(bytes, name, wanted)
      : format == "safetensors"
          ? parse_safetensors(bytes, name, member)
          : problem(ErrorCode::DataFormat,
                    fmt::format("'{}' is no data format: {}", format, fmt::join(kFormats, ", ")));
  if (!array.ok()) return array;
  const bool type_fits = array->dtype == wanted.dtype;
  return fit(array.take(), type_fits, name, wanted);
}

Result<DataArray> read_data(std::string_view format, const std::filesystem::path& path,
                            std::string_view member, const Type& wanted) {
  auto bytes = read_file(path);
  if (!bytes.ok()) return bytes.take_problems();
  return parse_data(format, *bytes, path.string(), member, wanted);
}

Result<DataArray> read_npy(const std::filesystem::path& path) {
  auto bytes = read_file(path);
  if (!bytes.ok()) return bytes.take_problems();
  return parse_npy(*bytes, path.string());
}

Result<DataArray> read_idx(const std::filesystem::path& path) {
  auto bytes = read_file(path);
  if (!bytes.ok()) return bytes.take_problems();
  return parse_idx(*bytes, path.string());
}

Result<DataArray> read_raw(const std::filesystem::path& path, const Type& wanted) {
  auto bytes = read_file(path);
  if (!bytes.ok()) return bytes.take_problems();
  return parse_raw(*bytes, path.string(), wanted);
}

Result<DataArray> read_safetensors(const std::filesystem::path& path, std::string_view member) {
  auto bytes = read_file(path);
  if (!bytes.ok()) return bytes.take_problems();
  return parse_safetensors(*bytes, path.string(), member);
}

Result<std::vector<std::string>> list_safetensors(const std::filesystem::path& path) {
  auto bytes = read_file(path);
  if (!bytes.ok()) return bytes.take_problems();
  return parse_safetensors_names(*bytes, path.string());
}

}  // namespace trek
