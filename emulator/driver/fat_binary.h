// Device code that a program carries: one source as several images, of which the best is loaded
// (Module::load). trek_add_fat_binary (fat_binary.cmake) makes them at build time.
//
// A level is what the code may use: sm_80 is the portable one, sm_90a has Hopper's own instructions. An image
// is a cubin, which loads at once but only on the architecture that it was assembled for and with a driver
// not much older than the assembler, or PTX, which the driver compiles for its device on first use.
//
// $TREK_GPU_LEVEL chooses: a level's name allows its images alone, `ptx` those that are PTX.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/driver/cuda.h"

namespace trek::driver {

struct Image {
  enum Kind : uint8_t { cubin, ptx };
  std::string_view level;   // "sm_80"
  std::string_view target;  // "sm_90": of PTX, its level
  Kind kind = ptx;
  const char* begin = nullptr;
  const char* end = nullptr;  // where a zero byte follows

  std::string_view bytes() const { return {begin, static_cast<size_t>(end - begin)}; }
  // cubins: devices of the target's major number from its minor on; PTX: from the target on; a target that
  // ends in `a`: that device alone.
  bool runs_on(Version capability) const;
  // "level sm_80, cubin for sm_90"
  std::string text() const;
};

struct FatBinary {
  std::string_view name;
  std::span<const Image> images;  // the best first; none where the build had no device compiler

  // The images for a device, the best first. None is an error that says why: of this build, of the device,
  // or of $TREK_GPU_LEVEL.
  Result<std::vector<const Image*>> images_for(const DeviceInfo& device) const;
};

}  // namespace trek::driver
