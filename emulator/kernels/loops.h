// What every kernel file shares: the types behind a dtype, loops that vectorise, conversion of runs.
#pragma once

#include "emulator/kernels/functions.h"
#include "isa/semantics/convert.h"
#include "isa/semantics/target.h"

// Before a loop whose trips are independent, though its result may be one of its operands.
#ifdef __clang__
#define TREK_VECTORISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define TREK_VECTORISE _Pragma("GCC ivdep")
#endif

namespace trek::kernels::TREK_KERNEL_LEVEL {
namespace {  // NOLINT(google-build-namespaces): nothing of a level may link

using semantics::BF16;
using semantics::Bool;
using semantics::Compute;
using semantics::F16;
using semantics::F8E4M3;
using semantics::F8E5M2;

template <class T>
struct Tag {
  using Type = T;
};

// Calls f(Tag<T>) for the storage type T of a dtype.
template <class F>
inline void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(Tag<double>{});
    case DType::f32:
      return f(Tag<float>{});
    case DType::f16:
      return f(Tag<F16>{});
    case DType::bf16:
      return f(Tag<BF16>{});
    case DType::f8e4m3:
      return f(Tag<F8E4M3>{});
    case DType::f8e5m2:
      return f(Tag<F8E5M2>{});
    case DType::i8:
      return f(Tag<int8_t>{});
    case DType::i16:
      return f(Tag<int16_t>{});
    case DType::i32:
      return f(Tag<int32_t>{});
    case DType::i64:
      return f(Tag<int64_t>{});
    case DType::u8:
      return f(Tag<uint8_t>{});
    case DType::u16:
      return f(Tag<uint16_t>{});
    case DType::u32:
      return f(Tag<uint32_t>{});
    case DType::u64:
      return f(Tag<uint64_t>{});
    case DType::boolean:
      return f(Tag<Bool>{});
    case DType::none:
      return;
  }
}

// The same for the types in which reals are computed.
template <class F>
inline void with_compute(DType lane, F&& f) {
  if (lane == DType::f64) return f(Tag<double>{});
  return f(Tag<float>{});
}

// The same for reals as they are stored.
template <class F>
inline void with_real(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64:
      return f(Tag<double>{});
    case DType::f16:
      return f(Tag<F16>{});
    case DType::bf16:
      return f(Tag<BF16>{});
    default:
      return f(Tag<float>{});
  }
}

template <class T>
inline constexpr DType kDTypeOf = DType::none;
template <>
inline constexpr DType kDTypeOf<float> = DType::f32;
template <>
inline constexpr DType kDTypeOf<double> = DType::f64;

inline int64_t bytes_of(DType dtype) {
  switch (dtype) {
#define TREK_DTYPE(id, name, code, bytes, kind) \
  case DType::id:                               \
    return bytes;
#include "isa/types.def"
#undef TREK_DTYPE
    case DType::none:
      break;
  }
  return 0;
}

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// `x` itself where it is of type T, else converted into `buffer`.
template <class T>
inline const T* as_type(const std::byte* x, DType dtype, int64_t n, T* buffer) {
  if (dtype == kDTypeOf<T>) return reinterpret_cast<const T*>(x);
  convert_run(buffer, kDTypeOf<T>, x, dtype, n);
  return buffer;
}

}  // namespace
}  // namespace trek::kernels::TREK_KERNEL_LEVEL
