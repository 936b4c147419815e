// Products in parts that an optimizer adds to its gradient.
#include <algorithm>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/product.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

// `step` has the gradient %g; `after` stands behind it.
std::string program(std::string_view step, std::string_view after = "") {
  return fmt::format(R"(
.state @x f32[8200,12] = normal(0, 0.1, key=1)
.state @y f32[8200,40] = normal(0, 0.1, key=2)
.state @w f32[12,40] = normal(0, 1, key=3)
.state @m f32[12,40]
.state @v f32[12,40]
.output @o f32[12,40]
.func main() {{
  loop $i = 0 until 2 {{
    $t = add $i, 1
    %g = matmul @x, @y, ta
    {}
    {}
  }}
}}
)",
                     step, after);
}

Plan in_parts(const isa::Module& module, Device device, int64_t parts) {
  return linked_with_tiles(module, device, {},
                           [&](const MatrixTiles& tiles) { return tiles.split == parts; });
}

size_t nodes_of(const Plan& plan, Unit unit) {
  return static_cast<size_t>(std::ranges::count(plan.nodes, unit, &Node::unit));
}

}  // namespace

TEST_CASE("an optimizer adds the parts of a product that is its gradient") {
  for (const std::string_view step :
       {"adam! @w, @m, @v, %g, lr=0.01, step=$t", "adamw! @w, @m, @v, %g, lr=0.01, step=$t",
        "sgd! @w, %g, lr=0.1", "sgd.momentum! @w, @v, %g, lr=0.1", "rmsprop! @w, @v, %g, lr=0.1"})
    for (const int64_t parts : {2, 3}) {
      INFO(step << " in " << parts << " parts");
      const isa::Module module = assembled(program(step));
      const Plan plan = in_parts(module, small_device(5), parts);
      CHECK(errors_of(plan) == "");
      CHECK(nodes_of(plan, Unit::matrix) == static_cast<size_t>(parts));
      CHECK(nodes_of(plan, Unit::vector) == 0);
      const auto optimizer = std::ranges::find(plan.nodes, Unit::optimizer, &Node::unit);
      REQUIRE(optimizer != plan.nodes.end());
      CHECK(optimizer->operands.size() == optimizer->own_operands + static_cast<size_t>(parts) - 1);
      CHECK((run(module, plan, 1) == reference(module)));
    }
}

TEST_CASE("an optimizer adds parts that are in runs") {
  const isa::Module module = assembled(R"(
.state @x f32[8192,140] = normal(0, 0.1, key=1)
.state @y f32[8192,24] = normal(0, 0.1, key=2)
.state @w f32[140,24] = normal(0, 1, key=3)
.func main() {
  loop $i = 0 until 2 {
    %g = matmul @x, @y, ta
    sgd! @w, %g, lr=0.1
  }
}
)");
  Device device = small_device(3);
  device.copies_tensors = device.has_tags = true;
  device.shared_bytes = int64_t{192} * 1024;
  device.matrix_rows = device.matrix_columns = 64;
  const Plan plan = linked_with_tiles(module, device, {}, [](const MatrixTiles& tiles) {
    return tiles.split == 2 && tiles.runs == 3;
  });
  CHECK(errors_of(plan) == "");
  for (const OfRuns part : {OfRuns::begun, OfRuns::ended})
    CHECK(std::ranges::count(plan.nodes, part, &Node::of_runs) == 2);
  CHECK(nodes_of(plan, Unit::vector) == 0);
  CHECK((run(module, plan, 1) == reference(module)));
}

TEST_CASE(
    "what else reads a gradient, or comes between, leaves its parts to a node that adds them") {
  const std::string_view sgd = "sgd! @w, %g, lr=0.1";
  Device interpreting = small_device(5);
  interpreting.interprets = true;
  const auto check = [&](const std::string& text, const Device& device) {
    INFO(text);
    const isa::Module module = assembled(text);
    const Plan plan = in_parts(module, device, 2);
    CHECK(errors_of(plan) == "");
    CHECK(nodes_of(plan, Unit::vector) > 0);
    for (const Node& node : plan.nodes)
      if (node.unit == Unit::optimizer) CHECK(node.operands.size() == node.own_operands);
    CHECK((run(module, plan, 1) == reference(module)));
  };
  check(program(sgd, "@o = relu %g"), small_device(5));
  check(program("%h = mul %g, 0.5\n    sgd! @w, %h, lr=0.1"), small_device(5));
  check(program(sgd, "sgd! @m, %g, lr=0.1"), small_device(5));
  check(program(sgd), interpreting);
}

TEST_CASE("beside a long gradient an optimizer adds the blocks of a product of a few columns") {
  // @l is what takes long, for two processors.
  const auto program_of = [](int k, int long_k, std::string_view step,
                             std::string_view after = "") {
    return fmt::format(R"(
.state @x f32[{0},24] = normal(0, 0.1, key=1)
.state @y f32[{0},10] = normal(0, 0.1, key=2)
.state @w f32[24,10] = normal(0, 1, key=3)
.state @m f32[24,10]
.state @v f32[24,10]
.state @p f32[{1},64] = normal(0, 0.1, key=4)
.state @q f32[{1},128] = normal(0, 0.1, key=5)
.state @l f32[64,128] = 0
.output @o f32[24,10]
.func main() {{
  loop $i = 0 until 2 {{
    $t = add $i, 1
    %g = matmul @x, @y, ta
    {2}
    {3}
    %d = matmul @p, @q, ta
    sgd! @l, %d, lr=0.1
  }}
}}
)",
                       k, long_k, step, after);
  };
  const auto blocks_of = [](const Plan& plan) {
    const auto product = std::ranges::find(plan.nodes, Unit::matrix, &Node::unit);
    REQUIRE(product != plan.nodes.end());
    return product->main_type.shape.rank() == 3 ? product->main_type.shape[0] : 1;
  };
  for (const std::string_view step :
       {"adam! @w, @m, @v, %g, lr=0.01, step=$t", "adamw! @w, @m, @v, %g, lr=0.01, step=$t",
        "sgd! @w, %g, lr=0.1", "sgd.momentum! @w, @v, %g, lr=0.1", "rmsprop! @w, @v, %g, lr=0.1"}) {
    INFO(step);
    const isa::Module module = assembled(program_of(1088, 1600, step));
    const Plan plan = linked(module, small_device(2));
    CHECK(errors_of(plan) == "");
    CHECK(blocks_of(plan) == 17);
    CHECK((run(module, plan, 1) == reference(module)));
  }
  const auto linked_blocks = [&](int k, int long_k, std::string_view after = "") {
    return blocks_of(
        linked(assembled(program_of(k, long_k, "sgd! @w, %g, lr=0.1", after)), small_device(2)));
  };
  CHECK(linked_blocks(4096, 1600) == 64);
  CHECK(linked_blocks(4160, 1600) == 1);                  // more than a segment
  CHECK(linked_blocks(1092, 1600) == 1);                  // a block that is not whole
  CHECK(linked_blocks(512, 1600) == 1);                   // too few for it
  CHECK(linked_blocks(1088, 64) == 1);                    // no time beside it
  CHECK(linked_blocks(1088, 1600, "@o = copy %g") == 1);  // somebody else reads the gradient
}

}  // namespace trek::plan::test
