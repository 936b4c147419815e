// Programs of the CUDA toolkit, where this machine has them.
//
// The driver has ptxas in it, too, but to be called in two ways only: as it loads PTX, which may wait for a kernel that
// runs, and as a linker, which compiles for others to call: then it ignores `setmaxnreg` (C7504) and lets products of a
// warpgroup wait for each other (C7509). The program does neither.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "emulator/driver/cuda.h"
#include "emulator/driver/error.h"

namespace trek::driver {

// A failure names the program, says how it ended, and has its words.
class Tool {
 public:
  // What $TREK_PTXAS or $TREK_NVDISASM names (empty: none), else a program on the PATH, else one of /usr/local/cuda.
  static std::optional<Tool> ptxas();
  static std::optional<Tool> nvdisasm();

  const std::string& path() const { return path_; }
  // The toolkit that a ptxas is of: a driver of that version takes its cubins.
  Result<Version> toolkit() const;
  // ptxas: a cubin of PTX for `target`, "sm_90a". `name` is what errors call it. The program is ended, and that is an
  // error, where `cancelled`, which may be null, becomes true.
  Result<std::string> assemble(std::string_view name, std::string_view ptx, std::string_view target,
                               const std::atomic<bool>* cancelled = nullptr) const;
  // nvdisasm: the text of a cubin's code.
  Result<std::string> disassemble(std::string_view name, std::string_view cubin) const;

 private:
  explicit Tool(std::string path) : path_(std::move(path)) {}
  static std::optional<Tool> find(const char* name, const char* variable);

  std::string path_;
};

}  // namespace trek::driver
