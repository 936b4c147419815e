// What the library that holds LLVM gives besides (compiler.h): the persistent kernel of emulator/resident, with the
// code of a plan's nodes in the place of the units. Nothing of LLVM is in this header.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "emulator/jit/compiler.h"

namespace trek::jit {

class GpuCompiler {
 public:
  virtual ~GpuCompiler() = default;
  // "LLVM 19.1.7", in one line.
  virtual std::string description() const = 0;
  // What stands for the code that compile() makes, and nothing else: a hash of what goes into it, as 64 hexadecimal
  // digits. For caches.
  virtual std::string key(std::span<const Request> requests, std::string_view level) const = 0;
  // Whether this library has the units for a level of devices, "sm_90a" or "sm_80".
  virtual bool has(std::string_view level) const = 0;
  // PTX with the kernel `resident`, in which a task's record names its code by the number of the request. Compiles on
  // `threads` threads, this one among them; `cancelled` as in Compiler::compile(). The source of a request stands before
  // its function.
  virtual std::variant<std::string, Refusal> compile(std::span<const Request> requests,
                                                     std::string_view level, int threads,
                                                     const std::atomic<bool>* cancelled) const = 0;
  // The optimised LLVM IR of the requests' functions, as text.
  virtual std::variant<std::string, Refusal> print(std::span<const Request> requests,
                                                   std::string_view level) const = 0;
};

// As kMakeCompiler is for this computer's processor: trek_jit_gpu_compiler. It needs no GPU.
using MakeGpuCompiler = GpuCompiler* (*)(const char* key, std::string* why);
inline constexpr const char* kMakeGpuCompiler = "trek_jit_gpu_compiler";

}  // namespace trek::jit
