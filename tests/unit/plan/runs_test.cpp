// Products whose tiles' k are cut into runs: the cuts, and what plans of such products leave.
#include "emulator/plan/runs.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/product.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

// A product in a loop, of operands that each trip changes, with a tail that reads another tensor.
constexpr const char* kProgram = R"(
.state @a f32[130,576] = uniform(0, 1, key=1)
.state @b f32[576,390] = uniform(0, 1, key=2)
.state @c f32[130,390]
.state @n f32[390] = 3
.func main() {
  loop $i = 0 until 2 {
    $limit = cast $i, to=f32
    $least = mul $limit, 0.4
    %over = gt @a, $least
    %x = cast %over, to=bf16
    %under = lt @b, 0.3
    %y = cast %under, to=bf16
    %p = matmul %x, %y, to=f32
    %q = add %p, @n
    @c = add @c, %q
    @n = add @n, 1
  }
}
)";

// The same of f32 under strict numerics, of so many rows and k: its sums have one order.
// Of more columns than a narrow product has.
std::string ordered_program(int64_t rows, int64_t depth) {
  return fmt::format(R"(
.state @a f32[{1},{0}] = normal(0, 1, key=1)
.state @b f32[{1},20] = normal(0, 1, key=2)
.state @c f32[{0},20]
.state @n f32[20] = 3
.func main() {{
  loop $i = 0 until 2 {{
    %p = matmul @a, @b, ta
    @c = add %p, @n
    %s = sum @c, axis=1
    %t = tanh %s
    @a = add @a, %t
  }}
}}
)",
                     rows, depth);
}

Device device_of(int processors) {
  Device device = small_device(processors);
  device.copies_tensors = device.has_tags = true;
  device.shared_bytes = int64_t{192} * 1024;
  return device;
}

// The program with its product in so many runs, of parts of 128 columns.
Plan plan_in_runs(const isa::Module& module, int processors, bool transposed,
                  Pairing pairing = Pairing::none) {
  Device device = device_of(processors);
  device.has_pairs = pairing != Pairing::none;
  LinkOptions options;
  options.fast = true;
  return linked_with_tiles(module, device, options, [&](const MatrixTiles& tiles) {
    return tiles.runs == processors && tiles.part_columns == 128 &&
           tiles.transposed == transposed && tiles.pairing == pairing;
  });
}

}  // namespace

TEST_CASE("runs have all k of all tiles once, in parts of about one length, in order") {
  std::mt19937 random(1);
  const auto number = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  int tried = 0;
  while (tried < 300) {
    MatrixShape shape;
    shape.m = number(1, 4000);
    shape.n = number(1, 4000);
    shape.k = shape.whole_k = number(1, 20000);
    MatrixTiles tiles;
    tiles.rows = 128;
    tiles.columns = tiles.part_columns = 16 * number(3, 20);
    count_tiles(tiles, shape);
    tiles.runs = number(1, 140);
    if (number(0, 1) == 0) tiles.pairing = Pairing::columns;
    tiles.transposed = number(0, 1) == 0;
    if (!may_have_runs(shape, tiles)) continue;
    ++tried;
    INFO(shape.m << " x " << shape.n << " x " << shape.k << " in " << tiles.count << " tiles and "
                 << tiles.runs << " runs");
    const Runs runs(shape, tiles);
    std::vector<int64_t> length(static_cast<size_t>(tiles.runs), 0);
    std::set<int64_t> begun;
    int64_t most = 0;
    for (int64_t tile = 0; tile < tiles.count; ++tile) {
      int64_t k = 0;
      const auto take = [&](int64_t run, Depth depth) {
        CHECK(depth.first == k);
        CHECK(depth.count >= std::min(kLeastOfRun * kRunStep - kRunStep + 1, shape.k));
        CHECK((depth.first + depth.count == shape.k || depth.count % kRunStep == 0));
        k += depth.count;
        length[static_cast<size_t>(run)] += (depth.count + kRunStep - 1) / kRunStep;
      };
      for (int64_t run = runs.first_run(tile); run < runs.last_run(tile); run += runs.together()) {
        CHECK(runs.tile_begun(run) == tile);
        CHECK(begun.insert(run).second);
        take(run, runs.begun(run));
      }
      take(runs.last_run(tile), runs.ended(tile));
      CHECK(k == shape.k);
      most = std::max(most, (runs.last_run(tile) - runs.first_run(tile)) / runs.together());
      if (tiles.pairing == Pairing::none) continue;
      const int64_t other = partner_of(tiles, tile);
      CHECK((runs.last_run(tile) ^ 1) == runs.last_run(other));
      CHECK((runs.first_run(tile) ^ 1) == runs.first_run(other));
      CHECK(runs.ended(tile).first == runs.ended(other).first);
    }
    CHECK(most == runs.most_begun());
    for (int64_t run = 0; run < tiles.runs; ++run)
      CHECK(begun.contains(run) == (runs.tile_begun(run) != kNone));
    const int64_t mean = tiles.count * run_steps(shape) / tiles.runs;
    for (const int64_t steps : length) {
      CHECK(std::abs(steps - mean) <= 2 * kLeastOfRun);
      CHECK(steps <= runs.longest());
    }
  }
}

TEST_CASE("runs of a product whose k is divided go on from one part to the next") {
  MatrixTiles tiles;
  tiles.rows = tiles.columns = 128;
  MatrixShape shape;
  for (const auto& [m, n, split, of] :
       {std::tuple{768, 768, 4, 132}, {768, 2304, 4, 132}, {300, 12, 2, 5}, {130, 500, 7, 50}}) {
    shape.m = m;
    shape.n = n;
    shape.k = kOrderedSegment;
    shape.whole_k = split * shape.k;
    tiles.split = split;
    tiles.runs = of;
    count_tiles(tiles, shape);
    INFO(m << " x " << n << " in " << split << " parts and " << of << " runs");
    REQUIRE(may_have_ordered_runs(shape, tiles));
    std::vector<int64_t> length(static_cast<size_t>(of), 0);
    std::set<int64_t> begun;
    for (tiles.segment = 0; tiles.segment < split; ++tiles.segment) {
      shape.first_k = tiles.segment * shape.k;
      const Runs runs(shape, tiles);
      for (int64_t tile = 0; tile < tiles.count; ++tile) {
        int64_t k = shape.first_k;
        const auto take = [&](int64_t run, Depth depth) {
          CHECK(depth.first == k);
          k += depth.count;
          length[static_cast<size_t>(run)] += depth.count / kRunStep;
        };
        CHECK(runs.last_run(tile) - runs.first_run(tile) <= 1);
        if (runs.first_run(tile) != runs.last_run(tile)) {
          CHECK(runs.tile_begun(runs.first_run(tile)) == tile);
          CHECK(begun.insert(runs.first_run(tile)).second);
          take(runs.first_run(tile), runs.begun(runs.first_run(tile)));
        }
        take(runs.last_run(tile), runs.ended(tile));
        CHECK(k == shape.first_k + shape.k);
      }
      for (int64_t run = 0; run < of; ++run)
        if (runs.tile_begun(run) != kNone) CHECK(begun.contains(run));
      CHECK(std::ranges::max(length) <= runs.longest());
    }
    const auto [least, most] = std::ranges::minmax(length);
    CHECK(most - least <= 1);
  }
}

TEST_CASE("tiles that share lines of the larger operand come to the same k at the same time") {
  MatrixShape shape;
  shape.k = shape.whole_k = 16384;
  MatrixTiles tiles;
  tiles.rows = 128;
  tiles.columns = 256;
  tiles.runs = 132;
  for (const auto& [m, n] : {std::pair{768, 3072}, {3072, 768}}) {
    shape.m = m;
    shape.n = n;
    count_tiles(tiles, shape);
    const Runs runs(shape, tiles);
    const int64_t apart =
        m < n ? tiles.across : 1;  // from a tile to one of the same columns, or rows
    for (int64_t tile = 0; tile + apart < tiles.count; ++tile) {
      if (m > n && tile % tiles.across == tiles.across - 1) continue;
      CHECK(runs.ended(tile + apart).first == runs.ended(tile).first);
    }
  }
}

TEST_CASE("a product in runs leaves what the reference leaves, whoever comes first") {
  const isa::Module module = assembled(kProgram);
  const Outcome want = reference(module);
  for (const auto& [processors, pairing] :
       {std::pair{3, Pairing::none}, {5, Pairing::none}, {6, Pairing::columns}})
    for (const bool transposed : {false, true}) {
      INFO(processors << " processors " << name(pairing) << (transposed ? ", transposed" : ""));
      const Plan plan = plan_in_runs(module, processors, transposed, pairing);
      CHECK(errors_of(plan) == "");
      std::set<OfRuns> parts;
      for (const Node& node : plan.nodes) parts.insert(node.of_runs);
      CHECK(parts.size() == 3);
      const Outcome got = run(module, plan, 1);
      REQUIRE(got.failure == "");
      CHECK((got.tensors == want.tensors));
      CHECK(got.instructions == want.instructions);
    }
}

TEST_CASE("an ordered product in runs leaves the bits of the reference") {
  for (const auto& [processors, rows, depth, split] : {std::tuple{3, 600, 1096, 1},
                                                       {3, 400, 4168, 1},
                                                       {2, 300, 8200, 1},
                                                       {4, 300, 8192, 2},
                                                       {5, 200, 12288, 3}}) {
    INFO(processors << " processors, " << rows << " rows, " << depth << " k in " << split);
    Device device = device_of(processors);
    device.matrix_rows = device.matrix_columns = 64;
    const isa::Module module = assembled(ordered_program(rows, depth));
    const Plan plan =
        linked_with_tiles(module, device, {}, [&, parts = split](const MatrixTiles& tiles) {
          return tiles.runs == processors && tiles.split == parts;
        });
    CHECK(errors_of(plan) == "");
    CHECK((run(module, plan, 1) == reference(module)));
    CHECK(std::ranges::none_of(plan.waits, &Wait::late));
    // What a run has of a part ends with the tile that another has begun, and nothing is begun behind what ends a tile.
    int64_t parts = 0;
    bool some_over = false;
    for (const Node& node : plan.nodes) {
      if (node.of_runs == OfRuns::begun) CHECK(parts == 0);
      if (node.of_runs != OfRuns::ended) continue;
      ++parts;
      const MatrixShape shape = matrix_shape(node);
      const Runs runs(shape, plan.tilings[node.tiles]);
      std::set<uint32_t> over;  // processors
      for (uint32_t t = node.first_task; t < node.first_task + node.tasks; ++t) {
        const Task& task = plan.tasks[t];
        CHECK(!over.contains(task.processor));
        if (runs.ended(task.first).first != shape.first_k) over.insert(task.processor);
      }
      some_over = some_over || !over.empty();
    }
    CHECK(parts == split);
    CHECK(some_over);
  }
}

TEST_CASE("ordered products are in runs that are no shorter than a tile") {
  MatrixShape shape;
  MatrixTiles tiles;
  tiles.rows = tiles.columns = 128;
  tiles.runs = 132;
  shape.k = shape.whole_k = 16384;
  for (const auto& [m, n] : {std::pair{768, 768}, {768, 2304}, {768, 3072}, {3072, 768}}) {
    shape.m = m;
    shape.n = n;
    count_tiles(tiles, shape);
    CHECK(may_have_ordered_runs(shape, tiles) == (m + n > 768 + 2304));
    if (may_have_ordered_runs(shape, tiles)) CHECK(Runs(shape, tiles).most_begun() == 1);
  }
}

TEST_CASE("rows of tiles that are left over have runs of their own") {
  MatrixShape shape;
  shape.m = 2000;
  shape.n = 700;
  shape.k = shape.whole_k = 1024;
  MatrixTiles whole;
  whole.rows = whole.columns = 128;
  whole.runs = 11;
  MatrixTiles rest = whole;
  take_rows(rest, shape, {1024, 976});
  MatrixShape alone = shape;
  alone.m = 976;
  count_tiles(whole, alone);
  REQUIRE(may_have_ordered_runs(shape, rest));
  const Runs runs(shape, rest);
  const Runs same(alone, whole);
  const int64_t first = rest.first;
  CHECK(first == 8 * rest.across);
  for (int64_t tile = 0; tile < whole.count; ++tile) {
    CHECK(runs.last_run(first + tile) == same.last_run(tile));
    CHECK(runs.first_run(first + tile) == same.first_run(tile));
    CHECK(runs.ended(first + tile).first == same.ended(tile).first);
  }
  for (int64_t run = 0; run < whole.runs; ++run)
    if (same.tile_begun(run) != kNone) CHECK(runs.tile_begun(run) == first + same.tile_begun(run));
}

TEST_CASE("what is begun of a tile is waited for late, and of nothing else is that believed") {
  const isa::Module module = assembled(kProgram);
  const Plan plan = plan_in_runs(module, 5, false);
  const auto ended = std::ranges::find(plan.nodes, OfRuns::ended, &Node::of_runs);
  REQUIRE(ended != plan.nodes.end());
  REQUIRE((ended - 1)->of_runs == OfRuns::begun);
  bool some_late = false;
  for (uint32_t w = 0; w < plan.waits.size(); ++w) {
    if (!plan.waits[w].late) continue;
    some_late = true;
    // Without it, or with one that is not late, plans are wrong and right.
    Plan other = plan;
    other.waits[w].late = false;
    CHECK(errors_of(other) == "");
    other.waits[w].count = 0;
    CHECK(errors_of(other) != "");
  }
  CHECK(some_late);
  // Each task that ends a tile waits for what it multiplies as if nothing were begun: were all its waits late, it would not.
  bool some_changed = false;
  for (uint32_t t = ended->first_task; t < ended->first_task + ended->tasks; ++t) {
    Plan other = plan;
    const Task& task = other.tasks[t];
    bool changed = false;
    for (uint32_t w = task.first_wait; w < task.first_wait + task.waits; ++w)
      if (!other.waits[w].late && other.waits[w].delta == 0) changed = other.waits[w].late = true;
    if (changed) CHECK(errors_of(other) != "");
    some_changed = some_changed || changed;
  }
  CHECK(some_changed);
}

TEST_CASE("what a run has stands on the processor of its number, what it begins first") {
  for (const auto& [processors, pairing] :
       {std::pair{3, Pairing::none}, {5, Pairing::none}, {6, Pairing::columns}}) {
    Plan plan = plan_in_runs(assembled(kProgram), processors, false, pairing);
    for (const Node& node : plan.nodes) {
      if (node.of_runs == OfRuns::none) continue;
      const Runs runs(matrix_shape(node), plan.tilings[node.tiles]);
      std::set<uint32_t> used;
      for (uint32_t t = node.first_task; t < node.first_task + node.tasks; ++t) {
        const Task& task = plan.tasks[t];
        CHECK(task.processor == (runs.run_of(node, task) + 2) % processors);
        CHECK((node.of_runs == OfRuns::ended || used.insert(task.processor).second));
      }
    }
    if (pairing == Pairing::none) continue;
    for (Task& task : plan.tasks) task.processor ^= 1;
    CHECK_THAT(errors_of(plan), Catch::Contains("are no pair"));
  }
}

}  // namespace trek::plan::test
