// Runs one function over its inputs and finds the greatest error against the exact value, in ulp.
#pragma once

#include <cstdint>
#include <string>

#include "tests/accuracy/functions.h"

namespace trek::accuracy {

struct Plan {
  std::uint64_t samples;  // of a function that cannot be measured exhaustively
  std::uint64_t stride;   // of binary32; 1: every number
  unsigned threads;
};

struct Result {
  std::string function;
  std::string type;
  std::uint64_t inputs = 0;
  double max_ulp = 0;   // infinite: wrong kind of result (NaN, sign of zero, infinity)
  std::string at;       // input bits in hex
  bool judged = false;  // monotonicity applies
  bool monotone = true;
  std::string broken_at;  // where it is not monotone
  double bound = 0;
  double scale = 0;
  std::uint64_t exact_checks = 0;  // values compared with MPFR
  double filter_error = 0;         // greatest difference of filter and MPFR seen, in ulp of T

  bool holds() const;
};

template <typename T>
Result measure(const Function<T>& function, const Plan& plan);

}  // namespace trek::accuracy
