// Traps: which instruction, which element, what is said, and that nothing has been written.
#include <cmath>

#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;
using isa::TrapCode;

namespace {

Trap trap_of(Fixture& f) {
  if (!f.program) f.must_load();
  const RunResult result = f.run();
  REQUIRE(result.outcome == Outcome::trapped);
  REQUIRE(result.trap);
  CHECK(result.trap->place.instruction == result.place.instruction);
  return *result.trap;
}

}  // namespace

TEST_CASE("an index outside its axis traps at its lowest position, and nothing is written") {
  Fixture f;
  const Ref x = f.state("x", DType::f32, {10, 2});
  const Ref index = f.input("index", DType::i32, {2, 2});
  const Ref y = f.input("y", DType::f32, {2, 2, 2});
  f.build.begin_function("main");
  f.add(Opcode::Copy, {x});
  f.add(Opcode::Scatter, {x, index, y}, {}, {x});
  f.build.end_function();
  f.bind(index, std::vector<int32_t>{1, 9, 12, -1});
  f.bind(y, std::vector<float>(8, 1.0f));
  const Trap trap = trap_of(f);
  CHECK(trap.code == TrapCode::IndexOutOfRange);
  CHECK(trap.place.instruction == 1);
  CHECK(trap.element == 2);
  CHECK(trap.detail == "index 12 is outside axis 0 of size 10");
  CHECK(f.read<float>(x) == std::vector<float>(20, 0.0f));
}

TEST_CASE("a u64 index beyond i64 is out of range, and shown as it is") {
  Fixture f;
  const Ref x = f.input("x", DType::f32, {4});
  const Ref index = f.input("index", DType::u64, {1});
  f.build.begin_function("main");
  f.add(Opcode::Gather, {x, index});
  f.build.end_function();
  f.bind(index, std::vector<uint64_t>{UINT64_MAX});
  CHECK(trap_of(f).detail == "index 18446744073709551615 is outside axis 0 of size 4");
}

TEST_CASE("boxes and elements outside their tensor trap, at any distance") {
  for (const int64_t at : {int64_t{-1}, int64_t{4}, INT64_MAX, INT64_MIN})
    for (const Opcode opcode : {Opcode::Slice, Opcode::Update, Opcode::Load, Opcode::Store}) {
      INFO(isa::info(opcode).mnemonic << " at " << at);
      Fixture f;
      const Ref x = f.state("x", DType::f32, {4});
      const Ref one = f.input("one", DType::f32, {1});
      const Ref n = f.build.param("n", DType::i64, static_cast<uint64_t>(at));
      const std::vector<Ref> items = {n};
      const Ref place = f.build.list(items);
      f.build.begin_function("main");
      if (opcode == Opcode::Slice) f.add(opcode, {x}, {place, f.list({1})});
      if (opcode == Opcode::Update) f.add(opcode, {x, one}, {place}, {x});
      if (opcode == Opcode::Load) f.add(opcode, {x}, {place});
      if (opcode == Opcode::Store) f.add(opcode, {x, f.build.real(DType::f32, 1)}, {place});
      f.build.end_function();
      const Trap trap = trap_of(f);
      CHECK(trap.code == TrapCode::IndexOutOfRange);
      CHECK(trap.element == -1);
      CHECK(f.read<float>(x) == std::vector<float>(4, 0.0f));
    }
}

TEST_CASE("integer division by zero traps at the lowest element of the result") {
  Fixture f;
  const Ref x = f.state("x", DType::i32, {2, 3});
  const Ref y = f.input("y", DType::i32, {3});
  f.build.begin_function("main");
  f.add(Opcode::Mod, {x, y}, {}, {x});
  f.build.end_function();
  f.bind(x, std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  f.bind(y, std::vector<int32_t>{1, 0, 0});
  const Trap trap = trap_of(f);
  CHECK(trap.code == TrapCode::DivideByZero);
  CHECK(trap.element == 1);
  CHECK(f.read<int32_t>(x) == std::vector<int32_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("division by zero in no element, and of floats, does not trap") {
  Fixture f;
  const Ref x = f.input("x", DType::i32, {0, 3});
  const Ref y = f.input("y", DType::i32, {3});
  const Ref a = f.input("a", DType::f32, {3});
  f.build.begin_function("main");
  f.add(Opcode::Div, {x, y});
  f.add(Opcode::Div, {a, a});
  f.build.end_function();
  f.must_run();
}

TEST_CASE("assert_finite names the first element that is not") {
  Fixture f;
  const Ref x = f.input("x", DType::f16, {5000});
  f.build.begin_function("main");
  f.add(Opcode::AssertFinite, {x});
  f.build.end_function();
  std::vector<double> values(5000, 65504);
  f.bind_reals(x, values);
  f.must_run();
  values[4321] = -HUGE_VAL;
  values[4999] = std::nan("");
  f.bind_reals(x, values);
  const Trap trap = trap_of(f);
  CHECK(trap.code == TrapCode::NotFinite);
  CHECK(trap.element == 4321);
  CHECK(trap.detail == "element 4321 is -inf");
}

TEST_CASE("arguments outside their range trap") {
  Fixture f;
  const Ref w = f.state("w", DType::f32, {1});
  const Ref m = f.state("m", DType::f32, {1});
  const Ref v = f.state("v", DType::f32, {1});
  const Ref g = f.input("g", DType::f32, {1});
  const Ref zero = f.build.param("zero", DType::i64, 0);
  const Ref p = f.build.param("p", DType::f32, 0x7FC00000);
  f.build.begin_function("main");
  const Ref lr = f.build.real(DType::f32, 1);
  std::string words;
  SECTION("a step before the first") {
    f.add(Opcode::Adam, {w, m, v, g}, {lr, Ref{}, Ref{}, Ref{}, zero});
    words = "step is 0";
  }
  SECTION("a probability that is none") {
    f.add(Opcode::Dropout, {g}, {p, f.build.integer(1)});
    words = "p is nan";
  }
  SECTION("a loop that does not move") {
    REQUIRE_FALSE(f.build.open_loop(f.build.integer(0), f.build.integer(1), zero, {}));
    REQUIRE_FALSE(f.build.yield({}));
    words = "a loop with step 0";
  }
  f.build.end_function();
  const Trap trap = trap_of(f);
  CHECK(trap.code == TrapCode::InvalidArgument);
  CHECK(trap.detail.find(words) == 0);
}

TEST_CASE("a trap tells who called, innermost first, and what came before it holds") {
  Fixture f;
  const Ref y = f.output("y", DType::f32, {});
  const uint32_t inner = f.build.begin_function("inner");
  f.add(Opcode::Trap, {}, {Ref(isa::RefKind::string, f.build.string("no such thing"))});
  f.build.end_function();
  const uint32_t outer = f.build.begin_function("outer");
  f.add(Opcode::Fill, {f.build.real(DType::f32, 3)}, {f.list({}), Fixture::dtype(DType::f32)}, {y});
  REQUIRE_FALSE(f.build.call(inner, {}));
  f.build.end_function();
  const uint32_t main = f.build.begin_function("main");
  REQUIRE_FALSE(f.build.call(outer, {}));
  f.build.end_function();
  const Trap trap = trap_of(f);
  CHECK(trap.code == TrapCode::Explicit);
  CHECK(trap.detail == "no such thing");
  CHECK(trap.place.function == inner);
  REQUIRE(trap.callers.size() == 2);
  CHECK(trap.callers[0].function == outer);
  CHECK(trap.callers[0].instruction == 1);
  CHECK(trap.callers[1].function == main);
  CHECK(f.read<float>(y)[0] == 3);
}
