// Shared libraries found at run time, so that one binary runs where they are and where they are not.
//
// A library that is missing is an ordinary state: the error names every file that was tried and what
// the loader said to each. A loaded library is never closed: NVIDIA's start threads that outlive it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "emulator/driver/error.h"

namespace trek::driver {

class SharedLibrary {
 public:
  // Loads the first of `files` that loads. Where the environment variable `variable` is set, its value
  // is the only file tried: for tests, and for machines that keep the library in an unusual place.
  static Result<SharedLibrary> open(const char* variable, std::span<const std::string> files);

  const std::string& file() const { return file_; }
  // The address of a symbol, or null.
  void* find(const char* symbol) const;

  // Stores the address of `symbol` in a function pointer; false where the library does not have it.
  template <class Function>
  bool find(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(find(symbol));
    return function != nullptr;
  }

 private:
  SharedLibrary(void* handle, std::string file) : handle_(handle), file_(std::move(file)) {}
  void* handle_;
  std::string file_;
};

// The names under which a library of the CUDA toolkit may be found: by the loader's own search for each
// of `sonames`, then in $CUDA_HOME, $CUDA_PATH and /usr/local/cuda.
std::vector<std::string> toolkit_files(std::span<const std::string> sonames);

}  // namespace trek::driver
