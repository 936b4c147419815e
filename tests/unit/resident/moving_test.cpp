// A program that begins interpreted and goes on compiled leaves what it leaves either way, wherever it moves: tensors,
// emitted values, streams, traps, limits. The compiler here gives the units themselves, when it is told to.
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "emulator/device/execute.h"
#include "emulator/loading.h"
#include "emulator/resident/host_code.h"
#include "emulator/resident/program.h"
#include "tests/unit/plan/run.h"

namespace trek::resident::test {
namespace {

using plan::test::assembled;

std::atomic<uint64_t> tasks_of_code = 0;

// A TaskFunction that is given the node's descriptor in the place of its addresses.
void execute_unit(std::byte* arena, const uint32_t* descriptor, std::byte* shared, uint64_t seed,
                  const int64_t* counters, int64_t first, int64_t count, device::Fault* fault) {
  ++tasks_of_code;
  device::Block block;
  block.shared = shared;
  block.shared_bytes = device::kSharedBytes;
  device::execute(block, *reinterpret_cast<const device::Node*>(descriptor), first, count,
                  {arena, seed, counters}, fault);
}

class Units : public HostCode {
 public:
  explicit Units(const Image& image) : image_(image) {}
  NodeCode of(uint32_t node) const override {
    for (const Record& record : image_.records)
      if (record.node == node && is_of_unit(record.kind))
        return {execute_unit, reinterpret_cast<const uint32_t*>(image_.descriptors.data() +
                                                                size_t{16} * record.descriptor)};
    return {};
  }

 private:
  Image image_;
};

class FakeCompiler : public HostCompiler {
 public:
  uint64_t scratch_bytes() const override { return 0; }
  std::shared_ptr<const HostCode> at_once(const plan::Plan& /*plan*/,
                                          const Image& /*image*/) const override {
    return nullptr;
  }
  isa::Result<std::shared_ptr<const HostCode>> compile(
      const plan::Plan& /*plan*/, const Image& image,
      const std::atomic<bool>* cancelled) const override {
    while (!may_end && !*cancelled) std::this_thread::yield();
    if (*cancelled || fails) return problem(isa::ErrorCode::UnknownInstruction, "no code for this");
    return std::shared_ptr<const HostCode>(std::make_shared<Units>(image));
  }
  std::atomic<bool> may_end = true;
  bool fails = false;
};

struct Left {
  RunResult result;
  Counters counters;
  std::string said;  // emitted values, and what tensors hold

  // Where and why it ended.
  std::string ending() const {
    std::string text = fmt::format("{} at {}:{} {}", static_cast<int>(result.outcome),
                                   result.place.function, result.place.instruction, result.detail);
    if (result.trap)
      text += fmt::format(" {} {} {}", static_cast<int>(result.trap->code), result.trap->element,
                          result.trap->detail);
    return text;
  }
};

std::string bytes_text(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

// Three blocks of ones.
StreamSource three_blocks() {
  return [given = 0](std::span<std::byte> block) mutable {
    if (given++ == 3) return false;
    const std::vector<float> ones(block.size() / 4, 1);
    std::memcpy(block.data(), ones.data(), block.size());
    return true;
  };
}

Left left_by(Program& program, const RunOptions& given = {}) {
  Left left;
  RunOptions options = given;
  options.emit = [&](const Emitted& value) {
    left.said += fmt::format("{} {}\n", value.name, bytes_text(value.bytes));
  };
  const isa::Module& module = program.module();
  for (uint32_t t = 0; t < module.tensors.size(); ++t)
    if (module.tensors[t].role == isa::Role::stream)
      REQUIRE(program.bind_stream(t, three_blocks()).empty());
  left.result = program.run(options);
  left.counters = program.counters();
  if (left.result.trap) left.said.clear();  // what comes behind a trap may have been emitted or not
  for (uint32_t t = 0; t < module.tensors.size() && !left.result.trap; ++t)
    if (module.tensors[t].role != isa::Role::stream)
      left.said += bytes_text(program.read(t)) + "\n";
  return left;
}

struct Auto {
  std::shared_ptr<FakeCompiler> compiler = std::make_shared<FakeCompiler>();
  std::shared_ptr<const Machine> machine = open_host(3, Executing::both, compiler);
  Moving moving = {std::make_shared<Background>(), {}};

  std::unique_ptr<Program> load(const isa::Module& module) const {
    auto program = load_program(machine, module, {}, {}, moving);
    if (!program) FAIL(program.problems()[0].message);
    return program.take();
  }
};

Left interpreted(const isa::Module& module, const RunOptions& options = {}) {
  auto program = load_program(open_host(3), module, {}, {});
  if (!program) FAIL(program.problems()[0].message);
  return left_by(**program, options);
}
Left moved_at(const isa::Module& module, uint64_t at, const RunOptions& options = {}) {
  Auto with;
  with.moving.at = at;
  return left_by(*with.load(module), options);
}

// Tiles on several processors; loops in loops, behind an `if`, a `while` with a stream. `bound` says when it traps.
std::string program_text(int bound) {
  return fmt::format(R"(
.stream @blocks f32[20]
.state  @x f32[5000] = 1
.state  @seen f32[20]
.output @y f32[5000]
.func main() {{
  loop $i = 0 until 4 {{
    %h = mul @x, 0.75
    @x = add %h, 0.5
    loop $j = 0 until 3 {{
      @y = add @y, @x
      $k = add $i, $j
      emit "k", $k
    }}
    $odd = mod $i, 2
    $is_odd = eq $odd, 1
    if $is_odd {{
      loop $m = 0 until $i {{
        @y = mul @y, 0.5
        %s = sum @y
        emit "s", %s
      }}
    }}
    $at = sub {}, $i
    %one = slice @y, at=[$at], size=[1]
    emit "one", %one
  }}
  while {{
    %block, $more = next @blocks
    test $more
    @seen = add @seen, %block
    emit "seen", @seen
  }}
}}
)",
                     bound);
}
// 4 trips, in each 3, twice `m` with 1 and 3, and 3 of the stream.
constexpr uint64_t kBackEdges = 3 + 4 * 2 + 0 + 2 + 3;

}  // namespace

TEST_CASE("a program that moves at any back-edge leaves what it leaves interpreted") {
  const isa::Module module = assembled(program_text(100));
  const Left want = interpreted(module);
  REQUIRE(want.result.outcome == Outcome::done);
  for (uint64_t at = 0; at < kBackEdges; ++at) {
    INFO("at " << at);
    tasks_of_code = 0;
    const Left got = moved_at(module, at);
    CHECK(got.said == want.said);
    CHECK(got.ending() == want.ending());
    CHECK(got.counters.instructions == want.counters.instructions);
    // It did move, there.
    CHECK(got.counters.compiling.interpreted.trips == at);
    CHECK(got.counters.compiling.compiled.trips == kBackEdges - at);
    CHECK(got.counters.compiling.compiled.runs == 1);
    CHECK((tasks_of_code > 0) == (at + 1 < kBackEdges));  // the stream ends behind the last
  }
  // And not where there is no such back-edge.
  tasks_of_code = 0;
  const Left got = moved_at(module, kBackEdges);
  CHECK(got.said == want.said);
  CHECK(got.counters.compiling.compiled.runs == 0);
  CHECK(tasks_of_code == 0);
}

TEST_CASE("limits and traps are those of a program that does not move") {
  const isa::Module module = assembled(program_text(100));
  for (const uint64_t limit : {1, 12, 20, 30, 45, 70}) {
    RunOptions options;
    options.instruction_limit = limit;
    const Left want = interpreted(module, options);
    for (const uint64_t at : {0, 1, 2, 5, 9}) {
      INFO("limit " << limit << ", at " << at);
      const Left got = moved_at(module, at, options);
      CHECK(got.ending() == want.ending());
      CHECK(got.said == want.said);
    }
  }
  const isa::Module traps = assembled(program_text(5002));
  const Left want = interpreted(traps);
  REQUIRE(want.result.outcome == Outcome::trapped);
  for (uint64_t at = 0; at < 6; ++at) CHECK(moved_at(traps, at).ending() == want.ending());
}

namespace {
// Processor 0 has nothing to do in it.
constexpr const char* kEndless = R"(
.state @x f32[10]
.func main() {
  loop $i = 0 until 1000000000000 {
    %y = mul @x, 0.5
    @x = add %y, 1
  }
}
)";
}  // namespace

TEST_CASE(
    "a program moves by itself while it runs, and can be stopped before, meanwhile and after") {
  const isa::Module module = assembled(kEndless);
  Auto with;
  with.compiler->may_end = false;
  const auto program = with.load(module);
  std::atomic<bool> stop = false;
  RunOptions options;
  options.stop = &stop;
  const auto run = [&](auto&& meanwhile) {
    stop = false;
    std::thread thread([&] {
      meanwhile();
      stop = true;
    });
    Left left = left_by(*program, options);
    thread.join();
    CHECK(left.result.outcome == Outcome::stopped);
    return left;
  };
  const Left before = run([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  CHECK(before.counters.compiling.nanoseconds == 0);
  CHECK(before.counters.compiling.interpreted.runs == 1);
  tasks_of_code = 0;
  const Left after = run([&] {
    with.compiler->may_end = true;
    while (tasks_of_code == 0) std::this_thread::yield();
  });
  CHECK(after.counters.compiling.nanoseconds > 0);
  CHECK(after.counters.compiling.compiled.runs == 1);
}

TEST_CASE("a program that waits for its code, as tests have it do, can be stopped") {
  const isa::Module module = assembled(kEndless);
  Auto with;
  with.compiler->may_end = false;
  with.moving.at = 3;
  const auto program = with.load(module);
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop = true;
  });
  RunOptions options;
  options.stop = &stop;
  const Left left = left_by(*program, options);
  thread.join();
  CHECK(left.result.outcome == Outcome::stopped);
  CHECK(left.counters.compiling.interpreted.trips == 3);
}

TEST_CASE("what is not compiled goes on as it is, and says why") {
  const isa::Module module = assembled(program_text(100));
  Auto with;
  with.compiler->fails = true;
  with.moving.at = 2;
  const Left got = left_by(*with.load(module));
  CHECK(got.said == interpreted(module).said);
  CHECK(got.counters.compiling.failure == "no code for this");
  CHECK(got.counters.compiling.compiled.runs == 0);
}

TEST_CASE("a program may go while it is compiled, and then its machine") {
  const isa::Module module = assembled(kEndless);
  Auto with;
  with.compiler->may_end = false;
  with.load(module);
  with.load(module);
}

}  // namespace trek::resident::test
