// Which work is put behind other work, which is not, and the reference's bits.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/product.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

// What the nodes of a program's loop give, or step, in their order; its bits are the reference's.
std::string order_of(std::string_view body) {
  const std::string text = fmt::format(
      ".state @x f32[136,96] = normal(0, 1, key=1)\n.state @d f32[136,80] = normal(0, 1, key=2)\n"
      ".state @w f32[96,80] = normal(0, 1, key=3)\n.state @v f32[96,80] = normal(0, 1, key=4)\n"
      ".state @m f32[96,80] = 0\n.state @u f32[96,80] = 0\n"
      ".state @b f32[80] = 0\n.state @n i64[3] = 2\n.state @y f32[136,80]\n.state @z f32[3,80]\n"
      ".func main() {{\n  loop $i = 0 until 2 {{\n    $s = add $i, 1\n{}  }}\n}}\n",
      body);
  INFO(text);
  const isa::Module module = assembled(text);
  const Plan plan = linked(module, small_device(5));
  CHECK(errors_of(plan) == "");
  expect_as_reference(module);
  std::string order;
  for (const Node& node : plan.nodes) {
    if (node.unit == Unit::control) continue;
    const uint32_t view =
        node.unit == Unit::optimizer ? node.operands[0].index : node.results.front();
    order += plan.buffers[plan.view(view).buffer].name + " ";
  }
  return order;
}

// Two gradients and their steps, the second of which is behind `between`.
std::string steps(std::string_view between = "", std::string_view step = "sgd! @w, %g, lr=0.1") {
  return fmt::format(
      "%g = matmul @x, @d, ta\n{}\n{}%h = matmul @x, @d, ta, scale=0.5\n"
      "sgd! @v, %h, lr=0.1\n",
      step, between);
}

const Node& node_that_gives(const Plan& plan, std::string_view name) {
  const auto found = std::ranges::find_if(plan.nodes, [&](const Node& node) {
    return !node.results.empty() && plan.buffers[plan.views[node.results[0]].buffer].name == name;
  });
  REQUIRE(found != plan.nodes.end());
  return *found;
}

}  // namespace

TEST_CASE("steps of optimizers come behind the products that do not need them") {
  CHECK(order_of(steps()) == "%g %h @w @v ");
  CHECK(order_of("%b = mean @d, axis=0\nsgd! @b, %b, lr=0.1\n" + steps()) == "%g %h %b @b @w @v ");
}

TEST_CASE(
    "what the rest of a trip reads is not put off, nor is what a step would change under it") {
  CHECK(order_of(steps("@y = matmul @x, @w\n")) == "%g @w @y %h @v ");
  CHECK(order_of("%b = mean @d, axis=0\nsgd! @b, %b, lr=0.1\n" + steps("@y = add @d, %b\n")) ==
        "%b %g @y %h @b @w @v ");
  CHECK(order_of(steps("@w = mul @w, 0.5\n")) == "%g @w @w %h @v ");
}

TEST_CASE("a step that may trap stays in front of what else may") {
  const std::string gathers = "@z = gather @d, @n\n";
  CHECK(order_of(steps(gathers)) == "%g @z %h @w @v ");
  CHECK(order_of(steps(gathers, "adam! @w, @m, @u, %g, lr=0.1, step=$s")) == "%g @w @z %h @v ");
  CHECK(order_of(steps("", "adam! @w, @m, @u, %g, lr=0.1, step=$s")) == "%g %h @w @v ");
}

TEST_CASE("gradients that are long share the processors, and none waits for another's operands") {
  const auto plan_of = [](int rows) {
    const isa::Module module = assembled(fmt::format(
        ".state @x f32[{0},784] = normal(0, 1, key=1)\n.state @y f32[{0},512] = normal(0, 1, "
        "key=2)\n"
        ".state @w f32[784,512] = 0\n.state @v f32[512,512] = 0\n"
        ".func main() {{\n  loop $i = 0 until 2 {{\n    %h = relu @y\n    %d = sin @y\n"
        "    %u = cos @v\n    %e = matmul %d, %u\n    %dv = matmul %h, %d, ta\n    %dw = matmul "
        "@x, %e, ta\n"
        "    sgd! @v, %dv, lr=0.1\n    sgd! @w, %dw, lr=0.1\n  }}\n}}\n",
        rows));
    Plan plan = linked(module, *find_device("h200"));
    CHECK(errors_of(plan) == "");
    return plan;
  };
  const auto tiles_of = [&](const Plan& plan, std::string_view name) {
    return plan.tilings[node_that_gives(plan, name).tiles];
  };
  // 64 and 104 tiles of 64 x 64 are 168 for 132 processors: one behind the other on 36 of them. Of these there is one for each.
  const Plan plan = plan_of(4096);
  CHECK(tiles_of(plan, "%dv").rows == 40);
  CHECK(tiles_of(plan, "%dv").columns == 128);
  CHECK(tiles_of(plan, "%dw").rows == 80);
  CHECK(tiles_of(plan, "%dw").columns == 64);
  std::multiset<uint32_t> busy;
  for (const char* gradient : {"%dv", "%dw"}) {
    const Node& node = node_that_gives(plan, gradient);
    for (uint32_t i = 0; i < node.tasks; ++i)
      busy.insert(plan.tasks[node.first_task + i].processor);
  }
  CHECK(busy.size() == 132);
  CHECK(std::set(busy.begin(), busy.end()).size() == 132);
  const auto place_of = [&](std::string_view name) {
    const auto found = std::ranges::find(plan.buffers, name, &Buffer::name);
    REQUIRE(found != plan.buffers.end());
    return *found;
  };
  const Buffer dw = place_of("%dw");
  for (const char* read : {"%h", "%d"}) {
    const Buffer of = place_of(read);
    CHECK(of.last < dw.first);
    CHECK((of.offset + of.bytes <= dw.offset || dw.offset + dw.bytes <= of.offset));
  }
  CHECK(plan.peak_bytes * 10 <= plan.lower_bound * 11);

  CHECK(tiles_of(plan_of(256), "%dv").columns == 64);
}

TEST_CASE(
    "what is for steps alone beside long gradients has all processors, and so has what it could "
    "have been beside") {
  const isa::Module module = assembled(
      ".state @x f32[4096,784] = normal(0, 1, key=1)\n.state @y f32[4096,512] = normal(0, 1, "
      "key=2)\n"
      ".state @q f32[4096,10] = normal(0, 1, key=3)\n"
      ".state @w f32[784,512] = 0\n.state @v f32[512,512] = 0\n.state @r f32[512,10] = 0\n"
      ".func main() {\n  loop $i = 0 until 2 {\n    %d = matmul @q, @r, tb\n"
      "    %dr = matmul @y, @q, ta\n    sgd! @r, %dr, lr=0.1\n    %u = cos @v\n"
      "    %e = matmul %d, %u\n    %dv = matmul @y, %d, ta\n    sgd! @v, %dv, lr=0.1\n"
      "    %dw = matmul @x, %e, ta\n    sgd! @w, %dw, lr=0.1\n  }\n}\n");
  const Plan plan = linked(module, *find_device("h200"));
  CHECK(errors_of(plan) == "");
  const Node& beside = node_that_gives(plan, "%d");
  const Node& late = node_that_gives(plan, "%dr");
  CHECK(product_of(plan, beside) == Product::shallow);
  CHECK(product_of(plan, late) == Product::narrow);
  CHECK(late.first_task <
        node_that_gives(plan, "%dv").first_task);  // it is done while that would wait
  CHECK(late.level == beside.level);
  CHECK(late.share == 132);
  CHECK(beside.share > 118);  // `cos` has the rest
}

}  // namespace trek::plan::test
