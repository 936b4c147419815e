#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/unit/data/scratch.h"

namespace trek {
namespace {

using isa::DType;
using isa::Shape;
using isa::Type;

Bytes safetensors(std::string_view header, const Bytes& data) {
  const uint64_t size = header.size();
  Bytes file(sizeof size);
  std::memcpy(file.data(), &size, sizeof size);
  const Bytes text = bytes_of(header);
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

TEST_CASE("tensors of a safetensors file are found by name, and listed as they lie") {
  const Bytes data = elements<float>({1, 2, 3});
  const Bytes file = safetensors(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},
          "b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
      data);
  const auto a = parse_safetensors(file, "w", "a");
  REQUIRE(a.ok());
  CHECK(a->shape == Shape{2});
  CHECK(a->bytes == elements<float>({2, 3}));
  CHECK(*parse_safetensors_names(file, "w") == std::vector<std::string>{"b", "a"});
}

TEST_CASE("a name that is not there is an error with the nearest one") {
  const Bytes file =
      safetensors(R"({"layer1.weight":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", {});
  const auto missing = parse_safetensors(file, "w", "layer1.wieght");
  CHECK(problem_of(missing) == "data-format");
  CHECK(missing.problems()[0].help == "did you mean 'layer1.weight'?");
  CHECK(problem_of(parse_safetensors(file, "w", "__metadata__")) == "data-format");
}

TEST_CASE("headers that lie are refused") {
  const auto wrong = [](std::string_view entry) {
    return problem_of(
        parse_safetensors(safetensors("{\"a\":" + std::string(entry) + "}", Bytes(8)), "w", "a"));
  };
  CHECK(wrong(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})") == "");
  CHECK(wrong(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})") == "data-format");
  CHECK(wrong(R"({"dtype":"F32","shape":[2],"data_offsets":[4,12]})") == "data-format");
  CHECK(wrong(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})") == "data-format");
  CHECK(
      wrong(
          R"({"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,18446744073709551615]})") ==
      "data-format");
  CHECK(wrong(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})") == "data-format");
  CHECK(wrong(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]})") ==
        "data-format");
  CHECK(wrong(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]})") ==
        "data-format");
  CHECK(wrong(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})") == "data-format");
  CHECK(wrong(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})") == "data-format");
  CHECK(wrong(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})") == "data-format");
  CHECK(wrong(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})") == "data-format");
  CHECK(wrong(R"({"shape":[2]})") == "data-format");
  CHECK(wrong("7") == "data-format");
  CHECK(wrong(R"({"dtype":"C64","shape":[1],"data_offsets":[0,8]})") == "data-type");
}

TEST_CASE("what is no safetensors file is refused") {
  const auto wrong = [](const Bytes& file) {
    return problem_of(parse_safetensors(file, "w", "a"));
  };
  CHECK(wrong({}) == "data-format");
  CHECK(wrong(Bytes(8, std::byte{0xFF})) == "data-format");  // a header of 2^64 - 1 bytes
  CHECK(wrong(safetensors("[1]", {})) == "data-format");
  CHECK(wrong(safetensors("{\"a\":", {})) == "data-format");
  CHECK(wrong(safetensors(std::string(100'000, '['), {})) == "data-format");
}

TEST_CASE("what write_safetensors writes is read again") {
  const Scratch scratch;
  std::vector<NamedArray> arrays;
  std::vector<Bytes> data;
  for (int code = 1; code < isa::kDTypeCount; ++code)
    data.emplace_back(static_cast<size_t>(3 * isa::byte_size(static_cast<DType>(code))),
                      std::byte{1});
  for (int code = 1; code < isa::kDTypeCount; ++code) {
    const auto dtype = static_cast<DType>(code);
    arrays.push_back(
        {"t." + std::string(isa::name(dtype)), dtype, {3, 1}, data[static_cast<size_t>(code - 1)]});
  }
  arrays.push_back({"empty \"quoted\"", DType::f32, {0}, {}});
  REQUIRE(write_safetensors(scratch / "w.safetensors", arrays).empty());
  for (const NamedArray& array : arrays) {
    const auto read = read_data("safetensors", scratch / "w.safetensors", array.name,
                                Type::tensor(array.dtype, array.shape));
    INFO(message_of(read));
    REQUIRE(read.ok());
    CHECK(
        std::equal(read->bytes.begin(), read->bytes.end(), array.bytes.begin(), array.bytes.end()));
  }
  CHECK(list_safetensors(scratch / "w.safetensors")->size() == arrays.size());
}

TEST_CASE("an empty list of arrays is a file with no tensors") {
  const Scratch scratch;
  REQUIRE(write_safetensors(scratch / "none.safetensors", {}).empty());
  CHECK(list_safetensors(scratch / "none.safetensors")->empty());
}

}  // namespace
}  // namespace trek
