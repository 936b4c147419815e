// Loops of moves whose results are in words: which they are, what their tasks wait for, and what comes behind them.
#include <algorithm>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/device/word_places.h"
#include "emulator/resident/queues.h"
#include "emulator/resident/tags.h"
#include "tests/unit/plan/run.h"
#include "tests/unit/resident/encoded.h"

namespace trek::resident::test {
namespace {

using device::Areas;

// Two moves in a circle, whose first reads what the trip before gave, with `more` in the loop and `behind` it.
std::string circle(const std::string& more = "", const std::string& behind = "") {
  return fmt::format(R"(
.state @x f32[16,64] = normal(0, 1, key=1)
.state @y f32[64,16] = normal(0, 1, key=2)
.func main() {{
  %end = loop $i = 0 until 40 carry %v = @x {{
    %w = permute %v, axes=[1,0]
    {}
    %u = permute %w, axes=[1,0]
    yield %u
  }}
  {}
  @x = copy %end
}}
)",
                     more, behind);
}

Encoded encoded_for(const std::string& program, bool has_tagged_moves = true,
                    int64_t memory_bytes = int64_t{1} << 40) {
  plan::Device device = plan::test::small_device(8);
  device.memory_bytes = memory_bytes;
  device.chunk = 64;
  device.has_tagged_moves = has_tagged_moves;
  return encoded(program, device);
}
std::set<uint32_t> in_words(const Encoded& all) {
  std::set<uint32_t> found;
  for (const Record& record : all.image.records)
    if (record.kind == Kind::words) found.insert(record.node);
  return found;
}

}  // namespace

TEST_CASE("moves in a circle read each other's words, the first of them those of the trip before") {
  const Encoded all = encoded_for(circle());
  const std::set<uint32_t> words = in_words(all);
  REQUIRE(words.size() == 2);
  const Areas& first = all.nodes.at(*words.begin())->areas();
  const Areas& second = all.nodes.at(*words.rbegin())->areas();
  CHECK(first.left == second.result);
  CHECK(second.left == first.result);
  CHECK(first.trips_before == 1);
  CHECK(second.trips_before == 0);
  CHECK(first.left_line == second.result_line);
  CHECK(second.left_line == first.result_line);
  const auto bytes = int64_t{device::kWordTrips} * device::kWord * 16 * 64;
  CHECK(all.image.tags_bytes == static_cast<uint64_t>(2 * bytes));
  CHECK(std::abs(first.result - second.result) == bytes);
  CHECK(first.result >= static_cast<int64_t>(all.image.tags_at));
}

TEST_CASE("in trips behind the first they wait for words, and for readers of many trips ago") {
  const Encoded all = encoded_for(circle());
  for (const Record& record : all.image.records) {
    if (record.kind != Kind::words) continue;
    CHECK(record.late == 0);
    CHECK(record.signals != 0);
    uint32_t behind = 0;
    for (uint32_t i = 0; i < record.waits; ++i) {
      const Wait& wait = wait_of(all, record, i);
      if (wait.first_trip != 0) continue;
      CHECK(wait.region == record.loop);
      CHECK(wait.delta == device::kWordTrips - device::kTripsTogether);
      ++behind;
    }
    CHECK(behind != 0);
  }
}

TEST_CASE("what comes behind such a loop waits for all of it, once on every processor") {
  const Encoded all = encoded_for(circle("", "@y = permute %end, axes=[1,0]"));
  std::set<uint32_t> counters;
  for (const Record& record : all.image.records)
    if (record.kind == Kind::words)
      for (uint32_t i = 0; i < record.signals; ++i) counters.insert(record.signal[i]);
  REQUIRE(!counters.empty());
  for (size_t p = 0; p < all.image.queues.size(); ++p) {
    bool is_behind = false;
    for (size_t r = all.image.queues[p]; all.image.records[r].kind != Kind::halt; ++r) {
      const Record& record = all.image.records[r];
      if (record.kind == Kind::leave) is_behind = true;
      if (!is_behind || !is_of_unit(record.kind)) continue;
      std::set<uint32_t> waits;
      for (uint32_t i = 0; i < record.waits; ++i)
        if (wait_of(all, record, i).first_trip == 0 && wait_of(all, record, i).delta == 0)
          waits.insert(wait_of(all, record, i).counter);
      CHECK(std::ranges::includes(waits, counters));
      break;
    }
  }
}

TEST_CASE("words lie in patches of the lines across which they are read") {
  const Encoded all = encoded_for(circle());
  std::set<uint32_t> lines;
  for (const uint32_t node : in_words(all)) lines.insert(all.nodes.at(node)->areas().result_line);
  CHECK(lines == std::set<uint32_t>{16, 64});
  for (const uint32_t line : {0u, 4u, 16u, 64u}) {
    std::set<uint32_t> places;
    for (uint32_t element = 0; element < 16 * 64; ++element)
      places.insert(device::place_in_patches(element, line));
    CHECK(places.size() == 16 * 64);
    CHECK(*places.rbegin() == 16 * 64 - 1);
  }
  CHECK(device::place_in_patches(3 * 16 + 2, 16) == 3 * 4 + 2);
}

TEST_CASE("a loop with anything else in it waits for counters") {
  CHECK(in_words(encoded_for(circle("%z = mul %w, 2\n@y = copy %z"))).empty());
  CHECK(
      in_words(encoded_for(circle("loop $j = 0 until 2 { @y = permute %v, axes=[1,0] }"))).empty());
  CHECK(in_words(encoded_for(circle("emit \"w\", %w"))).empty());
  CHECK(in_words(encoded_for(circle(), false)).empty());
  CHECK(encoded_for(circle(), false).image.tags_bytes == 0);
}

TEST_CASE("where memory has no room for words, moves wait for counters") {
  const Encoded with = encoded_for(circle());
  REQUIRE(in_words(with).size() == 2);
  const auto least = with.plan.arena_bytes + 2 * static_cast<int64_t>(with.image.tags_bytes);
  CHECK(in_words(encoded_for(circle(), true, least)).size() == 2);
  const Encoded without = encoded_for(circle(), true, least - 2);
  CHECK(in_words(without).empty());
  CHECK(without.image.arena_bytes < with.image.arena_bytes);
}

TEST_CASE("moves of other elements, or of more than a task may have in words, wait for counters") {
  std::string halves = circle();
  for (size_t at = 0; (at = halves.find("f32", at)) != std::string::npos;)
    halves.replace(at, 3, "f16");
  CHECK(in_words(encoded_for(halves)).empty());
  std::string large = circle();
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = large.find(from, at)) != std::string::npos; at += to.size())
      large.replace(at, from.size(), to);
  };
  replace("[16,64]", "[512,512]");
  replace("[64,16]", "[512,512]");
  CHECK(in_words(encoded_for(large)).empty());
}

TEST_CASE(
    "a wait is handed on to tasks behind, round the loop and behind it, up to one that comes for "
    "certain") {
  // One processor, two nodes in a loop and one behind it.
  const isa::Module module = plan::test::assembled(R"(
.state @x f32[4,4] = normal(0, 1, key=1)
.state @y f32[4,4] = normal(0, 1, key=2)
.state @z f32[4,4] = normal(0, 1, key=3)
.state @w f32[4,4] = normal(0, 1, key=4)
.func main() {
  loop $i = 0 until 3 {
    @x = permute @y, axes=[1,0]
    @y = permute @z, axes=[1,0]
    @z = permute @x, axes=[1,0]
  }
  @w = permute @z, axes=[1,0]
}
)");
  plan::Device device = plan::test::small_device(1);
  plan::Plan plan = plan::test::linked(module, device);
  std::vector<uint32_t> first;  // tasks of moves
  for (const plan::Node& node : plan.nodes)
    if (node.opcode == isa::Opcode::Permute) first.push_back(node.first_task);
  REQUIRE(first.size() == 4);
  const uint32_t loop = plan.tasks[first[0]].region;
  REQUIRE(plan.regions[loop].is_loop());
  plan.counters.push_back({loop, 1});
  const auto counter = static_cast<uint32_t>(plan.counters.size() - 1);
  const Queues queues(plan);
  TaggedNodes tagged(plan);
  const auto deltas = [&] {
    std::vector<int> found;
    for (const uint32_t task : first) {
      const std::vector<plan::Wait>& more = tagged.more[task];
      found.push_back(more.empty() ? -1 : static_cast<int>(more[0].delta));
    }
    return found;
  };
  const plan::Wait wait = {counter, 1, 0, false, false};
  queues.hand_on(0, {first[0], first[0] + 1, loop}, wait, tagged, [](uint32_t) { return false; });
  CHECK(deltas() == std::vector<int>{-1, 0, -1, -1});
  tagged = TaggedNodes(plan);
  queues.hand_on(0, {first[1], first[1] + 1, loop}, wait, tagged,
                 [&](uint32_t task) { return task == first[2]; });
  CHECK(deltas() == std::vector<int>{1, -1, -1, 0});
  tagged = TaggedNodes(plan);
  add_wait(plan, first[3], wait, tagged);
  add_wait(plan, first[3], {counter, 1, 1, false, false}, tagged);  // it waits for more already
  CHECK(tagged.more[first[3]].size() == 1);
}

}  // namespace trek::resident::test
