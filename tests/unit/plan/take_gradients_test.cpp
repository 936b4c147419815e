// Steps of optimizers that make their gradients: which do, which do not, how they are cut, and the reference's bits.
#include "emulator/plan/take_gradients.h"

#include <algorithm>
#include <set>
#include <tuple>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/print.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

constexpr std::string_view kAdam = "adam! @w, @m, @v, %g, lr=0.01, step=$t";

// A product of [k,m] and [k,n], and a step by it.
std::string program(std::string_view body, int k = 24, int m = 20, int n = 72,
                    std::string_view type = "f32") {
  return fmt::format(R"(
.state @x {4}[{1},{2}] = normal(0, 1, key=1)
.state @y {4}[{1},{3}] = normal(0, 1, key=2)
.state @u {4}[{2},{1}] = normal(0, 1, key=3)
.state @w {4}[{2},{3}] = normal(0, 1, key=4)
.state @m {4}[{2},{3}] = 0
.state @v {4}[{2},{3}] = 0
.state @c {4}[{3}] = normal(0, 1, key=5)
.output @o {4}[{2},{3}]
.func main() {{
  loop $i = 0 until 2 {{
    $t = add $i, 1
    {0}
  }}
}}
)",
                     body, k, m, n, type);
}

std::string product_and(std::string_view step) {
  return fmt::format("%g = matmul @x, @y, ta\n    {}", step);
}

// Whether a program's step makes its gradient in a plan whose bits are the reference's.
bool is_made(const std::string& text) {
  INFO(text);
  const isa::Module module = assembled(text);
  expect_as_reference(module);
  const Plan plan = linked(module, small_device(3));
  CHECK(errors_of(plan) == "");
  const auto steps = std::ranges::count(plan.nodes, true, &Node::makes_gradient);
  const auto products = std::ranges::count(plan.nodes, Unit::matrix, &Node::unit);
  CHECK(steps + products == 1);
  return steps == 1;
}

}  // namespace

TEST_CASE("a step of any rule makes the gradient that it alone reads") {
  for (const std::string_view step :
       {kAdam, std::string_view("adamw! @w, @m, @v, %g, lr=0.01, weight_decay=0.1, step=$t"),
        std::string_view("sgd! @w, %g, lr=0.1"),
        std::string_view("sgd.momentum! @w, @v, %g, lr=0.1, nesterov"),
        std::string_view("rmsprop! @w, @v, %g, lr=0.1")})
    CHECK(is_made(program(product_and(step))));
  CHECK(is_made(program(product_and(kAdam), 120, 64, 64)));
  const Plan plan = linked(assembled(program(product_and(kAdam))), small_device(3));
  CHECK(print_plan(plan).find("[makes its gradient: boxes of 8x128]") != std::string::npos);
}

TEST_CASE("a step of a bias sums the lines of its gradient") {
  const auto is_summed = [](std::string_view sum, int k = 40) {
    const isa::Module module = assembled(fmt::format(R"(
.state @y f32[{0},72] = normal(0, 1, key=1)
.state @w f32[72] = normal(0, 1, key=2)
.state @v f32[72] = 0
.func main() {{
  loop $i = 0 until 2 {{
    {1}
    sgd.momentum! @w, @v, %g, lr=0.1
  }}
}}
)",
                                                     k, sum));
    expect_as_reference(module);
    const Plan plan = linked(module, small_device(3));
    CHECK(errors_of(plan) == "");
    return std::ranges::any_of(plan.nodes, &Node::makes_gradient);
  };
  CHECK(is_summed("%g = sum @y, axis=0"));
  CHECK_FALSE(is_summed("%g = mean @y, axis=0"));
  CHECK_FALSE(is_summed("%z = neg @y\n    %g = sum %z, axis=0"));
  CHECK_FALSE(is_summed("%g = sum @y, axis=0", 16));
  CHECK_FALSE(is_summed("%g = sum @y, axis=0", 300));
}

TEST_CASE("what else reads or changes it, other operands and other products stay") {
  const auto with = [](std::string_view body) { return is_made(program(body)); };
  CHECK_FALSE(with(product_and(fmt::format("{}\n    @o = relu %g", kAdam))));
  CHECK_FALSE(with(product_and("%h = mul %g, 0.5\n    sgd! @w, %h, lr=0.1")));
  CHECK_FALSE(with(product_and("@y = neg @y\n    sgd! @w, %g, lr=0.1")));
  CHECK_FALSE(with("%g = matmul @x, @y, ta, scale=0.5\n    sgd! @w, %g, lr=0.1"));
  CHECK_FALSE(with("%g = matmul @x, @y, ta, bias=@c\n    sgd! @w, %g, lr=0.1"));
  CHECK_FALSE(with("%g = matmul @u, @y\n    sgd! @w, %g, lr=0.1"));
  // Read in another shape: a box of the weights is none of the product.
  CHECK_FALSE(is_made(R"(
.state @x f32[24,32] = normal(0, 1, key=1)
.state @y f32[24,72] = normal(0, 1, key=2)
.state @w f32[16,144] = normal(0, 1, key=3)
.func main() {
  %g = matmul @x, @y, ta
  %h = reshape %g, shape=[16,144]
  sgd! @w, %h, lr=0.1
}
)"));
  // A step that changes what the gradient is of.
  CHECK_FALSE(is_made(program("%g = matmul @x, @x, ta\n    sgd! @x, %g, lr=0.1", 72, 72, 72)));
  for (const auto& [k, m, n] : {std::tuple{20, 20, 72},
                                {136, 20, 72},
                                {24, 18, 72},
                                {24, 20, 70},
                                {24, 12, 72},
                                {24, 20, 60}})
    CHECK_FALSE(is_made(program(product_and(kAdam), k, m, n)));
  CHECK_FALSE(is_made(program(product_and(kAdam), 24, 20, 72, "f64")));
  const isa::Module module = assembled(program(product_and(kAdam)));
  Device computer = small_device(3);
  computer.packs_panels = true;
  CHECK(std::ranges::count(linked(module, computer).nodes, Unit::matrix, &Node::unit) == 1);
}

TEST_CASE("a step before the first is the optimizer's trap, whose gradient is made") {
  const isa::Module module =
      assembled(program(product_and("adam! @w, @m, @v, %g, lr=0.01, step=$i")));
  const Plan plan = linked(module, small_device(3));
  REQUIRE(std::ranges::count(plan.nodes, true, &Node::makes_gradient) == 1);
  const Outcome outcome = run(module, plan, 1);
  CHECK(outcome.trap != "");
  CHECK(outcome.trap == reference(module).trap);
}

// The steps of a network, whose gradients of weights are steps' own.
TEST_CASE("steps that make their gradients have a processor each, and what is small the others") {
  const isa::Module module = assembled(R"(
.state @x f32[128,784] = normal(0, 1, key=1)
.state @w f32[784,512] = normal(0, 0.1, key=2)
.state @u f32[512,512] = normal(0, 0.1, key=3)
.state @b f32[512] = 0
.func main() {
  loop $i = 0 until 2 {
    %h = matmul @x, @w, bias=@b, tail=relu
    %z = matmul %h, @u
    %a = matmul %z, @u, tb
    %d = relu.grad %a, %h
    %du = matmul %h, %z, ta
    sgd! @u, %du, lr=0.1
    %db = sum %d, axis=0
    sgd! @b, %db, lr=0.1
    %dw = matmul @x, %d, ta
    sgd! @w, %dw, lr=0.1
  }
}
)");
  for (const bool interprets : {false, true}) {
    Device device = *find_device("h200");
    device.interprets = interprets;
    const Plan plan = linked(module, device);
    CHECK(errors_of(plan) == "");
    std::vector<int> tasks(static_cast<size_t>(device.processors), 0);
    uint32_t all = 0;
    const auto each_task = [&](bool in_boxes, auto&& act) {
      for (const Node& node : plan.nodes)
        if (node.unit == Unit::optimizer && (node.tiling == Tiling::boxes) == in_boxes)
          for (uint32_t t = 0; t < node.tasks; ++t) act(plan.tasks[node.first_task + t].processor);
    };
    each_task(true, [&](uint32_t processor) {
      ++tasks[processor];
      ++all;
    });
    CHECK(2 * all > tasks.size());
    CHECK(std::ranges::all_of(tasks, [](int of_one) { return of_one <= 1; }));
    CHECK(all < tasks.size());
    each_task(false, [&](uint32_t processor) { CHECK(tasks[processor] == 0); });
  }
}

// Every element of the weights is in one box, of a size that the unit has.
TEST_CASE("boxes of steps are of sizes that a unit has, and more where there is more to do") {
  std::set<int64_t> sizes;
  for (const auto& [m, n] : {std::pair{16, 64},
                             {260, 512},
                             {300, 512},
                             {512, 1024},
                             {620, 1024},
                             {700, 1024},
                             {1024, 2048},
                             {784, 512}}) {
    const Plan plan = linked(assembled(program(product_and("sgd! @w, %g, lr=0.1"), 128, m, n)),
                             *find_device("h200"));
    const auto step = std::ranges::find_if(plan.nodes, &Node::makes_gradient);
    REQUIRE(step != plan.nodes.end());
    const BoxSize boxes = step_boxes(*step);
    INFO(m << "x" << n << ": " << boxes.lines << "x" << boxes.columns);
    CHECK(std::ranges::count(kStepColumns, boxes.columns) == 1);
    CHECK(boxes.lines * boxes.columns % kStepOutputs == 0);
    sizes.insert(boxes.lines * boxes.columns / kStepOutputs);
    const isa::Shape& shape = step->operand_types[0].shape;
    REQUIRE(step->tasks == count_of(shape, boxes));
    expect_each_in_one(shape, boxes);
  }
  CHECK(sizes == std::set<int64_t>{1, 2, 4, 5, 6});
}

}  // namespace trek::plan::test
