// How products are computed and cut: what the cost model thinks of tiles, and which of them it chooses.
#include "emulator/plan/product.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

// Of bf16 by tensor cores, of operands that are copied, on all of a device.
ProductWork copied_work(const Device& device) {
  ProductWork work;
  work.product = Product::tensor;
  work.element = isa::DType::bf16;
  work.share = device.processors;
  work.copied = true;
  return work;
}

}  // namespace

TEST_CASE("products of f32 are by tensor cores under fast numerics, but for thin ones and f64") {
  Device device = *find_device("h200");
  MatrixShape shape;
  shape.m = shape.n = 256;
  shape.k = shape.whole_k = 512;
  CHECK(product_of(device, true, isa::DType::f32, shape) == Product::tensor);
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::ordered);
  CHECK(product_of(device, true, isa::DType::f64, shape) == Product::ordered);
  CHECK(product_of(device, true, isa::DType::i32, shape) == Product::ordered);
  shape.n = 3001;  // odd lines, which the thin unit brings one by one
  shape.m = 4;
  CHECK(product_of(device, true, isa::DType::f32, shape) == Product::thin);
  CHECK(product_of(device, true, isa::DType::bf16, shape) == Product::small);
  CHECK(product_of(device, false, isa::DType::bf16, shape) == Product::thin);
  device.packs_panels = true;
  shape.m = 256;
  CHECK(product_of(device, true, isa::DType::f32, shape) == Product::ordered);
}

TEST_CASE("f32 products of a few columns, and of a few k, have ways of their own on a GPU") {
  Device device = *find_device("h200");
  MatrixShape shape;
  shape.m = 4096;
  shape.n = 10;
  shape.k = shape.whole_k = 512;
  for (const bool fast : {false, true}) {
    CHECK(product_of(device, fast, isa::DType::f32, shape) == Product::narrow);
    CHECK(product_of(device, fast, isa::DType::f64, shape) == Product::ordered);
  }
  CHECK(product_of(device, false, isa::DType::bf16, shape) == Product::ordered);
  shape.n = 17;
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::ordered);
  shape.n = 10;
  shape.k = shape.whole_k = 510;  // lines that are no pieces of 16 bytes
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::ordered);
  CHECK(product_of(device, true, isa::DType::f32, shape) == Product::tensor);
  shape.k = shape.whole_k = 512;
  shape.m = 30;
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::narrow);
  shape.ta = true;
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::ordered);
  shape.n = 512;
  shape.k = shape.whole_k = 10;
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::shallow);
  CHECK(product_of(device, true, isa::DType::f32, shape) == Product::shallow);
  shape.n = 510;
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::ordered);
  shape.n = 512;
  shape.m = 10'000'000;  // whose tiles would be more than a node may have
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::ordered);
  shape.m = 30;
  device.interprets = true;
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::shallow);
  device.packs_panels = true;
  CHECK(product_of(device, false, isa::DType::f32, shape) == Product::ordered);
}

TEST_CASE("tiles of such products have room for what is there at once, and fill a device") {
  const Device device = *find_device("h200");
  ProductWork work;
  work.element = isa::DType::f32;
  work.share = device.processors;
  MatrixShape& shape = work.shape;
  for (const int64_t m : {8, 132, 512, 4096, 100'000})
    for (const int64_t k : {4, 64, 516, 4096})
      for (const bool ta : {false, true}) {
        shape.m = m;
        shape.n = 10;
        shape.k = shape.whole_k = k;
        shape.ta = ta;
        work.product = Product::narrow;
        INFO(m << " rows, k " << k << (ta ? ", ta" : ""));
        for (const MatrixTiles& tiles : candidates(device, work)) {
          CHECK(std::min(tiles.rows, m) * shape.n * ((k + 63) / 64) <= kNarrowSums);
          CHECK((!ta || tiles.rows % 4 == 0));
          CHECK(estimate(device, work, tiles) > 0);
        }
        CHECK(choose(device, work).count >= std::min<int64_t>(m / 8, 64));
        work.product = Product::shallow;
        shape.k = shape.whole_k = 10;
        shape.n = 2048;
        for (const MatrixTiles& tiles : candidates(device, work)) {
          CHECK(tiles.rows <= kShallowRows);
          CHECK(tiles.columns == kShallowColumns);
        }
        CHECK(choose(device, work).count >= std::min<int64_t>(m / 8, 64));
      }
}

TEST_CASE(
    "a fast product of f32 is thought to take twice the time of one of bf16, turned lines more "
    "where they do not come to registers") {
  Device device = *find_device("h200");
  ProductWork work;
  work.product = Product::tensor;
  work.shape.m = work.shape.n = work.shape.k = work.shape.whole_k = 4096;
  work.shape.tb = true;
  work.share = device.processors;
  work.copied = true;
  const auto cycles = [&](isa::DType element, bool tb) {
    work.element = element;
    work.shape.tb = tb;
    return estimate(device, work, choose(device, work));
  };
  for (const bool interprets : {true, false}) {
    device.interprets = interprets;
    const double half = cycles(isa::DType::bf16, true);
    const double whole = cycles(isa::DType::f32, true);
    CHECK(whole > 1.8 * half);
    CHECK(whole < (interprets ? 2.2 : 2.5) * half);
    CHECK((cycles(isa::DType::f32, false) > whole) == interprets);
  }
}

TEST_CASE(
    "f32 products of the dot order have tiles for groups of warps where an engine brings them") {
  Device device = *find_device("h200");
  struct Case {
    int64_t m;
    int64_t n;
    int64_t k;
    bool copied;
    int64_t rows;
    int64_t columns;
  };
  for (const Case& of : {Case{1024, 1024, 1024, true, 128, 64},
                         {784, 512, 4096, true, 64, 64},
                         {128, 4096, 4096, true, 64, 64},
                         {784, 512, 128, true, 64, 64},
                         {4096, 4096, 4096, true, 128, 128},
                         {512, 512, 512, true, 32, 64},
                         {512, 512, 512, false, 32, 64},
                         {128, 512, 784, true, 16, 32},
                         {1024, 1024, 1020, true, 128, 64}}) {
    INFO(of.m << "x" << of.n << "x" << of.k << (of.copied ? " copied" : ""));
    ProductWork work;
    work.element = isa::DType::f32;
    work.shape.m = of.m;
    work.shape.n = of.n;
    work.shape.k = work.shape.whole_k = of.k;
    work.share = device.processors;
    work.copied = of.copied;
    const MatrixTiles tiles = choose(device, work);
    CHECK(tiles.rows == of.rows);
    CHECK(tiles.columns == of.columns);
  }
}

TEST_CASE("the rest of a divided product begins with a tile, and both together take less") {
  const Device device = *find_device("h200");
  ProductWork work;
  work.element = isa::DType::f32;
  work.copied = true;
  work.share = device.processors;
  work.shape.m = 3072;
  work.shape.n = 768;
  work.shape.k = work.shape.whole_k = 16384;
  work.shape.ta = true;
  work.most_split = 4;
  const auto parts = divide_rows(device, work, choose(device, work));
  REQUIRE(parts);
  CHECK(parts->first % parts->of_first.rows == 0);
  CHECK(parts->first % parts->of_rest.rows == 0);
  CHECK(parts->of_first.first == 0);
  CHECK(parts->of_first.count == device.processors);
  CHECK(matrix_tile(work.shape, parts->of_rest, parts->of_rest.first).row == parts->first);
  CHECK(parts->of_rest.first + parts->of_rest.count == parts->of_rest.down * parts->of_rest.across);
  // Nothing is gained where all processors have work to the end, nor of a batch, nor of what takes no time.
  const auto is_divided = [&](int64_t m, int64_t n, int64_t k, int64_t batches) {
    work.shape.m = m;
    work.shape.n = n;
    work.shape.k = work.shape.whole_k = k;
    work.shape.batches = batches;
    return divide_rows(device, work, choose(device, work)).has_value();
  };
  CHECK(!is_divided(4096, 4096, 4096, 1));
  CHECK(!is_divided(3072, 768, 16384, 2));
  CHECK(!is_divided(3072, 768, 64, 1));
}

TEST_CASE("two processors share tiles where there are pairs of both, and k for both") {
  Device device = *find_device("h200");
  ProductWork work = copied_work(device);
  const auto shape = [&](int64_t m, int64_t n, int64_t k) {
    work.shape.m = m;
    work.shape.n = n;
    work.shape.k = work.shape.whole_k = k;
  };
  const auto paired = [&](int64_t m, int64_t n, int64_t k) {
    shape(m, n, k);
    std::vector<int64_t> columns;
    for (const MatrixTiles& tiles : candidates(device, work)) {
      if (tiles.pairing != Pairing::depth || tiles.transposed) continue;
      CHECK(tiles.split == 1);
      CHECK(tiles.rows == kPartRows);
      CHECK(2 * tiles.columns == tiles.part_columns);
      CHECK(tiles.across % 2 == 0);
      columns.push_back(tiles.columns);
    }
    return columns;
  };
  CHECK(paired(128, 768, 4096).empty());
  device.has_pairs = true;
  // The widths that all devices have, and those that leave least behind the last part.
  CHECK(paired(128, 768, 4096) == std::vector<int64_t>{128, 96, 64, 32, 80, 48});
  CHECK(paired(128, 744, 4096) == std::vector<int64_t>{128, 96, 64, 32, 80, 48});
  CHECK(paired(128, 640, 4096) == std::vector<int64_t>{64, 32, 160, 112, 80, 48});
  // Of 208 columns parts of 224, which are pairs of 112, and of 256.
  CHECK(paired(128, 208, 4096) == std::vector<int64_t>{128, 64, 112});
  CHECK(paired(128, 768, 192).empty());
  // Where all processors have tiles anyway, none is shared.
  CHECK_FALSE(paired(4096, 4096, 4096).empty());
  CHECK(choose(device, work).pairing != Pairing::depth);
  // Where few have any, some are.
  for (const auto& [m, n, k] : {std::tuple{128, 744, 4096}, {128, 4096, 4096}, {280, 1920, 2544}}) {
    shape(m, n, k);
    CHECK(choose(device, work).pairing == Pairing::depth);
  }
  // Lines across two of the cache's.
  shape(4128, 744, 6280);
  CHECK(choose(device, work).pairing == Pairing::columns);
  // Both halves read what both multiply, side by side or, of a transposed part, above each other.
  for (const bool transposed : {false, true}) {
    shape(transposed ? 744 : 128, transposed ? 128 : 744, 4096);
    const std::vector<MatrixTiles> all = candidates(device, work);
    const auto found = std::ranges::find_if(all, [&](const MatrixTiles& tiles) {
      return tiles.pairing == Pairing::depth && tiles.transposed == transposed &&
             tiles.part_columns == 192;
    });
    REQUIRE(found != all.end());
    const int64_t last = found->count - 1;
    CHECK(partner_of(*found, last) == last - 1);
    const MatrixTile first = tile_read(work.shape, *found, last - 1);
    const MatrixTile second = tile_read(work.shape, *found, last);
    CHECK(std::pair(first.row, first.rows) == std::pair(second.row, second.rows));
    CHECK(std::pair(first.column, first.columns) == std::pair(second.column, second.columns));
    CHECK((transposed ? first.row + first.rows : first.column + first.columns) == 744);
    CHECK((transposed ? first.row : first.column) == 576);
  }
}

TEST_CASE(
    "where code is made for a product its parts have the widths that divide it, and may be "
    "transposed") {
  Device device = *find_device("h200");
  ProductWork work = copied_work(device);
  work.shape.m = 8728;
  work.shape.n = 632;
  work.shape.k = work.shape.whole_k = 4464;
  const auto forms = [&] {
    std::set<std::pair<int64_t, bool>> found;  // parts of so many columns, or rows
    for (const MatrixTiles& tiles : candidates(device, work)) {
      if (tiles.transposed) {
        CHECK(tiles.columns % kPartRows == 0);
        CHECK(tiles.rows % tiles.part_columns == 0);
      }
      found.insert({tiles.part_columns, tiles.transposed});
    }
    return found;
  };
  std::set<std::pair<int64_t, bool>> fixed;
  for (const int64_t columns : {64, 128, 192, 256}) fixed.insert({columns, false});
  device.interprets = true;
  CHECK(forms() == fixed);
  device.interprets = false;
  std::set<std::pair<int64_t, bool>> made = forms();
  CHECK(made.contains({320, false}));
  CHECK(made.contains({320, true}));
  CHECK(made.contains({224, false}));  // three parts: 632 / 3
  CHECK_FALSE(made.contains({240, false}));
  for (const auto& [columns, transposed] : fixed) CHECK(made.contains({columns, true}));
  // Of f32, which tensor cores take by line alone, they are transposed where one operand then comes to registers.
  work.element = isa::DType::f32;
  std::set<std::pair<int64_t, bool>> both = fixed;
  for (const auto& [columns, transposed] : fixed) both.insert({columns, true});
  CHECK(forms() == both);
  work.shape.tb = true;
  fixed.insert({32, false});
  CHECK(forms() == fixed);
  device.interprets = true;
  work.shape.tb = false;
  fixed.erase({32, false});
  CHECK(forms() == fixed);
}

TEST_CASE("what a divided product takes is what its greatest parts take") {
  const Device device = *find_device("h200");
  ProductWork work;
  work.product = Product::tensor;
  work.element = isa::DType::bf16;
  work.shape.m = work.shape.n = 1024;
  work.share = device.processors;
  MatrixTiles tiles;
  tiles.rows = tiles.columns = 256;
  tiles.part_columns = 128;
  tiles.split = 24;
  count_tiles(tiles, work.shape);
  const auto cycles = [&](int64_t blocks) {
    work.shape.k = work.shape.whole_k = 64 * blocks;
    return estimate(device, work, tiles);
  };
  CHECK(cycles(64) == cycles(72));  // parts of two or three blocks, and of three
  CHECK(cycles(64) > cycles(48));
}

TEST_CASE("parts of a product have all k once, and bits by the dot order where they must") {
  ProductWork work;
  work.shape.m = work.shape.n = 768;
  work.shape.k = work.shape.whole_k = 16392;
  const auto starts = [&](int64_t split) {
    std::vector<int64_t> found;
    int64_t end = 0;
    for (const Depth& depth : depths_of(work, split)) {
      CHECK(depth.first == end);
      end = depth.first + depth.count;
      found.push_back(depth.first);
    }
    CHECK(end == work.shape.k);
    return found;
  };
  CHECK(starts(1) == std::vector<int64_t>{0});
  CHECK(starts(3) == std::vector<int64_t>{0, 12288, 16384});
  CHECK(starts(5) == std::vector<int64_t>{0, 4096, 8192, 12288, 16384});
  work.product = Product::tensor;
  CHECK(starts(4) == std::vector<int64_t>{0, 4096, 8192, 12288});
  CHECK(starts(3) == std::vector<int64_t>{0, 5440, 10944});
}

}  // namespace trek::plan::test
