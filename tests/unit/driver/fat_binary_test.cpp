// Which of a fat binary's images a device gets.
#include "emulator/driver/fat_binary.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace trek::driver {
namespace {

constexpr char kCode[] = "code";

Image image(std::string_view level, std::string_view target, Image::Kind kind) {
  return {level, target, kind, kCode, kCode + 4};
}

// As trek_add_fat_binary makes them.
const std::vector<Image> kImages = {
    image("sm_90a", "sm_90a", Image::cubin),
    image("sm_80", "sm_90", Image::cubin),
    image("sm_80", "sm_80", Image::cubin),
    image("sm_80", "sm_80", Image::ptx),
};
const FatBinary kBinary = {"kernels", kImages};

// $TREK_GPU_LEVEL while it lives.
class Level {
 public:
  explicit Level(const char* level) { setenv("TREK_GPU_LEVEL", level, 1); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { unsetenv("TREK_GPU_LEVEL"); }
};

// What a device gets, the best first, or the error.
std::vector<std::string> chosen(Version capability, const FatBinary& binary = kBinary) {
  DeviceInfo device;
  device.name = "Card";
  device.capability = capability;
  const auto images = binary.images_for(device);
  if (!images) return {images.error().text()};
  std::vector<std::string> texts;
  for (const Image* each : *images) texts.push_back(each->text());
  return texts;
}

using Texts = std::vector<std::string>;

TEST_CASE("a device gets what its architecture runs, the best level and cubins first") {
  CHECK(chosen({9, 0}) == Texts{"level sm_90a, cubin for sm_90a", "level sm_80, cubin for sm_90",
                                "level sm_80, PTX"});
  CHECK(chosen({8, 0}) == Texts{"level sm_80, cubin for sm_80", "level sm_80, PTX"});
  CHECK(chosen({8, 9}) == Texts{"level sm_80, cubin for sm_80", "level sm_80, PTX"});
  CHECK(chosen({10, 0}) == Texts{"level sm_80, PTX"});
  CHECK(chosen({12, 1}) == Texts{"level sm_80, PTX"});
}

TEST_CASE("a cubin of an architecture's own instructions runs on that one alone") {
  CHECK(kImages[0].runs_on({9, 0}));
  CHECK_FALSE(kImages[0].runs_on({9, 1}));
  CHECK_FALSE(kImages[0].runs_on({10, 0}));
  CHECK_FALSE(image("sm_90a", "sm_90a", Image::ptx).runs_on({10, 0}));
  CHECK_FALSE(image("sm_86", "sm_86", Image::cubin).runs_on({8, 0}));
}

TEST_CASE("TREK_GPU_LEVEL allows one level, or PTX alone") {
  {
    const Level level("sm_80");
    CHECK(chosen({9, 0}) == Texts{"level sm_80, cubin for sm_90", "level sm_80, PTX"});
  }
  {
    const Level level("ptx");
    CHECK(chosen({9, 0}) == Texts{"level sm_80, PTX"});
  }
  const Level level("sm_90a");
  CHECK(chosen({8, 0}) == Texts{"choosing device code of kernels for Card: TREK_GPU_LEVEL=sm_90a "
                                "allows none for compute capability 8.0"});
}

TEST_CASE("what has no image is refused with the reason") {
  CHECK(chosen({7, 5}) == Texts{"choosing device code of kernels for Card: there is none for "
                                "compute capability 7.5"});
  CHECK(chosen({9, 0}, {"kernels", {}}) ==
        Texts{"choosing device code of kernels for Card: this build has none: clang++-19 was not "
              "installed"});
}

}  // namespace
}  // namespace trek::driver
