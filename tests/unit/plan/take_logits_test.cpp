// Losses that make their logits, and give what the layer before wants: which do, which do not, and the reference's bits.
#include "emulator/plan/take_logits.h"

#include <algorithm>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

// The end of a network: rows of `row` elements, and classes.
std::string program(std::string_view body, int rows = 29, int row = 72, int classes = 10,
                    std::string_view type = "f32") {
  return fmt::format(R"(
.state @h {4}[{1},{2}] = normal(0, 1, key=1)
.state @w {4}[{2},{3}] = normal(0, 1, key=2)
.state @b {4}[{3}] = normal(0, 1, key=3)
.state @r {4}[{1},{2}] = normal(0, 1, key=4)
.state @loss {4}[]
.state @losses {4}[{1}]
.state @z {4}[{1},{3}]
.state @dz {4}[{1},{3}]
.state @d {4}[{1},{2}]
.func main() {{
  %n = iota shape=[{1}], to=i64, axis=0
  %t = mod %n, {3}
  loop $i = 0 until 2 {{
    {0}
  }}
}}
)",
                     body, rows, row, classes, type);
}

constexpr std::string_view kLayer = "%z = matmul @h, @w, bias=@b\n    ";
constexpr std::string_view kLoss = "%loss, %dz = cross_entropy.with_grad %z, %t, mean\n    ";
constexpr std::string_view kKeep = "@loss = copy %loss\n    @dz = copy %dz\n    ";

enum class Makes { nothing, logits, both };

// What the loss of a program makes, in a plan whose bits are the reference's.
Makes makes(const std::string& text) {
  INFO(text);
  const isa::Module module = assembled(text);
  expect_as_reference(module);
  const Plan plan = linked(module, small_device(30));
  CHECK(errors_of(plan) == "");
  const auto loss = std::ranges::find_if(plan.nodes, &Node::makes_logits);
  if (loss == plan.nodes.end()) return Makes::nothing;
  CHECK(loss->tasks == 29);
  CHECK((run(module, plan, 1) == reference(module)));
  return loss->back == Back::none ? Makes::logits : Makes::both;
}
Makes makes_of(std::initializer_list<std::string_view> parts) {
  std::string body;
  for (const std::string_view part : parts) body += part;
  return makes(program(body));
}

}  // namespace

TEST_CASE("a loss makes the logits that it alone reads, and gives what goes back") {
  CHECK(makes_of({kLayer, kLoss, kKeep}) == Makes::logits);
  CHECK(makes_of({kLayer, kLoss, kKeep,
                  "%a = matmul %dz, @w, tb\n    %e = neg %a\n    @d = exp %e"}) == Makes::logits);
  // What goes back has to be of this trip, in a register.
  const std::string_view back = "%a = matmul %dz, @w, tb\n    %d = relu.grad %a, @h\n    ";
  const std::string_view use = "@d = matmul %d, @q\n    ";
  const auto with_square = [&](std::string_view body) {
    return makes(".state @q f32[72,72] = normal(0, 1, key=5)" + program(body));
  };
  CHECK(with_square(fmt::format("{}{}{}{}{}", kLayer, kLoss, kKeep, back, use)) == Makes::both);
  CHECK(with_square(fmt::format("%z = matmul @h, @w\n    {}{}%d = matmul %dz, @w, tb\n    {}",
                                kLoss, kKeep, use)) == Makes::both);
  CHECK(with_square(fmt::format("{}%loss, %dz = cross_entropy.with_grad %z, %t, sum\n    {}{}{}",
                                kLayer, kKeep, back, use)) == Makes::both);
  CHECK(with_square(fmt::format("{}%l, %dz = cross_entropy.with_grad %z, %t, none\n    @losses = "
                                "copy %l\n    {}{}",
                                kLayer, back, use)) == Makes::both);
  CHECK(makes_of({kLayer, "@losses = cross_entropy %z, %t, none"}) == Makes::logits);
  // Other weights, other rows, or rows that change in between.
  CHECK(with_square(fmt::format("{}{}{}%a = matmul %dz, @w, tb\n    %d = relu.grad %a, @r\n    {}",
                                kLayer, kLoss, kKeep, use)) == Makes::logits);
  CHECK(with_square(fmt::format("{}{}{}@h = neg @h\n    {}{}", kLayer, kLoss, kKeep, back, use)) ==
        Makes::logits);
  // Or a gradient that does.
  CHECK(
      with_square(fmt::format("{}%loss, @dz = cross_entropy.with_grad %z, %t, mean\n    @loss = "
                              "copy %loss\n    @dz = neg @dz\n    %d = matmul @dz, @w, tb\n    {}",
                              kLayer, use)) == Makes::logits);
  // What nobody reads is not given.
  CHECK(makes_of({kLayer, kLoss, kKeep, "%d = matmul %dz, @w, tb"}) == Makes::logits);
}

TEST_CASE("logits that others read, and layers of other kinds, stay") {
  CHECK(makes_of({kLayer, kLoss, kKeep, "@z = copy %z"}) == Makes::nothing);
  CHECK(makes_of({"%z = matmul @h, @w, bias=@b, scale=0.5\n    ", kLoss, kKeep}) == Makes::nothing);
  CHECK(makes_of({"%y = matmul @h, @w\n    %z = tanh %y\n    ", kLoss, kKeep}) == Makes::nothing);
  CHECK(makes_of({kLayer, "@w = neg @w\n    ", kLoss, kKeep}) == Makes::nothing);
  const std::string body = fmt::format("{}{}{}", kLayer, kLoss, kKeep);
  CHECK(makes(program(body, 29, 72, 33)) == Makes::nothing);
  CHECK(makes(program(body, 29, 74, 10)) == Makes::nothing);
  CHECK(makes(program(body, 31, 72, 10)) == Makes::nothing);
  CHECK(makes(program(body, 29, 72, 10, "f64")) == Makes::nothing);
}

TEST_CASE("under fast numerics a task has two rows") {
  const isa::Module module = assembled(program(fmt::format("{}{}{}", kLayer, kLoss, kKeep)));
  for (const auto& [processors, rows] : {std::pair{30, 1}, {15, 2}, {14, 0}}) {
    const Plan plan = linked_fast(module, small_device(processors));
    CHECK(errors_of(plan) == "");
    const auto loss = std::ranges::find_if(plan.nodes, &Node::makes_logits);
    REQUIRE((loss != plan.nodes.end()) == (rows != 0));
    if (rows != 0) CHECK(plan.tasks[loss->first_task].count == rows);
  }
}

TEST_CASE("a class that does not exist is the loss's trap, whose logits are made") {
  std::string text = program(fmt::format("{}{}{}", kLayer, kLoss, kKeep));
  text.replace(text.find("mod %n, 10"), 10, "mod %n, 11");
  const isa::Module module = assembled(text);
  const Plan plan = linked(module, small_device(30));
  REQUIRE(std::ranges::any_of(plan.nodes, &Node::makes_logits));
  const Outcome outcome = run(module, plan, 1);
  CHECK(outcome.trap != "");
  CHECK(outcome.trap == reference(module).trap);
}

}  // namespace trek::plan::test
