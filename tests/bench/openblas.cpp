#include "tests/bench/openblas.h"

#include <dlfcn.h>

namespace trek::bench {
namespace {

// Of its own folder: what the system calls libblas may be another library.
constexpr const char* kLibrary = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0";

// CBLAS: row-major, not transposed.
constexpr int kRowMajor = 101;
constexpr int kAsItIs = 111;
using Sgemm = void (*)(int order, int of_a, int of_b, int m, int n, int k, float alpha,
                       const float* a, int a_row, const float* b, int b_row, float beta, float* c,
                       int c_row);

struct Library {
  Sgemm multiply = nullptr;
  void (*set_threads)(int) = nullptr;
  char* (*config)() = nullptr;
  std::string missing;
};

template <typename Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) missing = std::string(kLibrary) + " has no " + name;
}

const Library& library() {
  static const Library loaded = [] {
    Library made;
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      made.missing = dlerror();
      return made;
    }
    find(library, "cblas_sgemm", made.multiply, made.missing);
    find(library, "openblas_set_num_threads", made.set_threads, made.missing);
    find(library, "openblas_get_config", made.config, made.missing);
    return made;
  }();
  return loaded;
}

}  // namespace

const std::string& OpenBlas::missing() { return library().missing; }
std::string OpenBlas::version() { return library().config(); }

void OpenBlas::multiply(const MatmulShape& shape, int threads, std::span<const float> a,
                        std::span<const float> b, std::span<float> c) {
  library().set_threads(threads);
  library().multiply(kRowMajor, kAsItIs, kAsItIs, shape.m, shape.n, shape.k, 1, a.data(), shape.k,
                     b.data(), shape.n, 0, c.data(), shape.n);
}

}  // namespace trek::bench
