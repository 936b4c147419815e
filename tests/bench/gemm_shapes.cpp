#include "tests/bench/gemm_shapes.h"

#include <cmath>

#include <fmt/format.h>

#include "emulator/measure/philox.h"

namespace trek::bench {

using driver::GemmShape;

namespace {

constexpr int kTokens = 16 * 1024;
constexpr int kRandomShapes = 30;
constexpr uint64_t kSeed = 4;

struct Layer {
  int inputs;
  int outputs;
};
// Query, key and value; what mixes heads; the feed-forward block; the head.
constexpr Layer kGpt2[] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}, {768, 50304}};

GemmShape with_form(int m, int n, int k, uint32_t form) { return {m, n, k, form == 1, form == 2}; }

bool is_multiple_of_8(const GemmShape& shape) {
  return shape.m % 8 == 0 && shape.n % 8 == 0 && shape.k % 8 == 0;
}

// Log-uniform over 1 to 2^bits.
int log_uniform(uint32_t draw, int bits) {
  return static_cast<int>(std::lround(std::exp2(bits * (draw * 0x1p-32))));
}

}  // namespace

std::vector<GemmShape> known_shapes() {
  std::vector<GemmShape> shapes;
  constexpr int kReference[][3] = {{128, 4096, 4096},  {16, 4096, 4096},    {512, 512, 512},
                                   {1024, 1024, 1024}, {2048, 2048, 2048},  {4096, 4096, 4096},
                                   {8192, 8192, 8192}, {8192, 768, 3072},   {8192, 3072, 768},
                                   {8192, 50304, 768}, {16384, 1024, 1024}, {1000, 1096, 1024}};
  for (const auto& [m, n, k] : kReference) shapes.push_back(with_form(m, n, k, 1));
  for (const auto& [inputs, outputs] : kGpt2) {
    shapes.push_back(with_form(kTokens, outputs, inputs, 0));
    shapes.push_back(with_form(kTokens, inputs, outputs, 1));
    shapes.push_back(with_form(inputs, outputs, kTokens, 2));
  }
  return shapes;
}

std::vector<GemmShape> random_shapes(bool multiples_of_8) {
  std::vector<GemmShape> shapes;
  for (uint64_t draw = 0; shapes.size() < kRandomShapes; ++draw) {
    const measure::Philox4 random = measure::philox(kSeed + (multiples_of_8 ? 1 : 0), draw);
    int sizes[3];
    for (int i = 0; i < 3; ++i)
      sizes[i] =
          multiples_of_8 ? 8 * log_uniform(random.lane[i], 11) : log_uniform(random.lane[i], 14);
    const GemmShape shape = with_form(sizes[0], sizes[1], sizes[2], random.lane[3] % 3);
    if (is_multiple_of_8(shape) == multiples_of_8) shapes.push_back(shape);
  }
  return shapes;
}

std::string text(const GemmShape& shape) {
  return fmt::format("{}x{}x{}{}{}", shape.m, shape.n, shape.k, shape.a_transposed ? " ta" : "",
                     shape.b_transposed ? " tb" : "");
}

}  // namespace trek::bench
