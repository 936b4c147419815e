#include "hostlib/session.h"

#include "assembler/data/data.h"
#include "hostlib/embedded_tests.h"
#include "hostlib/engines.h"
#include "isa/builder.h"
#include "isa/verifier.h"
#include "tests/unit/hostlib/scratch.h"

using namespace trek;
using isa::Builder;
using isa::DType;
using isa::ErrorCode;
using isa::Module;
using isa::Opcode;
using isa::Ref;
using isa::Role;
using isa::Type;

namespace {

const Type kPair = Type::tensor(DType::f32, {2});

// @sum = @x × $factor + @sum, and emits it; one test that passes and one that fails.
Module accumulate() {
  Module module;
  Builder build(module);
  const Ref x = build.tensor("x", kPair, Role::input);
  const Ref sum = build.tensor("sum", kPair, Role::state);
  const Ref factor = build.param("factor", DType::f32, 0x3F800000);
  build.begin_function("main");
  REQUIRE_FALSE(build.add(Opcode::Mul, {x, factor}).has_value());
  const Ref scaled = build.results()[0];
  REQUIRE_FALSE(build.add(Opcode::Add, {scaled, sum}, {}, {sum}).has_value());
  REQUIRE_FALSE(
      build.add(Opcode::Emit, {sum}, {Ref(isa::RefKind::string, build.string("sum"))}).has_value());
  build.end_function();
  const uint64_t ones = build.embed(bytes_of<float>({1, 1}));
  const uint64_t two = build.embed(bytes_of<float>({2}));
  const uint64_t wanted = build.embed(bytes_of<float>({2, 2}));
  for (const uint64_t expected : {wanted, ones})
    module.tests.push_back({build.string("doubles"),
                            {{x, ones}, {factor, two}},
                            {{sum, expected}},
                            isa::TrapCode::None});
  REQUIRE(isa::verify(module).empty());
  return module;
}

std::unique_ptr<Engine> ref() {
  std::string why;
  std::unique_ptr<Engine> engine = make_engine("ref", why);
  CAPTURE(why);
  REQUIRE(engine != nullptr);
  return engine;
}

}  // namespace

TEST_CASE("a session runs, emits, keeps state between runs and takes new bindings") {
  const ModuleFile file{"", accumulate()};
  const std::unique_ptr<Engine> engine = ref();
  Bindings bindings(file.module);
  REQUIRE(bindings.bind("x", bytes_of<float>({1, 2})).empty());
  auto session = Session::open(file, *engine, bindings, {});
  REQUIRE(session.ok());
  std::vector<std::vector<std::byte>> emitted;
  RunOptions options;
  options.emit = [&](const Emitted& value) {
    CHECK(value.name == "sum");
    emitted.emplace_back(value.bytes.begin(), value.bytes.end());
  };
  CHECK(session->run(options).outcome == Outcome::done);
  Bindings more(file.module);
  REQUIRE(more.set("factor", "10").empty());
  REQUIRE(session->bind(more).empty());
  CHECK(session->run(options).outcome == Outcome::done);
  CHECK(emitted == std::vector{bytes_of<float>({1, 2}), bytes_of<float>({11, 22})});
}

TEST_CASE("saved state is loaded by another session") {
  const Scratch scratch;
  const ModuleFile file{"", accumulate()};
  const std::unique_ptr<Engine> engine = ref();
  Bindings bindings(file.module);
  REQUIRE(bindings.bind("x", bytes_of<float>({1, 2})).empty());
  auto first = Session::open(file, *engine, bindings, {});
  REQUIRE(first.ok());
  CHECK(first->run({}).outcome == Outcome::done);
  REQUIRE(first->save_state(scratch.file("s.safetensors")).empty());
  REQUIRE(bindings.load_state(scratch.file("s.safetensors")).empty());
  auto second = Session::open(file, *engine, bindings, {});
  REQUIRE(second.ok());
  CHECK(second->digests()[0].digest == first->digests()[0].digest);
  CHECK(second->run({}).outcome == Outcome::done);
  const std::span<const std::byte> sum = second->read(1);
  CHECK(std::vector(sum.begin(), sum.end()) == bytes_of<float>({2, 4}));
}

TEST_CASE("embedded tests run in a fresh program and show the first difference") {
  const ModuleFile file{"", accumulate()};
  const std::unique_ptr<Engine> engine = ref();
  CHECK(run_test(file, 0, *engine, {}, {}).failures.empty());
  CHECK(run_test(file, 0, *engine, {}, {}).failures.empty());
  CHECK(run_test(file, 1, *engine, {}, {}).failures ==
        std::vector<std::string>{"@sum[0]: expected 1 (0x3f800000), found 2 (0x40000000)"});
}

TEST_CASE("external data is read beside the module and held to its hash") {
  const Scratch scratch;
  const auto bytes = bytes_of<float>({3, 4});
  REQUIRE(write_npy(scratch.file("x.npy"), DType::f32, {2}, bytes).empty());
  ModuleFile file{scratch.file("m.tkb"), accumulate()};
  Builder build(file.module);
  const Digest hash = digest_of_bytes(bytes);
  file.module.tensors[0].source = isa::DataSource::external;
  file.module.externals.push_back(
      {build.string("npy"), build.string("x.npy"), 0, hash.low, hash.high});
  const std::unique_ptr<Engine> engine = ref();
  const Bindings none(file.module);
  auto session = Session::open(file, *engine, none, {});
  REQUIRE(session.ok());
  const std::span<const std::byte> x = session->read(0);
  CHECK(std::vector(x.begin(), x.end()) == bytes);

  SECTION("another content is refused") {
    REQUIRE(write_npy(scratch.file("x.npy"), DType::f32, {2}, bytes_of<float>({3, 5})).empty());
    const auto changed = Session::open(file, *engine, none, {});
    REQUIRE_FALSE(changed.ok());
    CHECK(changed.problems()[0].code == ErrorCode::DataHash);
  }
  SECTION("a missing file is no hindrance to an input that is bound") {
    std::filesystem::remove(scratch.file("x.npy"));
    const auto missing = Session::open(file, *engine, none, {});
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.problems()[0].code == ErrorCode::FileUnreadable);
    Bindings bound(file.module);
    REQUIRE(bound.bind("x", bytes).empty());
    CHECK(Session::open(file, *engine, bound, {}).ok());
  }
}

TEST_CASE("an engine that does not exist is answered with those that do") {
  std::string why;
  CHECK(make_engine("rev", why) == nullptr);
  CHECK(why.starts_with("no engine is named 'rev'; available here: ref"));  // and what else is here
}
