// IDX, the format of the MNIST files: two zero bytes, a type, a rank, the dimensions and the elements,
// all big-endian; often gzipped, which is recognised by its first bytes.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <zlib.h>

#include "assembler/data/parts.h"

namespace trek {
namespace {

using data::bad;
using isa::DType;
using isa::Result;
using isa::Shape;

std::optional<DType> dtype_of(std::byte code) {
  switch (static_cast<uint8_t>(code)) {
    case 0x08:
      return DType::u8;
    case 0x09:
      return DType::i8;
    case 0x0B:
      return DType::i16;
    case 0x0C:
      return DType::i32;
    case 0x0D:
      return DType::f32;
    case 0x0E:
      return DType::f64;
    default:
      return std::nullopt;
  }
}

// The bytes of an IDX file one after another, inflated where the file is gzipped.
class Source {
 public:
  explicit Source(std::span<const std::byte> bytes) : rest_(bytes) {
    compressed_ = bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
    if (compressed_) ready_ = inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK;
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() {
    if (ready_) inflateEnd(&stream_);
  }

  // The most bytes that could still come: no deflate stream expands by more than 1032.
  uint64_t most() const { return compressed_ ? (rest_.size() + 1) * uint64_t{1032} : rest_.size(); }

  // Exactly `to.size()` bytes, or false.
  bool read(std::span<std::byte> to) {
    if (compressed_) return inflate_into(to);
    if (to.size() > rest_.size()) return false;
    std::copy_n(rest_.begin(), to.size(), to.begin());
    rest_ = rest_.subspan(to.size());
    return true;
  }

  // Whether nothing follows; of a gzipped file also its checksum and length.
  bool at_end() {
    if (!compressed_) return rest_.empty();
    std::byte more{};
    return !inflate_into({&more, 1}) && ended_ && rest_.empty();
  }

 private:
  bool inflate_into(std::span<std::byte> to) {
    if (!ready_) return false;
    while (!to.empty() && !ended_) {
      constexpr size_t kPiece = size_t{1} << 30;  // zlib counts in 32 bits
      const size_t in = std::min(rest_.size(), kPiece);
      const size_t out = std::min(to.size(), kPiece);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest_.data()));
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = reinterpret_cast<Bytef*>(to.data());
      stream_.avail_out = static_cast<uInt>(out);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      rest_ = rest_.subspan(in - stream_.avail_in);
      to = to.subspan(out - stream_.avail_out);
      if (status == Z_STREAM_END)
        ended_ = true;
      else if (status != Z_OK)
        return false;
    }
    return to.empty();
  }

  std::span<const std::byte> rest_;
  bool compressed_ = false;
  bool ready_ = false;
  bool ended_ = false;
  z_stream stream_{};
};

}  // namespace

Result<DataArray> parse_idx(std::span<const std::byte> bytes, std::string_view name) {
  Source source(bytes);
  std::array<std::byte, 4> head{};
  if (!source.read(head)) return bad(name, "IDX", "it ends before its header does");
  const auto dtype = dtype_of(head[2]);
  if (head[0] != std::byte{0} || head[1] != std::byte{0} || !dtype)
    return bad(name, "IDX",
               fmt::format("it begins with {:02x} {:02x} {:02x}, not 00 00 and a type",
                           static_cast<int>(head[0]), static_cast<int>(head[1]),
                           static_cast<int>(head[2])));
  const auto rank = static_cast<int>(head[3]);
  if (rank > isa::kMaxRank)
    return bad(name, "IDX", fmt::format("it has {} dimensions, more than {}", rank, isa::kMaxRank));
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) {
    std::array<std::byte, 4> dim{};
    if (!source.read(dim)) return bad(name, "IDX", "it ends before its dimensions do");
    uint32_t value = 0;
    for (std::byte b : dim) value = value << 8 | static_cast<uint32_t>(b);
    shape.push_back(value);
  }
  const auto size = data::byte_count(*dtype, shape);
  if (!size || *size > source.most())
    return bad(name, "IDX",
               fmt::format("it announces {} elements {}, more than its {} bytes can hold",
                           isa::name(*dtype), shape.text(), bytes.size()));

  DataArray array{*dtype, shape, {}};
  // What a gzipped file announces is believed piece by piece, as it comes.
  constexpr uint64_t kPiece = uint64_t{16} << 20;
  while (array.bytes.size() < *size) {
    const size_t at = array.bytes.size();
    array.bytes.resize(at +
                       static_cast<size_t>(std::min(*size - at, std::max<uint64_t>(at, kPiece))));
    if (!source.read(std::span(array.bytes).subspan(at)))
      return bad(name, "IDX",
                 fmt::format("it ends or breaks off before its {} bytes of elements", *size));
  }
  if (!source.at_end())
    return bad(name, "IDX", "more follows than its header announces, or its checksum is wrong");
  data::swap_bytes(array.bytes, static_cast<size_t>(isa::byte_size(*dtype)));
  return array;
}

}  // namespace trek
