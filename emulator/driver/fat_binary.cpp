#include "emulator/driver/fat_binary.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

namespace trek::driver {
namespace {

// "sm_90a" is 9.0.
Version version_of(std::string_view target) {
  int number = 0;
  std::from_chars(target.data() + target.find('_') + 1, target.data() + target.size(), number);
  return {number / 10, number % 10};
}

std::string_view wanted_level() {
  const char* level = std::getenv("TREK_GPU_LEVEL");
  return level == nullptr ? "" : level;
}

bool is_wanted(const Image& image, std::string_view level) {
  if (level.empty()) return true;
  return level == "ptx" ? image.kind == Image::ptx : image.level == level;
}

}  // namespace

bool Image::runs_on(Version capability) const {
  const Version made_for = version_of(target);
  if (target.ends_with('a')) return capability == made_for;
  if (kind == cubin && capability.major != made_for.major) return false;
  return capability >= made_for;
}

std::string Image::text() const {
  if (kind == ptx) return fmt::format("level {}, PTX", level);
  return fmt::format("level {}, cubin for {}", level, target);
}

Result<std::vector<const Image*>> FatBinary::images_for(const DeviceInfo& device) const {
  const std::string doing = fmt::format("choosing device code of {} for {}", name, device.name);
  if (images.empty()) {
    return Error{doing, "", "this build has none: clang++-19 was not installed"};
  }
  const std::string_view level = wanted_level();
  std::vector<const Image*> chosen;
  for (const Image& image : images)
    if (is_wanted(image, level) && image.runs_on(device.capability)) chosen.push_back(&image);
  if (!chosen.empty()) return chosen;
  if (level.empty()) {
    return Error{doing, "",
                 fmt::format("there is none for compute capability {}", device.capability.text())};
  }
  return Error{doing, "",
               fmt::format("TREK_GPU_LEVEL={} allows none for compute capability {}", level,
                           device.capability.text())};
}

}  // namespace trek::driver
