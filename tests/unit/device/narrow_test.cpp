// How products of a few columns divide their tiles: everything is in shared memory, apart, and comes once.
#include <algorithm>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/device/describe.h"
#include "emulator/device/matrix_cut.h"
#include "emulator/device/matrix_narrow_cut.h"
#include "tests/unit/plan/run.h"

namespace trek::device::test {
namespace {

using narrow::kBlock;

// Bytes of shared memory from the first to the last that lines of so many k have.
uint32_t bytes_of(const NarrowSide& side, uint32_t lines, uint32_t k) {
  const uint32_t last = k - 1;
  const uint32_t blocks =
      last / kBlock * (side.block - kBlock * (side.by_line != 0 ? 4 : side.line));
  return side.by_line != 0 ? (lines - 1) * side.line + blocks + 4 * k
                           : last * side.line + blocks + 4 * lines;
}

Matrix product(int64_t rows, int64_t columns, int64_t k, bool ta, bool tb) {
  Matrix of = {};
  of.m = of.tile_rows = rows;
  of.n = columns;
  of.k = k;
  of.a_row = ta ? 1 : k;
  of.a_k = ta ? rows : 1;
  of.b_k = tb ? 1 : columns;
  of.b_column = tb ? k : 1;
  return of;
}

}  // namespace

TEST_CASE("a narrow product's operands have room beside its sums, and all of its k come") {
  for (const int64_t rows : {4, 8, 32, 64, 128})
    for (const int64_t columns : {1, 7, 10, 16})
      for (const int64_t k : {4, 60, 64, 68, 512, 1028, 4096})
        for (const bool ta : {false, true})
          for (const bool tb : {false, true}) {
            INFO(rows << " x " << columns << " x " << k << (ta ? " ta" : "") << (tb ? " tb" : ""));
            const Narrow cut = narrow_cut_of(product(rows, columns, k, ta, tb));
            const int64_t sums = rows * columns * ((k + kBlock - 1) / kBlock);
            if (sums > narrow::kMostSums) {
              CHECK(cut.parts == 0);
              continue;
            }
            REQUIRE(cut.parts > 0);
            CHECK(cut.depth % kBlock == 0);
            CHECK(int64_t{cut.depth} * cut.parts >= k);
            CHECK(int64_t{cut.depth} * (cut.parts - 1) < k);
            const uint32_t depth = std::min(cut.depth, static_cast<uint32_t>(k));
            CHECK(shared_at::kValues + 4 * sums <= cut.ring);
            CHECK(bytes_of(cut.left, static_cast<uint32_t>(rows), depth) <= cut.right_at);
            CHECK(cut.right_at + bytes_of(cut.right, static_cast<uint32_t>(columns), depth) <=
                  cut.slot);
            CHECK(cut.ring + std::min(cut.parts, narrow::kMostSlots) * cut.slot <= kSharedBytes);
            for (const uint32_t at :
                 {cut.ring, cut.slot, cut.right_at, cut.left.block, cut.right.block})
              CHECK(at % narrow::kPiece == 0);
          }
}

TEST_CASE("what a narrow or a shallow unit cannot have goes by the dot order as any other") {
  plan::Device device = *plan::find_device("h200");
  uint8_t patch = 0;
  const auto described = [&](const std::string& program) {
    const isa::Module module = plan::test::assembled(program);
    const plan::Plan plan = plan::test::linked(module, device);
    const Described made = describe(plan, plan::test::node_of(plan, isa::Opcode::Matmul));
    const Matrix& matrix = made.node().matrix;
    patch = matrix.cut.patch;
    return static_cast<Product>(matrix.product);
  };
  constexpr const char* kProgram = R"(
.state @a f32[{}] = 1
.state @b f32[{}] = 1
.output @x f32[{}]
.func main() {{
  %y = matmul @a, @b
  @x = {}
}}
)";
  const auto few_columns = [&](const char* tail) {
    return described(fmt::format(kProgram, "64,128", "128,10", "64,10", tail));
  };
  const auto few_k = [&](const char* tail) {
    return described(fmt::format(kProgram, "64,10", "10,128", "64,128", tail));
  };
  CHECK(few_columns("relu %y") == Product::narrow);
  // A tail of no registers goes through the deliver program, in shared memory.
  CHECK(few_columns("pow %y, %y") == Product::narrow);
  CHECK(few_k("relu %y") == Product::shallow);
  CHECK(few_k("pow %y, %y") == Product::ordered);
  // A device that interprets has the second of these as a way through a part, whose tail is plain.
  device.interprets = true;
  CHECK(few_columns("tanh %y") == Product::narrow);
  CHECK(few_k("relu %y") == Product::ordered);
  CHECK(patch == matrix_f32::kShallowPatch);
  CHECK(few_k("tanh %y") == Product::ordered);
  CHECK(patch != matrix_f32::kShallowPatch);
}

}  // namespace trek::device::test
