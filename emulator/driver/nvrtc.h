// NVRTC, found at run time: CUDA C++ that arrives as text becomes PTX or machine code. It needs neither
// a GPU nor a driver.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "emulator/driver/error.h"

namespace trek::driver {

enum class NvrtcOutput { ptx, cubin };

struct NvrtcCode {
  std::string image;  // PTX text, or the bytes of a cubin
  std::string log;    // warnings; may be empty
};

struct NvrtcApi;

class Nvrtc {
 public:
  // Fails with every file name that was tried. $TREK_NVRTC_LIBRARY names another file.
  static Result<Nvrtc> load();

  const std::string& file() const { return file_; }
  const std::string& version() const { return version_; }  // "13.0"
  // Compiles for an architecture, "sm_90a" (cubin) or "compute_90a" (PTX). The compiler's log is part of
  // the error; `name` is the file name that the log shows.
  Result<NvrtcCode> compile(const std::string& name, const std::string& source,
                            const std::string& architecture, NvrtcOutput output,
                            std::span<const std::string> options = {}) const;

 private:
  Nvrtc() = default;
  std::shared_ptr<const NvrtcApi> api_;
  std::string file_;
  std::string version_;
};

}  // namespace trek::driver
