// Which processor executes which tile of a product by tensor cores.
#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/product.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

constexpr uint32_t kProcessors = 132;

// What tiles are wanted of a product, whatever the cost model thinks of them.
struct Wanted {
  int64_t part_columns = 128;
  Pairing pairing = Pairing::none;
  bool transposed = false;
};

Plan plan_of_product(int rows, int columns, int depth, std::optional<Wanted> wanted,
                     bool has_pairs) {
  const isa::Module module = assembled(
      fmt::format(".state @a bf16[{0},{2}]\n.state @b bf16[{2},{1}]\n.state @c bf16[{0},{1}]\n"
                  ".func main() {{\n  @c = matmul @a, @b\n}}\n",
                  rows, columns, depth));
  Device device;
  device.processors = kProcessors;
  device.shared_bytes = int64_t{192} * 1024;
  device.has_pairs = has_pairs;
  if (!wanted) return linked_fast(module, device);
  device.copies_tensors = true;
  return linked_with_tiles(module, device, {.fast = true}, [&](const MatrixTiles& tiles) {
    return tiles.part_columns == wanted->part_columns && tiles.pairing == wanted->pairing &&
           tiles.transposed == wanted->transposed && tiles.split == 1;
  });
}
Plan plan_with_tiles(int rows, int columns, int depth, const Wanted& wanted) {
  return plan_of_product(rows, columns, depth, wanted, wanted.pairing != Pairing::none);
}

}  // namespace

TEST_CASE("tiles above each other stand on neighbouring processors, no two of a turn on one") {
  for (const int rows : {280, 384, 1024}) {
    const Plan plan = plan_with_tiles(rows, 1920, 2544, {64});
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

TEST_CASE("tiles that two processors share stand on neighbours, of which the first is even") {
  for (const auto& [rows, columns, depth, part] :
       {std::tuple{128, 4096, 4096, 64}, {1000, 1096, 1024, 128}, {280, 1920, 2544, 128}}) {
    const Plan plan = plan_with_tiles(rows, columns, depth, {part, Pairing::depth});
    INFO(rows << " x " << columns << " x " << depth);
    REQUIRE(plan.nodes.size() == 1);
    const Node& node = plan.nodes[0];
    REQUIRE(pairing_of(plan, node) == Pairing::depth);
    CHECK(errors_of(plan).empty());
    std::set<uint32_t> used;
    for (uint32_t i = node.first_task; i < node.first_task + node.tasks; i += 2) {
      CHECK(plan.tasks[i].processor % 2 == 0);
      CHECK(plan.tasks[i + 1].processor == plan.tasks[i].processor + 1);
      CHECK((plan.tasks[i].processor != plan.control() || node.tasks >= kProcessors));
      used.insert(plan.tasks[i].processor);
    }
    CHECK(2 * used.size() == std::min(node.tasks, kProcessors));
    const Plan without = plan_of_product(rows, columns, depth, {}, false);
    CHECK(pairing_of(without, without.nodes[0]) == Pairing::none);
  }
}

TEST_CASE(
    "tiles above each other that two processors bring columns for are neighbours, the last alone") {
  Plan plan = plan_with_tiles(4128, 744, 6280, {192, Pairing::columns});
  REQUIRE(plan.nodes.size() == 1);
  const Node& node = plan.nodes[0];
  REQUIRE(pairing_of(plan, node) == Pairing::columns);
  const MatrixTiles& tiles = plan.tilings[node.tiles];
  CHECK(errors_of(plan).empty());
  std::set<uint32_t> used;
  for (int64_t i = 0; i < node.tasks; ++i) {
    const uint32_t processor = plan.tasks[node.first_task + static_cast<uint32_t>(i)].processor;
    used.insert(processor);
    const int64_t other = partner_of(tiles, i);
    const bool is_last = i / tiles.across == tiles.down - 1;
    CHECK((other == kNone) == (is_last && tiles.down % 2 != 0));
    if (other == kNone) continue;
    CHECK(partner_of(tiles, other) == i);
    CHECK(other % tiles.across == i % tiles.across);
    CHECK(plan.tasks[node.first_task + static_cast<uint32_t>(other)].processor == (processor ^ 1));
  }
  CHECK(used.size() == std::min(node.tasks, kProcessors));
  std::swap(plan.tasks[node.first_task].processor, plan.tasks[node.first_task + 1].processor);
  CHECK_THAT(errors_of(plan), Catch::Contains("are no pair"));
}

TEST_CASE("tiles that are alone stand beside each other, near those of their rows") {
  const Plan plan = plan_with_tiles(8728, 632, 4464, {192, Pairing::columns, true});
  REQUIRE(plan.nodes.size() == 1);
  const Node& node = plan.nodes[0];
  const MatrixTiles& tiles = plan.tilings[node.tiles];
  CHECK(errors_of(plan).empty());
  REQUIRE(tiles.across == 5);
  REQUIRE(tiles.down % 2 == 0);
  const auto processor = [&](int64_t row, int64_t column) {
    return plan.tasks[node.first_task + row * tiles.across + column].processor;
  };
  for (int64_t row = 0; row < tiles.down; row += 2) {
    CHECK(partner_of(tiles, row * tiles.across + 4) == kNone);
    CHECK(processor(row, 4) % 2 == 0);
    CHECK(processor(row + 1, 4) == processor(row, 4) + 1);
    CHECK((processor(row, 4) + kProcessors - processor(row, 0)) % kProcessors == 8);
  }
}

TEST_CASE("rows of a product that are a node of their own begin and end with a pair") {
  Plan plan = plan_of_product(8728, 632, 4464, {}, true);
  CHECK(errors_of(plan).empty());
  size_t parts = 0;
  uint32_t above = kNone;  // a node whose pairs stand above each other
  for (uint32_t n = 0; n < plan.nodes.size(); ++n) {
    const Node& node = plan.nodes[n];
    if (node.rows.count == 0 || pairing_of(plan, node) == Pairing::none) continue;
    const MatrixTiles& tiles = plan.tilings[node.tiles];
    CHECK(node.rows.first % rows_together(tiles) == 0);
    if (rows_together(tiles) != tiles.rows) above = n;
    for (int64_t i = tiles.first; i < tiles.first + tiles.count; ++i) {
      const int64_t other = partner_of(tiles, i);
      CHECK((other == kNone || (other >= tiles.first && other < tiles.first + tiles.count)));
    }
    ++parts;
  }
  CHECK(parts > 1);
  REQUIRE(above != kNone);
  MatrixTiles& tiles = plan.tilings[plan.nodes[above].tiles];
  const auto row = static_cast<uint32_t>(tiles.across);
  tiles.count -= row;
  plan.nodes[above].tasks -= row;
  CHECK_THAT(errors_of(plan), Catch::Contains("of a pair that two nodes share"));
}

TEST_CASE("a pair that is torn apart is found") {
  const auto errors_with = [](auto change) {
    Plan plan = plan_with_tiles(128, 4096, 4096, {64, Pairing::depth});
    change(plan, plan.nodes[0].first_task);
    return errors_of(plan);
  };
  CHECK_THAT(errors_with([](Plan& plan, uint32_t first) { plan.tasks[first + 1].processor = 9; }),
             Catch::Contains("are no pair"));
  CHECK_THAT(errors_with([](Plan& plan, uint32_t first) {
               std::swap(plan.tasks[first].processor, plan.tasks[first + 1].processor);
             }),
             Catch::Contains("are no pair"));
  CHECK_THAT(errors_with([](Plan& plan, uint32_t) { plan.device.has_pairs = false; }),
             Catch::Contains("for pairs of processors, which there are not"));
}

TEST_CASE("tiles that leave room for another node begin where the last one ended") {
  const Plan plan = plan_with_tiles(208, 1920, 2544, {});
  REQUIRE(plan.nodes.size() == 1);
  const Node& node = plan.nodes[0];
  REQUIRE(2 * node.tasks <= kProcessors);
  for (uint32_t i = 0; i < node.tasks; ++i)
    CHECK(plan.tasks[node.first_task + i].processor == i + 1);
}

TEST_CASE("beside long gradients what is short is where and when processors wait") {
  const isa::Module module = assembled(R"(
.state @x f32[4096,784] = normal(0, 1, key=1)
.state @y f32[4096,512] = normal(0, 1, key=2)
.state @w f32[784,512] = normal(0, 1, key=3)
.state @v f32[512,512] = normal(0, 1, key=4)
.state @b f32[512] = 0
.func main() {
  loop $i = 0 until 2 {
    %h = matmul @x, @w, tail=relu
    %e = matmul %h, @v, tb
    %dv = matmul %e, %h, ta
    %db = sum %e, axis=0
    sgd! @v, %dv, lr=0.1
    sgd! @b, %db, lr=0.1
    %dw = matmul @x, %e, ta
    sgd! @w, %dw, lr=0.1
  }
}
)");
  const Plan plan = linked(module, *find_device("h200"));
  CHECK(errors_of(plan) == "");
  const auto processors_of = [&](auto is_it) {
    std::multiset<uint32_t> found;
    for (const Node& node : plan.nodes)
      for (uint32_t i = 0; is_it(node) && i < node.tasks; ++i)
        found.insert(plan.tasks[node.first_task + i].processor);
    return found;
  };
  const auto gives = [&](const Node& node, std::string_view name) {
    return !node.results.empty() && plan.buffers[plan.views[node.results[0]].buffer].name == name;
  };
  const auto layer = processors_of([&](const Node& node) { return gives(node, "%h"); });
  REQUIRE(layer.size() == 128);
  // @v is turned around while that is multiplied, by those that have no tile of it.
  const auto turned =
      processors_of([](const Node& node) { return node.opcode == isa::Opcode::Permute; });
  const auto beside = std::ranges::count_if(
      turned, [&](uint32_t processor) { return layer.count(processor) == 0; });
  CHECK(2 * static_cast<size_t>(beside) > turned.size());
  // A tile of gradients for each, and a part of the steps for most; of which some are left for what is small.
  const auto gradients =
      processors_of([&](const Node& node) { return gives(node, "%dv") || gives(node, "%dw"); });
  CHECK(gradients.size() == kProcessors);
  CHECK(std::set(gradients.begin(), gradients.end()).size() == kProcessors);
  const auto steps = processors_of([](const Node& node) { return node.unit == Unit::optimizer; });
  CHECK(std::set(steps.begin(), steps.end()).size() > kProcessors / 2);
  CHECK(steps.count(0) == 0);
  // Sums of a bias are not put behind the next gradient: their processors would wait there.
  const auto first_of = [&](auto is_it) {
    return std::ranges::find_if(plan.nodes, is_it)->first_task;
  };
  CHECK(first_of([&](const Node& node) { return gives(node, "%db.tiles"); }) <
        first_of([&](const Node& node) { return gives(node, "%dw"); }));
  CHECK(first_of([&](const Node& node) { return gives(node, "%db"); }) >
        first_of([&](const Node& node) { return gives(node, "%dw"); }));
}

}  // namespace trek::plan::test
