// How far fused pointwise instructions are from the bandwidth of memory: a chain of eight over 16 Mi elements of f32
// beside a copy of as many bytes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "emulator/measure/ceiling_bench.h"
#include "emulator/measure/philox.h"
#include "tests/bench/text_program.h"

namespace trek::bench {
namespace {

constexpr size_t kElements = size_t{16} << 20;
constexpr int kThreads = 2;
constexpr double kAskedShare = 0.9;

// The result is a state: outputs are zeroed before a run.
const char* const kProgram = R"(.trek 1.0
.input @x f32[16777216]
.state @y f32[16777216] = 0
.func main() {
  %a = mul @x, 0.5
  %b = add %a, 0.25
  %c = maximum %b, -3.0
  %d = mul %c, %c
  %e = sub %d, %a
  %f = minimum %e, 100.0
  %g = abs %f
  @y = add %g, %b
}
)";

// The same, so that what is timed is known to be right.
float chain(float x) {
  const float a = x * 0.5F;
  const float b = a + 0.25F;
  const float c = std::max(b, -3.0F);
  const float d = c * c;
  const float e = d - a;
  const float f = std::min(e, 100.0F);
  return std::abs(f) + b;
}

Status check(const std::vector<float>& x, const std::vector<float>& y, const std::string& engine) {
  for (size_t i = 0; i < x.size(); ++i)
    if (y[i] != chain(x[i]))
      return measure::wrong("the chain on " + engine,
                            fmt::format("element {} is {}, not {}", i, y[i], chain(x[i])));
  return Done{};
}

// Copies with a thread for each part, as a program without an engine would.
void copy(const std::vector<float>& from, std::vector<float>& to) {
  std::vector<std::thread> threads;
  const size_t part = from.size() / kThreads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::memcpy(to.data() + t * part, from.data() + t * part, part * sizeof(float));
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

Status bench_chain(const Options& options, Recorder& recorder) {
  std::vector<float> x(kElements);
  for (size_t i = 0; i < x.size(); ++i) x[i] = measure::random_element(1, i);
  std::vector<float> y(kElements);
  const measure::Contender rival = repeated("copy", [&] { copy(x, y); });
  const Result<Engines> engines = engines_named(kCpuEngines, recorder);
  if (!engines) return engines.error();
  for (const std::unique_ptr<Engine>& engine : *engines) {
    const std::string name(engine->name());
    Result<std::unique_ptr<TextProgram>> program = TextProgram::open(*engine, kProgram, kThreads);
    if (!program) return program.error();
    if (Status bound = (*program)->bind("x", x); !bound) return bound.error();
    if (Status ran = (*program)->run(); !ran) return ran.error();
    if (Status right = check(x, (*program)->read("y"), name); !right) return right.error();
    const Result<measure::Comparison> result =
        measure::compare((*program)->contender(name), rival, options.rounds);
    if (!result) return result.error();
    recorder.add({"a chain of 8 over 16 Mi elements of f32, 2 threads", name + " strict",
                  "copy by 2 threads", *result, name == "jit" ? kAskedShare : 0});
    const double bytes = 2e-9 * sizeof(float) * kElements;
    recorder.add(measure::Figure{"the chain, " + name, "GB/s", result->ours.as_rate(bytes)});
    if (name == "jit")
      recorder.add(measure::Figure{"copy by 2 threads", "GB/s", result->rival.as_rate(bytes)});
  }
  return Done{};
}

}  // namespace trek::bench
