// What thin products of compiled code have in the arena besides their tensors: words that say when they are there, and
// packed columns.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/resident/tags.h"
#include "tests/unit/plan/run.h"
#include "tests/unit/resident/encoded.h"

namespace trek::resident::test {
namespace {

using device::Areas;

// Three layers of bf16 in a loop; the last also reads what is {0}.
constexpr const char* kLayers = R"(
.state @x bf16[1,256] = normal(0, 1, key=1)
.state @first bf16[256,256] = normal(0, 0.1, key=2)
.state @second bf16[256,512] = normal(0, 0.1, key=3)
.state @third bf16[512,256] = normal(0, 0.1, key=4)
.state @other bf16[1,256] = normal(0, 0.1, key=5)
.func main() {{
  loop $i = 0 until 3 {{
    %f = matmul @x, @first, tail=tanh
    %s = matmul %f, @second, tail=tanh
    %t = matmul %s, @third
    %u = add %t, {0}
    @x = tanh %u
    @other = matmul @x, @first
  }}
}}
)";

plan::Device compiled(int processors) { return device_with_words(processors, false); }
bool reads_words(const Encoded& all, uint32_t node) {
  const device::Node* of = all.nodes[node];
  return of != nullptr && of->areas_at != 0 && of->areas().left != Areas::kNone;
}
size_t readers(const Encoded& all) {
  size_t found = 0;
  for (uint32_t n = 0; n < all.nodes.size(); ++n) found += reads_words(all, n) ? 1 : 0;
  return found;
}
std::vector<Wait> waits_of(const Encoded& all, const Record& record) {
  std::vector<Wait> waits;
  for (uint32_t i = 0; i < record.waits; ++i) waits.push_back(wait_of(all, record, i));
  return waits;
}
// Who waits for a node that has a row in words, and does not wait for those that made it, waits for these itself.
void expect_all_waits(const Encoded& all) {
  std::map<uint32_t, std::set<uint32_t>> counters;  // by the node that raises them
  std::map<uint32_t, uint32_t> raiser;
  for (const Record& record : all.image.records) {
    if (!is_of_unit(record.kind)) continue;
    for (uint32_t s = 0; s < record.signals; ++s) {
      counters[record.node].insert(record.signal[s]);
      raiser[record.signal[s]] = record.node;
    }
  }
  const auto waits_for = [&](const Record& record, uint32_t node) {
    return std::ranges::any_of(waits_of(all, record), [&](const Wait& wait) {
      return counters[node].contains(wait.counter) && wait.first_trip == 0;
    });
  };
  std::map<uint32_t, uint32_t> left_out;  // by node: who made its row
  for (const Record& record : all.image.records) {
    if (!is_of_unit(record.kind) || !reads_words(all, record.node)) continue;
    for (uint32_t maker = 0; maker < all.nodes.size(); ++maker)
      if (all.nodes[maker] != nullptr && all.nodes[maker]->areas_at != 0 &&
          all.nodes[maker]->areas().result == all.nodes[record.node]->areas().left &&
          !waits_for(record, maker))
        left_out.emplace(record.node, maker);
  }
  for (const Record& record : all.image.records) {
    if (!is_of_unit(record.kind) || left_out.contains(record.node)) continue;
    for (const Wait& wait : waits_of(all, record)) {
      const auto stands_for = left_out.find(raiser[wait.counter]);
      if (stands_for != left_out.end() && wait.first_trip == 0)
        CHECK(waits_for(record, stands_for->second));
    }
  }
}
size_t late_waits(const Encoded& all) {
  size_t found = 0;
  for (const Record& record : all.image.records)
    if (is_of_unit(record.kind)) found += record.late != 0 ? 1 : 0;
  return found;
}

}  // namespace

TEST_CASE(
    "rows that thin products make for each other are read in words, and waited for behind the "
    "work") {
  const Encoded all = encoded(fmt::format(kLayers, "%f"), compiled(40));
  CHECK(readers(all) == 2);  // %s of %f, %t of %s; @x is a tensor of the module
  CHECK(all.image.tags_bytes >= (256 + 512) * 4);
  for (const Record& record : all.image.records) {
    if (!is_of_unit(record.kind)) continue;
    // Whoever waits for a row behind its work reads it in words; whoever reads it in words, behind its work or not at all.
    if (!reads_words(all, record.node)) CHECK(record.late == 0);
    CHECK(record.late >> record.waits == 0);
  }
  for (const int processors : {40, 200})
    expect_all_waits(encoded(fmt::format(kLayers, "%f"), compiled(processors)));
}

TEST_CASE("what a node reads in words another gives in them, and words are nobody else's") {
  const Encoded all = encoded(fmt::format(kLayers, "%f"), compiled(40));
  std::map<int64_t, int64_t> given;
  for (const device::Node* node : all.nodes) {
    if (node == nullptr || node->areas_at == 0 || node->areas().result == Areas::kNone) continue;
    given.emplace(node->areas().result, node->result(0).elements * 4);
  }
  REQUIRE(given.size() == 2);
  auto end = static_cast<int64_t>(all.image.tags_at);
  CHECK(end >= all.plan.arena_bytes);
  for (const auto& [begin, bytes] : given) {
    CHECK(begin >= end);
    end = begin + bytes;
  }
  CHECK(end <= static_cast<int64_t>(all.image.tags_at + all.image.tags_bytes));
  CHECK(all.image.tags_at + all.image.tags_bytes <= all.image.arena_bytes);
  for (uint32_t n = 0; n < all.nodes.size(); ++n) {
    if (!reads_words(all, n)) continue;
    CHECK(given.contains(all.nodes[n]->areas().left));
    const int64_t beside = all.nodes[n]->areas().beside;
    CHECK((beside == Areas::kNone || given.contains(beside)));
  }
}

TEST_CASE("a product that also reads what is not in words waits for counters") {
  // @other is written in the loop, so the last layer's tail may not be asked for before its counter.
  const Encoded all = encoded(fmt::format(kLayers, "@other"), compiled(40));
  CHECK(readers(all) == 1);
}

TEST_CASE(
    "products that a program joins read a row in words where all else is waited for or their own "
    "processor's") {
  // Three steps of a cell, of which each reads the state of the one before and {0}, {1} or {2}.
  constexpr const char* kCell = R"(
.state @h f32[1,128] = normal(0, 1, key=1)
.state @c f32[1,128] = normal(0, 1, key=2)
.state @keep f32[128,128] = normal(0, 0.1, key=3)
.state @take f32[128,128] = normal(0, 0.1, key=4)
.state @inputs f32[8,128] = normal(0, 1, key=5)
.macro step H_AFTER, C_AFTER, H, C, FROM {{
  %k = matmul {{H}}, @keep, bias={{FROM}}, tail=sigmoid
  %t = matmul {{H}}, @take, tail=tanh
  %kept = mul %k, {{C}}
  {{C_AFTER}} = add %kept, %t
  %seen = tanh {{C_AFTER}}
  {{H_AFTER}} = mul %k, %seen
}}
.func main() {{
  loop $i = 0 until 3 {{
    %x = slice @inputs, at=[$i,0], size=[1,128]
    %y = slice @inputs, at=[$i,0], size=[1,128]
    %z = slice @inputs, at=[$i,0], size=[1,128]
    step %h1, %c1, @h, @c, {0}
    step %h2, %c2, %h1, %c1, {1}
    step %h3, %c3, %h2, %c2, {2}
    step @h, @c, %h3, %c3, {2}
  }}
}}
)";
  const Encoded apart = encoded(fmt::format(kCell, "%x", "%y", "%z"), compiled(60));
  // The last step's input is known from the step before, so nothing waits for it.
  CHECK(readers(apart) == 2);
  const Encoded shared = encoded(fmt::format(kCell, "%x", "%x", "%z"), compiled(60));
  CHECK(readers(shared) == 1);
  for (const Record& record : apart.image.records)
    if (is_of_unit(record.kind) && !reads_words(apart, record.node)) CHECK(record.late == 0);
  expect_all_waits(apart);
  expect_all_waits(shared);
}

TEST_CASE(
    "of a row that a trip writes some elements of, the next trip's product reads these in words") {
  // {0} is where the answer is put, {1} what else is in the loop.
  constexpr const char* kAnswers = R"(
.state @x f32[1,200] = normal(0, 1, key=1)
.state @first f32[200,96] = normal(0, 0.1, key=2)
.state @second f32[96,64] = normal(0, 0.15, key=3)
.state @third f32[64,10] = normal(0, 0.15, key=4)
.state @n f32[16] = normal(0, 1, key=5)
.output @rows f32[1,200]
.func main() {{
  loop $i = 0 until 5 {{
    %f = matmul @x, @first, tail=tanh
    %s = matmul %f, @second, tail=tanh
    %t = matmul %s, @third
    update! @x, %t, at=[0,{0}]
    {1}
  }}
  update! @rows, @x, at=[0,0]
}}
)";
  const auto carried = [](const Encoded& all) {
    std::vector<const device::Node*> found;
    for (uint32_t n = 0; n < all.nodes.size(); ++n)
      if (reads_words(all, n) && all.nodes[n]->areas().trips_before != 0)
        found.push_back(all.nodes[n]);
    return found;
  };
  const Encoded all = encoded(fmt::format(kAnswers, 33, ""), compiled(60));
  CHECK(readers(all) == 3);
  // Products stand on processors of their own, so no wait is behind the work.
  CHECK(late_waits(all) == 0);
  const std::vector<const device::Node*> found = carried(all);
  REQUIRE(found.size() == 1);
  CHECK(found[0]->areas().left_begin == 33);
  CHECK(found[0]->areas().left_words == 10);
  // On the first trip the row is waited for as the plan says.
  size_t first_trips = 0;
  for (const Record& record : all.image.records)
    if (is_of_unit(record.kind) && all.nodes[record.node] == found[0])
      for (const Wait& wait : waits_of(all, record)) first_trips += wait.first_trip;
  CHECK(first_trips > 0);
  expect_all_waits(all);
  // Trips of a loop with another in it have no numbers one after the other; and what two nodes write nobody has in words.
  CHECK(carried(encoded(fmt::format(kAnswers, 33, "loop $u = 0 until 2 { @n = mul @n, 0.9 }"),
                        compiled(60)))
            .empty());
  CHECK(carried(encoded(fmt::format(kAnswers, 33, "update! @x, %t, at=[0,100]"), compiled(60)))
            .empty());
}

TEST_CASE("devices that interpret have neither words nor packed columns") {
  plan::Device device = compiled(40);
  device.has_tags = false;
  const Encoded all = encoded(fmt::format(kLayers, "%f"), device);
  CHECK(readers(all) == 0);
  CHECK(late_waits(all) == 0);
  CHECK(all.image.tags_bytes == 0);
  for (const device::Node* node : all.nodes) CHECK((node == nullptr || node->areas_at == 0));
}

TEST_CASE(
    "columns of a loop's products are packed, each tile's apart, and numbered on its processor") {
  for (const int processors : {3, 40}) {
    const Encoded all = encoded(fmt::format(kLayers, "%f"), compiled(processors));
    std::map<int64_t, int64_t> areas;
    for (const device::Node* node : all.nodes)
      if (node != nullptr && node->areas_at != 0 && node->areas().packed != Areas::kNone)
        areas.emplace(node->areas().packed, int64_t{node->matrix.thin.cut.bytes} *
                                                (node->matrix.n / node->matrix.tile_columns));
    if (processors == 40) REQUIRE(areas.size() == 4);
    int64_t end = all.plan.arena_bytes;
    for (const auto& [begin, bytes] : areas) {
      CHECK(begin >= end);
      end = begin + bytes;
    }
    CHECK(end <= static_cast<int64_t>(all.image.tags_at));
    for (size_t p = 0; p < all.image.queues.size(); ++p) {
      std::set<int64_t> numbers;
      size_t packed = 0;
      for (size_t r = all.image.queues[p]; all.image.records[r].kind != Kind::halt; ++r) {
        const Record& record = all.image.records[r];
        const device::Node* node = is_of_unit(record.kind) ? all.nodes[record.node] : nullptr;
        if (node == nullptr || node->areas_at == 0 || node->areas().packed == Areas::kNone)
          continue;
        ++packed;
        numbers.insert(record.count);
        CHECK(record.count >= 1);
      }
      CHECK(numbers.size() == packed);
    }
  }
}

TEST_CASE("columns are not packed where memory has no room for both") {
  plan::Device device = compiled(40);
  const Encoded all = encoded(fmt::format(kLayers, "%f"), device);
  device.memory_bytes = all.plan.arena_bytes + 100'000;
  const Encoded small = encoded(fmt::format(kLayers, "%f"), device);
  CHECK(small.image.arena_bytes <= static_cast<uint64_t>(device.memory_bytes));
}

}  // namespace trek::resident::test
