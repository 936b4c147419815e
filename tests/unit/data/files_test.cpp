// Files in and out: what cannot be read or written says so, and an old file survives a failed write.
#include <fstream>
#include <iterator>

#include <catch2/catch.hpp>

#include "tests/unit/data/scratch.h"

namespace trek {
namespace {

using isa::DType;
using isa::Type;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t files_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST_CASE("a file that cannot be read is named with the reason") {
  const Scratch scratch;
  const auto missing = read_npy(scratch / "none.npy");
  CHECK(problem_of(missing) == "file-unreadable");
  CHECK(message_of(missing).find("No such file or directory") != std::string::npos);
  CHECK(problem_of(read_idx(scratch.folder())) == "file-unreadable");
  CHECK(problem_of(read_safetensors(scratch / "none", "a")) == "file-unreadable");
  CHECK(problem_of(list_safetensors(scratch / "none")) == "file-unreadable");
  CHECK(problem_of(read_raw(scratch / "none", Type::tensor(DType::u8, {1}))) == "file-unreadable");
}

TEST_CASE("a file without end is no reason to run out of memory") {
  CHECK(problem_of(read_file("/dev/zero")) == "file-unreadable");
}

TEST_CASE("a raw file has exactly the bytes of its tensor") {
  const Scratch scratch;
  REQUIRE(write_file(scratch / "a.raw", elements<float>({1, 2})).empty());
  CHECK(read_data("raw", scratch / "a.raw", "", Type::tensor(DType::f32, {2})).ok());
  CHECK(problem_of(read_data("raw", scratch / "a.raw", "", Type::tensor(DType::f32, {3}))) ==
        "data-shape");
}

TEST_CASE("a format that does not exist is refused with those that do") {
  const Scratch scratch;
  REQUIRE(write_file(scratch / "a", bytes_of("x")).empty());
  const auto array = read_data("csv", scratch / "a", "", Type::tensor(DType::u8, {1}));
  CHECK(problem_of(array) == "data-format");
  CHECK(message_of(array) == "'csv' is no data format: npy, idx, raw, safetensors");
  CHECK(is_data_format("npy"));
  CHECK_FALSE(is_data_format("csv"));
}

TEST_CASE("writing replaces a file whole and leaves nothing beside it") {
  const Scratch scratch;
  REQUIRE(write_file(scratch / "a", bytes_of("old and long")).empty());
  REQUIRE(write_file(scratch / "a", bytes_of("new")).empty());
  CHECK(contents(scratch / "a") == "new");
  CHECK(files_in(scratch.folder()) == 1);
}

TEST_CASE("writing through a link changes what it points to") {
  const Scratch scratch;
  REQUIRE(write_file(scratch / "a", bytes_of("old")).empty());
  std::filesystem::create_symlink(scratch / "a", scratch / "link");
  REQUIRE(write_file(scratch / "link", bytes_of("new")).empty());
  CHECK(std::filesystem::is_symlink(scratch / "link"));
  CHECK(contents(scratch / "a") == "new");
}

TEST_CASE("a full disk is reported") {
  CHECK(write_file("/dev/full", bytes_of("x")).size() == 1);
  CHECK(write_npy("/dev/full", DType::u8, {1}, bytes_of("x")).size() == 1);
  CHECK(write_safetensors("/dev/full", {}).size() == 1);
}

TEST_CASE("a place that cannot be written is named, and what is there stays") {
  const Scratch scratch;
  CHECK(write_file(scratch / "no/such/folder", bytes_of("x")).size() == 1);
  CHECK(write_file(scratch.folder(), bytes_of("x")).size() == 1);
  CHECK(files_in(scratch.folder()) == 0);
}

}  // namespace
}  // namespace trek
