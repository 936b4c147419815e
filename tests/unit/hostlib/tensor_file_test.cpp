#include "hostlib/tensor_file.h"

#include <filesystem>

#include "hostlib/writable.h"
#include "tests/unit/hostlib/scratch.h"

using namespace trek;
using isa::DType;
using isa::ErrorCode;
using isa::Type;

namespace {

const Type kType = Type::tensor(DType::f32, {2, 3});
const std::vector<std::byte> kBytes = bytes_of<float>({1, 2, 3, 4, 5, 6});

}  // namespace

TEST_CASE("a tensor written in any format reads back") {
  const Scratch scratch;
  for (const char* name : {"t.npy", "t.safetensors", "t.raw", "t.bin"}) {
    CAPTURE(name);
    REQUIRE(write_tensor_file(scratch.file(name), "x", kType, kBytes).empty());
    const auto read = read_tensor_file(scratch.file(name), "x", kType);
    REQUIRE(read.ok());
    CHECK(read->bytes == kBytes);
    CHECK(read->shape == kType.shape);
  }
}

TEST_CASE("a file whose name says nothing is known by its first bytes") {
  const Scratch scratch;
  for (const char* name : {"t.npy", "t.safetensors"}) {
    REQUIRE(write_tensor_file(scratch.file(name), "x", kType, kBytes).empty());
    std::filesystem::rename(scratch.file(name), scratch.file("t"));
    CAPTURE(name);
    CHECK(read_tensor_file(scratch.file("t"), "x", kType).ok());
  }
  REQUIRE(write_file(scratch.file("t"), bytes_of<char>({'a', 'b', 'c'})).empty());
  const auto read = read_tensor_file(scratch.file("t"), "x", kType);
  REQUIRE_FALSE(read.ok());
  CHECK(read.problems()[0].code == ErrorCode::DataFormat);
}

TEST_CASE(
    "a tensor of a safetensors file is the named one, the only one, or the one of the same name") {
  const Scratch scratch;
  const std::string file = scratch.file("two.safetensors");
  const std::vector<std::byte> other = bytes_of<float>({6, 5, 4, 3, 2, 1});
  const std::vector<NamedArray> arrays = {{"x", DType::f32, kType.shape, kBytes},
                                          {"other", DType::f32, kType.shape, other}};
  REQUIRE(write_safetensors(file, arrays).empty());
  CHECK(read_tensor_file(file, "x", kType)->bytes == kBytes);
  CHECK(read_tensor_file(file + ":other", "x", kType)->bytes == other);
  const auto neither = read_tensor_file(file, "y", kType);
  REQUIRE_FALSE(neither.ok());
  CHECK(neither.problems()[0].code == ErrorCode::UnknownName);
  CHECK(neither.problems()[0].help.find("other") != std::string::npos);
  CHECK_FALSE(read_tensor_file(file + ":nothing", "x", kType).ok());
}

TEST_CASE("a stream takes any whole number of blocks, in either shape") {
  const Scratch scratch;
  const Type block = Type::tensor(DType::f32, {3});
  for (const isa::Shape& shape : {isa::Shape{2, 3}, isa::Shape{6}}) {
    REQUIRE(write_npy(scratch.file("s.npy"), DType::f32, shape, kBytes).empty());
    CHECK(read_stream_file(scratch.file("s.npy"), "s", block)->bytes == kBytes);
  }
  REQUIRE(write_file(scratch.file("s.raw"), kBytes).empty());
  CHECK(read_stream_file(scratch.file("s.raw"), "s", block)->bytes == kBytes);
  const auto odd = read_stream_file(scratch.file("s.raw"), "s", Type::tensor(DType::f32, {4}));
  REQUIRE_FALSE(odd.ok());
  CHECK(odd.problems()[0].code == ErrorCode::DataShape);
}

TEST_CASE("what can be written is known beforehand and leaves no trace") {
  const Scratch scratch;
  CHECK(check_writable(scratch.file("new.npy")).empty());
  CHECK(check_writable("/dev/null").empty());
  CHECK(check_writable(scratch.file("no/new.npy")).size() == 1);
  CHECK(check_writable(scratch.file("")).size() == 1);
  CHECK(std::filesystem::is_empty(scratch.file("")));
}
