// `cast` over a run of elements, from every type to every type.
#include "isa/semantics/convert.h"

#include "emulator/kernels/loops.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {

template <class To, class From>
void convert_loop(void* r, const void* x, int64_t n) {
  auto* to = static_cast<To*>(r);
  const auto* from = static_cast<const From*>(x);
  TREK_VECTORISE
  for (int64_t i = 0; i < n; ++i) to[i] = semantics::convert<To>(from[i]);
}

// A narrow float is a float, exactly, on its way to anything; so there is one loop from each.
template <class From>
void convert_widened(void* r, DType to, const void* x, int64_t n) {
  float buffer[kTile];
  const auto* from = static_cast<const From*>(x);
  auto* out = static_cast<std::byte*>(r);
  for (int64_t at = 0; at < n; at += kTile) {
    const int64_t run = least(kTile, n - at);
    convert_loop<float, From>(buffer, from + at, run);
    convert_run(out + at * bytes_of(to), to, buffer, DType::f32, run);
  }
}

}  // namespace

void convert_run(void* r, DType to, const void* x, DType from, int64_t n) {
  if (to == from) {
    __builtin_memmove(r, x, static_cast<size_t>(n * bytes_of(to)));
    return;
  }
  with_type(from, [&](auto from_tag) {
    using From = typename decltype(from_tag)::Type;
    if constexpr (semantics::kIsNarrow<From>) {
      if (to == DType::f32) return convert_loop<float, From>(r, x, n);
      convert_widened<From>(r, to, x, n);
    } else {
      with_type(to,
                [&](auto to_tag) { convert_loop<typename decltype(to_tag)::Type, From>(r, x, n); });
    }
  });
}

}  // namespace trek::kernels::TREK_KERNEL_LEVEL
