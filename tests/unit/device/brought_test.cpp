// What is said to be brought for the tiles of a product: that all tiles together are the product, each once.
#include "emulator/device/brought.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/device/describe.h"
#include "emulator/device/matrix_turns.h"
#include "emulator/device/ring.h"
#include "tests/unit/plan/run.h"

namespace trek::device::test {
namespace {

using tensor::Brought;
using tensor::brought_of;

struct Product {
  const char* element;
  int m;
  int n;
  int k;
  bool ta;
  bool tb;
  int batch;
};

std::string operand(const Product& of, int rows, int columns) {
  return of.batch == 1 ? fmt::format("{}[{},{}]", of.element, rows, columns)
                       : fmt::format("{}[{},{},{}]", of.element, of.batch, rows, columns);
}

// What tiles of a node do with the ring is what is said of the node, and each of that is done by one.
void check_uses(const Node& node, const std::vector<Brought>& tiles) {
  uint32_t uses = 0;
  const auto note = [&](bool does, tensor::RingUse use) { uses |= does ? use : 0U; };
  for (const Brought& brought : tiles) {
    note(is_asked_by_line(brought), tensor::kAskedByLine);
    note(!is_asked_by_line(brought), tensor::kAskedBySlot);
    note(brought.brings_halves, tensor::kHalvesBrought);
    note(brought.shares_columns, tensor::kColumnsShared);
    note(brought.shares_depth, tensor::kDepthShared);
    note(brought.ends, tensor::kEnded);
    note(brought.first_run != brought.end_run, tensor::kBegunAdded);
  }
  const bool by_tensor_cores =
      static_cast<device::Product>(node.matrix.product) == device::Product::tensor;
  note(by_tensor_cores, tensor::kByTensorCores);
  note(!by_tensor_cores, tensor::kInOrder);
  CHECK(tensor::ring_uses(node) == uses);
}

// Of a product, on an H200, what is brought for each task; none where its operands have no tensor maps. `is_wanted`: of
// tiles that are so, also of those in runs, else of those that the cost model chooses.
using IsWanted = std::function<bool(const plan::MatrixTiles&)>;
std::vector<Brought> all_brought(const Product& of, plan::Pairing pairing = plan::Pairing::none,
                                 const IsWanted& is_wanted = nullptr) {
  plan::Device device = *plan::find_device("h200");
  device.has_pairs = pairing != plan::Pairing::none;
  device.has_tags = is_wanted != nullptr;
  const isa::Module module = plan::test::assembled(
      fmt::format(".state @a {} = 1\n.state @b {} = 1\n.output @x {}\n.func main() {{\n@x = matmul "
                  "@a, @b{}{}\n}}\n",
                  of.ta ? operand(of, of.k, of.m) : operand(of, of.m, of.k),
                  of.tb ? operand(of, of.n, of.k) : operand(of, of.k, of.n),
                  operand(of, of.m, of.n), of.ta ? ", ta" : "", of.tb ? ", tb" : ""));
  plan::LinkOptions options;
  options.fast = std::string_view(of.element) != "f32";
  const auto linked = [&] {
    if (is_wanted) return plan::test::linked_with_tiles(module, device, options, is_wanted);
    auto plan = plan::link(module, device, options);
    REQUIRE(plan);
    return plan.take();
  };
  const plan::Plan plan = linked();
  std::vector<Brought> all;
  for (uint32_t number = 0; number < plan.nodes.size(); ++number) {
    if (plan.nodes[number].opcode != isa::Opcode::Matmul) continue;
    Described described = describe(plan, number);
    described.set_scratch(1 << 20);
    if (!is_copied(described.node())) return {};
    if (static_cast<Pairing>(described.node().matrix.pairing) != static_cast<Pairing>(pairing))
      return {};
    std::vector<Brought> of_node;
    for (const plan::Task& task : plan.tasks)
      if (task.node == number) of_node.push_back(brought_of(described.node(), task.first));
    check_uses(described.node(), of_node);
    all.insert(all.end(), of_node.begin(), of_node.end());
  }
  return all;
}

// The slots of a part, by where they begin in k.
std::vector<uint32_t> slots_of(const Brought& brought) {
  std::vector<uint32_t> slots;
  SlotOrder order = {brought.k, brought.depth, brought.block, brought.round, brought.first_k};
  do slots.push_back(order.k);
  while (order.next());
  std::sort(slots.begin(), slots.end());
  return slots;
}

}  // namespace

TEST_CASE("tiles whose operands are brought are the product, each element once") {
  for (const Product& of : {
           Product{"bf16", 512, 512, 512, false, true, 1},
           Product{"bf16", 1000, 1096, 1024, false, true, 1},
           Product{"bf16", 2048, 768, 4096, true, false, 1},
           Product{"f16", 4296, 3048, 56, false, false, 1},
           Product{"f32", 1024, 1024, 1024, false, false, 1},
           Product{"bf16", 256, 256, 512, false, true, 6},
       }) {
    INFO(of.element << " " << of.m << " x " << of.n << " x " << of.k);
    const std::vector<Brought> all = all_brought(of);
    REQUIRE(!all.empty());
    std::set<std::tuple<uint32_t, uint32_t, uint32_t>> parts;
    uint64_t outputs = 0;
    for (const Brought& brought : all) {
      CHECK(brought.left_matrix == brought.batch);
      CHECK(brought.right_matrix == brought.batch);
      CHECK(brought.batch < static_cast<uint32_t>(of.batch));
      CHECK(brought.end_row <= static_cast<uint32_t>(of.m));
      CHECK(brought.end_column <= static_cast<uint32_t>(of.n));
      outputs += uint64_t{brought.end_row - brought.first_row} *
                 (brought.end_column - brought.first_column);
      for (uint32_t row = brought.first_row; row < brought.end_row; row += brought.rows)
        for (uint32_t column = brought.first_column; column < brought.end_column;
             column += brought.columns)
          CHECK(parts.insert({brought.batch, row, column}).second);
      const std::vector<uint32_t> slots = slots_of(brought);
      CHECK(slots.size() == brought.steps);
      for (size_t i = 0; i < slots.size(); ++i) CHECK(slots[i] == i * brought.depth);
      CHECK(slots.size() * brought.depth >= static_cast<size_t>(of.k));
      CHECK(brought.slots * tensor::Ring90::slot_bytes(brought.columns, brought.rows) <=
            tensor::Ring90::kRoom);
      CHECK(brought.maps == 1 << 20);
      const tensor::Joint& joint = brought.joint;
      CHECK(joint.form == all.front().joint.form);
      CHECK(overlap(joint.left, joint.left));
      CHECK(!overlap(joint.left, joint.right));
      CHECK(!overlap(joint.left, joint.result));
      CHECK(!overlap(joint.right, joint.result));
    }
    CHECK(outputs == uint64_t{1} * of.batch * of.m * of.n);
  }
}

TEST_CASE("of a pair by depth each brings half of the steps of both") {
  const Product of{"bf16", 128, 4096, 4096, false, true, 1};
  const std::vector<Brought> all = all_brought(of, plan::Pairing::depth);
  REQUIRE(!all.empty());
  std::map<uint32_t, std::vector<Brought>> pairs;  // by their first column
  for (const Brought& brought : all) pairs[brought.first_column].push_back(brought);
  for (const auto& [column, pair] : pairs) {
    REQUIRE(pair.size() == 2);
    const Brought& lower = pair[pair[0].half];
    const Brought& upper = pair[1 - pair[0].half];
    CHECK((lower.half == 0 && upper.half == 1));
    CHECK(lower.end_column == upper.end_column);
    CHECK(lower.end_column - lower.first_column <= lower.columns);
    CHECK((lower.shares_depth && upper.shares_depth));
    CHECK((lower.joint.form != tensor::Joint::kAlone && lower.joint.form == upper.joint.form));
    std::vector<uint32_t> steps = slots_of(lower);
    const std::vector<uint32_t> others = slots_of(upper);
    CHECK(steps.size() == lower.steps);
    CHECK(others.size() == upper.steps);
    steps.insert(steps.end(), others.begin(), others.end());
    for (size_t i = 0; i < steps.size(); ++i) CHECK(steps[i] == i * lower.depth);
    CHECK(steps.size() * lower.depth >= static_cast<size_t>(of.k));
  }
}

TEST_CASE(
    "of a pair by columns both give slots back to both, and a tile that is alone brings all") {
  const Product of{"bf16", 4128, 744, 6280, false, false, 1};
  const std::vector<Brought> all = all_brought(of, plan::Pairing::columns);
  REQUIRE(!all.empty());
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> halves;  // by rows and columns of the tile
  for (const Brought& brought : all)
    halves[{brought.first_row, brought.first_column}] = brought.half;
  uint32_t alone = 0;
  for (const Brought& brought : all) {
    CHECK(brought.brings_halves);
    CHECK((brought.joint.form != tensor::Joint::kAlone) == brought.shares_columns);
    CHECK(brought.readers == (brought.shares_columns ? 4 : 2));
    const uint32_t rows = all.front().end_row - all.front().first_row;
    const uint32_t other = brought.half == 0 ? brought.first_row + rows : brought.first_row - rows;
    const auto found = halves.find({other, brought.first_column});
    if (!brought.shares_columns) ++alone;
    if (!brought.shares_columns) continue;
    REQUIRE(found != halves.end());
    CHECK(found->second == 1 - brought.half);
  }
  CHECK(alone < all.size() / 2);
}

TEST_CASE(
    "of a product in runs tasks bring all k of each tile once, and know whose sums they add") {
  for (const Product& of : {Product{"bf16", 768, 3000, 16400, true, false, 1},
                            Product{"f16", 3000, 632, 4464, false, false, 1}})
    for (const bool transposed : {false, true}) {
      const std::vector<Brought> all =
          all_brought(of, plan::Pairing::none, [&](const plan::MatrixTiles& tiles) {
            return tiles.runs != 0 && tiles.part_columns == 192 && tiles.transposed == transposed;
          });
      REQUIRE(!all.empty());
      struct Tile {
        std::map<uint32_t, uint32_t> k;  // where tasks begin, and end
        std::set<uint32_t> begun;        // by runs
        Brought ends{};
      };
      std::map<std::pair<uint32_t, uint32_t>, Tile> tiles;
      for (const Brought& brought : all) {
        Tile& tile = tiles[{brought.first_row, brought.first_column}];
        tile.k[brought.first_k] = brought.k;
        CHECK(slots_of(brought).size() == brought.steps);
        CHECK(slots_of(brought).front() == brought.first_k);
        CHECK(brought.joint.form == all.front().joint.form);
        if (brought.k == static_cast<uint32_t>(of.k))
          tile.ends = brought;
        else
          CHECK(tile.begun.insert(brought.first_run).second);
      }
      CHECK(tiles.size() == static_cast<size_t>(transposed
                                                    ? (of.m + 191) / 192 * ((of.n + 127) / 128)
                                                    : (of.n + 191) / 192 * ((of.m + 127) / 128)));
      for (const auto& [place, tile] : tiles) {
        uint32_t k = 0;
        for (const auto& [first, end] : tile.k) {
          CHECK(first == k);
          k = end;
        }
        CHECK(k == static_cast<uint32_t>(of.k));
        std::set<uint32_t> added;
        for (uint32_t run = tile.ends.first_run; run < tile.ends.end_run; ++run) added.insert(run);
        CHECK(added == tile.begun);
      }
    }
}

TEST_CASE(
    "of a transposed product operands have changed sides, and wide parts come in two copies") {
  const Product of{"bf16", 632, 300, 1024, false, false, 1};
  for (const plan::Pairing pairing :
       {plan::Pairing::none, plan::Pairing::depth, plan::Pairing::columns}) {
    const std::vector<Brought> all = all_brought(of, pairing, [&](const plan::MatrixTiles& tiles) {
      return tiles.transposed && tiles.part_columns == 320 && tiles.pairing == pairing &&
             tiles.split == 1;
    });
    REQUIRE(!all.empty());
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> steps;  // of parts
    for (const Brought& brought : all) {
      CHECK(!brought.a_by_line);
      CHECK(brought.b_by_line);
      CHECK(brought.brings_halves);
      CHECK(brought.right_lines == 160);
      CHECK(brought.slots == 3);
      CHECK(brought.end_row <= 300);
      CHECK(brought.end_column <= 632);
      CHECK(brought.end_row - brought.first_row <= brought.rows);
      CHECK(brought.end_column - brought.first_column <= brought.columns);
      steps[{brought.first_row, brought.first_column}] += brought.steps;
    }
    CHECK(steps.size() == 3 * 2);
    for (const auto& [part, count] : steps) CHECK(count == 16);
  }
}

// How many blocks meet before tiles of the product of a program, on a device of so many processors that makes code.
uint32_t meeting_in(const std::string& body, int processors, int depth = 4096,
                    bool makes_code = true) {
  plan::Device device = *plan::find_device("h200");
  device.processors = processors;
  device.has_pairs = makes_code;
  device.interprets = !makes_code;
  const isa::Module module = plan::test::assembled(fmt::format(
      ".param $trips i64 = 1\n.state @a bf16[128,{0}] = 1\n.state @b bf16[{1},{0}] = 1\n"
      ".state @d bf16[{1},{1}] = 1\n.state @n i64[8]\n.output @c bf16[128,{1}]\n.output @e "
      "bf16[128,{1}]\n.func main() {{\n{2}\n}}\n",
      depth, 32 * processors, body));
  plan::LinkOptions options;
  options.fast = true;
  const auto plan = plan::link(module, device, options);
  REQUIRE(plan);
  for (uint32_t number = 0; number < plan->nodes.size(); ++number) {
    if (plan->nodes[number].opcode != isa::Opcode::Matmul) continue;
    Described described = describe(*plan, number);
    described.set_scratch(0);
    REQUIRE(is_copied(described.node()));
    const bool meets = described.node().matrix.meets != 0;
    const auto maps = static_cast<int64_t>(described.maps.size()) * kTensorMapBytes;
    CHECK(described.scratch_bytes >= maps + (meets ? kMeetingBytes : 0));
    const uint32_t meeting = brought_of(described.node(), 0).meeting;
    CHECK((meeting != 0) == meets);
    CHECK(((tensor::ring_uses(described.node()) & tensor::kMet) != 0) == meets);
    return meeting;
  }
  FAIL("no product");
  return 0;
}

TEST_CASE("blocks meet before tiles of a loop of nothing else, if these bring enough") {
  const std::string product = "loop $i = 0 until $trips {\n@c = matmul @a, @b, tb\n}";
  for (const int processors : {4, 132}) {
    CHECK(meeting_in(product, processors) == static_cast<uint32_t>(processors));
    CHECK(meeting_in(product, processors, 4096, false) == 0);
    CHECK(meeting_in(product, processors, 1024) == 0);
    CHECK(meeting_in("@c = matmul @a, @b, tb", processors) == 0);
  }
  // Others that a trip waits for, or what it gave itself.
  CHECK(meeting_in("loop $i = 0 until $trips {\n@c = matmul @a, @b, tb\n@n = add @n, 1\n}", 132) ==
        0);
  CHECK(meeting_in("loop $i = 0 until $trips {\n@c = matmul @a, @b, tb\n@e = copy @c\n}", 132) ==
        0);
  CHECK(meeting_in("loop $i = 0 until $trips {\n%z = matmul @e, @d, tb\n@e = copy %z\n}", 132) ==
        0);
}

}  // namespace trek::device::test
