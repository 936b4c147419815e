// OpenBLAS's matrix product, found when it runs: Debian's libopenblas0-pthread.
#pragma once

#include <span>
#include <string>

#include "tests/bench/onednn.h"

namespace trek::bench {

class OpenBlas {
 public:
  // Why there is none; empty: there is one.
  static const std::string& missing();
  static std::string version();
  // c[m,n] = a[m,k] x b[k,n]
  static void multiply(const MatmulShape& shape, int threads, std::span<const float> a,
                       std::span<const float> b, std::span<float> c);
};

}  // namespace trek::bench
