// That a wrong product is found, whatever its type and form.
#include "emulator/measure/products.h"

#include <cstring>

#include <catch2/catch.hpp>

#include "emulator/measure/philox.h"

namespace trek::measure {
namespace {

using driver::GemmShape;
using driver::GemmType;

constexpr GemmShape kShape = {7, 5, 300, true, true};  // both operands transposed

// Numbers that f16 and bf16 hold too: small multiples of 1/4.
float element(uint64_t key, uint64_t index) {
  return static_cast<float>(static_cast<int>(philox(key, index).lane[0] % 13) - 6) * 0.25f;
}

void put(GemmType type, std::vector<std::byte>& matrix, float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  if (type == GemmType::bf16) bits >>= 16;
  if (type == GemmType::f16) {  // normal numbers and zero alone
    const uint32_t size = bits & 0x7fffffff;
    bits = (bits >> 16 & 0x8000) | (size == 0 ? 0 : (size >> 13) - (112u << 10));
  }
  const size_t at = matrix.size();
  matrix.resize(at + driver::element_bytes(type));
  std::memcpy(matrix.data() + at, &bits, driver::element_bytes(type));
}

struct Product {
  std::vector<std::byte> a, b, c;
};

// Rounded to a multiple of 1/4 that the type holds.
Product product(GemmType type) {
  Product made;
  const uint64_t m = kShape.m, n = kShape.n, k = kShape.k;
  for (uint64_t i = 0; i < k * m; ++i) put(type, made.a, element(1, i));
  for (uint64_t i = 0; i < n * k; ++i) put(type, made.b, element(2, i));
  for (uint64_t row = 0; row < m; ++row) {
    for (uint64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (uint64_t i = 0; i < k; ++i)
        sum += static_cast<double>(element(1, i * m + row)) *
               static_cast<double>(element(2, column * k + i));
      put(type, made.c, static_cast<float>(sum));
    }
  }
  return made;
}

}  // namespace

TEST_CASE("a product with a wrong element is found, and a right one passes") {
  for (const GemmType type : {GemmType::f32, GemmType::tf32, GemmType::bf16, GemmType::f16}) {
    CAPTURE(driver::name(type));
    const Product right = product(type);
    CHECK(check_product(type, kShape, right.a, right.b, right.c).ok());
    const auto same = compare_products(type, kShape, right.a, right.b, right.c, right.c);
    CHECK((same.ok() && same->elements == 0));
    Product wrong = right;
    wrong.c[33 * driver::element_bytes(type) + driver::element_bytes(type) - 1] ^= std::byte{0x82};
    CHECK_FALSE(check_product(type, kShape, wrong.a, wrong.b, wrong.c).ok());
    const auto found = compare_products(type, kShape, right.a, right.b, wrong.c, right.c);
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().text().find("[6,3]") != std::string::npos);
  }
}

TEST_CASE("a result that is not a number is wrong") {
  Product made = product(GemmType::f32);
  const std::vector<std::byte> right = made.c;
  std::memset(made.c.data(), 0xff, 4);
  CHECK_FALSE(compare_products(GemmType::f32, kShape, made.a, made.b, made.c, right).ok());
}

TEST_CASE("where the rival is the wrong one, ours is right and that is said") {
  const Product right = product(GemmType::f32);
  std::vector<std::byte> rival = right.c;
  rival[4 * 17 + 3] ^= std::byte{0x82};
  std::memset(rival.data() + 4 * 33, 0xff, 4);
  const auto found = compare_products(GemmType::f32, kShape, right.a, right.b, right.c, rival);
  REQUIRE(found.ok());
  CHECK((found->elements == 2 && found->ours_nearer == 2));
  CHECK((found->row == 3 && found->column == 2));
  CHECK(found->ours == found->exact);
  CHECK(text(*found).find("[3,2]") != std::string::npos);
}

TEST_CASE("what disagrees everywhere is not decided element by element") {
  const GemmShape large = {40, 50, 1, false, false};
  std::vector<std::byte> a, b, c;
  for (int m = 0; m < large.m; ++m) put(GemmType::f32, a, 1.0f);
  for (int n = 0; n < large.n; ++n) put(GemmType::f32, b, 1.0f);
  for (int i = 0; i < large.m * large.n; ++i) put(GemmType::f32, c, 1.0f);
  const std::vector<std::byte> zeros(c.size());
  CHECK(compare_products(GemmType::f32, large, a, b, c, c).ok());
  const auto found = compare_products(GemmType::f32, large, a, b, c, zeros);
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().text().find("more than 1000") != std::string::npos);
}

}  // namespace trek::measure
