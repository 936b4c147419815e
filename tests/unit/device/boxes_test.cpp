// Steps of boxes whose operands a copy engine brings: its tensor maps, and what their tasks find in memory before they wait.
#include <array>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/device/describe.h"
#include "tests/unit/plan/run.h"

namespace trek::device::test {
namespace {

struct Step {
  isa::Module module;
  plan::Plan plan;

  Step(std::string_view rule, std::string_view before, const plan::Device& device)
      : module(plan::test::assembled(fmt::format(R"(
.state @x f32[120,260] = 1
.state @y f32[120,516] = 1
.state @w f32[260,516] = 1
.state @m f32[260,516] = 0
.state @v f32[260,516] = 0
.func main() {{
  loop $i = 1 until 5 {{
    {}
    %g = matmul @x, @y, ta
    {}
  }}
}}
)",
                                                 before, rule))),
        plan(plan::test::linked(module, device)) {}
  Described described() const {
    for (uint32_t n = 0; n < plan.nodes.size(); ++n)
      if (plan.nodes[n].steps_boxes()) return describe(plan, n);
    FAIL("no step makes its gradient");
    return {};
  }
};

plan::Device hopper(bool has_tags = true) {
  plan::Device device = *plan::find_device("h200");
  device.has_tags = has_tags;
  return device;
}
constexpr const char* kAdam = "adam! @w, @m, @v, %g, lr=1e-3, step=$i";

}  // namespace

TEST_CASE("a step of boxes has a map of each operand and of all that it steps") {
  const Step step(kAdam, "", hopper());
  const Described described = step.described();
  const Matrix& of = described.node().matrix;
  CHECK(of.has_boxes == 1);
  REQUIRE(described.maps.size() == 5);
  CHECK(described.scratch_bytes >= 5 * kTensorMapBytes);
  CHECK(described.maps[0].sizes == std::array<int64_t, 3>{260, 120, 1});
  CHECK(described.maps[0].strides == std::array<int64_t, 2>{4 * 260, 4 * 260 * 120});
  CHECK(described.maps[0].box ==
        std::array<uint32_t, 3>{static_cast<uint32_t>(of.tile_rows), kMadePart, 1});
  CHECK(described.maps[1].box ==
        std::array<uint32_t, 3>{static_cast<uint32_t>(of.tile_columns), kMadePart, 1});
  for (size_t i = 2; i < 5; ++i) {
    CHECK(described.maps[i].sizes == std::array<int64_t, 3>{516, 260, 1});
    CHECK(described.maps[i].box == std::array<uint32_t, 3>{static_cast<uint32_t>(of.tile_columns),
                                                           static_cast<uint32_t>(of.tile_rows), 1});
    CHECK_FALSE(described.maps[i].swizzled);
  }
  CHECK(Step("sgd! @w, %g, lr=0.1", "", hopper()).described().maps.size() == 3);
  plan::Device ampere = hopper();
  ampere.copies_tensors = false;
  const Described copied = Step(kAdam, "", ampere).described();
  CHECK(copied.maps.empty());
  CHECK(copied.node().matrix.has_boxes == 0);
}

TEST_CASE("what a step's tasks find before they wait is said where a device knows its trips") {
  const auto stands = [](std::string_view before, const plan::Device& device) {
    const Described described = Step(kAdam, before, device).described();
    const Matrix& of = described.node().matrix;
    return std::array<int, 3>{of.left_stands, of.right_stands, of.own_stands};
  };
  CHECK(stands("", hopper()) == std::array<int, 3>{1, 1, 1});
  CHECK(stands("@y = neg @y", hopper()) == std::array<int, 3>{1, 0, 1});
  CHECK(stands("@x = neg @x", hopper()) == std::array<int, 3>{0, 1, 1});
  CHECK(stands("@v = mul @v, 0.5", hopper()) == std::array<int, 3>{1, 1, 0});
  CHECK(stands("", hopper(false)) == std::array<int, 3>{0, 0, 0});
}

}  // namespace trek::device::test
