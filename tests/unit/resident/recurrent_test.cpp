// Which loops are recurrent, and what their tasks wait for.
#include "emulator/resident/recurrent.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/unit/plan/run.h"
#include "tests/unit/resident/encoded.h"

namespace trek::resident::test {
namespace {

// Steps of two products, as many as `together` in a trip, which `join` joins; `behind` follows a step.
struct Network {
  int together = 2;
  int hidden = 64;
  std::string_view bias = "bias=%row, ";
  std::string_view join = "%h{S + 1} = mul %a, %b";
  std::string_view behind = {};

  std::string text() const {
    return fmt::format(
        ".const HIDDEN = {1}\n.state @x f32[5,{0},HIDDEN] = normal(0, 1, key=1)\n"
        ".state @y f32[5,{0},HIDDEN]\n.state @z f32[1,HIDDEN] = normal(0, 1, key=4)\n"
        ".state @u f32[HIDDEN,HIDDEN] = normal(0, 0.2, key=2)\n"
        ".state @v f32[HIDDEN,HIDDEN] = normal(0, 0.2, key=3)\n"
        ".func main() {{\n  %zero = fill 0.1, shape=[1,HIDDEN], to=f32\n"
        "  %end = loop $t = 0 until 5 carry %h0 = %zero {{\n"
        "    .repeat S = 0 until {0} {{\n"
        "      %own = slice @x, at=[$t,S,0], size=[1,1,HIDDEN]\n"
        "      %row = reshape %own, shape=[1,HIDDEN]\n"
        "      %a = matmul %h{{S}}, @u, {2}tail=sigmoid\n"
        "      %b = matmul %h{{S}}, @v, tail=tanh\n"
        "      {3}\n      %new = reshape %h{{S + 1}}, shape=[1,1,HIDDEN]\n"
        "      update! @y, %new, at=[$t,S,0]\n      {4}\n    }}\n"
        "    yield %h{0}\n  }}\n  @z = copy %end\n}}\n",
        together, hidden, bias, join, behind);
  }
};

plan::Device interpreting(int processors) { return device_with_words(processors, true); }
size_t count(const Encoded& all, Kind kind) {
  return static_cast<size_t>(std::ranges::count_if(
      all.image.records, [&](const Record& record) { return record.kind == kind; }));
}
size_t recurrent(const Network& network, const plan::Device& device = interpreting(40)) {
  INFO(network.text());
  return count(encoded(network.text(), device), Kind::recurrent);
}

}  // namespace

TEST_CASE(
    "steps whose rows are each other's are recurrent, and wait for counters on the first trip "
    "alone") {
  for (const int together : {2, 4})
    for (const int processors : {3, 40}) {
      const Encoded all = encoded(Network{.together = together}.text(), interpreting(processors));
      size_t found = 0;
      for (const Record& record : all.image.records) {
        if (record.kind != Kind::recurrent) continue;
        ++found;
        for (uint32_t i = 0; i < record.waits; ++i) CHECK(wait_of(all, record, i).first_trip == 1);
        const device::Node& node = *all.nodes[record.node];
        CHECK(node.areas().left != device::Areas::kNone);
        CHECK(node.areas().result != device::Areas::kNone);
        const bool is_first = record.node == all.plan.regions[record.loop].first_node;
        CHECK(node.areas().trips_before == (is_first ? 1u : 0u));
        CHECK(device::ThinPlace{record.count}.is_followed());
      }
      CHECK(found >= static_cast<size_t>(together));
      CHECK(found % static_cast<size_t>(together) == 0);
    }
}

TEST_CASE("what else is in the loop, or beside the sums, makes it no recurrent one") {
  CHECK(recurrent({}) != 0);
  CHECK(recurrent({.together = 3}) == 0);
  CHECK(recurrent({.together = 1}) == 0);  // a step would write the row that it reads
  CHECK(recurrent({.hidden = 528}) == 0);  // a thread would have more than two elements of the row
  CHECK(recurrent({.behind = "@z = mul @z, 0.5"}) == 0);
  CHECK(recurrent({.join = "%p = mul %a, %b\n%h{S + 1} = add %p, %h{S}"}) == 0);
  CHECK(recurrent({.join = "%p = mul %a, %b\n%h{S + 1} = mul %p, 0.5"}) == 0);
}

TEST_CASE("code that is made, and a level without words, have no recurrent steps") {
  plan::Device device = interpreting(40);
  device.has_tags = false;
  CHECK(recurrent({}, device) == 0);
  CHECK(count(encoded(Network{}.text(), device), Kind::stays) != 0);
  device.has_tags = true;
  device.interprets = false;
  CHECK(recurrent({}, device) == 0);
}

}  // namespace trek::resident::test
