// Compiled without the kernels' flags, like everything outside kernels/: it must run anywhere.
#include "emulator/kernels/kernel_level.h"

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace trek::kernels {
namespace {

struct Level {
  std::string_view name;
  std::string_view needs;
  bool runs;
  const Kernels& (*kernels)();
};

}  // namespace

const Kernels* choose_kernels(std::string& why) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 =
      avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  const Level levels[] = {
      {"avx512", "AVX-512 F, VL, BW and DQ", avx512, &avx512::kernels},
      {"avx2", "AVX2 and FMA", avx2, &avx2::kernels},
  };
#else
  const Level levels[] = {{"portable", "nothing", true, &portable::kernels}};
#endif
  const char* wanted = std::getenv("TREK_REF_ISA");
  for (const Level& level : levels) {
    if (wanted != nullptr && level.name != wanted) continue;
    if (level.runs) return &level.kernels();
    why = fmt::format("this processor lacks {}", level.needs);
  }
  if (why.empty()) why = fmt::format("TREK_REF_ISA={} names no level of this build", wanted);
  return nullptr;
}

}  // namespace trek::kernels
