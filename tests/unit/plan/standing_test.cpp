// What stands in memory before a task waits (Node::standing): of which operands a plan says so, that it is so in whatever order
// tasks come, and that the interpreter says where it is not.
#include <algorithm>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/node_uses.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

using Names = std::set<std::string>;

// The node that steps a tensor, or the last one that gives it.
uint32_t writer_of(const Plan& plan, std::string_view name) {
  uint32_t found = kNone;
  for (uint32_t n = 0; n < plan.nodes.size(); ++n)
    each_write(plan.nodes[n], [&](Operand to) {
      const bool is_step = found != kNone && plan.nodes[found].unit == Unit::optimizer;
      if (plan.buffers[plan.view(to.index).buffer].name == name && !is_step) found = n;
    });
  REQUIRE(found != kNone);
  return found;
}
// Of the node that writes a tensor the operands that stand.
Names standing(const Plan& plan, std::string_view writes) {
  const Node& node = plan.nodes[writer_of(plan, writes)];
  Names names;
  for (size_t i = 0; i < node.operands.size(); ++i)
    if (node.stands(i)) names.insert(plan.buffers[plan.view(node.operands[i].index).buffer].name);
  return names;
}

// A step by the product of @x and @y in a loop, and what else there is.
std::string step(std::string_view before, std::string_view behind = "") {
  return fmt::format(R"(
.state @x f32[24,20] = normal(0, 1, key=1)
.state @y f32[24,72] = normal(0, 1, key=2)
.state @w f32[20,72] = normal(0, 1, key=4)
.state @v f32[20,72] = 0
.func main() {{
  loop $i = 0 until 4 {{
    {}
    %g = matmul @x, @y, ta
    sgd.momentum! @w, @v, %g, lr=0.1, momentum=0.9
    {}
  }}
}}
)",
                     before, behind);
}

// A plan whose bits are the reference's in whatever order, with its module, which it names.
struct Checked {
  isa::Module module;
  Plan plan;

  explicit Checked(const std::string& text, int processors = 3)
      : module(assembled(text)), plan(linked(module, small_device(processors))) {
    expect_as_reference(module);
    CHECK(errors_of(plan) == "");
    for (uint64_t seed = 1; seed <= 20; ++seed) CHECK(run(module, plan, seed).failure == "");
  }
  Names standing(std::string_view writes) const { return test::standing(plan, writes); }
};

// Two layers, as a training step has them.
constexpr std::string_view kLayers = R"(
.state @x f32[24,20] = normal(0, 1, key=1)
.state @w1 f32[20,72] = normal(0, 0.1, key=2)
.state @w2 f32[72,64] = normal(0, 0.1, key=3)
.func main() {
  loop $i = 0 until 4 {
    %h = matmul @x, @w1, tail=relu
    %z = matmul %h, @w2
    %d = matmul %z, @w2, tb
    %g2 = matmul %h, %z, ta
    sgd! @w2, %g2, lr=0.1
    %g1 = matmul @x, %d, ta
    sgd! @w1, %g1, lr=0.1
  }
}
)";

}  // namespace

TEST_CASE("what nothing in a loop writes stands, and what a task has stepped itself") {
  CHECK(Checked(step("")).standing("@w") == Names{"@x", "@y", "@w", "@v"});
  CHECK(Checked(step("@y = neg @y")).standing("@w") == Names{"@x", "@w", "@v"});
  CHECK(Checked(step("@x = neg @x")).standing("@w") == Names{"@y", "@w", "@v"});
}

TEST_CASE("what another node writes does not, unless a task before on the processor has it") {
  CHECK(Checked(step("@w = mul @w, 0.5")).standing("@w") == Names{"@x", "@y", "@v"});
  CHECK(Checked(step("", "@v = mul @v, 0.5")).standing("@w") == Names{"@x", "@y", "@w"});
  // On one processor all stands.
  CHECK(Checked(step("@y = neg @y"), 1).standing("@w") == Names{"@x", "@y", "@w", "@v"});
  const Checked layers{std::string(kLayers)};
  CHECK(layers.standing("%h") == Names{"@x"});
  // The first layer writes what the second one's step has read.
  CHECK(layers.standing("%z") == Names{"@w2"});
  CHECK(layers.standing("%d") == Names{"@w2"});
  CHECK(layers.standing("@w1") == Names{"@x", "@w1"});
}

TEST_CASE("outside of loops nothing stands, nor in loops with others in them") {
  const Checked loops(R"(
.state @x f32[24,20] = normal(0, 1, key=1)
.state @w f32[20,72] = normal(0, 0.1, key=2)
.output @a f32[24,72]
.output @b f32[24,72]
.output @c f32[24,72]
.func main() {
  @a = matmul @x, @w
  loop $i = 0 until 3 {
    @b = matmul @x, @w, scale=2.0
    loop $j = 0 until 3 {
      @c = matmul @x, @w, scale=3.0
    }
  }
}
)");
  CHECK(loops.standing("@a") == Names{});
  CHECK(loops.standing("@b") == Names{});
  CHECK(loops.standing("@c") == Names{"@x", "@w"});
}

TEST_CASE("the interpreter finds what is said to stand and does not") {
  const isa::Module module = assembled(std::string(kLayers));
  const Plan plan = linked(module, small_device(3));
  for (const std::string_view name : {"%h", "%z", "%d"}) {
    INFO(name);
    Plan wrong = plan;
    wrong.nodes[writer_of(plan, name)].standing = 3;
    bool is_found = false;
    for (uint64_t seed = 1; seed <= 20 && !is_found; ++seed)
      is_found = run(module, wrong, seed).failure.starts_with("what stands in memory");
    CHECK(is_found);
  }
}

}  // namespace trek::plan::test
