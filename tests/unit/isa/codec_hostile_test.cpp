// Files that were cut, damaged or made to do harm: each ends in a problem, none in a crash, and none
// makes the reader believe a number that the file's size contradicts.
#include <algorithm>
#include <chrono>

#include <catch2/catch.hpp>

#include "isa/verifier.h"
#include "tests/property/random_module.h"
#include "tests/unit/isa/tkb_file.h"

namespace trek::isa {
namespace {

using format::SectionId;

TEST_CASE("what is no module is told from what is cut") {
  const Bytes file = encode(full_module());
  CHECK(problem_of({}) == "bad-magic");
  CHECK(problem_of(Bytes(100, std::byte{'x'})) == "bad-magic");
  CHECK(problem_of({file.begin(), file.begin() + 3}) == "truncated");
  for (size_t size = 1; size < file.size(); ++size) {
    INFO(size << " of " << file.size());
    REQUIRE(problem_of({file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)}) ==
            "truncated");
  }
}

TEST_CASE("no bit of a file can be flipped unnoticed") {
  const Bytes file = encode(full_module());
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    Bytes damaged = file;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    INFO("byte " << bit / 8);
    REQUIRE(problem_of(damaged) != "");
  }
}

TEST_CASE("bytes after the end are refused") {
  Bytes file = encode(full_module());
  file.push_back(std::byte{0});
  CHECK(problem_of(file) == "bad-section");
}

TEST_CASE("changed bytes with a stale checksum are a checksum error") {
  Bytes file = encode(full_module());
  file.back() ^= std::byte{1};
  CHECK(problem_of(file) == "checksum");
  Bytes table = encode(full_module());
  table[sizeof(format::Header) + 4] ^= std::byte{1};
  CHECK(problem_of(table) == "checksum");
}

TEST_CASE("a section table that lies is refused") {
  TkbFile file(encode(full_module()));
  const auto refused = [&](auto&& change) {
    auto table = file.table();
    change(table);
    return problem_of(file.assemble(table));
  };
  using Table = std::vector<format::SectionEntry>&;
  constexpr uint64_t kHuge[] = {UINT64_MAX, UINT64_MAX - 63, uint64_t{1} << 63, uint64_t{1} << 32};
  for (uint64_t huge : kHuge) {
    CHECK(refused([&](Table t) { t.back().size = huge; }) == "bad-section");
    CHECK(refused([&](Table t) { t.back().offset = huge; }) == "bad-section");
    CHECK(refused([&](Table t) { t.front().size = huge; }) == "bad-section");
    CHECK(refused([&](Table t) { t.front().offset = huge; }) == "bad-section");
  }
  CHECK(refused([](Table t) { t[1].id = t[0].id; }) == "bad-section");
  CHECK(refused([](Table t) { std::swap(t[1].id, t[0].id); }) == "bad-section");
  CHECK(refused([](Table t) { t[0].id = 0; }) == "bad-section");
  CHECK(refused([](Table t) { t[0].flags = 0; }) == "bad-section");
  CHECK(refused([](Table t) { t[0].flags = 3; }) == "bad-section");
  CHECK(refused([](Table t) { t[0].zero = 1; }) == "bad-section");
  CHECK(refused([](Table t) { t[0].alignment = 1; }) == "bad-section");
  CHECK(refused([](Table t) { t.back().id = 99, t.back().alignment = 0; }) == "bad-section");
  CHECK(refused([](Table t) { t.back().id = 99, t.back().alignment = 12; }) == "bad-section");
  CHECK(refused([](Table t) { t.back().id = 99, t.back().alignment = 1u << 31; }) == "bad-section");
  CHECK(refused([](Table t) { t.back().size = 0; }) == "bad-section");
  CHECK(refused([](Table t) { t.pop_back(); }) == "bad-section");

  Bytes many = file.assemble();  // a table of 2^32 - 1 sections
  const uint32_t count = UINT32_MAX;
  std::memcpy(many.data() + 12, &count, sizeof count);
  CHECK(problem_of(many) == "bad-section");
}

TEST_CASE("counts beyond the section are refused before anything is allocated") {
  for (SectionId id : {SectionId::strings, SectionId::functions, SectionId::tests,
                       SectionId::sources, SectionId::debug_strings}) {
    for (uint32_t count : {UINT32_MAX, 0x40000000u, 1000000u}) {
      TkbFile file(encode(full_module()));
      file.poke<uint32_t>(id, 0, count);
      INFO("section " << static_cast<uint32_t>(id));
      CHECK(problem_of(file.assemble()) == "bad-encoding");
    }
  }
  for (size_t field : {4u, 8u, 12u, 16u}) {  // parameters, results, values, instructions of init
    TkbFile file(encode(full_module()));
    file.poke<uint32_t>(SectionId::functions, 4 + field, UINT32_MAX);
    CHECK(problem_of(file.assemble()) == "bad-encoding");
  }
  TkbFile file(encode(full_module()));
  file.poke<uint32_t>(SectionId::lists, 0, UINT32_MAX);
  CHECK(problem_of(file.assemble()) == "bad-encoding");
}

TEST_CASE("shapes whose size overflows are refused") {
  for (int64_t dim : {INT64_MAX, int64_t{1} << 48, int64_t{-1}, INT64_MIN}) {
    TkbFile file(encode(full_module()));
    file.poke<int64_t>(SectionId::types, 8, dim);
    CHECK(problem_of(file.assemble()) == "bad-encoding");
  }
}

TEST_CASE("values that a field cannot have are refused") {
  const auto poked = [](SectionId id, size_t offset, auto value) {
    TkbFile file(encode(full_module()));
    file.poke(id, offset, value);
    return problem_of(file.assemble());
  };
  CHECK(poked(SectionId::types, 0, uint8_t{0}) == "bad-encoding");  // element type
  CHECK(poked(SectionId::types, 0, uint8_t{16}) == "bad-encoding");
  CHECK(poked(SectionId::types, 1, uint8_t{2}) == "bad-encoding");   // scalar
  CHECK(poked(SectionId::types, 2, uint8_t{9}) == "bad-encoding");   // rank
  CHECK(poked(SectionId::types, 3, uint8_t{1}) == "bad-encoding");   // padding
  CHECK(poked(SectionId::types, 64, int64_t{1}) == "bad-encoding");  // unused dimension
  CHECK(poked(SectionId::constants, 0, uint8_t{77}) == "bad-encoding");
  CHECK(poked(SectionId::constants, 1, uint8_t{1}) == "bad-encoding");
  CHECK(poked(SectionId::constants, 8, UINT64_MAX) == "bad-encoding");  // no f32
  CHECK(poked(SectionId::words, 0, uint32_t{0xF0000000}) == "bad-encoding");
  CHECK(poked(SectionId::words, 0, uint32_t{0x00000001}) == "bad-encoding");
  CHECK(poked(SectionId::words, 0, uint32_t{0x1FFFFFFF}) == "bad-encoding");  // tensor 2^28 - 1
  CHECK(poked(SectionId::words, 0, uint32_t{0x50000001}) ==
        "bad-encoding");  // the middle of a list
  CHECK(poked(SectionId::lists, 4, uint32_t{0x50000000}) == "bad-encoding");  // a list in a list
  CHECK(poked(SectionId::lists, 4, uint32_t{0}) == "bad-encoding");
  CHECK(poked(SectionId::instructions, 0, uint16_t{0xFFFF}) == "bad-encoding");
  CHECK(poked(SectionId::instructions, 2, uint16_t{0xFFFF}) == "bad-encoding");
  CHECK(poked(SectionId::instructions, 8, uint32_t{1}) == "bad-encoding");
  CHECK(poked(SectionId::tensors, 0, uint32_t{1000}) == "bad-encoding");
  CHECK(poked(SectionId::tensors, 4, uint32_t{1000}) == "bad-encoding");
  CHECK(poked(SectionId::tensors, 8, uint8_t{0}) == "bad-encoding");
  CHECK(poked(SectionId::tensors, 9, uint8_t{3}) == "bad-encoding");
  CHECK(poked(SectionId::tensors, 10, uint16_t{1}) == "bad-encoding");
  CHECK(poked(SectionId::tensors, 3 * 24 + 12, uint32_t{1}) == "bad-encoding");  // external
  CHECK(poked(SectionId::tensors, 16, UINT64_MAX) == "not-canonical");
  CHECK(poked(SectionId::params, 4, uint8_t{0}) == "bad-encoding");
  CHECK(poked(SectionId::params, 5, uint8_t{1}) == "bad-encoding");
  CHECK(poked(SectionId::params, 8, uint32_t{1000}) == "bad-encoding");
  CHECK(poked(SectionId::functions, 4, uint32_t{1000}) == "bad-encoding");
  CHECK(poked(SectionId::externals, 12, uint32_t{1}) == "bad-encoding");
  CHECK(poked(SectionId::externals, 0, uint32_t{1000}) == "bad-encoding");
  CHECK(poked(SectionId::tests, 4, uint32_t{1}) == "bad-encoding");
  CHECK(poked(SectionId::tests, 12, uint32_t{99}) == "bad-encoding");  // trap
  CHECK(poked(SectionId::tests, 24, uint32_t{0x80000000}) == "bad-encoding");
  CHECK(poked(SectionId::tests, 28, uint32_t{1}) == "bad-encoding");
  CHECK(poked(SectionId::names, 0, uint32_t{1000}) == "bad-encoding");
  CHECK(poked(SectionId::sources, 4, uint32_t{2}) == "bad-encoding");
  CHECK(poked(SectionId::sources, 4, uint32_t{0}) ==
        "bad-encoding");  // a text that it says is not there
  CHECK(poked(SectionId::sources, 8, UINT32_MAX) == "bad-encoding");
  CHECK(poked(SectionId::items, 0, uint32_t{7}) == "bad-encoding");
  CHECK(poked(SectionId::items, 16, uint32_t{1}) ==
        "bad-encoding");  // a blank line that names something
  CHECK(poked(SectionId::items, 28, uint32_t{9}) == "bad-encoding");
  CHECK(poked(SectionId::comments, 0, uint32_t{9}) == "bad-encoding");
  CHECK(poked(SectionId::comments, 4, uint32_t{99}) == "bad-encoding");
  CHECK(poked(SectionId::comments, 8, uint32_t{2}) == "bad-encoding");
  CHECK(poked(SectionId::spellings, 0, uint32_t{2}) == "bad-encoding");
  CHECK(poked(SectionId::spellings, 12, uint32_t{99}) == "bad-encoding");
}

// Every 32-bit word of every section in turn, replaced by numbers that make trouble: the reader and the
// verifier survive, and what they take is the one encoding of something.
TEST_CASE("no word of a section, with its checksum right, brings the reader down") {
  const Bytes original = encode(full_module());
  const TkbFile parts(original);
  int taken = 0;
  for (size_t s = 0; s < parts.sections.size(); ++s) {
    for (size_t at = 0; at + 4 <= parts.sections[s].bytes.size(); at += 4) {
      uint32_t before = 0;
      std::memcpy(&before, parts.sections[s].bytes.data() + at, 4);
      for (uint32_t value :
           {0u, 1u, before + 1, before - 1, 0x0FFFFFFFu, 0x30000000u, 0x80000000u, UINT32_MAX}) {
        TkbFile file = parts;
        std::memcpy(file.sections[s].bytes.data() + at, &value, 4);
        const Bytes bytes = file.assemble();
        const auto module = decode(bytes);
        if (!module.ok()) continue;
        (void)verify(*module);
        CHECK(encode(*module) == bytes);
        ++taken;
      }
    }
  }
  CHECK(taken > 0);  // another number in a constant is another module
}

TEST_CASE("random damage with right checksums never crashes reader or verifier") {
  property::Random random(1);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const TkbFile original(encode(property::random_module(seed)));
    for (int round = 0; round < 20; ++round) {
      TkbFile file = original;
      for (uint64_t n = random.below(4) + 1; n > 0; --n) {
        TkbFile::Section& section = file.sections[random.below(file.sections.size())];
        const uint64_t kind = random.below(8);
        if (kind == 0)
          section.bytes.resize(random.below(section.bytes.size() + 20) + 1);
        else
          section.bytes[random.below(section.bytes.size())] = static_cast<std::byte>(random.bits());
      }
      const auto module = decode(file.assemble());
      if (module.ok()) (void)verify(*module);
    }
  }
}

TEST_CASE("a list that many instructions share is read once, not once for each") {
  // 20 000 instructions that each name one list of 20 000 items: 4 × 10^8 steps if it were walked anew.
  constexpr uint32_t kCount = 20'000;
  Module module;
  module.constants.push_back({DType::i64, 0});
  Ref count;
  count.bits = kCount;
  module.lists.assign(kCount + 1, Ref{RefKind::constant, 0});
  module.lists[0] = count;
  Function& main = module.functions.emplace_back();
  for (uint32_t i = 0; i < kCount; ++i) {
    main.code.push_back({Opcode::Sum, 0, 0, 1, i});
    module.words.emplace_back(RefKind::list, 0);
  }
  const auto begin = std::chrono::steady_clock::now();
  const Bytes bytes = encode(module);
  REQUIRE(decode(bytes).ok());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
}

}  // namespace
}  // namespace trek::isa
