#include <catch2/catch.hpp>
#include <zlib.h>

#include "tests/unit/data/scratch.h"

namespace trek {
namespace {

using isa::DType;
using isa::Shape;

Bytes idx(uint8_t type, std::initializer_list<uint32_t> dims, const Bytes& data) {
  Bytes file{std::byte{0}, std::byte{0}, std::byte{type}, std::byte(dims.size())};
  for (uint32_t dim : dims)
    for (int shift = 24; shift >= 0; shift -= 8)
      file.push_back(static_cast<std::byte>(dim >> shift));
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

Bytes gzip(const Bytes& bytes) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes out(deflateBound(&stream, bytes.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST_CASE("IDX files of every type are read, plain and gzipped") {
  const Bytes f32 = bytes_of(std::string_view("\x3F\x80\0\0\x40\0\0\0", 8));  // 1 and 2, big-endian
  for (const Bytes& file : {idx(0x0D, {2}, f32), gzip(idx(0x0D, {2}, f32))}) {
    const auto array = parse_idx(file, "a");
    REQUIRE(array.ok());
    CHECK(array->dtype == DType::f32);
    CHECK(array->bytes == elements<float>({1, 2}));
  }
  CHECK(parse_idx(idx(0x08, {2, 2}, Bytes(4)), "a")->shape == Shape{2, 2});
  CHECK(parse_idx(idx(0x09, {1}, Bytes(1)), "a")->dtype == DType::i8);
  CHECK(parse_idx(idx(0x0B, {1}, Bytes(2)), "a")->dtype == DType::i16);
  CHECK(parse_idx(idx(0x0C, {1}, Bytes(4)), "a")->dtype == DType::i32);
  CHECK(parse_idx(idx(0x0E, {1}, Bytes(8)), "a")->dtype == DType::f64);
  CHECK(parse_idx(idx(0x08, {}, Bytes(1)), "a")->shape == Shape{});
}

TEST_CASE("what is no IDX file is refused") {
  const auto wrong = [](const Bytes& file) { return problem_of(parse_idx(file, "a")); };
  CHECK(wrong({}) == "data-format");
  CHECK(wrong(idx(0x0A, {1}, Bytes(1))) == "data-format");
  CHECK(wrong(bytes_of("\1\0\x08\1")) == "data-format");
  CHECK(wrong(idx(0x08, {2}, Bytes(1))) == "data-format");
  CHECK(wrong(idx(0x08, {2}, Bytes(3))) == "data-format");
  CHECK(wrong(idx(0x08, {1, 1, 1, 1, 1, 1, 1, 1, 1}, Bytes(1))) == "data-format");
  CHECK(wrong({std::byte{0}, std::byte{0}, std::byte{8}, std::byte{3}, std::byte{0}}) ==
        "data-format");
}

TEST_CASE("dimensions that announce more than the file can hold are refused at once") {
  const auto wrong = [](const Bytes& file) { return problem_of(parse_idx(file, "a")); };
  CHECK(wrong(idx(0x08, {UINT32_MAX, UINT32_MAX, UINT32_MAX}, {})) == "data-format");
  CHECK(wrong(idx(0x0E, {UINT32_MAX}, Bytes(100))) == "data-format");
  CHECK(wrong(gzip(idx(0x0E, {UINT32_MAX}, Bytes(100)))) == "data-format");
}

TEST_CASE("a gzipped file is inflated no further than its header announces") {
  // 64 MiB of zeros behind a header that announces 10 bytes.
  const Bytes bomb = gzip(idx(0x08, {10}, Bytes(size_t{64} << 20)));
  CHECK(bomb.size() < 100'000);
  CHECK(problem_of(parse_idx(bomb, "a")) == "data-format");
}

TEST_CASE("a gzipped file that was damaged or cut is refused") {
  const Bytes good = gzip(idx(0x08, {1000}, Bytes(1000, std::byte{7})));
  REQUIRE(parse_idx(good, "a").ok());
  for (size_t size = 2; size < good.size(); ++size)
    CHECK(problem_of(parse_idx(std::span(good).first(size), "a")) == "data-format");
  Bytes checksum = good;
  checksum[checksum.size() - 5] ^= std::byte{1};
  CHECK(problem_of(parse_idx(checksum, "a")) == "data-format");
  Bytes more = good;
  more.push_back(std::byte{0});
  CHECK(problem_of(parse_idx(more, "a")) == "data-format");
}

}  // namespace
}  // namespace trek
