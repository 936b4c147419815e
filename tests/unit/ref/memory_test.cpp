// Memory is bounded by what is live: registers are freed after their last use.
#include "emulator/ref/memory.h"

#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

namespace {

constexpr int64_t kElements = 1 << 16;
constexpr uint64_t kBytes = kElements * sizeof(float);

Ref ones(Fixture& f) {
  return f.add(Opcode::Fill, {f.build.real(DType::f32, 1)},
               {f.list({kElements}), Fixture::dtype(DType::f32)});
}

uint64_t peak(Fixture& f) {
  f.must_run();
  return f.program->counters().memory_bytes;
}

}  // namespace

TEST_CASE("a chain of registers needs two, and where they may be shared one") {
  Fixture f;
  f.build.begin_function("main");
  Ref x = ones(f);
  SECTION("sums cannot be made in place") {
    for (int i = 0; i < 20; ++i) x = f.add(Opcode::Cumsum, {x});
    f.build.end_function();
    CHECK(peak(f) == 2 * kBytes);
  }
  SECTION("pointwise instructions take over a dead operand") {
    for (int i = 0; i < 20; ++i) x = f.add(Opcode::Neg, {x});
    f.build.end_function();
    CHECK(peak(f) == kBytes);
  }
  SECTION("reshapes and copies share their operand") {
    for (int i = 0; i < 20; ++i) {
      x = f.add(Opcode::Reshape, {x}, {f.list({kElements / 2, 2})});
      x = f.add(Opcode::Copy, {x});
    }
    f.build.end_function();
    CHECK(peak(f) == kBytes);
  }
}

TEST_CASE("a loop frees what its trips define, and what was used inside when it ends") {
  Fixture f;
  f.build.begin_function("main");
  const Ref outer = ones(f);
  REQUIRE_FALSE(f.build.open_loop(f.build.integer(0), f.build.integer(5), f.build.integer(1),
                                  std::vector<Ref>{ones(f)}));
  const Ref carried = f.build.registers()[1];
  const Ref sum = f.add(Opcode::Add, {carried, outer});
  REQUIRE_FALSE(f.build.yield(std::vector<Ref>{sum}));
  // Of outer, the carried one and the sum, the sum takes over the carried one.
  for (int i = 0; i < 3; ++i) f.add(Opcode::Cumsum, {ones(f)});
  f.build.end_function();
  CHECK(peak(f) == 2 * kBytes);
}

TEST_CASE("a loop keeps what its next trip needs, and ends with what it yields") {
  Fixture f;
  const Ref y = f.output("y", DType::f32, {2});
  f.build.begin_function("main");
  const Ref one =
      f.add(Opcode::Fill, {f.build.real(DType::f32, 1)}, {f.list({2}), Fixture::dtype(DType::f32)});
  const Ref start = f.add(Opcode::Neg, {one});
  REQUIRE_FALSE(f.build.open_loop(f.build.integer(0), f.build.integer(4), f.build.integer(1),
                                  std::vector<Ref>{start, one}));
  const Ref result = f.result(0);
  const Ref a = f.build.registers()[1];
  const Ref b = f.build.registers()[2];
  const Ref sum = f.add(Opcode::Add, {a, one});
  REQUIRE_FALSE(f.build.yield(std::vector<Ref>{b, sum}));  // carried values change places
  f.add(Opcode::Copy, {result}, {}, {y});
  f.build.end_function();
  f.must_run();
  // (a, b): (-1, 1) (1, 0) (0, 2) (2, 1) (1, 3)
  CHECK(f.read_reals(y) == std::vector<double>{1, 1});
}

TEST_CASE("memory gives blocks back to itself, up to its limit") {
  ref::Memory memory(1024);
  ref::Buffer a = memory.allocate(512);
  ref::Buffer b = memory.allocate(512);
  REQUIRE(a);
  REQUIRE(b);
  CHECK_FALSE(memory.allocate(1));
  CHECK_FALSE(memory.allocate(UINT64_MAX));
  const ref::Buffer shared = a;
  a.reset();
  CHECK(memory.in_use() == 1024);
  CHECK(shared.is_unique());
  b.reset();
  CHECK(memory.in_use() == 512);
  CHECK(memory.allocate(100));  // the kept block of 512 makes room for another size
  CHECK(memory.peak() == 1024);
}
