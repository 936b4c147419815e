// Cubins that are kept: whatever has become of the folder, a program runs, and the driver is given no other cubin than
// was made.
#include "emulator/driver/cubin_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <unistd.h>

namespace trek::driver {
namespace {

namespace fs = std::filesystem;

// The cache is a folder of its own, that need not be there.
class CubinCache {
 public:
  explicit CubinCache(const std::string& below = "cubins") {
    std::string pattern = fs::temp_directory_path() / "trek-cubins-XXXXXX";
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    scratch_ = pattern;
    REQUIRE(setenv("TREK_CUBIN_CACHE", (scratch_ / below).c_str(), 1) == 0);
  }
  ~CubinCache() {
    unsetenv("TREK_CUBIN_CACHE");
    std::error_code error;
    fs::remove_all(scratch_, error);
  }
  CubinCache(const CubinCache&) = delete;
  CubinCache& operator=(const CubinCache&) = delete;

  fs::path scratch() const { return scratch_; }
  fs::path file(const std::string& key) const { return scratch_ / "cubins" / (key + ".cubin"); }

 private:
  fs::path scratch_;
};

const std::string kCubin("\177ELF\0 and so on", 15);

}  // namespace

TEST_CASE("a cubin is found under its key as it was kept") {
  const CubinCache cache;
  CHECK_FALSE(find_cubin("a"));
  keep_cubin("a", kCubin);
  keep_cubin("b", kCubin + "b");
  CHECK(find_cubin("a") == kCubin);
  CHECK(find_cubin("b") == kCubin + "b");
  CHECK_FALSE(find_cubin("c"));
}

TEST_CASE("a cubin that was cut or changed is none, and is made anew") {
  const CubinCache cache;
  keep_cubin("a", kCubin);
  const auto size = fs::file_size(cache.file("a"));
  for (const auto left : {size - 1, size - 9, uintmax_t{8}, uintmax_t{3}, uintmax_t{0}}) {
    CAPTURE(left);
    fs::resize_file(cache.file("a"), left);
    CHECK_FALSE(find_cubin("a"));
    keep_cubin("a", kCubin);
    CHECK(find_cubin("a") == kCubin);
  }
  {
    std::fstream file(cache.file("a"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(7);
    file.put('!');
  }
  CHECK_FALSE(find_cubin("a"));
}

TEST_CASE("a folder in the place of a cubin, or a file in that of the folder, is no cubin") {
  const CubinCache cache;
  fs::create_directories(cache.file("a"));
  CHECK_FALSE(find_cubin("a"));
  keep_cubin("a", kCubin);
  CHECK_FALSE(find_cubin("a"));
  CHECK(std::distance(fs::directory_iterator(cache.file("a").parent_path()), {}) == 1);

  const CubinCache below("file/cubins");
  std::ofstream(below.scratch() / "file") << "no folder";
  keep_cubin("a", kCubin);
  CHECK_FALSE(find_cubin("a"));
}

TEST_CASE("of an empty name nothing is kept") {
  const CubinCache cache;
  REQUIRE(setenv("TREK_CUBIN_CACHE", "", 1) == 0);
  keep_cubin("a", kCubin);
  CHECK_FALSE(find_cubin("a"));
}

}  // namespace trek::driver
