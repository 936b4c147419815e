// Limits, stop requests, counters, progress: how a host holds a program, and sees what it did.
#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

namespace {

// A loop that never ends by itself, counting in @n.
struct Endless : Fixture {
  Ref n = state("n", DType::i64, {});
  Endless() {
    build.begin_function("main");
    build.open_while({});
    add(Opcode::Add, {n, build.integer(1)}, {}, {n});
    add(Opcode::Test, {build.constant(DType::boolean, 1)});
    REQUIRE_FALSE(build.yield({}));
    build.end_function();
  }
};

}  // namespace

TEST_CASE("the instruction limit stops before the instruction that would be one too many") {
  Endless f;
  f.must_load();
  f.run_options.instruction_limit = 1 + 3 * 10 + 1;
  const RunResult result = f.run();
  CHECK(result.outcome == Outcome::limit);
  CHECK(result.detail.find("32") != std::string::npos);
  CHECK(result.place.instruction == 2);
  CHECK(f.read<int64_t>(f.n)[0] == 11);
  CHECK(f.program->counters().instructions == 32);
}

TEST_CASE(
    "a stop request ends a run at a back-edge, where states are whole, and another run goes on") {
  Endless f;
  f.must_load();
  std::atomic<bool> stop{false};
  f.run_options.stop = &stop;
  int calls = 0;
  f.run_options.trace = [&](uint32_t, uint32_t, uint64_t begin, uint64_t end) {
    CHECK(begin <= end);
    if (++calls == 8) stop = true;
  };
  CHECK(f.run().outcome == Outcome::stopped);
  CHECK(calls == 10);  // the third trip has ended
  CHECK(f.read<int64_t>(f.n)[0] == 3);
  stop = false;
  calls = 0;
  CHECK(f.run().outcome == Outcome::stopped);
  CHECK(f.read<int64_t>(f.n)[0] == 6);
}

TEST_CASE("tensors that do not fit are a problem when they are loaded, not a crash") {
  Fixture f;
  f.state("huge", DType::f64, {int64_t{1} << 40});
  f.build.begin_function("main");
  f.build.end_function();
  const isa::Problems problems = f.load();
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message.find("8796093022208 bytes") != std::string::npos);
}

TEST_CASE("a register that does not fit is a limit, with nothing written") {
  Fixture f;
  f.load_options.memory_limit = 1 << 20;
  const Ref y = f.state("y", DType::f32, {});
  f.build.begin_function("main");
  SECTION("of any size") {
    f.add(Opcode::Fill, {f.build.real(DType::f32, 1)},
          {f.list({int64_t{1} << 40}), Fixture::dtype(DType::f32)});
  }
  SECTION("scratch memory counts") {
    f.add(Opcode::Permutation, {},
          {f.build.integer(100'000), Fixture::dtype(DType::u8), f.build.integer(1)});
  }
  f.add(Opcode::Fill, {f.build.real(DType::f32, 1)}, {f.list({}), Fixture::dtype(DType::f32)}, {y});
  f.build.end_function();
  f.must_load();
  const RunResult result = f.run();
  CHECK(result.outcome == Outcome::limit);
  CHECK(result.place.instruction == 0);
  CHECK(result.detail.find("memory") == 0);
  CHECK(result.detail.find("1048576") != std::string::npos);
  CHECK(f.read<float>(y)[0] == 0);
}

TEST_CASE("what is bound must have the size of its tensor, and a role that can be bound") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {2});
  const Ref y = f.output("y", DType::f32, {2});
  f.build.begin_function("main");
  f.build.end_function();
  f.must_load();
  const std::vector<std::byte> bytes(8);
  CHECK(f.program->bind(x.index(), bytes).empty());
  CHECK(f.program->bind(x.index(), std::span(bytes).first(7)).size() == 1);
  CHECK(f.program->bind(y.index(), bytes).size() == 1);
  CHECK(f.program->bind_stream(x.index(), nullptr).size() == 1);
}

TEST_CASE("a profile counts calls, operations and bytes of each executed instruction") {
  Fixture f;
  const Ref a = f.input("a", DType::f32, {4, 8});
  const Ref b = f.input("b", DType::f32, {8, 2});
  const Ref y = f.output("y", DType::f32, {4, 2});
  f.build.begin_function("main");
  REQUIRE_FALSE(f.build.open_loop(f.build.integer(0), f.build.integer(3), f.build.integer(1), {}));
  f.add(Opcode::Matmul, {a, b}, {}, {y});
  REQUIRE_FALSE(f.build.yield({}));
  REQUIRE_FALSE(f.build.open_if(f.build.constant(DType::boolean, 0), 0));
  f.add(Opcode::Copy, {a});
  REQUIRE_FALSE(f.build.yield({}));
  f.build.end_function();
  f.run_options.profile = true;
  f.must_run();
  const Counters& counters = f.program->counters();
  CHECK(counters.instructions == 1 + 3 * 2 + 1 + 1);
  REQUIRE(counters.per_instruction.size() == 5);
  const InstructionCounters& matmul = counters.per_instruction[1];
  CHECK(matmul.place.instruction == 1);
  CHECK(matmul.calls == 3);
  CHECK(matmul.flops == 3 * 2 * 4 * 2 * 8);
  CHECK(matmul.bytes == 3 * 4 * (32 + 16 + 8));
}

TEST_CASE("progress is told of the two outermost loops, through calls") {
  Fixture f;
  const uint32_t callee = f.build.begin_function("callee");
  for (int level = 0; level < 2; ++level)
    REQUIRE_FALSE(
        f.build.open_loop(f.build.integer(0), f.build.integer(2), f.build.integer(1), {}));
  for (int level = 0; level < 2; ++level) REQUIRE_FALSE(f.build.yield({}));
  f.build.end_function();
  f.build.begin_function("main");
  REQUIRE_FALSE(f.build.open_loop(f.build.integer(0), f.build.integer(1), f.build.integer(1), {}));
  REQUIRE_FALSE(f.build.call(callee, {}));
  REQUIRE_FALSE(f.build.yield({}));
  REQUIRE_FALSE(f.build.open_loop(f.build.integer(0), f.build.integer(0), f.build.integer(1), {}));
  REQUIRE_FALSE(f.build.yield({}));
  f.build.end_function();
  std::string seen;
  f.run_options.progress = [&](int level, uint64_t done, uint64_t trips) {
    seen += std::to_string(level) + ":" + std::to_string(done) + "/" + std::to_string(trips) + " ";
  };
  f.must_run();
  CHECK(seen == "0:0/1 1:0/2 1:1/2 1:2/2 0:1/1 0:0/0 ");
}
