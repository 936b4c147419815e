// What is fused, what is not, and what is said about it.
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/geometry.h"
#include "emulator/plan/print.h"
#include "tests/unit/plan/programs.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

Plan plan_of(const std::string& body) {
  return linked(assembled(".input @x f32[8,10]\n.input @w f32[10,10]\n.state @s f32[8,10]\n"
                          ".output @y f32[8,10]\n.output @r f32[8]\n.func main() {\n" +
                          body + "}\n"),
                small_device(3));
}

bool says(const Plan& plan, std::string_view text) {
  return print_fusion(plan).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a pointwise chain becomes one node that writes its destination directly") {
  const Plan plan = plan_of("%a = exp @x\n%b = mul %a, 2.0\n%c = neg @x\n@y = add %b, %c\n");
  REQUIRE(plan.nodes.size() == 1);
  CHECK(plan.nodes[0].chain.size() == 4);
  CHECK(plan.peak_bytes == 0);
  CHECK(says(plan, "fused %b of mul (main:1) into add (main:3): chain"));
}

TEST_CASE("a pointwise chain becomes the tail of a matrix product") {
  const Plan plan = plan_of("%p = matmul @x, @w\n%b = add %p, @x\n@y = tanh %b\n");
  REQUIRE(plan.nodes.size() == 1);
  CHECK(plan.nodes[0].unit == Unit::matrix);
  CHECK(plan.nodes[0].chain.size() == 2);
  CHECK(says(plan, "fused %p of matmul (main:0) into add (main:1): tail"));
}

TEST_CASE("a pointwise chain becomes the prologue of a reduction, and another its tail") {
  const Plan plan = plan_of("%q = mul @x, @x\n%s = sum %q, axis=1\n@r = sqrt %s\n");
  REQUIRE(plan.nodes.size() == 1);
  CHECK(plan.nodes[0].unit == Unit::reduce);
  CHECK(plan.nodes[0].prologue.size() == 1);
  CHECK(plan.nodes[0].chain.size() == 1);
}

TEST_CASE("a value that two instructions read is kept, and it is said why") {
  const Plan plan = plan_of("%a = exp @x\n@y = neg %a\n@s = abs %a\n");
  CHECK(plan.nodes.size() == 3);
  CHECK(says(plan, "not %a of exp (main:0) stays: 2 instructions read it"));
}

TEST_CASE("a value that several instructions of one chain read is part of that chain") {
  const Plan plan = plan_of(
      "%a = mul @x, 0.5\n%b = add %a, 1.0\n%c = mul %b, %b\n%d = sub %c, %a\n@y = add %d, %b\n");
  REQUIRE(plan.nodes.size() == 1);
  CHECK(plan.nodes[0].chain.size() == 5);
  CHECK(says(plan, "fused %b of add (main:1) into add (main:4): chain"));
  CHECK(says(plan, "fused %a of mul (main:0) into add (main:4): chain"));
  CHECK_FALSE(says(plan, "stays"));
}

TEST_CASE("a value that a chain and another instruction read is kept") {
  const Plan plan = plan_of("%a = exp @x\n%b = neg %a\n@y = mul %b, %a\n@r = sum %a, axis=1\n");
  CHECK(plan.nodes.size() == 3);
  CHECK(says(plan, "not %a of exp (main:0) stays: 3 instructions read it"));
}

TEST_CASE("a value that two reads of a tail share becomes part of the tail") {
  const Plan plan = plan_of("%a = exp @x\n%p = matmul @x, @w\n%b = add %p, %a\n@y = mul %b, %a\n");
  REQUIRE(plan.nodes.size() == 1);
  CHECK(plan.nodes[0].unit == Unit::matrix);
  CHECK(plan.nodes[0].chain.size() == 3);
}

TEST_CASE("a value with several readers does not move past a write to what it reads") {
  const Plan plan =
      plan_of("%a = exp @s\n%b = neg %a\n@s = neg @x\n%c = mul %b, %a\n@y = add %c, %a\n");
  CHECK(plan.nodes.size() == 3);
}

// Without a reduction of rows, which would make one node of all.
TEST_CASE("a cheap step that two nodes read is worked out in both") {
  const Plan plan = plan_of(
      "%m = mean @x, axis=0, keep\n%c = sub @x, %m\n%q = mul %c, %c\n%v = mean %q, axis=0, keep\n"
      "%f = rsqrt %v\n@y = mul %c, %f\n");
  REQUIRE(plan.nodes.size() == 3);
  CHECK(plan.nodes[1].prologue.size() == 2);
  CHECK(plan.nodes[2].chain.size() == 2);
  CHECK(says(plan, "fused %c of sub (main:1) into rsqrt (main:4): worked out again"));
  CHECK(says(plan, "fused %c of sub (main:1) into mul (main:5): worked out again"));
  uint32_t instructions = 0;
  for (const Node& node : plan.nodes) instructions += node.weight;
  CHECK(instructions == 6);
}

TEST_CASE("a step is not worked out again that takes long, or where one reader wants its tensor") {
  const std::string norm = "%q = mul %c, %c\n%v = mean %q, axis=0, keep\n@y = mul %c, %v\n";
  CHECK(plan_of("%c = exp @x\n" + norm).nodes.size() == 3);
  CHECK(plan_of("%c = sub @x, @s\n" + norm).nodes.size() == 3);
  CHECK(plan_of("%c = neg @x\n" + norm + "@s = matmul %c, @w\n").nodes.size() == 4);
  CHECK(plan_of("%c = neg @s\n%q = mul %c, %c\n%v = mean %q, axis=0, keep\n@s = mul @x, 2.0\n"
                "@y = mul %c, %v\n")
            .nodes.size() == 4);
}

TEST_CASE("a step is not worked out again before a reduction of long lines") {
  const auto nodes = [](int rows) {
    const isa::Module module =
        assembled(fmt::format(".input @x f32[{0},2]\n.output @y f32[{0},2]\n.func main() {{\n"
                              "%m = mean @x, axis=0, keep\n%c = sub @x, %m\n%q = mul %c, %c\n"
                              "%v = mean %q, axis=0, keep\n@y = mul %c, %v\n}}\n",
                              rows));
    return linked(module, small_device(3)).nodes.size();
  };
  CHECK(nodes(1024) == 3);
  CHECK(nodes(1025) == 4);
}

TEST_CASE("a producer does not move past a write to what it reads") {
  const Plan plan = plan_of("%a = exp @s\n@s = neg @x\n@y = mul %a, 2.0\n");
  CHECK(plan.nodes.size() == 3);
  CHECK(says(plan, "what it reads is written in between"));
}

TEST_CASE("a matrix product does not write what other tiles of it still read") {
  const Plan plan = plan_of("%p = matmul @s, @w\n@s = neg %p\n");
  CHECK(plan.nodes.size() == 2);
  CHECK(says(plan, "the destination is read by other tiles"));
}

TEST_CASE("a broadcast value is not recomputed for every element") {
  const Plan plan = plan_of("%s = sum @x, axis=0, keep\n%l = log %s\n@y = sub @x, %l\n");
  CHECK(plan.nodes.size() == 2);
  CHECK(says(plan, "it is broadcast from [1,10]"));
}

TEST_CASE("two matrix products do not become one node") {
  const Plan plan = plan_of("%p = matmul @x, @w\n%q = matmul @s, @w\n@y = add %p, %q\n");
  CHECK(plan.nodes.size() == 2);
  CHECK(says(plan, "the other operand is a tail already"));
}

TEST_CASE("an instruction that may trap keeps its place") {
  const isa::Module module = assembled(
      ".input @i i32[40]\n.output @o i32[40]\n.func main() {\n%q = div @i, @i\n@o = neg %q\n}\n");
  const Plan plan = linked(module, small_device(2));
  CHECK(plan.nodes.size() == 2);
  CHECK(says(plan, "it may trap"));
}

TEST_CASE(
    "thin products of one operand that a program joins are one node, and carry what a loop "
    "carries") {
  const Plan plan = linked(assembled(fmt::format(kCells, 1, 32)), small_device(7));
  std::vector<const Node*> groups;
  for (const Node& node : plan.nodes)
    if (is_group(node)) groups.push_back(&node);
  REQUIRE(groups.size() == 3);
  for (const size_t step : {0, 1}) {
    CHECK(groups[step]->others.size() == 3);
    CHECK(groups[step]->chain.size() == 4);
    CHECK(groups[step]->results.size() == 2);
  }
  CHECK(groups[2]->others.size() == 2);
  CHECK(groups[2]->results.size() == 2);
  const Node* after = groups[1];
  for (const uint32_t result : after->results)
    CHECK(plan.buffers[plan.view(result).buffer].name.starts_with("%"));
  // The copies of a yield are none: a trip is the two steps and what they read and write beside.
  uint32_t copies = 0;
  for (const Node& node : plan.nodes)
    copies += node.region == after->region && node.opcode == isa::Opcode::Copy ? 1 : 0;
  CHECK(copies == 0);
}

TEST_CASE("what a group gives to its own program twice is never read from memory") {
  // %p is read before %c is, which is given, too, and behind it.
  const Plan plan = linked(assembled(R"(
.state @h f32[1,32] = normal(0, 1, key=1)
.state @c f32[1,32] = normal(0, 1, key=2)
.state @a f32[32,32] = normal(0, 0.1, key=3)
.state @b f32[32,32] = normal(0, 0.1, key=4)
.output @seen f32[1,32]
.func main() {
  %p = matmul @h, @a, tail=sigmoid
  %q = matmul @h, @b, tail=tanh
  %k = mul %p, @c
  %c = add %k, %q
  %s = tanh %c
  %g = mul %p, %s
  @c = mul %c, 0.5
  @seen = neg %g
}
)"),
                           small_device(3));
  CHECK(errors_of(plan) == "");
  size_t groups = 0;
  for (const Node& node : plan.nodes) {
    if (!is_group(node)) continue;
    ++groups;
    for (const uint32_t result : node.results)
      for (const Operand& operand :
           node.operands)  // a tensor of the module may be written in place
        CHECK_FALSE((plan.buffers[plan.view(result).buffer].kind == BufferKind::tensor_register &&
                     operand.kind == Operand::Kind::view &&
                     plan.view(operand.index).buffer == plan.view(result).buffer));
  }
  CHECK(groups == 1);
}

TEST_CASE("a product stays what it is where a joined one would pass a write to what it reads") {
  const Plan plan = linked(assembled(".input @x f32[1,8]\n.state @w f32[8,8]\n.state @v f32[8,8]\n"
                                     ".output @y f32[1,8]\n.func main() {\n%a = matmul @x, @w\n"
                                     "@w = mul @w, 0.5\n%b = matmul @x, @v\n@y = add %a, %b\n}\n"),
                           small_device(3));
  for (const Node& node : plan.nodes) CHECK_FALSE(is_group(node));
}

}  // namespace trek::plan::test
