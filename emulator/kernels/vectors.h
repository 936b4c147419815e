// One machine vector of a level, for the few loops that hold their accumulators in registers.
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "emulator/kernels/loops.h"

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {  // NOLINT(google-build-namespaces): nothing of a level may link

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kRegisters = 32;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kRegisters = 16;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kRegisters = 16;
#endif

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kVectorBytes)));  // NOLINT(modernize-use-using)
};
template <class T>
using Vector = typename VectorOf<T>::Type;
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
TREK_FN Vector<T> load(const T* from) {
  Vector<T> v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
TREK_FN void store(T* to, Vector<T> v) {
  __builtin_memcpy(to, &v, sizeof v);
}
template <class T>
TREK_FN Vector<T> broadcast(T x) {
  return x - Vector<T>{};  // x - 0 is x, for -0 too
}

// a × b + c in each lane: rounded once in floats, modulo 2^n in integers.
template <class T>
TREK_FN Vector<T> multiply_add(Vector<T> a, Vector<T> b, Vector<T> c) {
  if constexpr (!semantics::kIsFloat<T>) {
    return a * b + c;
  } else {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) {
      return reinterpret_cast<Vector<T>>(_mm512_fmadd_ps(a, b, c));
    } else {
      return reinterpret_cast<Vector<T>>(_mm512_fmadd_pd(a, b, c));
    }
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) {
      return reinterpret_cast<Vector<T>>(_mm256_fmadd_ps(a, b, c));
    } else {
      return reinterpret_cast<Vector<T>>(_mm256_fmadd_pd(a, b, c));
    }
#else
    Vector<T> r;
    for (int i = 0; i < kLanes<T>; ++i) r[i] = semantics::fma(T(a[i]), T(b[i]), T(c[i]));
    return r;
#endif
  }
}

}  // namespace
}  // namespace trek::kernels::TREK_KERNEL_LEVEL
