// safetensors: the length of a JSON header, the header, and one buffer that its entries point into.
#include <algorithm>
#include <cstring>
#include <optional>

#include <nlohmann/json.hpp>

#include "assembler/data/parts.h"

namespace trek {
namespace {

using data::bad;
using data::problem;
using isa::DType;
using isa::ErrorCode;
using isa::Result;
using isa::Shape;
using nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;  // as the format's own readers have it
constexpr std::string_view kMetadata = "__metadata__";

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr TypeName kTypes[] = {
    {"F64", DType::f64},   {"F32", DType::f32},        {"F16", DType::f16},
    {"BF16", DType::bf16}, {"F8_E4M3", DType::f8e4m3}, {"F8_E5M2", DType::f8e5m2},
    {"I8", DType::i8},     {"I16", DType::i16},        {"I32", DType::i32},
    {"I64", DType::i64},   {"U8", DType::u8},          {"U16", DType::u16},
    {"U32", DType::u32},   {"U64", DType::u64},        {"BOOL", DType::boolean},
};

struct File {
  json header;
  std::span<const std::byte> buffer;
};

Result<File> open(std::span<const std::byte> bytes, std::string_view name) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length)
    return bad(name, "safetensors", "it ends before its header does");
  std::memcpy(&length, bytes.data(), sizeof length);
  const auto rest = bytes.subspan(sizeof length);
  if (length > rest.size() || length > kMaxHeader)
    return bad(
        name, "safetensors",
        fmt::format("its header of {} bytes does not fit into its {}", length, bytes.size()));
  const auto size = static_cast<size_t>(length);
  const auto* text = reinterpret_cast<const char*>(rest.data());
  File file{json::parse(text, text + size, nullptr, false), rest.subspan(size)};
  if (file.header.is_discarded() || !file.header.is_object())
    return bad(name, "safetensors", "its header is no JSON object");
  return file;
}

struct Entry {
  DType dtype = DType::none;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

std::optional<Shape> shape_of(const json& value) {
  if (!value.is_array() || value.size() > isa::kMaxRank) return std::nullopt;
  Shape shape;
  for (const json& dim : value) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > uint64_t{isa::kMaxElements})
      return std::nullopt;
    shape.push_back(static_cast<int64_t>(dim.get<uint64_t>()));
  }
  return shape;
}

const json* find(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

Result<Entry> entry_of(const json& value, const File& file, std::string_view name,
                       std::string_view member) {
  const auto wrong = [&](std::string_view what) {
    return bad(name, "safetensors", fmt::format("its entry '{}' {}", member, what));
  };
  const json* dtype = find(value, "dtype");
  const json* shape = find(value, "shape");
  const json* offsets = find(value, "data_offsets");
  if (dtype == nullptr || !dtype->is_string() || shape == nullptr || offsets == nullptr)
    return wrong("lacks 'dtype', 'shape' or 'data_offsets'");
  const auto& dtype_name = dtype->get_ref<const std::string&>();
  const auto* const type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                        [&](const TypeName& t) { return t.name == dtype_name; });
  if (type == std::end(kTypes))
    return problem(
        ErrorCode::DataType,
        fmt::format("'{}' holds '{}' as {}, a type that no tensor has", name, member, dtype_name));
  const auto dims = shape_of(*shape);
  const auto size = dims ? data::byte_count(type->dtype, *dims) : std::nullopt;
  if (!size) return wrong("has a shape that no tensor has");
  const bool is_pair = offsets->is_array() && offsets->size() == 2 &&
                       (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned();
  if (!is_pair) return wrong("has offsets that are no pair of numbers");
  const Entry entry{type->dtype, *dims, (*offsets)[0].get<uint64_t>(),
                    (*offsets)[1].get<uint64_t>()};
  if (entry.begin > entry.end || entry.end > file.buffer.size())
    return wrong(fmt::format("lies from {} to {} in a buffer of {} bytes", entry.begin, entry.end,
                             file.buffer.size()));
  if (entry.end - entry.begin != *size)
    return wrong(fmt::format("has {} bytes, and {}{} has {}", entry.end - entry.begin,
                             isa::name(entry.dtype), dims->text(), *size));
  return entry;
}

std::vector<std::string> names_of(const File& file) {
  std::vector<std::string> names;
  for (const auto& [key, value] : file.header.items())
    if (key != kMetadata) names.push_back(key);
  const auto begin = [&](const std::string& key) -> uint64_t {
    const json* offsets = find(file.header[key], "data_offsets");
    const bool has = offsets != nullptr && offsets->is_array() && !offsets->empty() &&
                     (*offsets)[0].is_number_unsigned();
    return has ? (*offsets)[0].get<uint64_t>() : UINT64_MAX;
  };
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(begin(a), a) < std::pair(begin(b), b);
  });
  return names;
}

}  // namespace

Result<DataArray> parse_safetensors(std::span<const std::byte> bytes, std::string_view name,
                                    std::string_view member) {
  auto file = open(bytes, name);
  if (!file.ok()) return file.take_problems();
  const auto found = file->header.find(std::string(member));
  if (found == file->header.end() || member == kMetadata) {
    isa::Problem missing =
        problem(ErrorCode::DataFormat, fmt::format("'{}' has no tensor '{}'", name, member));
    const std::vector<std::string> names = names_of(*file);
    if (const std::string near = isa::nearest(member, {names.begin(), names.end()}); !near.empty())
      missing.help = fmt::format("did you mean '{}'?", near);
    return missing;
  }
  auto entry = entry_of(*found, *file, name, member);
  if (!entry.ok()) return entry.take_problems();
  const auto part = file->buffer.subspan(static_cast<size_t>(entry->begin),
                                         static_cast<size_t>(entry->end - entry->begin));
  return DataArray{entry->dtype, entry->shape, {part.begin(), part.end()}};
}

Result<std::vector<std::string>> parse_safetensors_names(std::span<const std::byte> bytes,
                                                         std::string_view name) {
  auto file = open(bytes, name);
  if (!file.ok()) return file.take_problems();
  return names_of(*file);
}

isa::Problems write_safetensors(const std::filesystem::path& path,
                                std::span<const NamedArray> arrays) {
  // The format wants the offsets to leave no gap; arrays lie in the order given, the header sorts them.
  json header = json::object();
  uint64_t offset = 0;
  for (const NamedArray& array : arrays) {
    const auto* const type =
        std::find_if(std::begin(kTypes), std::end(kTypes),
                     [&](const TypeName& t) { return t.dtype == array.dtype; });
    header[array.name] = {{"dtype", type->name},
                          {"shape", std::vector<int64_t>(array.shape.begin(), array.shape.end())},
                          {"data_offsets", {offset, offset + array.bytes.size()}}};
    offset += array.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');  // elements of 8 bytes lie aligned

  std::vector<std::byte> file(sizeof(uint64_t) + text.size() + static_cast<size_t>(offset));
  const uint64_t length = text.size();
  std::memcpy(file.data(), &length, sizeof length);
  std::memcpy(file.data() + sizeof length, text.data(), text.size());
  size_t at = sizeof length + text.size();
  for (const NamedArray& array : arrays) {
    if (!array.bytes.empty()) std::memcpy(file.data() + at, array.bytes.data(), array.bytes.size());
    at += array.bytes.size();
  }
  return write_file(path, file);
}

}  // namespace trek
