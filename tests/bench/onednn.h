// oneDNN's matrix product, the yardstick of the CPU: plain row-major f32 operands, as ours.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "emulator/driver/error.h"

namespace trek::bench {

struct MatmulShape {
  int m = 0;
  int n = 0;
  int k = 0;
};

class OneDnnMatmul {
 public:
  static driver::Result<OneDnnMatmul> create(const MatmulShape& shape, int threads);
  static std::string version();

  // c[m,n] = a[m,k] x b[k,n] on the threads it was made for.
  void run(std::span<float> a, std::span<float> b, std::span<float> c);

 private:
  struct State;
  explicit OneDnnMatmul(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace trek::bench
