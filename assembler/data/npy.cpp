// numpy's .npy, versions 1 to 3: a magic, a Python dictionary as text, the elements.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "assembler/data/parts.h"

namespace trek {
namespace {

using data::problem;
using isa::DType;
using isa::ErrorCode;
using isa::Result;
using isa::Shape;

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::string descr;
  bool fortran = false;
  Shape shape;
};

// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: the part of Python's literals that
// numpy writes.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  // The header, or what was wrong.
  std::optional<std::string> parse(Header& header) {
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    if (!take('{')) return "its header is no dictionary";
    while (!take('}')) {
      const auto key = string();
      if (!key || !take(':')) return "its header is no dictionary of names";
      if (*key == "descr") {
        const auto value = string();
        if (!value) return "its elements are structures";
        header.descr = *value;
        has_descr = true;
      } else if (*key == "fortran_order") {
        header.fortran = take_word("True");
        if (!header.fortran && !take_word("False"))
          return "'fortran_order' is neither True nor False";
        has_order = true;
      } else if (*key == "shape") {
        if (!shape(header.shape))
          return fmt::format("'shape' is no tuple of up to {} dimensions", isa::kMaxRank);
        has_shape = true;
      } else {
        return fmt::format("its header has an unknown key '{}'", *key);
      }
      if (!take(',') && !peek('}')) return "its header is no dictionary";
    }
    skip();
    if (!rest_.empty()) return "something follows the dictionary in its header";
    if (!has_descr || !has_order || !has_shape)
      return "its header lacks 'descr', 'fortran_order' or 'shape'";
    return std::nullopt;
  }

 private:
  void skip() {
    const size_t blank = std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size());
    rest_.remove_prefix(blank);
  }
  bool peek(char c) {
    skip();
    return !rest_.empty() && rest_.front() == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> string() {
    if (!peek('\'') && !peek('"')) return std::nullopt;
    const size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool shape(Shape& shape) {
    shape = {};
    if (!take('(')) return false;
    while (!take(')')) {
      skip();
      int64_t dim = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dim);
      if (error != std::errc() || dim < 0 || shape.rank() == isa::kMaxRank) return false;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      shape.push_back(dim);
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view rest_;
};

struct NpyType {
  DType dtype = DType::none;
  bool untyped = false;
  size_t size = 0;
};

std::optional<NpyType> type_of(std::string_view kind_and_size) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16}, {"i1", DType::i8},
      {"i2", DType::i16}, {"i4", DType::i32}, {"i8", DType::i64}, {"u1", DType::u8},
      {"u2", DType::u16}, {"u4", DType::u32}, {"u8", DType::u64}, {"b1", DType::boolean},
  };
  for (const auto& [name, dtype] : kNames)
    if (name == kind_and_size)
      return NpyType{dtype, false, static_cast<size_t>(isa::byte_size(dtype))};
  if (kind_and_size == "V2") return NpyType{DType::bf16, true, 2};
  if (kind_and_size == "V1") return NpyType{DType::none, true, 1};
  return std::nullopt;
}

std::string descr_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "<V2";
    case DType::f8e4m3:
    case DType::f8e5m2:
      return "|V1";
    case DType::boolean:
      return "|b1";
    default:
      break;
  }
  const char kind = isa::is_real(dtype)                        ? 'f'
                    : isa::kind(dtype) == isa::DTypeKind::sint ? 'i'
                                                               : 'u';
  const int size = isa::byte_size(dtype);
  return fmt::format("{}{}{}", size == 1 ? '|' : '<', kind, size);
}

// The header's text and where the elements begin, or what was wrong.
struct Split {
  std::string_view header;
  std::span<const std::byte> elements;
};
std::optional<Split> split(std::span<const std::byte> bytes, std::string& why) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) {
    why = "it does not begin with \\x93NUMPY";
    return std::nullopt;
  }
  const size_t version =
      text.size() > kMagic.size() ? static_cast<uint8_t>(text[kMagic.size()]) : 0;
  const size_t length_size = version == 1 ? 2 : 4;
  const size_t length_at = kMagic.size() + 2;
  if (text.size() < length_at + length_size) {
    why = "it ends before its header does";
    return std::nullopt;
  }
  if (version < 1 || version > 3) {
    why = fmt::format("its version is {}, and known are 1 to 3", version);
    return std::nullopt;
  }
  uint64_t length = 0;
  std::memcpy(&length, text.data() + length_at, length_size);
  const size_t header_at = length_at + length_size;
  if (length > text.size() - header_at) {
    why = fmt::format("its header of {} bytes does not fit into its {}", length, text.size());
    return std::nullopt;
  }
  const auto size = static_cast<size_t>(length);
  return Split{text.substr(header_at, size), bytes.subspan(header_at + size)};
}

}  // namespace

namespace data {

Result<NpyArray> parse_npy_array(std::span<const std::byte> bytes, std::string_view name) {
  std::string why;
  const auto parts = split(bytes, why);
  if (!parts) return bad(name, "numpy", why);
  Header header;
  if (const auto wrong = HeaderParser(parts->header).parse(header))
    return bad(name, "numpy", *wrong);

  const std::string_view descr = header.descr;
  const bool has_order =
      descr.size() > 1 && std::string_view("<>|=").find(descr.front()) != std::string_view::npos;
  const auto type = has_order ? type_of(descr.substr(1)) : std::nullopt;
  if (!type)
    return problem(
        ErrorCode::DataType,
        fmt::format("'{}' holds elements of numpy's type '{}', which no tensor has", name, descr));
  const auto elements = header.shape.checked_elements();
  if (!elements)
    return bad(
        name, "numpy",
        fmt::format("its shape {} is beyond {} elements", header.shape.text(), isa::kMaxElements));
  const uint64_t size = static_cast<uint64_t>(*elements) * type->size;
  if (size != parts->elements.size())
    return bad(name, "numpy",
               fmt::format("its header announces {} bytes of elements, and {} are there", size,
                           parts->elements.size()));

  NpyArray npy;
  npy.item_size = type->size;
  npy.untyped = type->untyped;
  npy.array.dtype = type->dtype;
  npy.array.shape = header.shape;
  npy.array.bytes = header.fortran
                        ? from_column_major(parts->elements, header.shape, type->size)
                        : std::vector<std::byte>(parts->elements.begin(), parts->elements.end());
  if (descr.front() == '>') swap_bytes(npy.array.bytes, type->size);
  return npy;
}

}  // namespace data

Result<DataArray> parse_npy(std::span<const std::byte> bytes, std::string_view name) {
  auto npy = data::parse_npy_array(bytes, name);
  if (!npy.ok()) return npy.take_problems();
  if (npy->array.dtype == DType::none)
    return problem(ErrorCode::DataType,
                   fmt::format("'{}' holds untyped bytes (V1): only a tensor of type f8e4m3 or "
                               "f8e5m2 can say what they are",
                               name));
  return std::move(npy->array);
}

isa::Problems write_npy(const std::filesystem::path& path, DType dtype, const Shape& shape,
                        std::span<const std::byte> bytes) {
  std::string dims;
  for (int64_t dim : shape) dims += fmt::format("{}, ", dim);
  if (shape.rank() > 1) dims.resize(dims.size() - 2);
  if (shape.rank() == 1) dims.pop_back();
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   descr_of(dtype), dims);
  constexpr size_t kPreamble = 10;  // magic, version, length
  constexpr size_t kAlignment = 64;
  header.append((kAlignment - (kPreamble + header.size() + 1) % kAlignment) % kAlignment, ' ');
  header += '\n';

  std::string file(kMagic);
  file += '\x01';
  file += '\0';
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  std::vector<std::byte> out(file.size() + bytes.size());
  std::memcpy(out.data(), file.data(), file.size());
  std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(file.size()));
  return write_file(path, out);
}

}  // namespace trek
