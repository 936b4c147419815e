// Square roots and quotients of numbers of moderate size, correctly rounded, without the branch for other numbers that keeps
// a GPU from working on the next one meanwhile (as inverse(), target.h). NaN stays.
#pragma once

#include "isa/semantics/target.h"

namespace trek::semantics {

// sqrt(x) for 2^-100 <= x <= 2^100. On a GPU an approximation of 1 / sqrt(x), and a Newton step of the root with an exact
// remainder: tests/gpu/semantics_bits.cpp asks for every x.
template <Float T>
TREK_FN T root(T x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) {
    const T near = __nvvm_rsqrt_approx_ftz_f(x);
    const T first = x * near;
    return fma(fma(-first, first, x), T(0.5) * near, first);
  }
#endif
  return sqrt(x);
}

// x / z for 2^-40 <= |z| <= 2^41 and x that is +0 or 2^-80 <= |x| <= 2^80; the quotient of +0 by a positive number is +0. On a
// GPU two steps from x (1 / z), whose remainders are exact: behind the first the quotient is less than a unit of the last
// place off, so that the second rounds it correctly, as 1 / z is correctly rounded (Markstein, IBM J. Res. Dev. 34, 1990).
template <Float T>
TREK_FN T quotient(T x, T z) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 4) {
    const T by = inverse(z);
    const T first = x * by;
    const T second = fma(by, fma(-z, first, x), first);
    return fma(by, fma(-z, second, x), second);
  }
#endif
  return x / z;
}

}  // namespace trek::semantics
