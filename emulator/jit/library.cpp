#include "emulator/jit/library.h"

#include <dlfcn.h>

#include "emulator/jit/products.h"

namespace trek::jit {
namespace {

template <typename Made>
struct Loaded {
  std::unique_ptr<Made> made;
  std::string why;
};

// Why this build has no library; empty: it has one.
constexpr const char* kMissing = TREK_JIT_MISSING;

// What the function `name` of the library gives.
template <typename Made>
Loaded<Made> load(const char* name) {
  Loaded<Made> loaded;
  loaded.why = kMissing;
  if (!loaded.why.empty()) return loaded;
  // By the program's run path: lib/ beside its bin/.
  void* library = dlopen("libtrek_jit.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.why = dlerror();
    return loaded;
  }
  using Make = Made* (*)(const char* key, std::string* why);
  const auto make = reinterpret_cast<Make>(dlsym(library, name));
  if (make == nullptr) {
    loaded.why = std::string("libtrek_jit.so has no ") + name;
    return loaded;
  }
  loaded.made.reset(make(kLibraryKey, &loaded.why));
  return loaded;
}

}  // namespace

const Compiler* compiler(std::string& why) {
  static const auto loaded = load<Compiler>(kMakeCompiler);
  why = loaded.why;
  // Its products call kernels of ours.
  return loaded.made == nullptr || !has_kernels(why) ? nullptr : loaded.made.get();
}

const GpuCompiler* gpu_compiler(std::string& why) {
  static const auto loaded = load<GpuCompiler>(kMakeGpuCompiler);
  why = loaded.why;
  return loaded.made.get();
}

}  // namespace trek::jit
