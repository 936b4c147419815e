// Which processor executes which tile of a product by tensor cores.
#include <algorithm>
#include <set>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/product.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

constexpr uint32_t kProcessors = 132;

Plan plan_of_product(int rows, int columns, int depth) {
  const isa::Module module = assembled(
      fmt::format(".state @a bf16[{0},{2}]\n.state @b bf16[{2},{1}]\n.state @c bf16[{0},{1}]\n"
                  ".func main() {{\n  @c = matmul @a, @b\n}}\n",
                  rows, columns, depth));
  Device device;
  device.processors = kProcessors;
  device.shared_bytes = int64_t{192} * 1024;
  return linked_fast(module, device);
}

}  // namespace

TEST_CASE("tiles above each other stand on neighbouring processors, no two of a turn on one") {
  for (const int rows : {280, 384, 1024}) {
    const Plan plan = plan_of_product(rows, 1920, 2544);
    INFO(rows << " rows");
    REQUIRE(plan.nodes.size() == 1);
    const Node& node = plan.nodes[0];
    REQUIRE(product_of(plan, node) == Product::tensor);
    REQUIRE(2 * node.tasks > kProcessors);
    const MatrixTiles& tiles = plan.tilings[node.tiles];
    const auto processor = [&](int64_t row, int64_t column) {
      return plan.tasks[node.first_task + row * tiles.across + column].processor;
    };
    for (int64_t row = 0; row + 1 < tiles.down; row += 2)
      for (int64_t column = 0; column < tiles.across; ++column) {
        CHECK(processor(row, column) % 2 == 0);
        CHECK(processor(row + 1, column) == processor(row, column) + 1);
      }
    std::set<uint32_t> used;
    for (uint32_t i = 0; i < node.tasks; ++i)
      used.insert(plan.tasks[node.first_task + i].processor);
    CHECK(used.size() == std::min(node.tasks, kProcessors));
  }
}

TEST_CASE("tiles that leave room for another node begin where the last one ended") {
  const Plan plan = plan_of_product(208, 1920, 2544);
  REQUIRE(plan.nodes.size() == 1);
  const Node& node = plan.nodes[0];
  REQUIRE(2 * node.tasks <= kProcessors);
  for (uint32_t i = 0; i < node.tasks; ++i)
    CHECK(plan.tasks[node.first_task + i].processor == i + 1);
}

}  // namespace trek::plan::test
