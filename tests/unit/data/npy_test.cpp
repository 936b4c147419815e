#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/unit/data/scratch.h"

namespace trek {
namespace {

using isa::DType;
using isa::Shape;
using isa::Type;

// A file as numpy writes it, with this header.
Bytes npy(std::string header, const Bytes& data, char version = 1) {
  header += '\n';
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  const auto size = static_cast<uint32_t>(header.size());
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(size >> (8 * i));
  Bytes out = bytes_of(file + header);
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

std::string header(std::string_view descr, std::string_view shape,
                   std::string_view order = "False") {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr, order, shape);
}

TEST_CASE("a numpy file of every version is read") {
  const Bytes data = elements<float>({1, 2, 3, 4, 5, 6});
  for (char version : {'\1', '\2', '\3'}) {
    const auto array = parse_npy(npy(header("<f4", "(2, 3)"), data, version), "a.npy");
    REQUIRE(array.ok());
    CHECK(array->dtype == DType::f32);
    CHECK(array->shape == Shape{2, 3});
    CHECK(array->bytes == data);
  }
}

TEST_CASE("scalars, vectors and empty arrays have the shapes that numpy writes") {
  CHECK(parse_npy(npy(header("<i8", "()"), elements<int64_t>({5})), "a")->shape == Shape{});
  CHECK(parse_npy(npy(header("<i8", "(1,)"), elements<int64_t>({5})), "a")->shape == Shape{1});
  CHECK(parse_npy(npy(header("|u1", "(0, 7)"), {}), "a")->shape == Shape{0, 7});
}

TEST_CASE("big-endian and column-major arrays are brought into order") {
  const Bytes big = elements<uint16_t>({0x0100, 0x0200});
  CHECK(parse_npy(npy(header(">u2", "(2,)"), big), "a")->bytes == elements<uint16_t>({1, 2}));
  const Bytes columns = elements<int32_t>({1, 4, 2, 5, 3, 6});
  const auto array = parse_npy(npy(header("<i4", "(2, 3)", "True"), columns), "a");
  REQUIRE(array.ok());
  CHECK(array->bytes == elements<int32_t>({1, 2, 3, 4, 5, 6}));
}

TEST_CASE("what is no numpy file is refused with the reason") {
  const Bytes data = elements<float>({1, 2});
  const auto wrong = [&](const Bytes& file) { return problem_of(parse_npy(file, "a.npy")); };
  CHECK(wrong({}) == "data-format");
  CHECK(wrong(bytes_of("\x93NUMPY")) == "data-format");
  CHECK(wrong(bytes_of("PK\3\4, an npz")) == "data-format");
  CHECK(wrong(npy(header("<f4", "(2,)"), data, 9)) == "data-format");
  CHECK(wrong(npy(header("<f4", "(3,)"), data)) == "data-format");
  CHECK(wrong(npy(header("<f4", "(1,)"), data)) == "data-format");
  CHECK(wrong(npy(header("<f4", "(2,", "False"), data)) == "data-format");
  CHECK(wrong(npy(header("<f4", "(-2,)"), data)) == "data-format");
  CHECK(wrong(npy(header("<f4", "(2,)", "Maybe"), data)) == "data-format");
  CHECK(wrong(npy(header("<f4", "(1,1,1,1,1,1,1,1,2)"), data)) == "data-format");
  CHECK(wrong(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", data)) ==
        "data-format");
  CHECK(wrong(npy("{'descr': '<f4', 'shape': (2,)}", data)) == "data-format");
  CHECK(wrong(npy("{'descr': '<f4', 'extra': 1}", data)) == "data-format");
  CHECK(wrong(npy("nothing", data)) == "data-format");
  CHECK(wrong(npy(header("<c8", "(1,)"), data)) == "data-type");
  CHECK(wrong(npy(header("<U4", "(1,)"), data)) == "data-type");
}

TEST_CASE("sizes that overflow are refused") {
  const Bytes data = elements<float>({1, 2});
  for (std::string_view shape :
       {"(9223372036854775807,)", "(4294967296, 4294967296, 4294967296)", "(99999999999999999999,)",
        "(0, 9223372036854775807, 9223372036854775807)"})
    CHECK(problem_of(parse_npy(npy(header("<f4", shape), data), "a")) == "data-format");
  Bytes file = npy(header("<f4", "(2,)"), data, 2);
  for (size_t i = 8; i < 12; ++i) file[i] = std::byte{0xFF};  // a header of 4 GiB
  CHECK(problem_of(parse_npy(file, "a")) == "data-format");
}

TEST_CASE("bf16 and f8 tensors take numpy's bits of them") {
  const auto read = [](std::string_view descr, const Bytes& data, DType wanted) {
    return parse_data("npy", npy(header(descr, "(2,)"), data), "a.npy", "",
                      Type::tensor(wanted, {2}));
  };
  const Bytes two = elements<uint16_t>({0x3F80, 0x4000});
  const Bytes one = elements<uint8_t>({0x38, 0x40});
  CHECK(read("<V2", two, DType::bf16).ok());
  CHECK(read("<u2", two, DType::bf16).ok());
  CHECK(read("|V1", one, DType::f8e4m3).ok());
  CHECK(read("|u1", one, DType::f8e5m2).ok());
  CHECK(problem_of(read("<V2", two, DType::f16)) == "data-type");
  CHECK(problem_of(read("<u2", two, DType::f16)) == "data-type");
  CHECK(problem_of(read("|V1", one, DType::u8)) == "data-type");
  CHECK(problem_of(parse_npy(npy(header("|V1", "(2,)"), one), "a")) == "data-type");
  CHECK(parse_npy(npy(header("<V2", "(2,)"), two), "a")->dtype == DType::bf16);
}

TEST_CASE("element types must agree, and the message names both") {
  const auto array = parse_data("npy", npy(header("<f8", "(2,)"), elements<double>({1, 2})),
                                "x.npy", "", Type::tensor(DType::f32, {2}));
  CHECK(problem_of(array) == "data-type");
  CHECK(message_of(array) == "'x.npy' holds f64, the tensor is f32");
}

TEST_CASE("dimensions may be merged and split, but not rearranged") {
  const auto read = [](std::string_view shape, const Shape& wanted) {
    return problem_of(parse_data("npy", npy(header("|u1", shape), Bytes(12)), "a", "",
                                 Type::tensor(DType::u8, wanted)));
  };
  CHECK(read("(2, 6)", {12}) == "");
  CHECK(read("(12,)", {2, 6}) == "");
  CHECK(read("(3, 2, 2)", {3, 4}) == "");
  CHECK(read("(3, 4)", {1, 3, 2, 2, 1}) == "");
  CHECK(read("(1, 12)", {3, 4}) == "");
  CHECK(read("(3, 4)", {4, 3}) == "data-shape");
  CHECK(read("(2, 6)", {3, 4}) == "data-shape");
  CHECK(read("(12,)", {13}) == "data-shape");
}

TEST_CASE("a bool is 0 or 1") {
  const auto file = npy(header("|b1", "(2,)"), elements<uint8_t>({1, 2}));
  CHECK(problem_of(parse_data("npy", file, "a", "", Type::tensor(DType::boolean, {2}))) ==
        "data-format");
}

TEST_CASE("what write_npy writes is read again, for every element type and rank") {
  const Scratch scratch;
  for (int code = 1; code < isa::kDTypeCount; ++code) {
    const auto dtype = static_cast<DType>(code);
    for (const Shape& shape : {Shape{}, Shape{2}, Shape{2, 3}, Shape{0, 2}}) {
      const Type type = Type::tensor(dtype, shape);
      const Bytes data(static_cast<size_t>(type.bytes()), std::byte{1});
      REQUIRE(write_npy(scratch / "a.npy", dtype, shape, data).empty());
      const auto array = read_data("npy", scratch / "a.npy", "", type);
      INFO(message_of(array));
      REQUIRE(array.ok());
      CHECK(array->bytes == data);
      CHECK(array->shape == shape);
    }
  }
}

}  // namespace
}  // namespace trek
