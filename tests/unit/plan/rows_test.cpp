// Row nodes: which instructions become one, which do not, and the reference's bits.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/print.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

std::string with_rows(std::string_view body, std::string_view type = "f32", int rows = 7,
                      int n = 33) {
  return fmt::format(
      ".state @x {0}[{1},{2}] = normal(0.3, 1, key=1)\n.state @z {0}[{1},{2}] = uniform(0.5, 2, "
      "key=2)\n.state @g {0}[{2}] = normal(1, 0.1, key=3)\n.state @b {0}[{2}] = normal(0, 0.1, "
      "key=4)\n.state @y {0}[{1},{2}]\n.state @t {0}[{1},{2}]\n.state @r {0}[{1},1]\n.state @s "
      "{0}[{1}]\n.func main() {{\n{3}}}\n",
      type, rows, n, body);
}

// The nodes of a plan, whose bits are the reference's.
size_t nodes_of(const std::string& text) {
  INFO(text);
  const isa::Module module = assembled(text);
  const Plan plan = linked(module, small_device(3));
  CHECK(errors_of(plan) == "");
  expect_as_reference(module);
  return plan.nodes.size();
}

constexpr std::string_view kNorm =
    "%m = mean @x, axis=1, keep\n%c = sub @x, %m\n%q = mul %c, %c\n%v = mean %q, axis=1, keep\n"
    "%e = add %v, 1e-5\n%f = rsqrt %e\n%u = mul %c, %f\n@y = fma %u, @g, @b\n";
constexpr std::string_view kSoftmax =
    "%m = max @x, axis=1, keep\n%c = sub @x, %m\n%e = exp %c\n%s = sum %e, axis=1, keep\n"
    "@y = div %e, %s\n";

}  // namespace

TEST_CASE("a layer norm is one node, in every type and length") {
  for (const char* type : {"f32", "f16", "bf16"})
    for (const int n : {2, 32, 100, 1024, 1025, 3000})
      CHECK(nodes_of(with_rows(kNorm, type, 5, n)) == 1);
  CHECK(nodes_of(with_rows(kNorm, "f64")) > 1);
  CHECK(nodes_of(with_rows(kNorm, "f32", 1, 8192)) == 1);
  CHECK(nodes_of(with_rows(kNorm, "f32", 1, 8193)) > 1);
}

TEST_CASE("a softmax is one node, and keeps its exponentials") {
  const std::string text = with_rows(kSoftmax);
  CHECK(nodes_of(text) == 1);
  const Plan plan = linked(assembled(text), small_device(3));
  REQUIRE(plan.nodes[0].phases.size() == 3);
  CHECK(plan.nodes[0].phases[1].kind == Phase::Kind::keep);
  CHECK(print_fusion(plan).find("fused %m of max (main:0) into div (main:4): rows") !=
        std::string::npos);
}

TEST_CASE("every reduction is a phase") {
  for (const char* reduce : {"sum", "mean", "prod", "norm2", "max", "min"})
    CHECK(nodes_of(with_rows(
              fmt::format("%a = {0} @x, axis=-1, keep\n%d = mul @x, %a\n%h = {0} %d, axis=1, keep\n"
                          "@y = sub %d, %h\n",
                          reduce))) == 1);
}

TEST_CASE(
    "a device that interprets takes rows of few elements in several nodes, but for those of a "
    "form") {
  Device device = small_device(3);
  device.interprets = true;
  for (const int rows : {1, 4, 5}) {
    CHECK(linked(assembled(with_rows(kNorm, "f32", rows, 1000)), device).nodes.size() == 1);
    const isa::Module module = assembled(with_rows(kSoftmax, "f32", rows, 1000));
    CHECK(linked(module, device).nodes.size() == (rows < 5 ? 4 : 1));
    CHECK(linked(module, small_device(3)).nodes.size() == 1);
  }
}

TEST_CASE("numbers that others read are results of their own") {
  CHECK(nodes_of(with_rows("@r = mean @x, axis=1, keep\n%c = sub @x, @r\n@y = neg %c\n")) == 2);
  CHECK(nodes_of(with_rows("%m = mean @x, axis=1, keep\n@y = sub @x, %m\n@r = neg %m\n"
                           "@t = mul @z, %m\n")) <= 3);
  // The variance is read twice as a number, and goes through a program of its own.
  CHECK(nodes_of(with_rows("%m = mean @x, axis=1, keep\n%a = neg %m\n%e = exp %m\n"
                           "%c = add @x, %a\n@y = mul %c, %e\n")) == 1);
}

TEST_CASE("rounding to whole rows gives no processor a tile more than its share") {
  Device device = small_device(3);
  device.tiles_per_processor = 2;
  const std::string loss =
      "%i = iota shape=[100], to=i64, axis=0\n%t = mod %i, 33\n"
      "@s, @y = cross_entropy.with_grad @x, %t, none\n";
  for (const std::string& body : {std::string("@y = softmax @x\n"), std::string(kNorm), loss}) {
    INFO(body);
    const Plan plan = linked(assembled(with_rows(body, "f32", 100)), device);
    CHECK(plan.nodes.back().tasks == 6);
  }
}

TEST_CASE("a second tensor of the rows' size stays another node's") {
  CHECK(nodes_of(with_rows("%m = mean @x, axis=1, keep\n%c = sub @x, %m\n@t = exp %c\n"
                           "@y = tanh %c\n")) == 2);
}

TEST_CASE("rows do not move past a write to what they read, nor past who reads what they give") {
  CHECK(nodes_of(with_rows("%m = mean @x, axis=1, keep\n@x = neg @z\n@y = sub @z, %m\n")) > 1);
  CHECK(nodes_of(with_rows("%m = mean @x, axis=1, keep\n@x = sub @x, %m\n")) == 2);
}

TEST_CASE("reductions of other axes or shapes are no phases") {
  CHECK(nodes_of(with_rows("%m = mean @x, axis=0, keep\n@y = sub @x, %m\n")) == 2);
  CHECK(nodes_of(with_rows("%m = mean @x\n@y = sub @x, %m\n")) == 2);
  CHECK(nodes_of(with_rows("@s = mean @x, axis=1\n@y = neg @x\n")) == 2);
}

}  // namespace trek::plan::test
