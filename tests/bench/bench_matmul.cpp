// How far the strict dot order is from a library that may sum as it likes.
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "assembler/assemble.h"
#include "emulator/measure/cpu_clock.h"
#include "emulator/measure/philox.h"
#include "tests/bench/bench.h"
#include "tests/bench/onednn.h"

namespace trek::bench {
namespace {

// The product that a figure is asked for, then shapes of other kinds: small, large, a vector, a layer of the MLP, odd.
constexpr MatmulShape kAsked = {1024, 1024, 1024};
constexpr MatmulShape kShapes[] = {
    kAsked,          {256, 256, 256}, {512, 512, 512}, {2048, 2048, 2048},
    {1, 1024, 1024}, {125, 256, 784}, {784, 256, 125}, {1001, 999, 1003}};
// A packed kernel reaches about this share of oneDNN under the strict order.
constexpr double kAskedShare = 0.8;
// One sample lasts at least this long, so that the clock and the run's own cost do not count.
constexpr double kLeastSeconds = 0.03;

std::vector<float> random_matrix(uint64_t key, int rows, int columns) {
  std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = measure::random_element(key, i);
  return values;
}

// One product as a program of one instruction.
std::string program_text(const MatmulShape& shape) {
  return fmt::format(
      ".trek 1.0\n"
      ".input @a f32[{0},{2}]\n"
      ".input @b f32[{2},{1}]\n"
      ".output @c f32[{0},{1}]\n"
      ".func main() {{\n"
      "  @c = matmul @a, @b\n"
      "}}\n",
      shape.m, shape.n, shape.k);
}

uint32_t tensor_named(const isa::Module& module, std::string_view name) {
  for (uint32_t i = 0; i < module.tensors.size(); ++i) {
    if (module.string(module.tensors[i].name) == name) return i;
  }
  return UINT32_MAX;
}

// Both sides of one shape and thread count, with the same operands.
struct Pair {
  MatmulShape shape;
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> c;  // oneDNN's
  isa::Module module;
  std::unique_ptr<Program> ours;
  std::unique_ptr<OneDnnMatmul> rival;
};

Result<std::unique_ptr<Pair>> make_pair(Engine& engine, const MatmulShape& shape, int threads) {
  auto pair = std::make_unique<Pair>();
  pair->shape = shape;
  pair->a = random_matrix(1, shape.m, shape.k);
  pair->b = random_matrix(2, shape.k, shape.n);
  pair->c.resize(static_cast<size_t>(shape.m) * static_cast<size_t>(shape.n));
  Assembly assembly = assemble_text("matmul.trek", program_text(shape));
  if (!assembly.ok()) return to_error("assembling the product", assembly.problems);
  pair->module = std::move(assembly.module);
  LoadOptions options;
  options.threads = threads;
  isa::Result<std::unique_ptr<Program>> program = engine.load(pair->module, options);
  if (!program) return to_error("loading the product", program.problems());
  pair->ours = program.take();
  for (const auto& [name, bytes] : {std::pair{"a", std::as_bytes(std::span(pair->a))},
                                    std::pair{"b", std::as_bytes(std::span(pair->b))}}) {
    const isa::Problems problems = pair->ours->bind(tensor_named(pair->module, name), bytes);
    if (!problems.empty()) return to_error("binding the product's operands", problems);
  }
  Result<OneDnnMatmul> rival = OneDnnMatmul::create(shape, threads);
  if (!rival) return rival.error();
  pair->rival = std::make_unique<OneDnnMatmul>(rival.take());
  return pair;
}

// Both give the same matrix but for the order of summation.
Status check_equal(Pair& pair) {
  pair.ours->run({});
  pair.rival->run(pair.a, pair.b, pair.c);
  const std::span<const std::byte> bytes = pair.ours->read(tensor_named(pair.module, "c"));
  std::vector<float> ours(pair.c.size());
  std::memcpy(ours.data(), bytes.data(), bytes.size());
  const double scale = std::sqrt(static_cast<double>(pair.shape.k));
  for (size_t i = 0; i < ours.size(); ++i) {
    const double difference = static_cast<double>(ours[i]) - static_cast<double>(pair.c[i]);
    if (!(std::abs(difference) <= 1e-5 * scale)) {
      return Error{"checking the product", "",
                   fmt::format("element {} is {}, oneDNN has {}", i, ours[i], pair.c[i])};
    }
  }
  return Done{};
}

// A contender that calls `work` often enough; seconds are of one call.
template <class Work>
measure::Contender repeated(std::string name, Work work) {
  const int calls = measure::calls_lasting(kLeastSeconds, work);
  return {std::move(name), [work, calls]() -> Result<double> {
            return measure::cpu_seconds([&] {
                     for (int i = 0; i < calls; ++i) work();
                   }) /
                   calls;
          }};
}

Status compare_shape(Engine& engine, const MatmulShape& shape, int threads, const Options& options,
                     Recorder& recorder) {
  Result<std::unique_ptr<Pair>> made = make_pair(engine, shape, threads);
  if (!made) return made.error();
  Pair& pair = **made;
  if (const Status equal = check_equal(pair); !equal) return equal;
  const measure::Contender ours = repeated("ref", [&pair] { pair.ours->run({}); });
  const measure::Contender rival =
      repeated("oneDNN", [&pair] { pair.rival->run(pair.a, pair.b, pair.c); });
  const Result<measure::Comparison> result = measure::compare(ours, rival, options.rounds);
  if (!result) return result.error();
  const bool asked = shape.m == kAsked.m && shape.n == kAsked.n && shape.k == kAsked.k;
  const std::string name = fmt::format("matmul f32 {}x{}x{}, {} thread{}", shape.m, shape.n,
                                       shape.k, threads, threads == 1 ? "" : "s");
  recorder.add({name, "ref strict", "oneDNN", *result, asked ? kAskedShare : 0});
  const double gflop = 2e-9 * shape.m * shape.n * shape.k;
  recorder.add(measure::Figure{name + ", ref strict", "GFLOP/s", result->ours.as_rate(gflop)});
  return Done{};
}

}  // namespace

Status bench_matmul(const Options& options, Recorder& recorder) {
  const Result<std::unique_ptr<Engine>> engine = engine_named("ref");
  if (!engine) return engine.error();
  recorder.add_version("onednn", OneDnnMatmul::version());
  recorder.add_version("ref", (*engine)->description());
  for (const MatmulShape& shape : kShapes) {
    if (options.quick && shape.m * shape.k > 512 * 512) continue;
    for (const int threads : {1, 2}) {
      const Status status = compare_shape(**engine, shape, threads, options, recorder);
      if (!status) return status;
    }
  }
  return Done{};
}

}  // namespace trek::bench
