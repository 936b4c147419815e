// Products of one row that are executed as GEMV: which are, in what parts their columns come, and what their tasks are told.
#include "emulator/device/gemv.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/unit/resident/encoded.h"

namespace trek::resident::test {
namespace {

using device::Areas;
using device::Gemv;

// A row through two layers in a loop; {0} is in the loop besides.
constexpr const char* kLayers = R"(
.state @x bf16[1,256] = normal(0, 1, key=1)
.state @first bf16[256,512] = normal(0, 0.1, key=2)
.state @second bf16[512,256] = normal(0, 0.1, key=3)
.state @lines bf16[512,256] = normal(0, 0.1, key=4)
.state @wide f32[64,256] = normal(0, 0.1, key=5)
.output @seen f32[1,512]
.output @product f32[64,64]
.func main() {{
  loop $i = 0 until 3 {{
    %f = matmul @x, @first, tail=tanh
    %s = matmul %f, @second, tail=tanh
    @seen = matmul %s, @lines, tb, to=f32
    @x = tanh %s
    {0}
  }}
}}
)";

plan::Device device_with_chains(int processors) {
  plan::Device device = device_with_words(processors, true);
  device.has_tagged_moves = device.has_chains = true;
  return device;
}
const Gemv& gemv_of(const Image& image, const Record& record) {
  return *reinterpret_cast<const Gemv*>(image.descriptors.data() + size_t{16} * record.descriptor);
}
// The nodes that are executed so, in order.
std::vector<const Gemv*> all_of(const Encoded& all) {
  std::vector<const Gemv*> found(all.plan.nodes.size());
  for (const Record& record : all.image.records)
    if (record.kind == Kind::gemv) found[record.node] = &gemv_of(all.image, record);
  std::erase(found, nullptr);
  return found;
}

// An attention of a token, whose key and value take place {0} of the caches; {1} is before the loop, {2} in it.
constexpr const char* kAttention = R"(
.const HEADS = 4
.state @x bf16[1,256] = normal(0, 1, key=1)
.state @query bf16[256,256] = normal(0, 0.1, key=2)
.state @key bf16[256,256] = normal(0, 0.1, key=3)
.state @value bf16[256,256] = normal(0, 0.1, key=4)
.state @mix bf16[256,256] = normal(0, 0.1, key=5)
.state @keys bf16[HEADS,64,64] = normal(0, 1, key=6)
.state @values bf16[HEADS,64,64] = normal(0, 1, key=7)
.state @other bf16[HEADS,1,64] = normal(0, 1, key=8)
.func main() {{
  {1}
  loop $i = 0 until 3 {{
    %query = matmul @x, @query
    %key   = matmul @x, @key
    %value = matmul @x, @value
    %q = reshape %query, shape=[HEADS,1,64]
    %k = reshape %key, shape=[HEADS,1,64]
    %v = reshape %value, shape=[HEADS,1,64]
    {2}
    update! @keys, %k, at=[0,{0},0]
    update! @values, %v, at=[0,{0},0]
    %scores = matmul %q, @keys, tb, to=f32, scale=0.125
    %shares = softmax %scores
    %narrow = cast %shares, to=bf16
    %seen = matmul %narrow, @values
    %heads = reshape %seen, shape=[1,256]
    %mixed = matmul %heads, @mix
    @x = tanh %mixed
  }}
}}
)";

}  // namespace

TEST_CASE("of a cache whose columns stand but for a line, that comes in words") {
  for (const int processors : {40, 132})
    for (const int place : {0, 17, 63}) {
      INFO(fmt::format("{} processors, place {}", processors, place));
      const Encoded all =
          encoded(fmt::format(kAttention, place, "", ""), device_with_chains(processors), true);
      CHECK(all.image.for_chains);
      const std::vector<const Gemv*> found = all_of(all);
      REQUIRE(found.size() == 6);
      const Gemv& scores = *found[3];
      CHECK(scores.row == Gemv::words);
      CHECK(scores.left == found[0]->result_words);
      CHECK(scores.left_matrix == device::kWord * 32);
      CHECK(scores.line_words == found[1]->result_words);
      CHECK(scores.by_line == 1);
      const Gemv& seen = *found[4];
      CHECK(seen.row == Gemv::here);
      CHECK(seen.items == 0);
      CHECK(seen.line_words == found[2]->result_words);
      CHECK(seen.by_line == 0);
      CHECK(seen.packed != Areas::kNone);
      for (const Gemv* each : {&scores, &seen}) {
        CHECK(each->streams == 1);
        CHECK(each->line_items == 16);
        CHECK(each->written_line == static_cast<uint32_t>(place));
      }
      CHECK(found[5]->row == Gemv::words);
    }
}

TEST_CASE(
    "code that goes on where a kernel has stopped has words where that had them, and no lines") {
  const Encoded all = encoded(fmt::format(kAttention, 63, "", ""), device_with_chains(132), true);
  auto code = encode(all.plan, true);
  REQUIRE(code);
  CHECK(code->tags_at == all.image.tags_at);
  CHECK(code->tags_bytes == all.image.tags_bytes);
  CHECK(code->arena_bytes == all.image.arena_bytes);
  // The last product's row is a whole one; those that have some of what another gave read it as it lies.
  std::set<uint32_t> in_words;
  for (const Record& record : code->records) {
    if (record.kind != Kind::gemv) continue;
    const device::Node& node = node_of(*code, record);
    if (node.areas_at == 0 || node.areas().left == Areas::kNone) continue;
    in_words.insert(record.node);
    CHECK(node.areas().left == all_of(all)[5]->left);
  }
  CHECK(in_words.size() == 1);
}

TEST_CASE("a softmax is made of a row as it lies") {
  constexpr const char* kSoftmax = R"(
.state @x bf16[1,256] = normal(0, 1, key=1)
.state @places bf16[256,64] = normal(0, 0.2, key=2)
.state @answers bf16[64,256] = normal(0, 0.2, key=3)
.func main() {
  loop $i = 0 until 3 {
    %chances = matmul @x, @places, to=f32
    %shares = softmax %chances
    %narrow = cast %shares, to=bf16
    %answer = matmul %narrow, @answers
    @x = tanh %answer
  }
}
)";
  for (const int processors : {3, 132}) {
    const Encoded all = encoded(kSoftmax, device_with_chains(processors), true);
    const std::vector<const Gemv*> found = all_of(all);
    REQUIRE(found.size() == 2);
    CHECK(static_cast<device::RowForm>(found[1]->form) == device::RowForm::softmax);
    CHECK(found[1]->row == Gemv::memory);
    CHECK(found[1]->left == found[0]->result);
  }
}

TEST_CASE("a cache that something else writes, too, is read as it lies") {
  for (const auto& [before, within] : {std::pair{"", "update! @keys, @other, at=[0,5,0]"},
                                       std::pair{"update! @keys, @other, at=[0,5,0]", ""}}) {
    const Encoded all =
        encoded(fmt::format(kAttention, 63, before, within), device_with_chains(132), true);
    const std::vector<const Gemv*> found = all_of(all);
    REQUIRE(found.size() == 6);
    CHECK(found[3]->streams == 0);
    CHECK(found[3]->line_items == 0);
    CHECK(found[3]->row == Gemv::memory);
    CHECK(found[4]->line_items == 16);
  }
}

TEST_CASE(
    "products of one row are GEMV under fast numerics, where the kernel has units for all else") {
  for (const int processors : {8, 16}) {
    const plan::Device device = device_with_chains(processors);
    const Encoded chains = encoded(fmt::format(kLayers, ""), device, true);
    CHECK(chains.image.for_chains);
    const std::vector<const Gemv*> found = all_of(chains);
    REQUIRE(found.size() == 3);
    // The first reads what a step gives, and waits for it; the others have words, whatever waits that leaves.
    CHECK(found[0]->row == Gemv::memory);
    CHECK(found[1]->row == Gemv::words);
    CHECK(found[1]->left == found[0]->result_words);
    CHECK(found[2]->row == Gemv::words);
    CHECK(found[2]->left == found[1]->result_words);
    CHECK(found[2]->result_words == Areas::kNone);
    // Columns that lie side by side are packed, those by line need not be.
    CHECK(found[0]->packed != Areas::kNone);
    CHECK(found[1]->packed != Areas::kNone);
    CHECK(found[0]->packed != found[1]->packed);
    CHECK(found[2]->packed == Areas::kNone);
    CHECK(found[2]->by_line == 1);

    const Encoded strict = encoded(fmt::format(kLayers, ""), device);
    CHECK_FALSE(strict.image.for_chains);
    CHECK(all_of(strict).empty());
    const Encoded other =
        encoded(fmt::format(kLayers, "@product = matmul @wide, @wide, tb"), device, true);
    CHECK_FALSE(other.image.for_chains);
    CHECK(all_of(other).empty());
  }
}

TEST_CASE("each of a processor's tiles that are packed has a number of its own") {
  for (const int processors : {1, 3, 40}) {
    const Encoded all = encoded(fmt::format(kLayers, ""), device_with_chains(processors), true);
    for (const uint32_t queue : all.image.queues) {
      std::set<int64_t> numbers;
      size_t packed = 0;
      for (size_t r = queue; all.image.records[r].kind != Kind::halt; ++r) {
        const Record& record = all.image.records[r];
        if (record.kind != Kind::gemv) continue;
        if (gemv_of(all.image, record).by_line != 0) {
          CHECK(record.count == device::gemv::Count::kAsTheyLie);
          continue;
        }
        ++packed;
        CHECK(record.count >= device::gemv::Count::kPackedFrom);
        numbers.insert(record.count);
      }
      CHECK(numbers.size() == packed);
    }
  }
}

TEST_CASE("the parts of a tile are all of its columns, and each has room in a stage") {
  constexpr const char* kOne = R"(
.state @x {3}[1,{0}] = normal(0, 1, key=1)
.state @w {3}[{1}] = normal(0, 0.1, key=2)
.output @y f32[1,{2}]
.func main() {{ loop $i = 0 until 2 {{ @y = matmul @x, @w{4}, to=f32 }} }}
)";
  int tried = 0;
  struct Shape {
    int k;
    int n;
  };
  for (const Shape shape : {Shape{32, 8},
                            {64, 40},
                            {768, 768},
                            {768, 5032},
                            {1024, 96},
                            {2432, 24},
                            {2464, 24},
                            {3072, 768},
                            {4096, 8},
                            {4096, 2048}})
    for (const bool by_line : {false, true})
      for (const int processors : {1, 3, 132}) {
        INFO(fmt::format("{} x {}, {}, {} processors", shape.k, shape.n,
                         by_line ? "by line" : "side by side", processors));
        const std::string weights = by_line ? fmt::format("{},{}", shape.n, shape.k)
                                            : fmt::format("{},{}", shape.k, shape.n);
        const Encoded all =
            encoded(fmt::format(kOne, shape.k, weights, shape.n, "bf16", by_line ? ", tb" : ""),
                    device_with_chains(processors), true);
        const std::vector<const Gemv*> found = all_of(all);
        // Tiles that are no whole eights of columns are other products'.
        if (found.empty() && processors != 1) continue;
        REQUIRE(found.size() == 1);
        ++tried;
        const Gemv& of = *found[0];
        int64_t columns = 0;
        for (const Record& record : all.image.records) {
          if (record.kind != Kind::gemv) continue;
          const device::gemv::Tile tile(of, static_cast<uint32_t>(record.first));
          columns += tile.columns;
          uint32_t column = 0;
          uint32_t k = 0;
          uint32_t packed = 0;
          for (device::gemv::Part part(of, tile); part.is_there(tile); part.next(of, tile)) {
            CHECK(part.column == column);
            CHECK(part.first_k == k);
            REQUIRE(part.k > 0);
            CHECK(part.k % device::gemv::kDeep == 0);
            CHECK(part.columns % device::gemv::kEight == 0);
            const uint32_t bytes = by_line ? part.columns * of.line : part.bytes();
            CHECK(bytes <= device::gemv::kStage);
            CHECK(part.packed_at(of) == packed);
            packed += part.bytes();
            // The sums have room, and so have a warp's products.
            const uint32_t shares = 1U << of.share_bits;
            const uint32_t groups = device::gemv::kWarps / shares;
            CHECK(4 * device::gemv::kWarps * part.columns <= device::gemv::kSumsBytes);
            CHECK(part.columns / device::gemv::kEight <= groups * device::gemv::kMostEights);
            k += part.k;
            CHECK(part.is_last_of_columns(of) == (k == of.k));
            if (k != of.k) continue;
            k = 0;
            column += part.columns;
          }
          CHECK(column == tile.columns);
          CHECK(packed == 2 * of.k * tile.columns);
        }
        CHECK(columns == shape.n);
      }
  CHECK(tried > 40);
}

}  // namespace trek::resident::test
