// A plan computes what its module says, whatever the device, the order and the fusion.
#include <set>
#include <string_view>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/print.h"
#include "isa/verifier.h"
#include "tests/property/random_module.h"
#include "tests/unit/plan/programs.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

// One processor and one tile per instruction, nothing fused: the instructions one after another.
Device plain_device() {
  Device device;
  device.name = "plain";
  device.processors = 1;
  device.matrix_rows = device.matrix_columns = device.chunk = int64_t{1} << 30;
  return device;
}

void expect_same_everywhere(const isa::Module& module) {
  const Plan plain = linked(module, plain_device(), false);
  REQUIRE(errors_of(plain) == "");
  const Outcome want = run(module, plain, 1);
  REQUIRE(want.failure == "");
  for (const int processors : {1, 2, 7, 40})
    for (const bool fuse : {true, false}) {
      const Plan plan = linked(module, small_device(processors), fuse);
      REQUIRE(errors_of(plan) == "");
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        INFO(processors << " processors, order " << seed << (fuse ? ", fused" : ""));
        const Outcome got = run(module, plan, seed);
        REQUIRE(got.failure == "");
        CHECK(got.trap == want.trap);
        CHECK(got.tensors == want.tensors);
        CHECK(got.instructions == want.instructions);
        CHECK((got.emitted == want.emitted || !want.trap.empty()));
      }
    }
}

Plan linked_for_h200(const std::string& text) {
  return linked(assembled(text), *find_device("h200"));
}

// The processors that have tiles of the node whose result is `name`.
std::set<uint32_t> processors_of(const Plan& plan, std::string_view name) {
  std::set<uint32_t> found;
  for (const Task& task : plan.tasks)
    for (const uint32_t result : plan.nodes[task.node].results)
      if (plan.buffers[plan.view(result).buffer].name == name) found.insert(task.processor);
  REQUIRE(!found.empty());
  return found;
}

}  // namespace

TEST_CASE("products that do not need each other stand on processors of their own") {
  const Plan plan = linked_for_h200(R"(
.state @h f32[1,64]
.state @a f32[64,512]
.state @b f32[64,512]
.output @x f32[1,512]
.output @y f32[1,512]
.func main() {
  @x = matmul @h, @a
  @y = matmul @h, @b
}
)");
  const std::set<uint32_t> x = processors_of(plan, "@x");
  const std::set<uint32_t> y = processors_of(plan, "@y");
  CHECK(x.size() + y.size() > 40);
  for (const uint32_t processor : x) CHECK(!y.contains(processor));
}

TEST_CASE("a product that runs alone has nearly all processors") {
  const Plan plan = linked_for_h200(R"(
.state @h f32[1,1024]
.state @a f32[1024,1024]
.output @y f32[1,1024]
.func main() {
  @y = matmul @h, @a
}
)");
  CHECK(processors_of(plan, "@y").size() >= 120);
}

TEST_CASE("heads of attention stay on their processors from scores to values") {
  const Plan plan = linked_for_h200(R"(
.state @q bf16[12,1,64]
.state @k bf16[12,64,64]
.state @v bf16[12,64,64]
.output @y bf16[12,1,64]
.func main() {
  %scores = matmul @q, @k, tb, to=f32
  %shares = softmax %scores
  %narrow = cast %shares, to=bf16
  @y = matmul %narrow, @v
}
)");
  CHECK(plan.tasks.size() == 24);  // a head's values make its shares
  CHECK(plan.waits.empty());
  CHECK(processors_of(plan, "@y").size() == 12);
}

TEST_CASE("a chain of single tasks stays on one processor, and a slice beside it has its own") {
  const Plan plan = linked_for_h200(R"(
.state @x f32[1,256]
.state @other f32[4,256]
.output @y f32[1,256]
.output @part f32[1,256]
.func main() {
  %shares = softmax @x
  %sums   = cumsum %shares, axis=1
  @y      = softmax %sums
  @part   = slice @other, at=[2,0], size=[1,256]
}
)");
  CHECK(plan.waits.empty());
  CHECK(processors_of(plan, "@y").size() == 1);
  CHECK(processors_of(plan, "@y") == processors_of(plan, "%shares"));
  CHECK(processors_of(plan, "@part") != processors_of(plan, "@y"));
}

TEST_CASE("registers of nodes that can run together do not take each other's places") {
  const Plan plan = linked_for_h200(R"(
.state @h f32[1,64]
.state @a f32[64,512]
.state @large f32[4096,512]
.output @x f32[1,512]
.output @y f32[1,512]
.func main() {
  %from = slice @large, at=[0,0], size=[1,512]
  @x = matmul @h, @a, bias=%from
  %to = slice @large, at=[1,0], size=[1,512]
  @y = matmul @h, @a, bias=%to
}
)");
  const auto offset = [&](std::string_view name) {
    for (const Buffer& buffer : plan.buffers)
      if (buffer.name == name) return buffer.offset;
    FAIL("no buffer " << name);
    return int64_t{0};
  };
  CHECK(offset("%from") != offset("%to"));
}

TEST_CASE("a training loop gives the same bits on every device, in every order, fused or not") {
  expect_same_everywhere(assembled(kTraining));
}

TEST_CASE("carried values, branches, whiles and calls give the same bits everywhere") {
  expect_same_everywhere(assembled(kControl));
}

TEST_CASE("a loop may make no trip, and a branch not be taken") {
  expect_same_everywhere(assembled(R"(
.param $n i64 = 0
.state @s f32[64] = iota(axis=0)
.output @y f32[64]
.func main() {
  %r = loop $i = 0 until $n carry %a = @s {
    %b = exp %a
    @s = mul %b, 2.0
    yield %b
  }
  $none = eq $n, 7
  if $none {
    @s = fill 9.0, shape=[64], to=f32
  }
  @y = add %r, @s
}
)"));
}

TEST_CASE("a copy that stands for the instruction before it has a place of its own") {
  expect_same_everywhere(assembled(R"(
.trek 1.0
.state @a f32[1,33] = normal(0, 1, key=1)
.state @b f32[1,33] = normal(0, 1, key=2)
.func main() {
  %sum = add @a, @b
  %kept = copy %sum
  loop $i = 0 until 3 {
    @b = gelu.tanh.grad %kept, @b
  }
}
)"));
}

TEST_CASE("a loop between constants needs no decision, also where it makes no trip") {
  const isa::Module module = assembled(R"(
.param $n i64 = 2
.output @down i64[]
.state @none f32[20] = 0
.func main() {
  loop $i = 9 until -1 step -2 {
    store! @down, $i, at=[]
    loop $j = $i until $n {
      @none = fill 3.0, shape=[20], to=f32
    }
  }
  loop $i = 5 until 5 {
    @none = fill 1.0, shape=[20], to=f32
  }
}
)");
  const Plan plan = linked(module, small_device(3));
  REQUIRE(plan.regions.size() == 4);
  CHECK(plan.regions[1].static_trips);
  CHECK(plan.regions[1].trips == 5);
  CHECK(plan.regions[1].from == 9);
  CHECK(plan.regions[1].step == -2);
  CHECK(plan.regions[1].decision == kNone);
  CHECK(!plan.regions[2].static_trips);
  CHECK(plan.regions[3].static_trips);
  CHECK(plan.regions[3].trips == 0);
  node_of(plan, isa::Opcode::Loop);  // the one in the middle
  expect_same_everywhere(module);
}

TEST_CASE("a loop whose step is the constant 0 traps where it stands") {
  const isa::Module module = assembled(".func main() {\n  loop $i = 0 until 5 step 0 {\n  }\n}\n");
  CHECK(run(module, linked(module, small_device(3)), 1).trap.starts_with("invalid-argument at "));
}

TEST_CASE("the earliest trap in program order is reported, with its lowest element") {
  const isa::Module module = assembled(R"(
.state @x i32[200] = iota(axis=0)
.state @d i32[200] = iota(axis=0, start=150, step=-1)
.output @y i32[200]
.func main() {
  loop $i = 0 until 3 {
    %q = div @x, @d
    @y = add %q, 1
  }
  trap "too late"
}
)");
  for (const int processors : {1, 5, 13})
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const Plan plan = linked(module, small_device(processors));
      const uint32_t main =
          static_cast<uint32_t>(module.find_function("main") - module.functions.data());
      CHECK(run(module, plan, seed).trap ==
            fmt::format("divide-by-zero at {}:1 element 150", main));
    }
}

TEST_CASE("no task of a node that is waited for as a whole runs a trip ahead of the others") {
  property::RandomOptions options;
  options.executable = true;
  options.elements = 20000;
  options.debug = options.tests = false;
  const isa::Module module = property::random_module(12464, options);
  Device device;
  device.shared_bytes = int64_t{192} * 1024;
  device.copies_tensors = true;
  const Plan plan = linked(module, device);
  REQUIRE(errors_of(plan) == "");
  const Outcome want = run(module, linked(module, plain_device(), false), 1);
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    INFO("order " << seed);
    CHECK(run(module, plan, seed).tensors == want.tensors);
  }
}

TEST_CASE("random modules give the same bits on every device and in every order") {
  property::RandomOptions options;
  options.executable = true;
  options.debug = false;
  options.tests = false;
  options.elements = 100;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const isa::Module module = property::random_module(seed, options);
    REQUIRE(isa::verify(module).empty());
    const Plan plain = linked(module, plain_device(), false);
    REQUIRE(errors_of(plain) == "");
    const Outcome want = run(module, plain, 1);
    REQUIRE(want.failure == "");
    for (const int processors : {2, 9}) {
      const Plan plan = linked(module, small_device(processors));
      REQUIRE(errors_of(plan) == "");
      const Outcome got = run(module, plan, seed);
      REQUIRE(got.failure == "");
      CHECK(got.trap == want.trap);
      CHECK(got.tensors == want.tensors);
    }
  }
}

TEST_CASE("a reshape and a copy of what is not written meanwhile cost no task") {
  const Plan plan = linked(assembled(R"(
.input @x f32[4,6]
.output @y f32[24]
.func main() {
  %c = copy @x
  %r = reshape %c, shape=[24]
  @y = exp %r
}
)"),
                           small_device(2));
  REQUIRE(plan.nodes.size() == 1);
  CHECK(plan.buffers[plan.view(plan.nodes[0].operands[0].index).buffer].name == "@x");
}

TEST_CASE("a copy of a tensor that is written before the copy is read stays a copy") {
  const isa::Module module = assembled(R"(
.state @s f32[20] = iota(axis=0)
.output @y f32[20]
.func main() {
  %old = copy @s
  @s = fill 7.0, shape=[20], to=f32
  @y = exp %old
}
)");
  const Plan plan = linked(module, small_device(2));
  CHECK(plan.nodes.size() == 3);
  expect_same_everywhere(module);
}

TEST_CASE("a program that needs more memory than the device has is refused with the numbers") {
  Device device = small_device(2);
  device.memory_bytes = 1000;
  const auto plan = link(assembled(kTraining), device, {});
  REQUIRE(!plan.ok());
  CHECK(plan.problems()[0].message.starts_with("the program needs "));
  CHECK(plan.problems()[0].message.ends_with(
      "small2 has 1000 for it; the largest: @x 1920 bytes, @w1 768 bytes, @m 768 bytes"));
}

TEST_CASE("a plan is printed with its memory, regions, nodes, waits and signals") {
  const std::string text = print_plan(linked(assembled(kTraining), small_device(3)));
  for (const char* part :
       {"plan for small3: 3 processors", "registers", "region 1 loop, 4 trips",
        "matrix:", "@w1 f32[12,16]", "immutable", "wait c", "signal c", "control:", " p0 "}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("a thin product stands beside what it reads all of, where instructions are interpreted") {
  // Of 64 tasks each; the second and the third have the same weights.
  const isa::Module module = assembled(
      ".state @x f32[1,784]\n.state @w f32[784,512]\n.state @v f32[512,512]\n.state @y f32[1,512]\n"
      ".func main() {\n%a = matmul @x, @w\n%b = matmul %a, @v\n@y = matmul %b, @v\n}\n");
  Device device = *find_device("h200");
  for (const bool interprets : {false, true}) {
    device.interprets = interprets;
    const Plan plan = linked(module, device);
    REQUIRE(errors_of(plan) == "");
    const std::set<uint32_t> first = processors_of(plan, "%a");
    const std::set<uint32_t> second = processors_of(plan, "%b");
    CHECK(first.size() == 64);
    CHECK(second.size() == 64);
    CHECK(processors_of(plan, "@y") == second);
    CHECK(first.contains(*second.begin()) == !interprets);
    for (const uint32_t processor : second)
      CHECK(first.contains(processor) == first.contains(*second.begin()));
  }
}

}  // namespace trek::plan::test
