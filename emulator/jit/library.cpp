#include "emulator/jit/library.h"

#include <dlfcn.h>

#include "emulator/jit/products.h"

namespace trek::jit {
namespace {

struct Loaded {
  std::unique_ptr<Compiler> compiler;
  std::string why;
};

// Why this build has no library; empty: it has one.
constexpr const char* kMissing = TREK_JIT_MISSING;

Loaded load() {
  Loaded loaded;
  loaded.why = kMissing;
  if (!loaded.why.empty()) return loaded;
  // By the program's run path: lib/ beside its bin/.
  void* library = dlopen("libtrek_jit.so", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    loaded.why = dlerror();
    return loaded;
  }
  const auto make = reinterpret_cast<MakeCompiler>(dlsym(library, kMakeCompiler));
  if (make == nullptr) {
    loaded.why = std::string("libtrek_jit.so has no ") + kMakeCompiler;
    return loaded;
  }
  if (!has_kernels(loaded.why)) return loaded;
  const std::vector<Outside> outside = product_functions();
  loaded.compiler.reset(make(kLibraryKey, &outside, &loaded.why));
  return loaded;
}

}  // namespace

const Compiler* compiler(std::string& why) {
  static const Loaded loaded = load();
  why = loaded.why;
  return loaded.compiler.get();
}

}  // namespace trek::jit
