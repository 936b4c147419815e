#include "hostlib/tensor_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "hostlib/names.h"

namespace trek {
namespace {

using isa::ErrorCode;

struct Ending {
  std::string_view ending;
  std::string_view format;
};
constexpr std::array<Ending, 7> kEndings = {{{".npy", "npy"},
                                             {".idx", "idx"},
                                             {".gz", "idx"},
                                             {"-ubyte", "idx"},
                                             {".safetensors", "safetensors"},
                                             {".raw", "raw"},
                                             {".bin", "raw"}}};

bool begins(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](char c, std::byte b) { return static_cast<std::byte>(c) == b; });
}

// The format of a file by its first bytes; "" where it is none of those that have a signature.
std::string_view format_of_bytes(std::span<const std::byte> bytes) {
  using namespace std::string_view_literals;
  if (begins(bytes, "\x93NUMPY"sv)) return "npy";
  if (begins(bytes, "\x1f\x8b"sv) || begins(bytes, "\0\0"sv)) return "idx";
  constexpr size_t kLengthBytes = 8;  // of the header's length, before its JSON
  if (bytes.size() > kLengthBytes && bytes[kLengthBytes] == std::byte{'{'}) return "safetensors";
  return "";
}

// A file name with the member that may follow it.
struct Source {
  std::string path;
  std::string member;
};

Source split_member(std::string_view file) {
  constexpr std::string_view kMark = ".safetensors:";
  const size_t at = file.rfind(kMark);
  if (at == std::string_view::npos) return {std::string(file), ""};
  const size_t end = at + kMark.size();
  return {std::string(file.substr(0, end - 1)), std::string(file.substr(end))};
}

// Which tensor of a safetensors file is meant where no member was named.
isa::Result<std::string> pick_member(std::span<const std::byte> bytes, const std::string& path,
                                     std::string_view name) {
  isa::Result<std::vector<std::string>> members = parse_safetensors_names(bytes, path);
  if (!members) return members.take_problems();
  if (members->size() == 1) return members->front();
  if (std::find(members->begin(), members->end(), name) != members->end()) return std::string(name);
  std::string help;
  for (const std::string& member : *members) help += (help.empty() ? "" : ", ") + member;
  return problem(ErrorCode::UnknownName,
                 fmt::format("{}: holds {} tensors, none of them '{}'; name one as {}:MEMBER", path,
                             members->size(), name, path),
                 "the file has " + help);
}

struct Contents {
  Source source;
  std::string_view format;
  std::vector<std::byte> bytes;
};

isa::Result<Contents> open_tensor_file(std::string_view file, std::string_view name) {
  Contents contents{split_member(file), {}, {}};
  isa::Result<std::vector<std::byte>> bytes = read_file(contents.source.path);
  if (!bytes) return bytes.take_problems();
  contents.bytes = bytes.take();
  contents.format = format_of_name(contents.source.path);
  if (contents.format.empty()) contents.format = format_of_bytes(contents.bytes);
  if (contents.format.empty())
    return problem(
        ErrorCode::DataFormat,
        fmt::format("{}: neither its name nor its first bytes say what it holds", file),
        "known are .npy, .idx (also .gz), .safetensors, and .raw or .bin for bare elements");
  if (contents.format == "safetensors" && contents.source.member.empty()) {
    isa::Result<std::string> member = pick_member(contents.bytes, contents.source.path, name);
    if (!member) return member.take_problems();
    contents.source.member = member.take();
  }
  return contents;
}

// How many blocks a file of `elements` elements holds, or nothing where the last is not whole.
std::optional<int64_t> blocks_in(int64_t elements, const isa::Type& block) {
  if (block.elements() == 0) return elements == 0 ? std::optional<int64_t>(0) : std::nullopt;
  if (elements % block.elements() != 0) return std::nullopt;
  return elements / block.elements();
}

// The shape a file says it has, where its format says one; bare elements are counted.
isa::Result<int64_t> elements_in(const Contents& contents, const isa::Type& block) {
  if (contents.format == "raw")
    return static_cast<int64_t>(contents.bytes.size()) / isa::byte_size(block.dtype);
  isa::Result<DataArray> array =
      contents.format == "npy" ? parse_npy(contents.bytes, contents.source.path)
      : contents.format == "idx"
          ? parse_idx(contents.bytes, contents.source.path)
          : parse_safetensors(contents.bytes, contents.source.path, contents.source.member);
  if (!array) return array.take_problems();
  return array->shape.elements();
}

}  // namespace

std::string_view format_of_name(std::string_view path) {
  for (const Ending& known : kEndings)
    if (path.ends_with(known.ending)) return known.format;
  return "";
}

bool is_writable_format(std::string_view format) {
  return format == "npy" || format == "safetensors" || format == "raw";
}

isa::Result<DataArray> read_tensor_file(std::string_view file, std::string_view name,
                                        const isa::Type& wanted) {
  isa::Result<Contents> contents = open_tensor_file(file, name);
  if (!contents) return contents.take_problems();
  return parse_data(contents->format, contents->bytes, contents->source.path,
                    contents->source.member, wanted);
}

isa::Result<DataArray> read_stream_file(std::string_view file, std::string_view name,
                                        const isa::Type& block) {
  isa::Result<Contents> contents = open_tensor_file(file, name);
  if (!contents) return contents.take_problems();
  isa::Result<int64_t> elements = elements_in(*contents, block);
  if (!elements) return elements.take_problems();
  const std::optional<int64_t> blocks = blocks_in(*elements, block);
  if (!blocks || block.shape.rank() == isa::kMaxRank)
    return problem(ErrorCode::DataShape,
                   fmt::format("{}: {} elements are not a whole number of blocks {}", file,
                               *elements, block.text()));
  isa::Type all = isa::Type::tensor(block.dtype, {*blocks});
  for (const int64_t dim : block.shape) all.shape.push_back(dim);
  return parse_data(contents->format, contents->bytes, contents->source.path,
                    contents->source.member, all);
}

isa::Problems write_tensor_file(std::string_view file, std::string_view name, const isa::Type& type,
                                std::span<const std::byte> bytes) {
  const std::string_view format = format_of_name(file);
  if (format == "npy") return write_npy(file, type.dtype, type.shape, bytes);
  if (format == "safetensors") {
    const NamedArray array{std::string(name), type.dtype, type.shape, bytes};
    return write_safetensors(file, {&array, 1});
  }
  return write_file(file, bytes);
}

}  // namespace trek
