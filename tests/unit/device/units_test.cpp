// The units against the plan's own evaluation, which is isa/semantics applied element by element, and
// against the bits that the conformance files state.
#include "tests/unit/device/units.h"

#include <cmath>
#include <cstring>
#include <string_view>
#include <tuple>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "assembler/assemble.h"
#include "emulator/device/describe.h"
#include "tests/property/random_module.h"
#include "tests/unit/plan/programs.h"

namespace trek::device::test {
namespace {

using plan::test::conformance_files;
using plan::test::expect;
using plan::test::Given;
using plan::test::given_by;
using plan::test::Outcome;

void run_conformance(const std::vector<std::string>& files, uint32_t threads, bool fuse) {
  for (size_t f = 0; f < files.size(); ++f) {
    INFO(files[f]);
    const Assembly assembly = assemble_file(files[f]);
    REQUIRE(assembly.ok());
    const plan::Plan plan =
        plan::test::linked(assembly.module, device_of_units(f % 2 == 0 ? 3 : 17), fuse);
    for (size_t t = 0; t < assembly.module.tests.size(); ++t) {
      const isa::Test& test = assembly.module.tests[t];
      INFO(assembly.module.strings[test.name]);
      Given given = given_by(assembly.module, test);
      const Outcome evaluated = plan::test::run(assembly.module, plan, 1, given);
      given.prepare = with_units(threads);
      const Outcome outcome = plan::test::run(assembly.module, plan, 1, given);
      REQUIRE(outcome.failure == "");
      CHECK(outcome.trap == evaluated.trap);
      expect(assembly.module, test, outcome);
    }
  }
}

}  // namespace

TEST_CASE("every conformance file holds on units") {
  const auto files = conformance_files();
  REQUIRE(files.size() > 100);
  run_conformance(files, 1, true);
}

TEST_CASE("conformance files hold on units without fusion, and with blocks of four threads") {
  auto files = conformance_files();
  std::vector<std::string> some;
  for (size_t f = 0; f < files.size(); f += 3) some.push_back(files[f]);
  run_conformance(some, 4, false);
}

TEST_CASE("random modules give the same bits and traps on units as evaluated") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    property::RandomOptions options;
    options.debug = false;
    options.tests = false;
    options.executable = seed % 4 != 0;
    const isa::Module module = property::random_module(seed, options);
    const plan::Plan plan = plan::test::linked(module, device_of_units(3));
    Given given;
    const Outcome evaluated = plan::test::run(module, plan, seed, given);
    REQUIRE(evaluated.failure == "");
    given.prepare = with_units(seed % 16 == 1 ? 4 : 1);
    const Outcome outcome = plan::test::run(module, plan, seed, given);
    CHECK(outcome == evaluated);
  }
}

TEST_CASE("a training loop gives the same bits on units") {
  for (const char* text : {plan::test::kTraining, plan::test::kControl}) {
    const isa::Module module = plan::test::assembled(text);
    const plan::Plan plan = plan::test::linked(module, device_of_units(5));
    Given given;
    const Outcome evaluated = plan::test::run(module, plan, 3, given);
    for (uint32_t threads : {1u, 4u, 32u}) {
      given.prepare = with_units(threads);
      CHECK(plan::test::run(module, plan, 3, given) == evaluated);
    }
  }
}

namespace {

// The same bits by evaluation and by units in blocks of 1, 3 and 8 threads.
void expect_same(const std::string& text, int processors = 3, bool fast = false) {
  const isa::Module module = plan::test::assembled(text);
  const plan::Plan plan = fast ? plan::test::linked_fast(module, device_of_units(processors))
                               : plan::test::linked(module, device_of_units(processors));
  Given given;
  const Outcome evaluated = plan::test::run(module, plan, 1, given);
  REQUIRE(evaluated.failure == "");
  REQUIRE(evaluated.trap == "");
  for (uint32_t threads : {1u, 3u, 8u}) {
    INFO(threads << " threads");
    given.prepare = with_units(threads);
    CHECK(plan::test::run(module, plan, 1, given) == evaluated);
  }
}

}  // namespace

TEST_CASE("cells of thin products give the same bits on units") {
  for (const auto& [rows, hidden] :
       {std::pair(1, 32), std::pair(1, 70), std::pair(4, 24), std::pair(3, 65)})
    for (const uint32_t threads : {1U, 4U}) {
      INFO(rows << " x " << hidden << " by " << threads);
      const isa::Module module =
          plan::test::assembled(fmt::format(plan::test::kCells, rows, hidden));
      const plan::Plan plan = plan::test::linked(module, device_of_units(7));
      Given given;
      const Outcome evaluated = plan::test::run(module, plan, 1, given);
      REQUIRE(evaluated.failure == "");
      given.prepare = with_units(threads);
      CHECK(plan::test::run(module, plan, 1, given) == evaluated);
    }
}

TEST_CASE("lines that have no room in shared memory are worked on in parts") {
  for (const char* type : {"f32", "f64", "bf16"}) {
    INFO(type);
    expect_same(fmt::format(R"(
.state @x {0}[2,20000] = normal(0, 2, key=1)
.state @y {0}[2,20000] = uniform(0, 1, key=2)
.state @z {0}[17500,2] = normal(0, 2, key=3)
.output @sum {0}[2]
.output @norm {0}[2]
.output @most {0}[2]
.output @least {0}[2]
.output @where i64[2]
.output @down {0}[2]
.output @soft {0}[2,20000]
.output @log {0}[17500,2]
.output @grad {0}[2,20000]
.output @loggrad {0}[2,20000]
.output @run {0}[17500,2]
.func main() {{
  @sum = sum @x, axis=1
  @norm = norm2 @x, axis=1
  @most = max @x, axis=1
  @least = min @x, axis=1
  @where = argmax @x, axis=1
  @down = mean @z, axis=0
  @soft = softmax @x
  @log = log_softmax @z, axis=0
  @grad = softmax.grad @x, @y
  @loggrad = log_softmax.grad @x, @y
  @run = cumsum @z, axis=0
}}
)",
                            type));
  }
}

TEST_CASE("thin products make the rows of their left operand") {
  for (const char* type : {"f32", "f16", "bf16"})
    for (const auto& [rows, n] : {std::pair(1, 33), std::pair(4, 100), std::pair(2, 1024)}) {
      INFO(type << " " << rows << " x " << n);
      expect_same(fmt::format(R"(
.state @x f32[{1},{2}] = normal(0.2, 1, key=1)
.state @scale f32[{2}] = normal(1, 0.1, key=2)
.state @lift f32[{1},1] = normal(0, 1, key=3)
.state @v {0}[{2},40] = normal(0, 1, key=4)
.state @w {0}[40,{2}] = normal(0, 1, key=5)
.state @b {0}[{2}] = normal(0, 1, key=6)
.state @s {0}[{2},{2}] = normal(0, 1, key=7)
.output @one {0}[{1},{2}]
.output @two {0}[{1},40]
.output @soft f32[{1},40]
.func main() {{
  %mean = mean @x, axis=1, keep
  %centred = sub @x, %mean
  %square = mul %centred, %centred
  %spread = mean %square, axis=1, keep
  %factor = rsqrt %spread
  %unit = mul %centred, %factor
  %scaled = fma %unit, @scale, @lift
  %row = cast %scaled, to={0}
  @one = matmul %row, @s, bias=@b
  %a = matmul %row, @v
  %g = matmul %row, @v, tail=sigmoid
  @two = mul %a, %g
  %most = max @x, axis=1, keep
  %below = sub @x, %most
  %e = exp %below
  %sum = sum %e, axis=1, keep
  %share = div %e, %sum
  %narrow = cast %share, to={0}
  @soft = matmul %narrow, @w, tb, to=f32
}}
)",
                              type, rows, n));
    }
  expect_same(R"(
.state @x f32[1,20] = normal(0, 1, key=4)
.state @w f32[20,80] = normal(0, 1, key=5)
.state @b f32[80] = normal(0, 1, key=6)
.state @q f32[5,1,16] = normal(0, 1, key=1)
.state @k f32[5,20,16] = normal(0, 2, key=2)
.state @v bf16[5,20,16] = normal(0, 1, key=3)
.output @y bf16[5,1,16]
.func main() {
  %key = matmul @x, @w, bias=@b, tail=tanh
  %h = reshape %key, shape=[5,1,16]
  update! @k, %h, at=[0,7,0]
  %s = matmul @q, @k, tb, scale=0.25
  %p = softmax %s
  %n = cast %p, to=bf16
  @y = matmul %n, @v
}
)");
}

TEST_CASE("rows go through all phases of their node") {
  for (const char* type : {"f32", "f16", "bf16"})
    for (const int n : {2, 33, 768, 1025, 4096}) {
      INFO(type << " " << n);
      expect_same(fmt::format(R"(
.state @x {0}[9,{1}] = normal(0.2, 1, key=1)
.state @z {0}[9,{1}] = uniform(0.5, 2, key=2)
.state @scale {0}[{1}] = normal(1, 0.1, key=3)
.state @lift {0}[9,1] = normal(0, 1, key=4)
.output @norm {0}[9,{1}]
.output @mean {0}[9,1]
.output @soft {0}[9,{1}]
.output @all {0}[9,{1}]
.func main() {{
  %mean = mean @x, axis=1, keep
  %centred = sub @x, %mean
  %square = mul %centred, %centred
  %spread = mean %square, axis=1, keep
  %factor = rsqrt %spread
  %unit = mul %centred, %factor
  @norm = mul %unit, @scale
  @mean = copy %mean
  %most = max @x, axis=1, keep
  %below = sub @x, %most
  %e = exp %below
  %sum = sum %e, axis=1, keep
  @soft = div %e, %sum
  %least = min @z, axis=1, keep
  %length = norm2 @z, axis=1, keep
  %both = add %least, %length
  %lifted = add @z, @lift
  %flag = gt %lifted, %both
  %chosen = where %flag, @x, %both
  @all = mul %chosen, @z
}}
)",
                              type, n));
    }
}

TEST_CASE("a line of more than a million elements is reduced in the reduction order") {
  expect_same(R"(
.state @x f32[1100000] = normal(0, 1, key=1)
.output @sum f32[]
.output @prod f32[]
.func main() {
  @sum = sum @x
  %e = mul @x, 0.00001
  %f = add %e, 1.0
  @prod = prod %f
}
)");
}

TEST_CASE("long and short lines are sorted stably") {
  expect_same(R"(
.state @x f32[2,5000] = normal(0, 1, key=1)
.state @few i8[9000] = iota(axis=0, step=37)
.state @c f64[300,3] = normal(0, 1, key=2)
.output @s f32[2,5000]
.output @a i32[9000]
.output @d i8[9000]
.output @v f64[40,3]
.output @i i64[40,3]
.output @p i64[6000]
.func main() {
  @s = sort @x
  @a = argsort @few, to=i32, descending
  @d = sort @few, descending
  @v, @i = top_k @c, k=40, axis=0
  @p = permutation n=6000, key=5
}
)");
}

TEST_CASE("products over many segments, with batches, transposes, bias and tails") {
  for (const char* type : {"f32", "f64", "f16"}) {
    INFO(type);
    expect_same(fmt::format(R"(
.state @a {0}[2,5,4500] = normal(0, 1, key=1)
.state @b {0}[4500,11] = normal(0, 1, key=2)
.state @t {0}[1,11,4500] = normal(0, 1, key=3)
.state @bias {0}[11] = normal(0, 1, key=4)
.state @left {0}[70,9] = normal(0, 1, key=5)
.state @right {0}[9,67] = normal(0, 1, key=6)
.output @r {0}[2,5,11]
.output @q {0}[2,5,11]
.output @w {0}[70,67]
.output @g {0}[9,9]
.func main() {{
  @r = matmul @a, @b, bias=@bias, scale=0.5, tail=gelu
  %q = matmul @a, @t, tb
  @q = relu %q
  @w = matmul @left, @right
  @g = matmul @left, @left, ta
}}
)",
                            type));
  }
  expect_same(R"(
.state @a i8[33,200] = iota(axis=1, step=3)
.state @b u8[200,18] = iota(axis=0, step=7)
.state @c i64[7,300] = iota(axis=1, step=12345678912)
.output @r i32[33,18]
.output @f f32[33,18]
.output @s i64[7,7]
.func main() {
  %b = cast @b, to=i8
  @r = matmul @a, %b
  @f = matmul @a, %b, to=f32
  @s = matmul @c, @c, tb
}
)");
}

namespace {

// Between the floats of two tensors of one shape.
double farthest(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (size_t at = 0; at < a.size(); at += sizeof(float)) {
    float x = 0;
    float y = 0;
    std::memcpy(&x, a.data() + at, sizeof x);
    std::memcpy(&y, b.data() + at, sizeof y);
    const double apart = std::fabs(static_cast<double>(x) - static_cast<double>(y));
    if (!(apart <= most)) most = apart;  // a NaN stays
  }
  return most;
}

}  // namespace

TEST_CASE("products of padded operands read their lines, and a copy engine may bring them") {
  plan::Device device = device_of_units(1);
  device.copies_tensors = true;
  plan::LinkOptions fast;
  fast.fast = true;
  for (const char* form : {"65,1333:1333,35:", "65,1333:35,1333:, tb", "1333,65:35,1333:, ta, tb",
                           "2,65,1333:1333,35:"}) {
    const std::string text = form;
    const size_t second = text.find(':') + 1;
    const size_t third = text.find(':', second) + 1;
    const isa::Module module = plan::test::assembled(
        fmt::format(".state @a bf16[{}] = normal(0, 1, key=4)\n.state @b bf16[{}] = normal(0, 1, "
                    "key=5)\n.state @x f32[{}65,35] = 0\n.func main() {{\n@x = matmul @a, @b{}, "
                    "to=f32\n}}\n",
                    text.substr(0, second - 1), text.substr(second, third - 1 - second),
                    text.starts_with("2,") ? "2," : "", text.substr(third)));
    INFO(form);
    const isa::Result<plan::Plan> plan = plan::link(module, device, fast);
    REQUIRE(plan);
    const uint32_t product = plan::test::node_of(*plan, isa::Opcode::Matmul);
    const Described described = describe(*plan, product);
    REQUIRE(described.maps.size() == 2);
    for (const TensorMap& map : described.maps) CHECK(map.strides[0] % 16 == 0);
    Given given;
    given.prepare = with_units(2);
    const auto by_units = plan::test::run(module, *plan, 1, given).tensors;
    const auto evaluated = plan::test::run(module, *plan, 1).tensors;
    if (fast_is_ordered())
      CHECK(by_units == evaluated);
    else
      // 2 K u of the products' magnitudes (../../gpu/products_fast.py), which are less than one each on average.
      CHECK(farthest(by_units.at(2), evaluated.at(2)) < 2 * 1333 * 0x1p-24 * 1333);
  }
}

TEST_CASE("a copy engine rounds f32 operands of fast products to tf32, and of no strict ones") {
  plan::Device device = device_of_units(1);
  device.copies_tensors = true;
  struct Form {
    int64_t a[2];
    int64_t b[2];
    const char* attributes;
    bool copied;
  };
  for (const bool fast : {true, false})
    for (const Form& form : {Form{{256, 72}, {72, 260}, "", true},
                             {{256, 72}, {260, 72}, ", tb", true},
                             {{72, 256}, {72, 260}, ", ta", true},
                             {{72, 256}, {260, 72}, ", ta, tb", true},
                             {{256, 74}, {74, 260}, "", false}}) {  // lines of 296 bytes
      // Small integers, so the bits are the same in any order and as tf32.
      const isa::Module module = plan::test::assembled(fmt::format(
          R"(
.state @a_row f32[{0},1] = iota(axis=0)
.state @a_column f32[1,{1}] = iota(axis=1, step=-1)
.state @b_row f32[{2},1] = iota(axis=0, step=2)
.state @b_column f32[1,{3}] = iota(axis=1, step=-1)
.output @x f32[256,260]
.func main() {{
  %a = add @a_row, @a_column
  %b = add @b_row, @b_column
  @x = matmul %a, %b{4}, tail=relu
}}
)",
          form.a[0], form.a[1], form.b[0], form.b[1], form.attributes));
      INFO(form.a[1] << form.attributes << (fast ? " fast" : " strict"));
      plan::LinkOptions options;
      options.fast = fast;
      const isa::Result<plan::Plan> plan = plan::link(module, device, options);
      REQUIRE(plan);
      const Described described = describe(*plan, plan::test::node_of(*plan, isa::Opcode::Matmul));
      CHECK(static_cast<Product>(described.node().matrix.product) ==
            (fast ? Product::tensor : Product::ordered));
      // By the dot order small tiles have none.
      if (fast) CHECK(described.maps.size() == (form.copied ? 2 : 0));
      for (const TensorMap& map : described.maps) {
        CHECK(map.as_tf32 == fast);
        // Rows of a swizzled box have 32 elements, whichever way the operand lies.
        if (fast) CHECK(map.box[0] == 32);
      }
      Given given;
      given.prepare = with_units(2);
      CHECK(plan::test::run(module, *plan, 1, given).tensors ==
            plan::test::run(module, *plan, 1).tensors);
    }
}

TEST_CASE("cross-entropy over many rows and over many classes") {
  for (const char* reduction : {"mean", "sum", "none"}) {
    const bool none = std::string_view(reduction) == "none";
    INFO(reduction);
    expect_same(fmt::format(R"(
.state @z f32[2500,7] = normal(0, 2, key=1)
.state @t i32[2500]
.state @wide bf16[3,20000] = normal(0, 2, key=2)
.state @u i64[3] = iota(axis=0, start=5000, step=7000)
.output @loss f32[{1}]
.output @dz f32[2500,7]
.output @wloss f32[{2}]
.output @wdz bf16[3,20000]
.output @only bf16[3,20000]
.func main() {{
  @loss, @dz = cross_entropy.with_grad @z, @t, {0}
  @wloss = cross_entropy @wide, @u, {0}
  @only = cross_entropy.grad @wloss, @wide, @u, {0}
}}
)",
                            reduction, none ? "2500" : "", none ? "3" : ""));
  }
}

TEST_CASE("what falls on one element is added in ascending order of the index") {
  expect_same(R"(
.state @x f32[6,3] = normal(0, 1, key=1)
.state @i i32[500]
.state @y f32[500,3] = normal(0, 100, key=2)
.state @line bf16[4] = normal(0, 1, key=3)
.state @k u8[300] = iota(axis=0)
.state @n bf16[300] = normal(0, 9, key=4)
.output @a f32[6,3]
.output @b bf16[4]
.output @c bf16[4]
.func main() {
  @a = scatter.add @x, @i, @y
  %k = and @k, 3
  @b = scatter.add @line, %k, @n
  @c = scatter @line, %k, @n
}
)");
}

TEST_CASE("steps make their gradients, in boxes of every size") {
  for (const std::string_view step :
       {"adam! @w, @m, @v, %g, lr=0.01, step=$t", "adamw! @w, @m, @v, %g, lr=0.01, step=$t",
        "sgd! @w, %g, lr=0.1", "sgd.momentum! @w, @v, %g, lr=0.1", "rmsprop! @w, @v, %g, lr=0.1"})
    for (const auto& [processors, k, m, n] : {std::tuple{1, 8, 20, 68},
                                              {12, 72, 44, 136},
                                              {3, 64, 96, 128},
                                              {2, 104, 80, 128},
                                              {2, 40, 96, 120},
                                              {1, 128, 48, 64}}) {
      INFO(step << " of " << k << " x " << m << " x " << n);
      expect_same(fmt::format(R"(
.state @x f32[{1},{2}] = normal(0, 1, key=1)
.state @y f32[{1},{3}] = normal(0, 1, key=2)
.state @w f32[{2},{3}] = normal(0, 1, key=3)
.state @m f32[{2},{3}] = normal(0, 1, key=4)
.state @v f32[{2},{3}] = uniform(0, 1, key=5)
.func main() {{
  loop $t = 1 until 3 {{
    %g = matmul @x, @y, ta
    {0}
  }}
}}
)",
                              step, k, m, n),
                  processors);
    }
}

TEST_CASE("steps sum the lines of their gradients") {
  for (const std::string_view step :
       {"adam! @w, @m, @v, %g, lr=0.01, step=$t", "sgd! @w, %g, lr=0.1",
        "sgd.momentum! @w, @v, %g, lr=0.1", "rmsprop! @w, @v, %g, lr=0.1"})
    for (const auto& [k, n] : {std::pair{32, 64}, {40, 20}, {128, 72}, {256, 200}, {97, 132}}) {
      INFO(step << " of " << k << " x " << n);
      expect_same(fmt::format(R"(
.state @y f32[{1},{2}] = normal(0, 1, key=2)
.state @w f32[{2}] = normal(0, 1, key=3)
.state @m f32[{2}] = normal(0, 1, key=4)
.state @v f32[{2}] = uniform(0, 1, key=5)
.func main() {{
  loop $t = 1 until 3 {{
    %g = sum @y, axis=0
    {0}
  }}
}}
)",
                              step, k, n));
    }
}

TEST_CASE("losses make their logits and give back, of rows of every size") {
  for (const auto& [processors, rows, row, classes] : {std::tuple{17, 34, 72, 10},
                                                       {17, 17, 512, 3},
                                                       {17, 19, 2048, 8},
                                                       {3, 6, 4, 32},
                                                       {9, 17, 200, 17},
                                                       {17, 30, 64, 1}})
    for (const bool has_tail : {false, true})
      for (const char* reduction : {"mean", "none"}) {
        INFO(rows << " x " << row << " x " << classes << " " << reduction);
        expect_same(fmt::format(R"(
.state @h f32[{0},{1}] = normal(0, 1, key=1)
.state @w f32[{1},{2}] = normal(0, 1, key=2)
.state @b f32[{2}] = normal(0, 1, key=3)
.state @q f32[{1},8] = normal(0, 1, key=4)
.output @losses f32[{3}]
.output @dz f32[{0},{2}]
.output @d f32[{0},8]
.func main() {{
  %n = iota shape=[{0}], to=i32, axis=0
  %t = mod %n, {2}
  %z = matmul @h, @w{4}
  %loss, %dz = cross_entropy.with_grad %z, %t, {5}
  @losses = copy %loss
  @dz = copy %dz
  %a = matmul %dz, @w, tb
  {6}
  @d = matmul %d, @q
}}
)",
                                rows, row, classes,
                                *reduction == 'n' ? std::to_string(rows) : std::string(),
                                has_tail ? ", bias=@b" : "", reduction,
                                has_tail ? "%d = relu.grad %a, @h" : "%d = copy %a"),
                    processors, rows > processors);
      }
}

TEST_CASE("gradients are clipped by their common norm, tensors empty or long") {
  expect_same(R"(
.state @a f32[40000] = normal(0, 1, key=1)
.state @b f32[3,5] = normal(0, 1, key=2)
.state @c f32[0]
.output @n f32[]
.output @x f32[40000]
.output @y f32[3,5]
.output @z f32[0]
.func main() {
  @n, @x, @y, @z = clip_norm @a, @b, @c, max=1
}
)");
}

}  // namespace trek::device::test
