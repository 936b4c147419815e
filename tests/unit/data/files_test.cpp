// Files in and out: what cannot be read or written says so, and an old file survives a failed write.
#include <fstream>
#include <iterator>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <unistd.h>

#include "assembler/data/new_file.h"
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

TEST_CASE("a full disk is reported as a failed write") {
  const isa::Problems full = write_file("/dev/full", bytes_of("x"));
  REQUIRE(full.size() == 1);
  CHECK(isa::code(full[0].code) == "output-unwritable");
  CHECK(full[0].message == "cannot write '/dev/full': No space left on device");
  CHECK(write_npy("/dev/full", DType::u8, {1}, bytes_of("x")).size() == 1);
  CHECK(write_safetensors("/dev/full", {}).size() == 1);
}

TEST_CASE("a place that cannot be written is named, and what is there stays") {
  const Scratch scratch;
  CHECK(write_file(scratch / "no/such/folder", bytes_of("x")).size() == 1);
  CHECK(write_file(scratch.folder(), bytes_of("x")).size() == 1);
  CHECK(files_in(scratch.folder()) == 0);
}

TEST_CASE("a new file has no name until it is complete, and then takes the old one's place") {
  const Scratch scratch;
  for (const std::string_view before : {"", "old"}) {
    if (!before.empty()) REQUIRE(write_file(scratch / "a", bytes_of(before)).empty());
    const size_t files = files_in(scratch.folder());
    {
      const NewFile dropped(scratch / "a");
      REQUIRE(dropped.is_open());
      CHECK(files_in(scratch.folder()) == files);
    }
    CHECK(files_in(scratch.folder()) == files);
    CHECK(contents(scratch / "a") == before);
    NewFile kept(scratch / "a");
    REQUIRE(write(kept.descriptor(), "new", 3) == 3);
    REQUIRE(kept.commit());
    CHECK(contents(scratch / "a") == "new");
    CHECK(files_in(scratch.folder()) == 1);
    std::filesystem::remove(scratch / "a");
  }
}

TEST_CASE("a stream of our own is written where it stands") {
  const Scratch scratch;
  const int file = ::open((scratch / "a").c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(file >= 0);
  REQUIRE(write(file, "one ", 4) == 4);
  REQUIRE(write_file("/dev/fd/" + std::to_string(file), bytes_of("two")).empty());
  REQUIRE(write_file("/proc/self/fd/" + std::to_string(file), bytes_of(" three")).empty());
  ::close(file);
  CHECK(contents(scratch / "a") == "one two three");
  CHECK(write_file("/dev/fd/" + std::to_string(file), bytes_of("x")).size() == 1);  // closed
  CHECK(own_descriptor("/dev/stdout") == 1);
  CHECK(own_descriptor("/dev/fd/1x") == -1);
  CHECK(own_descriptor("/dev/null") == -1);
}

}  // namespace
}  // namespace trek
