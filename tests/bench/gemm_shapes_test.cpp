// That the lists of products are what a figure says they are, and the same tomorrow.
#include "tests/bench/gemm_shapes.h"

#include <algorithm>

#include <catch2/catch.hpp>

namespace trek::bench {
namespace {

using driver::GemmShape;

std::vector<int> sizes(const GemmShape& shape) { return {shape.m, shape.n, shape.k}; }

int forms(const std::vector<GemmShape>& shapes, bool a_transposed, bool b_transposed) {
  return static_cast<int>(std::count_if(shapes.begin(), shapes.end(), [&](const GemmShape& shape) {
    return shape.a_transposed == a_transposed && shape.b_transposed == b_transposed;
  }));
}

}  // namespace

TEST_CASE("a layer's three products are of one triple of sizes") {
  const std::vector<GemmShape> shapes = known_shapes();
  REQUIRE(shapes.size() == 12 + 15);
  CHECK(forms(shapes, false, false) == 5);
  CHECK(forms(shapes, true, false) == 5);
  CHECK(forms(shapes, false, true) == 5 + 12);
  CHECK(forms(shapes, true, true) == 0);
  for (size_t layer = 12; layer < shapes.size(); layer += 3) {
    std::vector<int> forward = sizes(shapes[layer]);
    std::sort(forward.begin(), forward.end());
    for (size_t i = layer + 1; i < layer + 3; ++i) {
      std::vector<int> gradient = sizes(shapes[i]);
      std::sort(gradient.begin(), gradient.end());
      CHECK(gradient == forward);
    }
  }
}

TEST_CASE("random shapes are of their class, in range, and spread over it") {
  for (const bool multiples_of_8 : {true, false}) {
    const std::vector<GemmShape> shapes = random_shapes(multiples_of_8);
    REQUIRE(shapes.size() == 30);
    int below_128 = 0;
    for (const GemmShape& shape : shapes) {
      bool all = true;
      for (const int size : sizes(shape)) {
        CHECK((size >= 1 && size <= 16384));
        all = all && size % 8 == 0;
        below_128 += size < 128 ? 1 : 0;
      }
      CHECK(all == multiples_of_8);
    }
    // Of 90 sizes, log-uniform: half (4/11 of the multiples) are below 128.
    CHECK(below_128 > 20);
    CHECK(below_128 < 60);
    CHECK(forms(shapes, true, true) == 0);
    CHECK(forms(shapes, false, false) > 3);
    CHECK(forms(shapes, true, false) > 3);
    CHECK(forms(shapes, false, true) > 3);
  }
}

TEST_CASE("random shapes are drawn with a fixed seed") {
  CHECK(text(random_shapes(true).front()) == "2752x16x14472 ta");
  CHECK(text(random_shapes(true).back()) == "8x2480x72 tb");
  CHECK(text(random_shapes(false).front()) == "4x991x671 tb");
  CHECK(text(random_shapes(false).back()) == "15071x5644x65");
}

}  // namespace trek::bench
