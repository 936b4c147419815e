// Products that make the rows of their left operand: which do, which do not, and the reference's bits.
#include <algorithm>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/print.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

std::string with_norm(std::string_view body, std::string_view type = "f32", int rows = 1,
                      int n = 33) {
  return fmt::format(
      ".state @x f32[{1},{2}] = normal(0.3, 1, key=1)\n.state @g f32[{2}] = normal(1, 0.1, key=2)\n"
      ".state @b f32[{2}] = normal(0, 0.1, key=3)\n.state @v {0}[{2},40] = normal(0, 1, key=4)\n"
      ".state @w {0}[40,{2}] = normal(0, 1, key=5)\n.state @s {0}[{2},{2}] = normal(0, 1, key=6)\n"
      ".state @y {0}[{1},40]\n.state @z {0}[{1},40]\n.state @t {0}[{1},{2}]\n"
      ".func main() {{\n%m = mean @x, axis=1, keep\n%c = sub @x, %m\n%q = mul %c, %c\n"
      "%d = mean %q, axis=1, keep\n%e = add %d, 1e-5\n%f = rsqrt %e\n%u = mul %c, %f\n"
      "%k = fma %u, @g, @b\n%n = cast %k, to={0}\n{3}}}\n",
      type, rows, n, body);
}

// The nodes of a plan, whose bits are the reference's, and how many of them make rows for themselves.
struct Counted {
  size_t nodes = 0;
  ptrdiff_t makers = 0;
  bool operator==(const Counted&) const = default;
};
Counted counted(const std::string& text, const Device& device = small_device(3)) {
  INFO(text);
  const isa::Module module = assembled(text);
  const Plan plan = linked(module, device);
  CHECK(errors_of(plan) == "");
  expect_as_reference(module);
  return {plan.nodes.size(), std::ranges::count_if(plan.nodes, [](const Node& node) {
            return node.unit == Unit::matrix && !node.phases.empty();
          })};
}

constexpr std::string_view kTwo = "@y = matmul %n, @v, tail=relu\n@z = matmul %n, @w, tb\n";

}  // namespace

TEST_CASE("a norm that only thin products read is made by each of them") {
  for (const char* type : {"f32", "f16", "bf16"})
    for (const int n : {2, 33, 1024}) CHECK(counted(with_norm(kTwo, type, 1, n)) == Counted{2, 2});
  CHECK(counted(with_norm(kTwo, "f32", 4)) == Counted{2, 2});
  CHECK(counted(with_norm("%p = matmul %n, @v\n%o = matmul %n, @v, tail=sigmoid\n"
                          "@y = mul %p, %o\n")) == Counted{1, 1});
}

TEST_CASE("rows of many elements, many rows, and what others read stay nodes of their own") {
  CHECK(counted(with_norm(kTwo, "f32", 1, 1025)) == Counted{3, 0});
  CHECK(counted(with_norm(kTwo, "f32", 5)) == Counted{3, 0});
  CHECK(counted(with_norm("@y = matmul %n, @v\n@t = copy %n\n")).makers == 0);
  CHECK(counted(with_norm("@t = matmul %n, @s, bias=%n\n")).makers == 0);
}

TEST_CASE(
    "rows stay where what they are made of is written before the last of their readers is done") {
  CHECK(counted(with_norm("@t = matmul %n, @s\n@x = neg @x\n")).makers == 1);
  CHECK(counted(with_norm("@x = neg @x\n@t = matmul %n, @s\n")).makers == 0);
  CHECK(counted(with_norm("%h = matmul %n, @s\n@x = add @x, %h\n")).makers == 0);
}

TEST_CASE("a device that interprets takes rows that have a form, and no others") {
  Device device = small_device(3);
  device.interprets = true;
  for (const char* type : {"f32", "f16", "bf16"})
    for (const int n : {2, 33, 1024})
      CHECK(counted(with_norm(kTwo, type, 1, n), device) == Counted{2, 2});
  std::string other = with_norm(kTwo);
  const std::string_view rsqrt = "rsqrt %e";
  other.replace(other.find(rsqrt), rsqrt.size(), "sqrt %e");
  CHECK(counted(other, device).makers == 0);
  CHECK(counted(other).makers == 2);
}

TEST_CASE("a softmax before the products of a batch is made by them, head by head") {
  const std::string text = R"(
.state @q f32[5,1,16] = normal(0, 1, key=1)
.state @k f32[5,20,16] = normal(0, 2, key=2)
.state @v bf16[5,20,16] = normal(0, 1, key=3)
.state @y bf16[5,1,16]
.func main() {
  %s = matmul @q, @k, tb, scale=0.25
  %p = softmax %s
  %n = cast %p, to=bf16
  @y = matmul %n, @v
}
)";
  CHECK(counted(text) == Counted{2, 1});
  const Plan plan = linked(assembled(text), small_device(7));
  CHECK(print_fusion(plan).find("fused %n into 1 thin product: rows of the left operand") !=
        std::string::npos);
  // A head's row and its values are on one processor.
  for (uint32_t i = 0; i < plan.nodes[0].tasks; ++i)
    CHECK(plan.tasks[plan.nodes[0].first_task + i].processor ==
          plan.tasks[plan.nodes[1].first_task + i].processor);
}

}  // namespace trek::plan::test
