// What is measured: one row per function and type, with the reference, the bound that must hold
// and where the interesting arguments lie.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/accuracy/real.h"

namespace trek::accuracy {

// The type whose arithmetic serves as the filter before MPFR.
template <typename T>
struct WiderOf;
template <>
struct WiderOf<float> {
  using type = double;
};
template <>
struct WiderOf<double> {
  using type = long double;
};
template <typename T>
using Wider = typename WiderOf<T>::type;

enum class Trend { kNone, kRising, kFalling };

// How a second argument is drawn.
enum class Second {
  kNone,
  kPower,    // so that x^y is often finite
  kDivisor,  // so that the quotient is often moderate
};

template <typename T>
struct Function {
  std::string name;
  // y[i] = f(x[i], z[i]); z is not read by a function of one argument.
  void (*evaluate)(const T* x, const T* z, T* y, std::size_t count) = nullptr;
  // The same in the wider type: y[i] = F(x[i], z[i]).
  void (*filter)(const T* x, const T* z, Wider<T>* y, std::size_t count) = nullptr;
  Real (*exact)(const Real& x, const Real& z) = nullptr;
  // Greatest error allowed: in ulp of max(|y|, scale) against the exact value.
  double bound = 0;
  double scale = 0;
  Trend trend = Trend::kNone;
  Second second = Second::kNone;
  // Half of the samples have an exponent of x in this range, the others any exponent.
  int exponent_from = 0;
  int exponent_to = 0;
  // Where the definition changes formula or the function is delicate; measured more densely.
  std::vector<double> edges;
};

template <typename T>
const std::vector<Function<T>>& functions();

}  // namespace trek::accuracy
