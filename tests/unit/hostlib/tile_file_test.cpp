#include "hostlib/tile_file.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include <fmt/format.h>

#include "tests/unit/hostlib/scratch.h"

using namespace trek;
using isa::DType;

namespace {

plan::Device device(const std::string& name = "toaster", int processors = 4) {
  plan::Device device;
  device.name = name;
  device.code = "jit of bread";
  device.processors = processors;
  return device;
}

RememberedTiles tiles(int64_t m, int64_t rows = 64) {
  RememberedTiles tiles;
  plan::MatrixShape shape;
  shape.m = m;
  shape.n = 20;
  shape.k = shape.whole_k = 30;
  shape.batches = 2;
  shape.ta = true;
  tiles.product = {DType::bf16, DType::f32, shape, true, 4};
  tiles.tiles.rows = rows;
  tiles.tiles.columns = 32;
  tiles.tiles.part_columns = 16;
  tiles.tiles.split = 3;
  tiles.seconds = 1.25e-6;
  return tiles;
}

std::vector<RememberedTiles> read(const std::string& file, const plan::Device& of = device()) {
  std::vector<std::string> warnings;
  std::vector<RememberedTiles> found = read_tiles(file, of, warnings);
  CAPTURE(warnings);
  CHECK(warnings.empty());
  return found;
}

void write(const std::string& file, const std::vector<RememberedTiles>& tiles,
           const plan::Device& of = device()) {
  std::vector<std::string> warnings;
  CHECK(write_tiles(file, of, tiles, warnings));
  CAPTURE(warnings);
  CHECK(warnings.empty());
}

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put_text(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

// The one warning that reading gives; what is read goes to `found`.
std::string warning_of(const std::string& file, size_t found = 0) {
  std::vector<std::string> warnings;
  CHECK(read_tiles(file, device(), warnings).size() == found);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Contains(file));
  return warnings[0];
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("tiles come back as they were written, for their device alone") {
  const Scratch scratch;
  const std::string file = scratch.file("cache/trek/tiles.json");
  CHECK(read(file).empty());
  write(file, {tiles(10), tiles(11)});
  const std::vector<RememberedTiles> found = read(file);
  REQUIRE(found.size() == 2);
  CHECK(found[1].product == tiles(11).product);
  CHECK(found[1].tiles == tiles(11).tiles);
  CHECK(found[1].seconds == 1.25e-6);
  CHECK(read(file, device("kettle")).empty());
  CHECK(read(file, device("toaster", 5)).empty());
}

TEST_CASE(
    "how tiles are worked on in pairs or in runs, and whether transposed, comes back, and is none "
    "where a file says nothing") {
  const Scratch scratch;
  const std::string file = scratch.file("tiles.json");
  RememberedTiles depth = tiles(10);
  depth.tiles.pairing = plan::Pairing::depth;
  RememberedTiles columns = tiles(11);
  columns.tiles.pairing = plan::Pairing::columns;
  columns.tiles.transposed = true;
  RememberedTiles runs = tiles(13);
  runs.tiles.runs = 132;
  write(file, {depth, columns, tiles(12), runs});
  const std::vector<RememberedTiles> found = read(file);
  REQUIRE(found.size() == 4);
  CHECK(found[0].tiles == depth.tiles);
  CHECK(found[1].tiles == columns.tiles);
  CHECK(found[2].tiles == tiles(12).tiles);
  CHECK(found[3].tiles == runs.tiles);
  put_text(file, replaced(text_of(file), "\"depth\"", "\"breadth\""));
  CHECK_THAT(warning_of(file, 3), Catch::Contains("pairs is neither depth nor columns"));
  const std::string other = scratch.file("other.json");
  write(other, {runs});
  put_text(other, replaced(text_of(other), "\"runs\":132", "\"runs\":0"));
  CHECK_THAT(warning_of(other), Catch::Contains("runs is no number from 1"));
}

TEST_CASE("what is measured again takes the place of what was there, and nothing else") {
  const Scratch scratch;
  const std::string file = scratch.file("tiles.json");
  write(file, {tiles(10), tiles(11)});
  write(file, {tiles(10)}, device("kettle"));
  write(file, {tiles(10, 128)});
  const std::vector<RememberedTiles> found = read(file);
  REQUIRE(found.size() == 2);
  CHECK(found[0].tiles.rows == 128);
  CHECK(found[1].tiles.rows == 64);
  REQUIRE(read(file, device("kettle")).size() == 1);
  CHECK(read(file, device("kettle"))[0].tiles.rows == 64);
}

TEST_CASE("several writers at once lose nothing of each other") {
  const Scratch scratch;
  const std::string file = scratch.file("tiles.json");
  constexpr int kWriters = 4;
  constexpr int kEach = 10;
  {
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < kWriters; ++writer)
      writers.emplace_back([&, writer] {
        std::vector<std::string> ignored;
        for (int i = 1; i <= kEach; ++i) {
          const RememberedTiles one = tiles(writer * kEach + i);
          write_tiles(file, device(), {&one, 1}, ignored);
        }
      });
  }
  CHECK(read(file).size() == kWriters * kEach);
}

TEST_CASE("a file that is not of tiles is said with its place, and left alone") {
  const Scratch scratch;
  const std::string file = scratch.file("tiles.json");
  write(file, {tiles(10)});
  const std::string good = text_of(file);
  const auto [text, said] = GENERATE_COPY(table<std::string, std::string>({
      {"", ":1:1: is no JSON"},
      {good.substr(0, good.size() / 2), ":2:"},
      {"{\"format\": \"trek tiles\",\n \"version\" 1}", ":2:12: is no JSON"},
      {"[1, 2]", "is no file of tiles"},
      {"{\"format\": \"shopping\", \"tiles\": []}", "is no file of tiles"},
      {replaced(good, "\"version\": 1", "\"version\": 2"), "is not of version 1"},
      {"{\"format\": \"trek tiles\", \"version\": 1}", "has no list of tiles"},
      {std::string(100'000, '['), "is no JSON"},
      {std::string("\xff\xfe\0 {}", 6), "is no JSON"},
  }));
  CAPTURE(text.substr(0, 80));
  put_text(file, text);
  CHECK_THAT(warning_of(file), Catch::Contains(said));
  std::vector<std::string> warnings;
  const RememberedTiles more = tiles(11);
  CHECK_FALSE(write_tiles(file, device(), {&more, 1}, warnings));
  CHECK(warnings.size() == 1);
  CHECK(text_of(file) == text);
}

TEST_CASE("a damaged entry is said and ignored, and stays where it is") {
  const Scratch scratch;
  const std::string file = scratch.file("tiles.json");
  write(file, {tiles(10), tiles(11)});
  const auto [from, to, said] = GENERATE(table<std::string, std::string, std::string>({
      {"\"m\":10", "\"m\":0", "m is no number from 1"},
      {"\"m\":10", "\"m\":\"ten\"", "m is no number from 1"},
      {"\"m\":10", "\"m\":1e300", "m is no number from 1"},
      {"\"m\":10", "\"m\":99999999999999999999", "m is no number from 1"},
      {"\"m\":10,", "", "m is missing"},
      {"\"rows\":64", "\"rows\":-64", "rows is no number from 1"},
      {"\"bf16\"", "\"bf17\"", "operands is no element type: 'bf17'"},
      {"\"fast\"", "\"exact\"", "numerics is neither strict nor fast"},
      {"\"ta\":true", "\"ta\":1", "ta is neither true nor false"},
      {"1.25e-06", "null", "seconds is no time"},
      {"\"toaster\"", "[]", "device is no text"},
  }));
  put_text(file, replaced(text_of(file), from, to));
  CHECK_THAT(warning_of(file, 1), Catch::Contains("tiles[0] is ignored: " + said));
  std::vector<std::string> warnings;
  const RememberedTiles more = tiles(12);
  CHECK(write_tiles(file, device(), {&more, 1}, warnings));
  CHECK_THAT(text_of(file), Catch::Contains("\"m\":12"));
  CHECK_THAT(warning_of(file, 2), Catch::Contains(said));
}

TEST_CASE("what cannot be written is a warning") {
  const Scratch scratch;
  put_text(scratch.file("file"), "");
  std::vector<std::string> warnings;
  const RememberedTiles one = tiles(10);
  CHECK_FALSE(write_tiles(scratch.file("file/tiles.json"), device(), {&one, 1}, warnings));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Catch::Contains("file/tiles.json"));
}

TEST_CASE("the file is where the environment says") {
  REQUIRE(setenv("XDG_CACHE_HOME", "/somewhere", 1) == 0);
  REQUIRE(unsetenv("TREK_TUNED") == 0);
  CHECK(tile_file() == "/somewhere/trek/tiles.json");
  REQUIRE(setenv("TREK_TUNED", "mine.json", 1) == 0);
  CHECK(tile_file() == "mine.json");
  REQUIRE(setenv("TREK_TUNED", "off", 1) == 0);
  CHECK(tile_file().empty());
}
