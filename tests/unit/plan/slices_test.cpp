// Slices that several thin products read where they lie, and updates that they put themselves: which do, which do not, and
// the reference's bits.
#include <algorithm>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/plan/print.h"
#include "tests/unit/plan/run.h"

namespace trek::plan::test {
namespace {

// A recurrent network of two products, whose state is two rows, so that a step reads one and writes the other. A step has what
// `row` makes %row, and `put` follows it; `loop` is what its counter $t goes through.
struct Network {
  std::string_view loop = "loop $t = 0 until 5 step 1";
  std::string_view row =
      "%own = slice @x, at=[$t,1,0], size=[1,1,24]\n"
      "%row = reshape %own, shape=[1,24]\n";
  std::string_view put = "%new = reshape %h, shape=[1,1,24]\nupdate! @y, %new, at=[$t,2,0]\n";
  std::string_view behind = {};

  std::string text() const {
    return fmt::format(
        ".state @x f32[5,3,24] = normal(0, 1, key=1)\n.state @y f32[5,4,24]\n"
        ".state @z f32[1,24]\n.state @seen f32[1,24]\n.param $n i64 = 2\n"
        ".state @u f32[24,24] = normal(0, 0.2, key=2)\n"
        ".state @v f32[24,24] = normal(0, 0.2, key=3)\n"
        ".func main() {{\n  %zero = fill 0.1, shape=[1,24], to=f32\n"
        "  %end = {} carry %before = %zero {{\n{}"
        "    %a = matmul %before, @u, bias=%row, tail=sigmoid\n"
        "    %b = matmul %before, @v, tail=tanh\n"
        "    %h = mul %a, %b\n{}{}"
        "    %next = copy %h\n    yield %next\n  }}\n  @z = copy %end\n}}\n",
        loop, row, put, behind);
  }
};

struct Left {
  size_t slices = 0;  // nodes
  size_t updates = 0;
  bool operator==(const Left&) const = default;
};
std::string to_string(Left left) { return fmt::format("{}, {}", left.slices, left.updates); }

// The nodes that are left of a network, whose bits are the reference's.
Left left_of(const Network& network) {
  const std::string text = network.text();
  INFO(text);
  const isa::Module module = assembled(text);
  const Plan plan = linked(module, small_device(5));
  CHECK(errors_of(plan) == "");
  expect_as_reference(module);
  const auto nodes = [&](isa::Opcode opcode) {
    return static_cast<size_t>(
        std::ranges::count_if(plan.nodes, [&](const Node& node) { return node.opcode == opcode; }));
  };
  return {nodes(isa::Opcode::Slice), nodes(isa::Opcode::Update)};
}

#define CHECK_LEFT(network, ...) CHECK(to_string(left_of(network)) == to_string(Left{__VA_ARGS__}))

}  // namespace

TEST_CASE(
    "a step reads its row of a larger tensor, and puts its own, where the loop's counter says") {
  CHECK_LEFT(Network{}, 0, 0);
  CHECK_LEFT((Network{.loop = "loop $t = 4 until -1 step -1"}), 0, 0);
  CHECK_LEFT((Network{.loop = "loop $t = 1 until 5 step 2"}), 0, 0);
  const Plan plan = linked(assembled(Network{}.text()), small_device(5));
  const std::string print = print_plan(plan);
  CHECK(print.find("@x[24 + 72 x counter of region 1]") != std::string::npos);
  CHECK(print.find("@y[48 + 96 x counter of region 1]") != std::string::npos);
}

TEST_CASE("a slice stays where its place is not known or is outside of the tensor in some trip") {
  constexpr std::string_view kReshape = "%row = reshape %own, shape=[1,24]\n";
  const auto with = [&](std::string_view slice) {
    return std::string(slice) + std::string(kReshape);
  };
  CHECK_LEFT((Network{.row = with("%own = slice @x, at=[$n,1,0], size=[1,1,24]\n")}), 1, 0);
  CHECK_LEFT((Network{.loop = "loop $t = 0 until 6 step 1"}), 1, 1);  // traps
  CHECK_LEFT((Network{.row = with("%own = slice @x, at=[0,$t,0], size=[1,1,24]\n")}), 1, 0);
}

TEST_CASE("a slice stays whose elements are not neighbours, or that others read") {
  CHECK_LEFT((Network{.row = "%own = slice @x, at=[$t,0,0], size=[1,3,8]\n"
                             "%row = reshape %own, shape=[1,24]\n"}),
             1, 0);
  CHECK_LEFT((Network{.behind = "@z = copy %row\n"}), 1, 0);
  CHECK_LEFT((Network{.behind = "update! @x, %new, at=[$t,1,0]\n"}), 0, 1);
}

TEST_CASE(
    "a slice of what is written behind it stays, and so does an update of what is read before it") {
  CHECK_LEFT((Network{.row = "%own = slice @x, at=[$t,1,0], size=[1,1,24]\n"
                             "%row = reshape %own, shape=[1,24]\n"
                             "%some = fill 2.0, shape=[1,1,24], to=f32\n"
                             "update! @x, %some, at=[$t,1,0]\n"}),
             1, 1);
  CHECK_LEFT((Network{.put = "%seen = sum @y, axis=[0,1]\n%line = reshape %seen, shape=[1,24]\n"
                             "@z = copy %line\n%new = reshape %h, shape=[1,1,24]\n"
                             "update! @y, %new, at=[$t,2,0]\n"}),
             0, 1);
}

TEST_CASE("an update stays behind products that read another slice of the tensor where it lies") {
  // %h is there before the second products, which have what was in @y before it is put there.
  CHECK_LEFT((Network{.row = "%own = slice @x, at=[$t,1,0], size=[1,1,24]\n"
                             "%row = reshape %own, shape=[1,24]\n"
                             "%old = slice @y, at=[$t,2,0], size=[1,1,24]\n"
                             "%line = reshape %old, shape=[1,24]\n",
                      .put = "%c = matmul %h, @u, bias=%line, tail=sigmoid\n"
                             "%d = matmul %h, @v, tail=tanh\n@seen = mul %c, %d\n"
                             "%new = reshape %h, shape=[1,1,24]\n"
                             "update! @y, %new, at=[$t,2,0]\n"}),
             0, 1);
}

}  // namespace trek::plan::test
