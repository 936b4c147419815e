// What the library that holds LLVM (libtrek_jit) gives to the rest of Trek: code for the tasks of a plan's
// nodes, from their descriptors. Nothing of LLVM is in this header; library.h loads the library at first use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emulator/jit/jit_engine.h"
#include "emulator/resident/host_code.h"

namespace trek::jit {

using resident::TaskFunction;

// A node for which code is wanted.
struct Request {
  std::span<const std::byte> record;  // a device::Node and its tables, 16-byte aligned
  std::string name;                   // of the function: letters, digits, dots
  std::string source;                 // lines of the program, for people who read the code
  size_t addresses = 0;               // in the list that the function gets
};

// A function of the process that code may call.
struct Outside {
  const char* name;
  void* address;
};

// What cannot be compiled, and why.
struct Refusal {
  size_t request = 0;
  std::string why;
};

// Machine code, for as long as it lives. Equal records have one function, whoever asked.
class Code {
 public:
  virtual ~Code() = default;
  virtual TaskFunction function(size_t request) const = 0;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  // "LLVM 19.1.7 for sapphirerapids", in one line.
  virtual std::string description() const = 0;
  // Compiles on `threads` threads of its own, this one among them. Any module that LLVM's verifier or its
  // code generator rejects is a refusal, and so it is where it finds itself cancelled: it looks between nodes, and
  // null is never. The code may call `outside`, the same ones each time.
  virtual std::variant<std::unique_ptr<Code>, Refusal> compile(
      std::span<const Request> requests, std::span<const Outside> outside, int threads,
      const std::atomic<bool>* cancelled) const = 0;
  // The code of each request as text, one after the other, those that share a function once.
  virtual std::variant<std::string, Refusal> print(std::span<const Request> requests,
                                                   Form form) const = 0;
};

// Of the one function that the library exports, trek_jit_compiler, which gives the compiler of this machine or
// null, and then the reason in *why. Both sides come from one build: what differs is refused by `key`.
using MakeCompiler = Compiler* (*)(const char* key, std::string* why);
inline constexpr const char* kMakeCompiler = "trek_jit_compiler";
inline constexpr const char* kLibraryKey = "trek-jit 1 " TREK_JIT_BUILD;

}  // namespace trek::jit
