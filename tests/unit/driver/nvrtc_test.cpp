// NVRTC through the driver layer. It needs no GPU; where the library is absent these are skipped.
#include "emulator/driver/nvrtc.h"

#include <cstdio>
#include <cstdlib>

#include <catch2/catch.hpp>

namespace trek::driver {
namespace {

const char* const kSource = "extern \"C\" __global__ void store(int* p) { *p = 3; }\n";

TEST_CASE("without NVRTC the error names each file that was tried") {
  setenv("TREK_NVRTC_LIBRARY", "/nowhere/libnvrtc.so", 1);
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  unsetenv("TREK_NVRTC_LIBRARY");
  REQUIRE_FALSE(nvrtc);
  CHECK(nvrtc.error().text().find("tried /nowhere/libnvrtc.so (cannot open") != std::string::npos);
}

TEST_CASE("a library that is not NVRTC is refused by name") {
  setenv("TREK_NVRTC_LIBRARY", TREK_FAKE_CUDA, 1);
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  unsetenv("TREK_NVRTC_LIBRARY");
  REQUIRE_FALSE(nvrtc);
  CHECK(nvrtc.error().text().ends_with("is not an NVRTC of CUDA 12 or newer"));
}

TEST_CASE("CUDA C++ becomes PTX and machine code") {
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc) {
    std::printf("trek-skipped: %s\n", nvrtc.error().text().c_str());
    return;
  }
  const Result<NvrtcCode> ptx = nvrtc->compile("store.cu", kSource, "compute_80", NvrtcOutput::ptx);
  REQUIRE(ptx);
  CHECK(ptx->image.find(".visible .entry store(") != std::string::npos);
  const Result<NvrtcCode> cubin = nvrtc->compile("store.cu", kSource, "sm_90a", NvrtcOutput::cubin);
  REQUIRE(cubin);
  CHECK(cubin->image.substr(1, 3) == "ELF");
}

TEST_CASE("an error in CUDA C++ comes with its line") {
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc) {
    std::printf("trek-skipped: %s\n", nvrtc.error().text().c_str());
    return;
  }
  const Result<NvrtcCode> code =
      nvrtc->compile("bad.cu", "__global__ void f() { oops; }", "sm_80", NvrtcOutput::cubin);
  REQUIRE_FALSE(code);
  CHECK(code.error().text().starts_with("compiling bad.cu for sm_80: NVRTC_ERROR_COMPILATION"));
  CHECK(code.error().detail.find("bad.cu(1): error: identifier \"oops\"") != std::string::npos);
}

}  // namespace
}  // namespace trek::driver
