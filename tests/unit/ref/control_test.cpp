// Control: regions, carried values, calls in place and by value, streams, what is emitted.
#include "tests/unit/ref/fixture.h"

using namespace trek;
using namespace trek::test;

namespace {

Ref text(Fixture& f, std::string_view string) {
  return {isa::RefKind::string, f.build.string(string)};
}

}  // namespace

TEST_CASE("a loop counts from its bound in either direction and hands on what it carries") {
  const auto run = [](int64_t from, int64_t until, int64_t step) {
    Fixture f;
    const Ref y = f.output("y", DType::i64, {2});
    f.build.begin_function("main");
    const std::vector<Ref> start = {f.build.integer(0), f.build.integer(-1)};
    REQUIRE_FALSE(f.build.open_loop(f.build.integer(from), f.build.integer(until),
                                    f.build.integer(step), start));
    const std::vector<Ref> results(f.build.results().begin(), f.build.results().end());
    const std::vector<Ref> registers(f.build.registers().begin(), f.build.registers().end());
    const Ref trips = f.add(Opcode::Add, {registers[1], f.build.integer(1)});
    REQUIRE_FALSE(f.build.yield(std::vector<Ref>{trips, registers[0]}));
    f.add(Opcode::Store, {y, results[0]}, {f.list({0})});
    f.add(Opcode::Store, {y, results[1]}, {f.list({1})});
    f.build.end_function();
    f.must_run();
    return f.read<int64_t>(y);
  };
  CHECK(run(0, 3, 1) == std::vector<int64_t>{3, 2});
  CHECK(run(0, 3, 2) == std::vector<int64_t>{2, 2});
  CHECK(run(5, 5, 1) == std::vector<int64_t>{0, -1});
  CHECK(run(5, -2, -3) == std::vector<int64_t>{3, -1});
  CHECK(run(INT64_MAX - 1, INT64_MAX, 5) == std::vector<int64_t>{1, INT64_MAX - 1});
  CHECK(run(INT64_MIN, INT64_MAX, INT64_MAX) == std::vector<int64_t>{3, INT64_MAX - 1});
}

TEST_CASE("a while that is left hands on its registers as the trip began") {
  Fixture f;
  const Ref y = f.output("y", DType::f32, {3});
  f.build.begin_function("main");
  const Ref ones =
      f.add(Opcode::Fill, {f.build.real(DType::f32, 1)}, {f.list({3}), Fixture::dtype(DType::f32)});
  f.build.open_while(std::vector<Ref>{ones, f.build.integer(0)});
  const Ref result = f.result(0);
  const std::vector<Ref> registers(f.build.registers().begin(), f.build.registers().end());
  const Ref doubled = f.add(Opcode::Add, {registers[0], registers[0]});
  const Ref go = f.add(Opcode::Lt, {registers[1], f.build.integer(4)});
  f.add(Opcode::Test, {go});
  const Ref next = f.add(Opcode::Add, {registers[1], f.build.integer(1)});
  REQUIRE_FALSE(f.build.yield(std::vector<Ref>{doubled, next}));
  f.add(Opcode::Copy, {result}, {}, {y});
  f.build.end_function();
  f.must_run();
  CHECK(f.read_reals(y) == std::vector<double>{16, 16, 16});
}

TEST_CASE("an if takes one of its regions, with or without else, nested in loops") {
  Fixture f;
  const Ref y = f.state("y", DType::i64, {});
  f.build.begin_function("main");
  REQUIRE_FALSE(f.build.open_loop(f.build.integer(0), f.build.integer(10), f.build.integer(1), {}));
  const Ref i = f.build.registers()[0];
  const Ref odd = f.add(Opcode::Mod, {i, f.build.integer(2)});
  const Ref is_odd = f.add(Opcode::Ne, {odd, f.build.integer(0)});
  REQUIRE_FALSE(f.build.open_if(is_odd, 1));
  const Ref weight = f.result(0);
  const Ref big = f.add(Opcode::Gt, {i, f.build.integer(5)});
  REQUIRE_FALSE(f.build.open_if(big, 0));
  f.add(Opcode::Add, {y, f.build.integer(1000)}, {}, {y});
  REQUIRE_FALSE(f.build.yield({}));
  REQUIRE_FALSE(f.build.yield(std::vector<Ref>{i}));
  f.build.open_else();
  REQUIRE_FALSE(f.build.yield(std::vector<Ref>{f.build.integer(100)}));
  f.add(Opcode::Add, {y, weight}, {}, {y});
  REQUIRE_FALSE(f.build.yield({}));
  f.build.end_function();
  f.must_run();
  CHECK(f.read<int64_t>(y)[0] == 2 * 1000 + 5 * 100 + (1 + 3 + 5 + 7 + 9));
}

TEST_CASE("an argument is the value of the moment, an in-place parameter the tensor itself") {
  Fixture f;
  const Ref w = f.state("w", DType::f32, {2});
  const Ref before = f.output("before", DType::f32, {2});
  const Type type = Type::tensor(DType::f32, {2});
  const uint32_t callee = f.build.begin_function("callee");
  const Ref value = f.build.parameter(type, false);
  const Ref place = f.build.parameter(type, true);
  const Type results[] = {type};
  f.build.set_results(results);
  f.add(Opcode::Add, {place, f.build.real(DType::f32, 1)}, {}, {place});
  f.add(Opcode::Sgd, {place, value}, {f.build.real(DType::f32, -1)});
  f.build.return_values(std::vector<Ref>{value});
  f.build.end_function();
  f.build.begin_function("main");
  const Ref snapshot = f.add(Opcode::Copy, {w});
  REQUIRE_FALSE(f.build.call(callee, std::vector<Ref>{snapshot, w}, std::vector<Ref>{before}));
  f.add(Opcode::Add, {w, f.build.real(DType::f32, 100)}, {}, {w});
  f.build.end_function();
  f.bind_reals(w, {1, 2});
  f.must_run();
  CHECK(f.read_reals(before) == std::vector<double>{1, 2});
  CHECK(f.read_reals(w) == std::vector<double>{103, 105});
}

TEST_CASE("the last use of an in-place parameter leaves the tensor as it is") {
  Fixture f;
  const Ref w = f.state("w", DType::f32, {2});
  const Type type = Type::tensor(DType::f32, {2});
  const uint32_t callee = f.build.begin_function("callee");
  const Ref place = f.build.parameter(type, true);
  f.add(Opcode::Neg, {place});
  f.build.return_values({});
  f.build.end_function();
  f.build.begin_function("main");
  REQUIRE_FALSE(f.build.call(callee, std::vector<Ref>{w}, {}));
  f.build.end_function();
  f.bind_reals(w, {1, 2});
  f.must_run();
  CHECK(f.read_reals(w) == std::vector<double>{1, 2});
}

TEST_CASE("a register keeps the value of a tensor that is changed later") {
  Fixture f;
  const Ref w = f.state("w", DType::f32, {4});
  const Ref y = f.output("y", DType::f32, {4});
  f.build.begin_function("main");
  const Ref old = f.add(Opcode::Reshape, {w}, {f.list({2, 2})});
  f.add(Opcode::Store, {w, f.build.real(DType::f32, 9)}, {f.list({0})});
  f.add(Opcode::Reshape, {old}, {f.list({4})}, {y});
  f.add(Opcode::Sgd, {y, w}, {f.build.real(DType::f32, 0)});
  f.build.end_function();
  f.bind_reals(w, {1, 2, 3, 4});
  f.must_run();
  CHECK(f.read_reals(y) == std::vector<double>{1, 2, 3, 4});
  CHECK(f.read_reals(w) == std::vector<double>{9, 2, 3, 4});
}

TEST_CASE("a program emits in order, and reads its stream to the end and beyond") {
  Fixture f;
  const Ref s = f.build.tensor("s", Type::tensor(DType::i64, {2}), Role::stream);
  f.build.begin_function("main");
  REQUIRE_FALSE(f.build.open_loop(f.build.integer(0), f.build.integer(3), f.build.integer(1), {}));
  f.add(Opcode::Next, {s});
  const Ref block = f.result(0);
  const Ref more = f.result(1);
  f.add(Opcode::Emit, {block}, {text(f, "block")});
  f.add(Opcode::Emit, {more}, {text(f, "more")});
  REQUIRE_FALSE(f.build.yield({}));
  f.build.end_function();
  f.must_load();
  int64_t given = 0;
  f.program->bind_stream(s.index(), [&](std::span<std::byte> bytes) {
    if (given == 2) return false;
    ++given;
    const int64_t values[] = {given, -given};
    REQUIRE(bytes.size() == sizeof values);
    std::memcpy(bytes.data(), values, sizeof values);
    return true;
  });
  std::string seen;
  f.run_options.emit = [&](const Emitted& emitted) {
    if (emitted.name == "more") {
      CHECK(emitted.bytes.size() == 1);
      seen += emitted.bytes[0] == std::byte{1} ? "+" : ".";
    } else {
      int64_t first = 0;
      std::memcpy(&first, emitted.bytes.data(), sizeof first);
      seen += std::to_string(first);
    }
  };
  f.must_run();
  CHECK(seen == "1+2+0.");
}

TEST_CASE("elements are loaded and stored as the tensor's scalar type") {
  Fixture f;
  const Ref x = f.state("x", DType::u64, {2, 2});
  const Ref y = f.output("y", DType::f16, {2});
  const Ref i = f.build.param("i", DType::i64, 1);
  f.build.begin_function("main");
  const std::vector<Ref> at = {i, f.build.integer(0)};
  const Ref element = f.add(Opcode::Load, {x}, {f.build.list(at)});
  const Ref next = f.add(Opcode::Add, {element, f.build.integer(1)});
  f.add(Opcode::Store, {x, next}, {f.build.list(at)});
  const std::vector<Ref> second = {i};
  f.add(Opcode::Store, {y, f.build.real(DType::f32, 2049)}, {f.build.list(second)});
  f.build.end_function();
  f.bind(x, std::vector<uint64_t>{1, 2, UINT64_MAX, 4});
  f.must_run();
  CHECK(f.read<uint64_t>(x) == std::vector<uint64_t>{1, 2, 0, 4});
  CHECK(f.read_reals(y) == std::vector<double>{0, 2048});
}

TEST_CASE("state goes on from run to run, outputs start from zeros, parameters can be set") {
  Fixture f;
  const Ref w = f.state("w", DType::i64, {});
  const Ref y = f.output("y", DType::i64, {});
  const Ref n = f.build.param("n", DType::i64, 2);
  f.build.begin_function("main");
  f.add(Opcode::Add, {w, n}, {}, {w});
  f.add(Opcode::Add, {y, n}, {}, {y});
  f.build.end_function();
  f.must_run();
  f.program->set(n.index(), 5);
  f.must_run();
  CHECK(f.read<int64_t>(w)[0] == 7);
  CHECK(f.read<int64_t>(y)[0] == 5);
}

TEST_CASE("initialisers fill states when the module is loaded") {
  Fixture f;
  const Ref w = f.state("w", DType::i32, {3});
  f.build.begin_init();
  f.add(Opcode::Iota, {}, {f.list({3}), Fixture::dtype(DType::i32), Ref{}, f.build.integer(5)},
        {w});
  f.build.end_init();
  f.build.begin_function("main");
  f.build.end_function();
  f.must_load();
  CHECK(f.read<int32_t>(w) == std::vector<int32_t>{5, 6, 7});
  CHECK(f.program->counters().instructions == 0);
}
