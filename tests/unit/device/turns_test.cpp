// Which f32 products have operands that a copy engine brings to groups of warps, what it brings, and in which order.
#include <array>
#include <set>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/device/describe.h"
#include "emulator/device/matrix_cut.h"
#include "emulator/device/matrix_turns.h"
#include "tests/unit/plan/run.h"

namespace trek::device::test {
namespace {

// Of the one product of a program that has it alone, on a device of 132 processors with a copy engine.
Described product_of(const char* a, const char* b, const char* result, const char* attributes) {
  plan::Device device = *plan::find_device("h200");
  const isa::Module module = plan::test::assembled(
      fmt::format(".state @a f32{} = 1\n.state @b f32{} = 1\n.output @x f32{}\n.func main() {{\n"
                  "@x = matmul @a, @b{}\n}}\n",
                  a, b, result, attributes));
  const plan::Plan plan = plan::test::linked(module, device);
  return describe(plan, plan::test::node_of(plan, isa::Opcode::Matmul));
}

}  // namespace

TEST_CASE("slots come in rounds of turns, of every block its first half before a second one") {
  for (const uint32_t groups : {2U, 4U})
    for (const uint32_t end : {72U, 96U, 104U, 128U, 256U, 784U, 808U, 4096U, 4104U}) {
      INFO(end << " k, " << groups << " groups");
      constexpr uint32_t kBlock = matrix_f32::kBlock;
      SlotOrder order = {end, kBlock / 2, kBlock, groups * kBlock};
      std::set<uint32_t> come;
      do {
        CHECK(slot_at(order.k, end, kBlock, groups) == come.size());
        CHECK(come.insert(order.k).second);
        // A group has at most the halves of one block, and those of the round before, which it has gone through.
        const bool second = order.k % kBlock != 0;
        if (second) CHECK(come.contains(order.k - kBlock / 2));
        const uint32_t round = order.k / (groups * kBlock);
        for (uint32_t g = 0; second && g < groups; ++g) {
          const uint32_t first = (round * groups + g) * kBlock;
          CHECK((first >= end || come.contains(first)));
        }
        CHECK(come.size() <= (round + 1) * 2 * groups);
      } while (order.next());
      CHECK(come.size() == (end + kBlock / 2 - 1) / (kBlock / 2));
      CHECK(*come.rbegin() < end);
    }
}

TEST_CASE("without turns slots come in the order of k") {
  SlotOrder order = {100, 32, 32, 32};
  for (const uint32_t k : {32U, 64U, 96U}) {
    CHECK(order.next());
    CHECK(order.k == k);
  }
  CHECK(!order.next());
}

TEST_CASE("an f32 product's parts of 64 columns are brought to groups of warps") {
  struct Form {
    const char* a;
    const char* b;
    const char* result;
    const char* attributes;
    uint32_t rows;  // of a part
    std::array<uint32_t, 2> left;
    std::array<uint32_t, 2> right;
  };
  // 1024 x 1024 by 128 processors; 784 x 512 by 104. Operands of the one of 4168 k are turned around first.
  for (const Form& form : {
           Form{"[1024,1024]", "[1024,1024]", "[1024,1024]", "", 128, {32, 128}, {64, 32}},
           Form{"[1024,1024]", "[1024,1024]", "[1024,1024]", ", ta, tb", 128, {64, 32}, {32, 64}},
           Form{"[4096,784]", "[4096,512]", "[784,512]", ", ta", 64, {64, 32}, {64, 32}},
           Form{"[776,1000]", "[1000,520]", "[776,520]", "", 64, {32, 64}, {64, 32}},
           Form{"[904,4168]", "[1000,4168]", "[904,1000]", ", tb", 128, {64, 32}, {64, 32}},
           Form{"[784,4096]", "[512,4096]", "[784,512]", ", tb", 64, {32, 64}, {32, 64}},
       }) {
    INFO(form.a << form.b << form.attributes);
    const Described described = product_of(form.a, form.b, form.result, form.attributes);
    const Matrix& matrix = described.node().matrix;
    REQUIRE(described.maps.size() == 2);
    CHECK(is_copied(described.node()));
    CHECK(matrix.cut.patch == matrix_f32::kTurnsPatch);
    CHECK(1U << matrix.cut.row_bits == form.rows);
    CHECK(1U << matrix.cut.column_bits == matrix_f32::kTurnsLines);
    CHECK(matrix.cut.groups * form.rows == kBlockThreads);  // 32 rows of a warp
    CHECK(matrix.cut.plain != 0);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(described.maps[0].box.at(i) == form.left.at(i));
      CHECK(described.maps[1].box.at(i) == form.right.at(i));
    }
  }
}

TEST_CASE("a copy engine brings no f32 parts that it cannot bring, or whose warps would wait") {
  struct Form {
    const char* a;
    const char* b;
    const char* result;
  };
  for (const Form& form : {
           Form{"[1024,1020]", "[1020,1024]", "[1024,1024]"},  // K is no multiple of 8
           Form{"[1024,1024]", "[1024,1022]", "[1024,1022]"},  // lines of 4088 bytes
           Form{"[1024,64]", "[64,1024]", "[1024,1024]"},      // one block of k
           Form{"[512,512]", "[512,512]", "[512,512]"},        // parts of 32 rows
           Form{"[776,1032]", "[1032,520]", "[776,520]"},      // 17 blocks, by four groups
       }) {
    INFO(form.a << form.b);
    const Described described = product_of(form.a, form.b, form.result, "");
    CHECK(described.maps.empty());
    CHECK(!is_copied(described.node()));
    const uint8_t patch = described.node().matrix.cut.patch;
    CHECK((patch == 4 || patch == 8));
  }
}

TEST_CASE("parts of 64 rows and 128 columns are two parts where a copy engine brings them") {
  Matrix of{};
  of.m = of.n = 1024;
  of.k = 256;
  of.tile_rows = 64;
  of.tile_columns = 128;
  of.down = 16;
  of.across = 8;
  of.a_row = of.k;
  of.a_k = of.b_column = 1;
  of.b_k = of.n;
  of.cut = cut_of(of, {true, true});
  CHECK(of.cut.column_bits == 7);
  const auto copied_of = [&](int64_t k) {
    of.k = k;
    return copied_cut(of, true);
  };
  const Cut copied = copied_of(256);
  CHECK(copied.patch == matrix_f32::kTurnsPatch);
  CHECK(copied.row_bits == 6);
  CHECK(copied.column_bits == 6);
  CHECK(copied.groups == 4);
  CHECK(copied.across_magic == of.cut.across_magic);
  CHECK(copied_of(64).patch == 0);
  CHECK(copied_of(192).patch == matrix_f32::kTurnsPatch);  // a round of three blocks
  CHECK(copied_of(1000).patch == matrix_f32::kTurnsPatch);
  CHECK(copied_of(1032).patch == 0);  // whole rounds, and one of one block
  of.tile_rows = 128;
  of.cut = cut_of(of, {true, true});
  CHECK(of.cut.patch == matrix_f32::kLargePatch);
  CHECK(copied_of(256).patch == matrix_f32::kLargePatch);
  CHECK(copied_of(0).patch == 0);
}

TEST_CASE("parts of 16 rows and 32 columns are a warp's, of enough blocks that come in pieces") {
  Matrix of{};
  of.m = 128;
  of.n = 512;
  of.tile_rows = 16;
  of.tile_columns = 32;
  of.down = 8;
  of.across = 16;
  const auto patch_of = [&](int64_t k, bool ta = false, bool tb = false, int64_t unaligned = 0) {
    of.k = k;
    of.a_row = ta ? 1 : k + unaligned;
    of.a_k = ta ? of.m : 1;
    of.b_k = tb ? 1 : of.n;
    of.b_column = tb ? k : 1;
    of.cut = cut_of(of, {true, true});
    CHECK(1U << of.cut.row_bits == 16);
    CHECK(1U << of.cut.column_bits == 32);
    CHECK(copied_cut(of, true).patch == 0);
    return of.cut.patch;
  };
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const int64_t k : {200, 512, 784, 1064, 8192})
        CHECK(patch_of(k, ta, tb) == matrix_f32::kWarpsPatch);
  CHECK(patch_of(192) != matrix_f32::kWarpsPatch);  // three blocks
  CHECK(patch_of(516) != matrix_f32::kWarpsPatch);  // four k of which no step is
  CHECK(patch_of(512, false, false, 1) != matrix_f32::kWarpsPatch);
  of.tile_rows = 32;
  of.k = 512;
  CHECK(cut_of(of, {true, true}).patch != matrix_f32::kWarpsPatch);
}

TEMPLATE_TEST_CASE("wide parts are for code that is made for operands whose lines are neighbours",
                   "", matrix_f32::LongPart, matrix_f32::TallPart, matrix_f32::FlatPart) {
  using Part = TestType;
  Matrix of{};
  of.m = of.n = 768;
  of.down = (of.m + Part::kRows - 1) / Part::kRows;
  of.across = (of.n + Part::kColumns - 1) / Part::kColumns;
  of.k = 256;
  of.tile_rows = Part::kRows;
  of.tile_columns = Part::kColumns;
  of.a_row = of.b_column = 1;
  of.a_k = of.m;
  of.b_k = of.n;
  const auto copied = [&](bool made) {
    of.cut = cut_of(of, {true, true});
    return copied_cut(of, made);
  };
  CHECK(copied(true).patch == Part::kPatch);
  CHECK(copied(true).groups == 4);
  CHECK(matrix_f32::is_wide(copied(true)));
  CHECK(matrix_f32::part_rows(copied(true)) == Part::kRows);
  CHECK(matrix_f32::part_columns(copied(true)) == Part::kColumns);
  CHECK(copied(false).patch == matrix_f32::kTurnsPatch);
  CHECK(matrix_f32::part_columns(copied(false)) == 64);
  const auto patch_of = [&](int64_t rows, int64_t columns, int64_t k) {
    of.tile_rows = rows;
    of.tile_columns = columns;
    of.k = k;
    return copied(true).patch;
  };
  CHECK(patch_of(Part::kRows, Part::kColumns, 4096) == Part::kPatch);
  // Neither of other tiles, nor of one block, of whole rounds and a block or of several segments, nor by line.
  CHECK(patch_of(64, 64, 256) == matrix_f32::kTurnsPatch);
  CHECK(patch_of(32, Part::kColumns, 256) == 0);
  CHECK(patch_of(Part::kRows, Part::kColumns, 64) == 0);
  CHECK(patch_of(Part::kRows, Part::kColumns, 320) != Part::kPatch);
  CHECK(patch_of(Part::kRows, Part::kColumns, 4352) == matrix_f32::kTurnsPatch);
  of.b_column = of.k = 256;
  of.b_k = 1;
  CHECK(patch_of(Part::kRows, Part::kColumns, 256) == matrix_f32::kTurnsPatch);
}

}  // namespace trek::device::test
