#include "emulator/driver/library.h"

#include <cstdlib>

#include <dlfcn.h>
#include <fmt/format.h>

namespace trek::driver {
namespace {

// dlerror's words without the file's name in front, which the caller says anyway.
std::string loader_words(const std::string& file) {
  const char* words = dlerror();
  std::string text = words == nullptr ? "unknown reason" : words;
  const std::string prefix = file + ": ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(const char* variable,
                                          std::span<const std::string> files) {
  std::vector<std::string> candidates(files.begin(), files.end());
  if (const char* chosen = std::getenv(variable); chosen != nullptr && *chosen != '\0') {
    candidates = {chosen};
  }
  std::string tried;
  for (const std::string& file : candidates) {
    if (void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return SharedLibrary(handle, file);
    }
    tried += fmt::format("{}{} ({})", tried.empty() ? "tried " : ", ", file, loader_words(file));
  }
  return Error{candidates.front() + " not found", "", tried};
}

void* SharedLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

std::vector<std::string> toolkit_files(std::span<const std::string> sonames) {
  std::vector<std::string> files(sonames.begin(), sonames.end());
  std::vector<std::string> homes;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable); home != nullptr && *home != '\0') {
      homes.emplace_back(home);
    }
  }
  homes.emplace_back("/usr/local/cuda");
  for (const std::string& home : homes) {
    for (const char* folder : {"lib64", "lib"}) {
      for (const std::string& soname : sonames) {
        files.push_back(fmt::format("{}/{}/{}", home, folder, soname));
      }
    }
  }
  return files;
}

}  // namespace trek::driver
