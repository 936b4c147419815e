// Weights that stay in shared memory over the trips of a loop: which do, and that no two share memory.
#include "emulator/resident/places.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/resident/encode.h"
#include "emulator/resident/image.h"
#include "tests/unit/plan/run.h"

namespace trek::resident::test {
namespace {

// Two layers, the first of them twice a trip; WIDTH columns, with TYPE weights; BODY is in the loop besides.
constexpr const char* kLayers = R"(
.state @x {1}[1,{0}] = normal(0, 1, key=1)
.state @first {1}[{0},{0}] = normal(0, 1, key=2)
.state @second {1}[{0},{0}] = normal(0, 1, key=3)
.func main() {{
  loop $i = 0 until 3 {{
    %h = matmul @x, @first, tail=tanh
    %g = matmul %h, @second, tb, tail=tanh
    @x = matmul %g, @first, tail=tanh
    {2}
  }}
}}
)";

struct Encoded {
  plan::Plan plan;
  Image image;
};
Encoded encoded(const std::string& program, int processors) {
  const isa::Module module = plan::test::assembled(program);
  plan::Plan plan = plan::test::linked(module, plan::test::small_device(processors));
  auto image = encode(plan);
  REQUIRE(image);
  return {std::move(plan), image.take()};
}
size_t staying(const Encoded& all) {
  std::set<uint32_t> nodes;
  for (const Record& record : all.image.records)
    if (record.kind == Kind::stays) nodes.insert(record.node);
  return nodes.size();
}

}  // namespace

TEST_CASE("weights of a loop have places that no other work of their processor touches") {
  for (const int processors : {1, 3, 40}) {
    const Encoded all = encoded(fmt::format(kLayers, 64, "f32", ""), processors);
    CHECK(staying(all) == 3);
    for (size_t p = 0; p < all.image.queues.size(); ++p) {
      std::map<uint32_t, std::pair<uint32_t, uint32_t>> places;  // number: begin, end
      std::set<std::pair<uint32_t, int64_t>> contents;           // node, tile
      uint32_t work = 0;
      for (size_t r = all.image.queues[p]; all.image.records[r].kind != Kind::halt; ++r) {
        const Record& record = all.image.records[r];
        if (record.kind != Kind::stays) continue;
        const device::Node& node = node_of(all.image, record);
        const device::Thin& cut = node.matrix.thin.cut;
        const device::ThinPlace place = {record.count};
        REQUIRE(place.number() < device::kThinPlaces);
        CHECK(place.at() % 128 == 0);
        const std::pair range = {place.at(), place.at() + cut.bytes};
        CHECK(places.try_emplace(place.number(), range).first->second == range);
        contents.emplace(record.node == 2 ? 0 : record.node, record.first);  // nodes 0 and 2 share
        work = std::max(work, cut.sums + 4 * cut.blocks * cut.part);
      }
      CHECK(places.size() == contents.size());
      uint32_t before = work;
      std::map<uint32_t, uint32_t> in_order;
      for (const auto& [number, range] : places) in_order.insert(range);
      for (const auto& [begin, end] : in_order) {
        CHECK(begin >= before);
        before = end;
      }
      CHECK(before <= device::kSharedBytes);
    }
  }
}

TEST_CASE(
    "nodes that differ in addresses alone are of one form, others and single products are not") {
  // Two products that a step joins, four times a trip; the last step is {0}.
  constexpr const char* kSteps = R"(
.state @a f32[64,64] = normal(0, 0.1, key=1)
.state @b f32[64,64] = normal(0, 0.1, key=2)
.state @x f32[1,64] = normal(0, 1, key=3)
.macro step TO, FROM {{
  %p   = matmul {{FROM}}, @a, tail=sigmoid
  %q   = matmul {{FROM}}, @b, tail=tanh
  {{TO}} = mul %p, %q
}}
.func main() {{
  loop $i = 0 until 3 {{
    step %r, @x
    step %s, %r
    step %t, %s
    %p = matmul %t, @a, tail=sigmoid
    %q = matmul %t, @b, tail=tanh
    @x = {0}
  }}
}}
)";
  const auto forms = [&](const char* last) {
    const Encoded all = encoded(fmt::format(kSteps, last), 2);
    std::map<uint32_t, uint32_t> of_nodes;
    for (const Record& record : all.image.records)
      if (record.kind == Kind::stays)
        of_nodes.emplace(record.node, device::ThinPlace{record.count}.form());
    REQUIRE(of_nodes.size() == 4);
    std::vector<uint32_t> in_order;
    for (const auto& [node, form] : of_nodes) in_order.push_back(form);
    return in_order;
  };
  CHECK(forms("mul %p, %q") == std::vector<uint32_t>{1, 1, 1, 1});
  CHECK(forms("add %p, %q") == std::vector<uint32_t>{1, 1, 1, 2});
  constexpr uint32_t kNoForm = device::ThinPlace::kNoForm;
  CHECK(forms("fma %p, %q, 0.5") == std::vector<uint32_t>{1, 1, 1, kNoForm});

  const Encoded single = encoded(fmt::format(kLayers, 64, "f32", ""), 1);
  for (const Record& record : single.image.records)
    if (record.kind == Kind::stays) CHECK(device::ThinPlace{record.count}.form() == kNoForm);
}

TEST_CASE("weights that change, that are of 16 bits or for which there is no room do not stay") {
  CHECK(staying(encoded(fmt::format(kLayers, 64, "f32", "@second = mul @second, 0.5"), 3)) == 2);
  CHECK(staying(encoded(fmt::format(kLayers, 64, "bf16", ""), 3)) == 0);
  CHECK(staying(encoded(fmt::format(kLayers, 70, "f32", ""), 3)) == 0);  // no multiple of 16
  CHECK(staying(encoded(fmt::format(kLayers, 256, "f32", ""), 3)) ==
        0);  // for one processor of three
}

}  // namespace trek::resident::test
