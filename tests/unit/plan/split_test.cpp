// Instructions that become several nodes, or many tasks where they were one: the reference's bits.
#include <algorithm>
#include <set>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/product.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

size_t tasks_of(const Plan& plan, isa::Opcode opcode) {
  size_t tasks = 0;
  for (const Node& node : plan.nodes)
    if (node.opcode == opcode) tasks += node.tasks;
  return tasks;
}

size_t nodes_of(const Plan& plan, isa::Opcode opcode) {
  return static_cast<size_t>(
      std::count_if(plan.nodes.begin(), plan.nodes.end(),
                    [&](const Node& node) { return node.opcode == opcode; }));
}

// The first node that multiplies for rows from `first` on.
uint32_t node_of_rows(const Plan& plan, int64_t first) {
  const auto node = std::ranges::find_if(plan.nodes, [&](const Node& each) {
    return each.unit == Unit::matrix && each.rows.count != 0 && each.rows.first == first;
  });
  REQUIRE(node != plan.nodes.end());
  return static_cast<uint32_t>(node - plan.nodes.begin());
}

Plan checked(const isa::Module& module, int processors) {
  Plan plan = linked(module, small_device(processors));
  REQUIRE(errors_of(plan) == "");
  return plan;
}

}  // namespace

TEST_CASE("a long reduction is cut at the rule's tiles, whatever stands before and after it") {
  for (const char* type : {"f32", "f16", "f64", "bf16"})
    for (const char* reduce : {"sum", "mean", "prod", "max", "min", "norm2"})
      for (const char* shape : {"[3072]", "[2,2048,3]", "[2,4096]"})
        for (const bool fused : {false, true}) {
          const std::string axis = std::string(shape) == "[3072]" ? "0" : "1";
          const std::string text = fmt::format(
              ".state @x {0}{1} = normal(0.999, 0.01, key=4)\n.state @y {0}{1} = uniform(0.9, 1, "
              "key=5)\n.state @a {0}{2} = 0\n.func main() {{\n{3}@a = {4}\n}}\n",
              type, shape,
              axis == "0"                        ? "[]"
              : std::string(shape) == "[2,4096]" ? "[2]"
                                                 : "[2,3]",
              fused
                  ? fmt::format("%q = mul @x, @y\n%h = mul %q, 1.0\n%s = {} %h, axis={}\n%n = neg "
                                "%s\n",
                                reduce, axis)
                  : "",
              fused ? std::string("sub %n, 2.0") : fmt::format("{} @x, axis={}", reduce, axis));
          INFO(text);
          const isa::Module module = assembled(text);
          const Plan plan = checked(module, 20);
          const auto reductions = static_cast<size_t>(
              std::count_if(plan.nodes.begin(), plan.nodes.end(),
                            [](const Node& node) { return node.unit == Unit::reduce; }));
          CHECK(reductions == 2);
          CHECK(plan.tasks.size() > 3);
          expect_as_reference(module);
        }
}

TEST_CASE("what a few chunks of each processor will do is one task of each") {
  Device device = *find_device("h200");
  device.chunk = 1024;
  // Elements of a pointwise instruction: of at most eight chunks each, and of more.
  for (const auto& [elements, most] : {std::pair{768 * 768, 1},
                                       {132 * 4096, 1},
                                       {132 * 4096 + 1, 1},
                                       {132 * 8192, 1},
                                       {132 * 8192 + 1, 2}}) {
    INFO(elements);
    const Plan plan = linked(assembled(fmt::format(".state @x f32[{0}]\n.output @y f32[{0}]\n"
                                                   ".func main() {{\n@y = neg @x\n}}\n",
                                                   elements)),
                             device);
    std::vector<int> of_processor(static_cast<size_t>(device.processors));
    for (const Task& task : plan.tasks) ++of_processor[task.processor];
    CHECK(*std::ranges::max_element(of_processor) == most);
  }
}

TEST_CASE("rows of a loss begin a trip while the sums of the rows behind them are still made") {
  const Device* device = find_device("h200");
  REQUIRE(device != nullptr);
  const Plan plan = linked(assembled(".state @x f32[16384,4096]\n.state @t i64[16384]\n"
                                     ".state @l f32[]\n.state @d f32[16384,4096]\n"
                                     ".func main() {\nloop $i = 0 until 9 {\n"
                                     "@l, @d = cross_entropy.with_grad @x, @t, mean\n}\n}\n"),
                           *device);
  REQUIRE(errors_of(plan) == "");
  const Node& rows = *std::find_if(plan.nodes.begin(), plan.nodes.end(), [](const Node& node) {
    return node.opcode == isa::Opcode::CrossEntropyWithGrad;
  });
  const Node& sums = *(&rows + 1);
  const Node& end = *(&sums + 1);
  REQUIRE(sums.tasks == 2);
  REQUIRE(end.tasks == 1);
  // Whoever makes sums has a tile of rows less than the others.
  const auto tiles_of = [&](uint32_t processor) {
    uint32_t tiles = 0;
    for (uint32_t t = rows.first_task; t < rows.first_task + rows.tasks; ++t)
      tiles += plan.tasks[t].processor == processor ? 1 : 0;
    return tiles;
  };
  for (uint32_t t = sums.first_task; t <= end.first_task; ++t)
    CHECK(tiles_of(plan.tasks[t].processor) == 1);
  // The first rows wait for the sum of the first half alone, which is made in the middle of a trip.
  const Task& first = plan.tasks[rows.first_task];
  REQUIRE(first.waits == 1);
  CHECK(plan.waits[first.first_wait].delta == 1);
  CHECK(plan.waits[first.first_wait].count == 1);
}

TEST_CASE(
    "a product of several segments is shared out, whatever its form and what stands behind it") {
  struct Case {
    const char* type;
    int rows;
    int k;
    size_t nodes;
    const char* more;  // attributes
    const char* behind;
  };
  const std::vector<Case> cases = {
      {"f32", 5, 9000, 3, "", ""},
      {"f32", 5, 8192, 2, ", scale=0.5, bias=@c, tail=relu", "%z = mul %y, @d\n"},
      {"bf16", 6, 9000, 3, ", bias=@c", ""},
      {"f16", 5, 8200, 3, ", bias=@c, to=bf16", "%w = cast %y, to=f32\n%z = add %w, @d\n"},
      {"f32", 2, 36864, 9, ", scale=$s", "%z = add %y, @d\n"},  // thin, added by two nodes
  };
  for (const Case& of : cases)
    for (int form = 0; form < 4; ++form) {
      const bool ta = (form & 1) != 0;
      const bool tb = (form & 2) != 0;
      const std::string text = fmt::format(
          ".param $s f32 = 1.5\n"
          ".state @a {0}[2,{1}] = normal(0, 1, key=1)\n"
          ".state @b {0}[{2}] = normal(0, 1, key=2)\n"
          ".state @c {0}[7] = normal(0, 1, key=3)\n"
          ".state @d f32[2,{3},7] = normal(0, 1, key=4)\n"
          ".state @r f32[2,{3},7] = 0\n"
          ".func main() {{\n%y = matmul @a, @b{4}{5}{6}\n{7}@r = {8}\n}}\n",
          of.type, ta ? fmt::format("{},{}", of.k, of.rows) : fmt::format("{},{}", of.rows, of.k),
          tb ? fmt::format("7,{}", of.k) : fmt::format("{},7", of.k), of.rows, ta ? ", ta" : "",
          tb ? ", tb" : "", of.more, of.behind,
          std::string(of.behind).empty() ? "cast %y, to=f32" : "copy %z");
      INFO(text);
      const isa::Module module = assembled(text);
      CHECK(nodes_of(checked(module, 20), isa::Opcode::Matmul) == of.nodes);
      // Those of a few rows or columns, whose lines are pieces of 16 bytes, have units that want it so.
      const bool few = of.rows <= 4 || (std::string_view(of.type) == "f32" && !ta);
      CHECK(nodes_of(checked(module, 1), isa::Opcode::Matmul) == (few ? of.nodes : 1));
      expect_as_reference(module);
    }
}

TEST_CASE("a product's odd lines are padded by as many elements as they lack") {
  const isa::Module module = assembled(R"(
.state @a bf16[1000,1501] = normal(0, 1, key=1)
.state @b bf16[1501,1000] = normal(0, 1, key=2)
.output @x bf16[1000,1000]
.func main() {
  @x = matmul @a, @b
}
)");
  Device device = *find_device("h200");
  const auto plan = link(module, device, {false, true, true});
  REQUIRE(plan.ok());
  const auto pad = std::find_if(plan->nodes.begin(), plan->nodes.end(),
                                [](const Node& node) { return node.opcode == isa::Opcode::Pad; });
  REQUIRE(pad != plan->nodes.end());
  const auto ends = [&](const char* name) {
    std::vector<int64_t> found;
    for (const Operand& item : attribute(*pad, name).items)
      found.push_back(static_integer(*plan, item));
    return found;
  };
  CHECK(ends("low") == std::vector<int64_t>{0, 0});
  CHECK(ends("high") == std::vector<int64_t>{0, 3});
}

TEST_CASE(
    "rows that would leave most processors idle are a node of smaller tiles, with the same bits") {
  struct Case {
    int rest;  // rows behind 144
    int k;
    size_t nodes;  // that multiply
    const char* more;
    const char* behind;
  };
  const std::vector<Case> cases = {
      {16, 2048, 2, "", "copy %y"},
      {16, 2048, 2, ", scale=0.5, bias=@c, tail=relu", "add %y, @d"},
      {4, 8192, 3, ", bias=@c", "add %y, @d"},  // the rest in two segments
  };
  Device device = small_device(9);
  device.matrix_rows = 8;
  device.matrix_columns = 64;
  for (const Case& of : cases)
    for (int form = 0; form < 4; ++form) {
      if (of.k > 4096 ? form != 2 : form != 1 && form != 2) continue;
      const bool ta = (form & 1) != 0;
      const bool tb = (form & 2) != 0;
      const int rows = 144 + of.rest;
      const std::string text = fmt::format(
          ".state @a f32[{0}] = normal(0, 1, key=1)\n.state @b f32[{1}] = normal(0, 1, key=2)\n"
          ".state @c f32[128] = normal(0, 1, key=3)\n.state @d f32[{2},128] = normal(0, 1, key=4)\n"
          ".state @r f32[{2},128] = 0\n.state @s f32[128] = 0\n"
          ".func main() {{\n%y = matmul @a, @b{3}{4}{5}\n@r = {6}\n@s = sum @r, axis=0\n}}\n",
          ta ? fmt::format("{},{}", of.k, rows) : fmt::format("{},{}", rows, of.k),
          tb ? fmt::format("128,{}", of.k) : fmt::format("{},128", of.k), rows, ta ? ", ta" : "",
          tb ? ", tb" : "", of.more, of.behind);
      INFO(text);
      const isa::Module module = assembled(text);
      const Outcome want = reference(module);
      for (const bool fuse : {true, false}) {
        if (!fuse && form != 1) continue;
        const Plan plan = linked(module, device, fuse);
        REQUIRE(errors_of(plan) == "");
        CHECK(nodes_of(plan, isa::Opcode::Matmul) == of.nodes);
        const Node& first = plan.nodes[node_of_rows(plan, 0)];
        CHECK(first.rows.count == 144);
        CHECK(first.tasks == 9);
        CHECK(plan.nodes[node_of_rows(plan, 144)].rows.count == of.rest);
        const Outcome got = run(module, plan, 1);
        CHECK(got.failure == "");
        CHECK(got.tensors == want.tensors);
        CHECK(got.instructions == want.instructions);
      }
    }
}

TEST_CASE(
    "a fast product of few tiles and a large k is shared out on the device that has the units") {
  const isa::Module module = assembled(R"(
.state @a bf16[16384,768] = normal(0, 1, key=1)
.state @b bf16[16384,768] = normal(0, 1, key=2)
.output @x bf16[768,768]
.func main() {
  @x = matmul @a, @b, ta
}
)");
  Device device = *find_device("h200");
  const auto plan = link(module, device, {false, true, true});
  REQUIRE(plan.ok());
  CHECK(errors_of(*plan) == "");
  CHECK(nodes_of(*plan, isa::Opcode::Matmul) > 4);
  std::set<uint32_t> processors;
  size_t tasks = 0;
  for (const Task& task : plan->tasks) {
    if (plan->nodes[task.node].depth.count == 0) continue;
    processors.insert(task.processor);
    ++tasks;
  }
  CHECK(tasks > 100);
  CHECK(processors.size() == std::min<size_t>(tasks, 131));
}

TEST_CASE(
    "a reduction of a broadcast operand, or of lines that are no whole tiles, stays one node") {
  const isa::Module module = assembled(R"(
.state @x f32[2048] = uniform(0, 1, key=4)
.state @y f32[2,1] = uniform(0, 1, key=5)
.state @z f32[2049] = uniform(0, 1, key=6)
.output @a f32[2]
.output @b f32[]
.func main() {
  %p = add @y, @x
  @a = sum %p, axis=1
  @b = sum @z
}
)");
  CHECK(nodes_of(checked(module, 20), isa::Opcode::Sum) == 2);
  expect_as_reference(module);
}

TEST_CASE("a loss of many rows is cut into rows, and their reduction is another node") {
  for (const char* type : {"f32", "f16", "f64"})
    for (const char* reduction : {"mean", "sum", "none"}) {
      const bool none = std::string(reduction) == "none";
      const std::string loss = std::string(type) == "f64" ? "f64" : "f32";
      const isa::Module module =
          assembled(fmt::format(R"(
.state @z {0}[33,9] = normal(0, 3, key=4)
.state @t u8[33] = 5
.state @l {3}{2} = 0
.state @m {3}{2} = 0
.state @g {0}[33,9] = 0
.state @h {0}[33,9] = 0
.func main() {{
  @l, @g = cross_entropy.with_grad @z, @t, {1}
  @m = cross_entropy @z, @t, {1}
  @h = cross_entropy.grad @m, @z, @t, {1}
}}
)",
                                type, reduction, none ? "[33]" : "[]", loss));
      INFO(type << " " << reduction);
      const Plan plan = checked(module, 5);
      CHECK(tasks_of(plan, isa::Opcode::CrossEntropyWithGrad) > 5);
      CHECK(tasks_of(plan, isa::Opcode::CrossEntropy) > 5);
      CHECK(tasks_of(plan, isa::Opcode::CrossEntropyGrad) > 5);
      expect_as_reference(module);
    }
}

TEST_CASE("a bad class in a loss that is cut is that of the lowest row") {
  const isa::Module module = assembled(R"(
.state @z f32[50,8] = normal(0, 3, key=4)
.state @t i32[50] = iota(axis=0, start=30, step=-1)
.output @l f32[]
.func main() {
  @l = cross_entropy @z, @t
}
)");
  expect_as_reference(module);
}

TEST_CASE("clip_norm is many tasks, and gives the reference's bits in every type") {
  for (const char* type : {"f32", "f16", "bf16", "f64"})
    for (const char* most : {"0.5", "1000.0"}) {
      const std::string norm = std::string(type) == "f64" ? "f64" : "f32";
      const isa::Module module = assembled(fmt::format(R"(
.param $most {1} = {2}
.state @a {0}[40,3] = normal(0, 1, key=4)
.state @b {0}[2048] = normal(0, 1, key=5)
.state @c {0}[] = 0.25
.state @n {1}[] = 0
.state @x {0}[40,3] = 0
.state @y {0}[2048] = 0
.state @z {0}[] = 0
.state @m {1}[] = 0
.func main() {{
  @n, @x, @y, @z = clip_norm @a, @b, @c, max={2}
  @m, %x, %y = clip_norm @x, @y, max=$most
  @x = mul %x, 2.0
  @y = copy %y
}}
)",
                                                       type, norm, most));
      INFO(type << " " << most);
      CHECK(checked(module, 5).tasks.size() > 40);
      expect_as_reference(module);
    }
}

TEST_CASE("updates are cut, whether their place is known or comes from a scalar") {
  const isa::Module module = assembled(R"(
.state @cache f32[6,10,8] = uniform(0, 1, key=4)
.state @new f32[6,1,8] = uniform(0, 1, key=5)
.state @r f32[6,10,8] = 0
.state @s f32[40] = 0
.func main() {
  loop $i = 0 until 3 {
    @cache = update @cache, @new, at=[0,$i,0]
    %half = slice @cache, at=[3,$i,0], size=[3,1,8]
    %n = mul @new, 2.0
    %u = update @cache, %n, at=[0,4,0]
    %v = update %u, %half, at=[$i,9,0]
    @r = add %v, %u
    %line = reshape @new, shape=[48]
    %part = slice %line, at=[0], size=[30]
    @s = update @s, %part, at=[$i]
    $j = mul $i, 4
    @s = update @s, %part, at=[$j]
  }
}
)");
  const Plan plan = checked(module, 5);
  CHECK(tasks_of(plan, isa::Opcode::Update) >= 5 * 2);
  expect_as_reference(module);
}

TEST_CASE("tiles of a scatter write columns of their own, in ascending source order") {
  const isa::Module module = assembled(R"(
.state @table f32[20,70] = uniform(0, 1, key=4)
.state @index i32[30] = iota(axis=0, step=7)
.state @rows f32[30,70] = normal(0, 1, key=5)
.state @r f32[20,70] = 0
.state @across bf16[5,40] = 1
.state @wide bf16[5,30] = normal(0, 1, key=6)
.func main() {
  %i = mod @index, 20
  loop $k = 0 until 3 {
    @table = scatter.add @table, %i, @rows
    @r = scatter @table, %i, @rows
    @across = scatter.add @across, %i, @wide, axis=1
    @across = scatter @across, %i, @wide, axis=1
  }
}
)");
  const Plan plan = checked(module, 5);
  CHECK(tasks_of(plan, isa::Opcode::ScatterAdd) >= 5);
  expect_as_reference(module);
}

TEST_CASE("a bad index in a scatter or a gather that is cut is the lowest") {
  for (const char* what :
       {"@r = scatter.add @t, @i, @y", "@y = gather @t, @i", "%h = one_hot @i, depth=20, to=f32"}) {
    const isa::Module module = assembled(fmt::format(R"(
.state @t f32[20,70] = 0
.state @i i32[30] = iota(axis=0, start=13)
.state @y f32[30,70] = 0
.state @r f32[20,70] = 0
.func main() {{
  {}
}}
)",
                                                     what));
    INFO(what);
    expect_as_reference(module);
  }
}

namespace {

// A product under fast numerics on a device that copies tensors, and how many of its operands are made anew before it.
struct Prepared {
  const char* type;
  const char* a;
  const char* b;
  const char* result;
  const char* attributes;
  size_t operands;

  std::string text() const {
    return fmt::format(
        ".state @a {0}{1} = normal(0, 1, key=4)\n.state @b {0}{2} = normal(0, 1, key=5)\n"
        ".state @d {0}[35] = normal(0, 1, key=6)\n.state @x f32{3} = 0\n.func main() {{\n"
        "@x = matmul @a, @b{4}, to=f32\n}}\n",
        type, a, b, result, attributes);
  }
};

}  // namespace

TEST_CASE(
    "operands of odd lines are padded for a copy engine under fast numerics, with the same bits") {
  for (const Prepared& product : {
           Prepared{"bf16", "[65,1333]", "[1333,35]", "[65,35]", "", 2},
           Prepared{"f16", "[1333,129]", "[1333,67]", "[129,67]", ", ta", 2},
           Prepared{"bf16", "[65,1333]", "[35,1333]", "[65,35]", ", tb", 2},
           Prepared{"bf16", "[1333,65]", "[35,1333]", "[65,35]", ", ta, tb", 2},
           Prepared{"bf16", "[65,1336]", "[1336,35]", "[65,35]", ", bias=@d, tail=relu", 1},
           Prepared{"bf16", "[2,65,1333]", "[1333,40]", "[2,65,40]", "", 1},
           Prepared{"bf16", "[9,33]", "[9,33]", "[9,9]", ", tb", 0},
           Prepared{"bf16", "[2,1333]", "[1333,35]", "[2,35]", "", 0},
           Prepared{"f32", "[65,1333]", "[1333,35]", "[65,35]", "", 0},
       }) {
    INFO(product.text());
    const isa::Module module = assembled(product.text());
    const Plan plan = linked_fast(module, small_device(1));
    REQUIRE(errors_of(plan) == "");
    CHECK(nodes_of(plan, isa::Opcode::Pad) == product.operands);
    CHECK(run(module, plan, 1).tensors == reference(module).tensors);
  }
}

TEST_CASE(
    "operands of f32 are turned around where that pays, by line for tensor cores, else by k") {
  struct Turned {
    Prepared fast;  // and how many operands, where instructions are interpreted,
    size_t made;    // and where code is made for one product, which takes one of them to registers
    size_t strict;
  };
  Device device = *find_device("h200");
  for (const auto& [product, made, strict] : {
           Turned{{"f32", "[16384,768]", "[768,3072]", "[16384,3072]", "", 1}, 0, 1},
           Turned{{"f32", "[16384,768]", "[3072,768]", "[16384,3072]", ", tb", 0}, 0, 2},
           Turned{{"f32", "[16384,768]", "[16384,3072]", "[768,3072]", ", ta", 1}, 1, 0},
           Turned{{"f32", "[4096,4096]", "[4096,4096]", "[4096,4096]", ", ta", 2}, 1, 0},
           Turned{{"f32", "[4096,4096]", "[4096,4096]", "[4096,4096]", ", ta, tb", 1}, 0, 1},
           Turned{{"f32", "[256,64]", "[64,256]", "[256,256]", "", 0}, 0, 0},
           Turned{{"f32", "[16384,768]", "[768,3070]", "[16384,3070]", "", 0}, 0, 0},
           Turned{{"f32", "[16384,772]", "[772,3072]", "[16384,3072]", "", 0}, 0, 0},
           Turned{{"bf16", "[16384,768]", "[768,3072]", "[16384,3072]", "", 0}, 0, 0},
       }) {
    INFO(product.text());
    const isa::Module module = assembled(product.text());
    const auto turned = [&](const Plan& plan) {
      CHECK(errors_of(plan) == "");
      return nodes_of(plan, isa::Opcode::Permute);
    };
    Device interpreting = device;
    interpreting.interprets = true;
    CHECK(turned(linked_fast(module, interpreting)) == product.operands);
    CHECK(turned(linked_fast(module, device)) == made);
    CHECK(turned(linked(module, device)) == strict);
    Device without = device;
    without.copies_tensors = false;
    CHECK(nodes_of(linked(module, without), isa::Opcode::Permute) == 0);
  }
}

TEST_CASE("a permute that turns large matrices around has boxes of theirs, each element in one") {
  const Device device = *find_device("h200");
  struct Turned {
    const char* from;
    const char* to;
    const char* axes;
    BoxSize boxes;
  };
  for (const Turned& turned :
       {Turned{"[64,1024]", "[1024,64]", "1,0", {}},
        Turned{"[512,512]", "[512,512]", "1,0", {32, 64}},
        Turned{"[3072,768]", "[768,3072]", "1,0", {32, 256}},
        Turned{"[768,3072]", "[3072,768]", "1,0", {32, 256}},
        Turned{"[768,16384]", "[16384,768]", "1,0", {128, 256}},
        Turned{"[16384,768]", "[768,16384]", "1,0", {32, 1024}},
        Turned{"[16384,3072]", "[3072,16384]", "1,0", {64, 2048}},
        Turned{"[3,264,1040]", "[3,1040,264]", "0,2,1", {64, 64}},
        Turned{"[3,264,1040]", "[1040,264,3]", "2,1,0", {}},
        Turned{"[768,3074]", "[3074,768]", "1,0", {}}, Turned{"[64,128]", "[128,64]", "1,0", {}}}) {
    const isa::Module module =
        assembled(fmt::format(".state @a f32{} = 1\n.state @x f32{} = 0\n.func main() {{\n@x = "
                              "permute @a, axes=[{}]\n}}\n",
                              turned.from, turned.to, turned.axes));
    const Plan plan = linked(module, device, true);
    INFO(turned.from << turned.to);
    CHECK(errors_of(plan) == "");
    const Node& permute = plan.nodes[node_of(plan, isa::Opcode::Permute)];
    const BoxSize boxes = turned_boxes(plan, permute);
    INFO(boxes.lines << " " << boxes.columns);
    CHECK(boxes == turned.boxes);
    CHECK((permute.tiling == Tiling::boxes) == (boxes.lines != 0));
    if (boxes.lines == 0) continue;
    const isa::Shape& shape = plan.view(permute.results[0]).type.shape;
    REQUIRE(permute.tasks == count_of(shape, boxes));
    expect_each_in_one(shape, boxes);
  }
}

}  // namespace trek::plan::test
