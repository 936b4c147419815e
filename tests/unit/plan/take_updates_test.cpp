// Products that put their result where an `update` would: which do, which do not, and the reference's bits.
#include <algorithm>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/print.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

std::string with_cache(std::string_view body, std::string_view type = "f32", int rows = 1) {
  return fmt::format(
      ".state @x {0}[{1},20] = normal(0, 1, key=1)\n.state @w {0}[20,48] = normal(0, 1, key=2)\n"
      ".state @b {0}[48] = normal(0, 1, key=3)\n.state @keys {0}[6,5,{2}] = normal(0, 1, key=4)\n"
      ".state @q {0}[6,1,{2}] = normal(0, 1, key=5)\n.state @y {0}[6,1,5]\n.state @z {0}[{1},48]\n"
      ".func main() {{\n  loop $i = 0 until 3 {{\n{3}  }}\n}}\n",
      type, rows, 8 * rows, body);
}

// The nodes of the plan of a program, whose bits are the reference's, that put their result.
ptrdiff_t puts(const std::string& text) {
  INFO(text);
  const isa::Module module = assembled(text);
  const Plan plan = linked(module, small_device(5));
  CHECK(errors_of(plan) == "");
  expect_as_reference(module);
  return std::ranges::count_if(plan.nodes, [](const Node& node) { return node.put.has_value(); });
}

constexpr std::string_view kPut =
    "%h = reshape %k, shape=[6,1,{}]\nupdate! @keys, %h, at=[0,{},0]\n";
constexpr std::string_view kScores = "@y = matmul @q, @keys, tb\n";

}  // namespace

TEST_CASE("a thin product that an update puts into a cache is put there by its own tasks") {
  for (const char* type : {"f32", "f16", "bf16"})
    for (const int rows : {1, 2}) {
      const std::string put = fmt::format(kPut, 8 * rows, rows);
      CHECK(
          puts(with_cache(fmt::format("%k = matmul @x, @w, bias=@b, tail=tanh\n{}{}", put, kScores),
                          type, rows)) == 1);
    }
  const Plan plan = linked(assembled(with_cache(fmt::format("%k = matmul @x, @w\n{}{}",
                                                            fmt::format(kPut, 8, 4), kScores))),
                           small_device(5));
  CHECK(print_plan(plan).find("put at [0, 4, 0]") != std::string::npos);
}

TEST_CASE("what others read, an update to a place that is not known, and other tails stay") {
  const std::string put = fmt::format(kPut, 8, 2);
  const auto with = [&](std::string_view product, std::string_view behind = "") {
    return puts(with_cache(fmt::format("{}{}{}{}", product, put, kScores, behind)));
  };
  CHECK(with("%k = matmul @x, @w\n", "@z = copy %k\n") == 0);
  CHECK(with("%p = matmul @x, @w\n%k = add %p, @z\n") == 0);
  CHECK(with("%k = matmul @x, @w, scale=0.5\n") == 0);
  CHECK(puts(with_cache(fmt::format("%k = matmul @x, @w\n%h = reshape %k, shape=[6,1,8]\n"
                                    "update! @keys, %h, at=[0,$i,0]\n{}",
                                    kScores))) == 0);
}

TEST_CASE("a product does not put where somebody still reads or writes before the update") {
  const std::string put = fmt::format(kPut, 8, 2);
  CHECK(puts(with_cache(fmt::format("%k = matmul @x, @w\n{}{}", kScores, put))) == 0);
  CHECK(puts(with_cache(
            fmt::format("%k = matmul @x, @w\n@keys = neg @keys\n{}{}", put, kScores))) == 0);
}

}  // namespace trek::plan::test
