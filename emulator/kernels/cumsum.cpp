// Running sums: blocks of 32 elements, each summed from its first element on, and beside them the
// offset, the sum of the blocks before. Lines that lie side by side are worked on together.
#include "emulator/kernels/loops.h"
#include "isa/semantics/elements.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kLines = 64;

// `width` lines side by side.
template <class T>
void cumsum_lines(const T* x, T* r, int64_t n, int64_t inner, int64_t width) {
  using C = Compute<T>;
  C running[kLines];
  C offset[kLines];
  for (int64_t i = 0; i < n; ++i) {
    const bool first = i % kBlock == 0;
    for (int64_t c = 0; first && i > 0 && c < width; ++c)
      offset[c] = i == kBlock ? running[c] : semantics::add(offset[c], running[c]);
    for (int64_t c = 0; c < width; ++c) {
      const C element = semantics::convert<C>(x[i * inner + c]);
      running[c] = first ? element : semantics::add(running[c], element);
      const C sum = i < kBlock ? running[c] : semantics::add(offset[c], running[c]);
      r[i * inner + c] = semantics::convert<T>(sum);
    }
  }
}

}  // namespace

void run_cumsum(const CumsumTask& task, int64_t begin, int64_t end) {
  with_type(task.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!semantics::kIsOneOf<T, Bool, F8E4M3, F8E5M2>) {
      const auto* x = reinterpret_cast<const T*>(task.x);
      auto* r = reinterpret_cast<T*>(task.r);
      for (int64_t line = begin; line < end;) {
        const int64_t column = line % task.inner;
        const int64_t width = least(least(kLines, task.inner - column), end - line);
        const int64_t at = line / task.inner * task.n * task.inner + column;
        cumsum_lines(x + at, r + at, task.n, task.inner, width);
        line += width;
      }
    }
  });
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
