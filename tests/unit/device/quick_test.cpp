// Which nodes are quick, and in what way: what decides how the resident kernel reaches their unit.
#include <catch2/catch.hpp>

#include "emulator/device/describe.h"
#include "tests/unit/plan/programs.h"
#include "tests/unit/plan/run.h"

namespace trek::device::test {
namespace {

// Of the first node of a program over these tensors.
Quick quick_of(const std::string& body) {
  const isa::Module module = plan::test::assembled(
      ".input @x f32[8,768]\n.input @h bf16[8,768]\n.input @d f64[8,768]\n.input @l f32[8,1025]\n"
      ".state @s f32[8,768]\n.state @t bf16[8,768]\n.output @w f32[768,8]\n"
      ".output @g bf16[768,8]\n.output @e f64[768,8]\n.output @p f32[4,768]\n.output @r f32[8]\n"
      ".output @c f32[768]\n.output @y f32[8,768]\n.func main() {\n" +
      body + "}\n");
  const plan::Plan plan = plan::test::linked(module, plan::test::small_device(3));
  const Described described = describe(plan, 0);
  return static_cast<Quick>(reinterpret_cast<const Node*>(described.bytes.data())->quick);
}

}  // namespace

TEST_CASE("pointwise nodes on floats are quick, by their steps") {
  CHECK(quick_of("@y = add @x, @s\n") == Quick::simple);
  CHECK(quick_of("@y = tanh @x\n") == Quick::calls);
  CHECK(quick_of("%z = add @d, @d\n@y = cast %z, to=f32\n") == Quick::no);
}

TEST_CASE("moves of two and four bytes between known places are quick") {
  CHECK(quick_of("@w = permute @x, axes=[1,0]\n") == Quick::move);
  CHECK(quick_of("@g = permute @h, axes=[1,0]\n") == Quick::move);
  CHECK(quick_of("@e = permute @d, axes=[1,0]\n") == Quick::no);
  CHECK(quick_of("@p = slice @x, at=[4,0], size=[4,768]\n") == Quick::move);
  CHECK(quick_of("loop $i = 0 until 2 {\n@p = slice @x, at=[$i,0], size=[4,768]\n}\n") ==
        Quick::no);
  CHECK(quick_of("%r = slice @h, at=[0,0], size=[2,768]\nupdate! @t, %r, at=[6,0]\n") ==
        Quick::move);
}

TEST_CASE("reductions of short rows of floats are quick") {
  CHECK(quick_of("@r = sum @x, axis=1\n") == Quick::rows);
  CHECK(quick_of("%z = sub @x, @s\n%q = mul %z, %z\n%m = mean %q, axis=1\n@r = rsqrt %m\n") ==
        Quick::rows);
  CHECK(quick_of("%z = exp @x\n@r = sum %z, axis=1\n") == Quick::no);
  CHECK(quick_of("@r = sum @l, axis=1\n") == Quick::no);
  CHECK(quick_of("@c = sum @x, axis=0\n") == Quick::no);
  CHECK(quick_of("%z = max @d, axis=1\n@r = cast %z, to=f32\n") == Quick::no);
}

}  // namespace trek::device::test
