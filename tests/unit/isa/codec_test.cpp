// What a module keeps on its way through bytes, and what its bytes depend on.
#include "isa/codec.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "isa/builder.h"
#include "isa/verifier.h"
#include "tests/property/random_module.h"
#include "tests/unit/isa/tkb_file.h"

namespace trek::isa {

using format::SectionId;

Module full_module() {
  Module module;
  Builder build(module);
  const Type matrix = Type::tensor(DType::f32, {2, 3});
  const Ref x = build.tensor("x", matrix, Role::input);
  const Ref w = build.tensor("w", matrix, Role::state);
  const Ref y = build.tensor("y", matrix, Role::output);
  const std::vector<std::byte> ones(24, std::byte{1});
  module.tensors[x.index()].source = DataSource::embedded;
  module.tensors[x.index()].offset = build.embed(ones);
  const Ref far = build.tensor("far", matrix, Role::data);
  module.tensors[far.index()].source = DataSource::external;
  module.externals.push_back({build.string("npy"), build.string("far.npy"), 0, 1, 2});
  const Ref lr = build.param("lr", DType::f32, 0x3DCCCCCD);

  const uint32_t callee = build.begin_function("step");
  const Ref place = build.parameter(matrix, true);
  build.set_results(std::vector<Type>{Type::make_scalar(DType::i64)});
  REQUIRE_FALSE(build.add(Opcode::Sgd, {place, x}, {lr}));
  build.return_values(std::vector<Ref>{build.integer(7)});
  build.end_function();

  build.begin_function("main");
  REQUIRE_FALSE(
      build.open_loop(build.integer(0), build.integer(3), build.integer(1), std::vector<Ref>{x}));
  const Ref inside = build.registers()[1];
  const Ref after = build.results()[0];
  REQUIRE_FALSE(build.add(Opcode::Add, {inside, w}));
  const Ref sum = build.results()[0];
  REQUIRE_FALSE(build.yield(std::vector<Ref>{sum}));
  REQUIRE_FALSE(build.add(Opcode::Mul, {after, far}, {}, {y}));
  REQUIRE_FALSE(build.call(callee, std::vector<Ref>{w}));
  const Ref name{RefKind::string, build.string("count")};
  REQUIRE_FALSE(build.add(Opcode::Emit, {build.results()[0]}, {name}));
  build.end_function();

  build.begin_init();
  REQUIRE_FALSE(build.add(Opcode::Fill, {build.real(DType::f32, 0.5)},
                          {build.integers(matrix.shape.dims()), Builder::dtype(DType::f32)}, {w}));
  build.end_init();

  Test test;
  test.name = build.string("a test");
  test.given.push_back({lr, build.embed(std::span(ones).first(4))});
  test.expected.push_back({y, build.embed(ones)});
  module.tests.push_back(test);

  Debug& debug = module.debug;
  const auto text = [&](std::string_view words) { return build.string(words); };
  debug.names = {{{text("w")}}, {{text("h"), text("i"), 0, text("sum"), text("count")}}};
  debug.names[1].values.resize(module.functions[1].values.size());
  debug.lines = {{{{0, 1, 1}}}, {{{0, 4, 3}, {0, 5, 5}}}};
  debug.files = {"a.trek"};
  debug.sources = {"; text\n"};
  debug.constants = {{text("N"), text("1 + 2")}};
  debug.items = {{Debug::ItemKind::comment, text("; a comment"), 0},
                 {Debug::ItemKind::version, 0, text("; the first")},
                 {Debug::ItemKind::blank, 0, 0},
                 {Debug::ItemKind::constant, 0, text("; three")}};
  debug.comments = {{1, 0, false, text("; the loop")}, {1, 1, true, text("; sums")}};
  debug.spellings = {{Debug::Spelling::Where::instruction, 1, 0, 2, 0, text("N")},
                     {Debug::Spelling::Where::tensor, 0, 0, 1, 0, text("N")}};
  return module;
}

namespace {

TEST_CASE("a module with every section comes back from its bytes") {
  const Module module = full_module();
  REQUIRE(verify(module).empty());
  const Bytes bytes = encode(module);
  CHECK(TkbFile(bytes).sections.size() == format::kSections.size());
  const auto read = load_module(bytes);
  REQUIRE(read.ok());
  CHECK(encode(*read) == bytes);

  const Debug& debug = read->debug;
  CHECK(read->strings[debug.names[1].values[3]] == "sum");
  CHECK(debug.lines[1].code[1] == Location{0, 5, 5});
  CHECK(debug.files == std::vector<std::string>{"a.trek"});
  CHECK(debug.sources == std::vector<std::string>{"; text\n"});
  CHECK(read->strings[debug.constants[0].text] == "1 + 2");
  CHECK(read->strings[debug.items[3].comment] == "; three");
  CHECK(read->strings[debug.comments[1].text] == "; sums");
  CHECK(read->strings[debug.spellings[1].text] == "N");
  CHECK(read->externals[0].hash_high == 2);
  CHECK(read->tests[0].given.size() == 1);
}

TEST_CASE("core sections are the same bytes with and without debug sections") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Module module = property::random_module(seed);
    TkbFile whole(encode(module));
    TkbFile core(encode(module, EncodeOptions::core()));
    for (const TkbFile::Section& section : core.sections) {
      INFO(seed << " section " << section.entry.id);
      const TkbFile::Section* same = whole.find(static_cast<SectionId>(section.entry.id));
      REQUIRE(same != nullptr);
      CHECK(same->bytes == section.bytes);
    }
    for (const TkbFile::Section& section : whole.sections)
      CHECK((section.entry.flags == 0) ==
            (core.find(static_cast<SectionId>(section.entry.id)) == nullptr));
  }
}

TEST_CASE("each group of debug sections can be left out by itself") {
  const Module module = full_module();
  const auto has = [&](EncodeOptions options, SectionId id) {
    return TkbFile(encode(module, options)).find(id) != nullptr;
  };
  EncodeOptions options;
  options.names = false;
  CHECK_FALSE(has(options, SectionId::names));
  CHECK(has(options, SectionId::lines));
  options.lines = false;
  CHECK_FALSE(has(options, SectionId::lines));
  CHECK(has(options, SectionId::sources));
  options.sources = false;
  CHECK_FALSE(has(options, SectionId::sources));
  CHECK(has(options, SectionId::comments));
  options.source_form = false;
  for (SectionId id : {SectionId::debug_strings, SectionId::debug_constants, SectionId::items,
                       SectionId::comments, SectionId::spellings})
    CHECK_FALSE(has(options, id));
}

TEST_CASE("an unknown section that need not be understood is carried along") {
  TkbFile file(encode(full_module()));
  format::SectionEntry entry{};
  entry.id = 1000;
  entry.alignment = 16;
  file.sections.push_back({entry, Bytes(5, std::byte{9})});
  const Bytes bytes = file.assemble();
  const auto read = decode(bytes);
  REQUIRE(read.ok());
  REQUIRE(read->unknown.size() == 1);
  CHECK(read->unknown[0].id == 1000);
  CHECK(encode(*read) == bytes);
  EncodeOptions options;
  options.unknown = false;
  CHECK(encode(*read, options) == encode(full_module()));
}

TEST_CASE("an unknown section that must be understood is refused") {
  TkbFile file(encode(full_module()));
  format::SectionEntry entry{};
  entry.id = 1000;
  entry.alignment = 16;
  entry.flags = format::kMustUnderstand;
  file.sections.push_back({entry, Bytes(5, std::byte{9})});
  CHECK(problem_of(file.assemble()) == "bad-section");
}

TEST_CASE("a newer version is refused by name") {
  for (const auto& [major, minor] :
       {std::pair{2, 0}, std::pair{1, 1}, std::pair{0, 0}, std::pair{65535, 65535}}) {
    TkbFile file(encode(full_module()));
    file.header.major = static_cast<uint16_t>(major);
    file.header.minor = static_cast<uint16_t>(minor);
    CHECK(problem_of(file.assemble()) == "unsupported-version");
  }
}

TEST_CASE("what is legal bytes but no legal program is found by load, not by decode") {
  Module module = full_module();
  module.functions[1].name = module.functions[0].name;  // two functions of one name, and no main
  const Bytes bytes = encode(module);
  CHECK(decode(bytes).ok());
  const auto loaded = load_module(bytes);
  REQUIRE_FALSE(loaded.ok());
  const Problems& problems = loaded.problems();
  CHECK(std::any_of(problems.begin(), problems.end(),
                    [](const Problem& p) { return p.code == ErrorCode::Redefined; }));
}

}  // namespace
}  // namespace trek::isa
