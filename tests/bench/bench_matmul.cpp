// How far the strict dot order is from a library that may sum as it likes.
#include <cmath>

#include <fmt/format.h>

#include "emulator/measure/ceiling_bench.h"
#include "emulator/measure/philox.h"
#include "tests/bench/onednn.h"
#include "tests/bench/openblas.h"
#include "tests/bench/text_program.h"

namespace trek::bench {
namespace {

// The product that a figure is asked for, then shapes of other kinds: small, large, a vector, a layer of the MLP, odd.
constexpr MatmulShape kAsked = {1024, 1024, 1024};
constexpr MatmulShape kShapes[] = {
    kAsked,          {256, 256, 256}, {512, 512, 512}, {2048, 2048, 2048},
    {1, 1024, 1024}, {125, 256, 784}, {784, 256, 125}, {1001, 999, 1003}};
// A packed kernel reaches about this share of oneDNN under the strict order.
constexpr double kAskedShare = 0.8;

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

// The sides of one shape and thread count, with the same operands: engines, then libraries.
struct Sides {
  MatmulShape shape;
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> c;  // a library's
  std::vector<std::string> engines;
  std::vector<std::unique_ptr<TextProgram>> programs;
  std::unique_ptr<OneDnnMatmul> onednn;
};

Result<std::unique_ptr<Sides>> make_sides(const Engines& engines, const MatmulShape& shape,
                                          int threads) {
  auto sides = std::make_unique<Sides>();
  sides->shape = shape;
  sides->a = random_matrix(1, shape.m, shape.k);
  sides->b = random_matrix(2, shape.k, shape.n);
  sides->c.resize(static_cast<size_t>(shape.m) * static_cast<size_t>(shape.n));
  for (const std::unique_ptr<Engine>& engine : engines) {
    Result<std::unique_ptr<TextProgram>> program =
        TextProgram::open(*engine, program_text(shape), threads);
    if (!program) return program.error();
    Status bound = (*program)->bind("a", sides->a);
    if (bound) bound = (*program)->bind("b", sides->b);
    if (!bound) return bound.error();
    sides->engines.emplace_back(engine->name());
    sides->programs.push_back(program.take());
  }
  Result<OneDnnMatmul> onednn = OneDnnMatmul::create(shape, threads);
  if (!onednn) return onednn.error();
  sides->onednn = std::make_unique<OneDnnMatmul>(onednn.take());
  return sides;
}

// All give the same matrix but for the order of summation.
Status check_equal(Sides& sides) {
  sides.onednn->run(sides.a, sides.b, sides.c);
  const double scale = std::sqrt(static_cast<double>(sides.shape.k));
  for (size_t e = 0; e < sides.programs.size(); ++e) {
    if (Status ran = sides.programs[e]->run(); !ran) return ran;
    const std::vector<float> ours = sides.programs[e]->read("c");
    for (size_t i = 0; i < ours.size(); ++i) {
      const double difference = static_cast<double>(ours[i]) - static_cast<double>(sides.c[i]);
      if (!(std::abs(difference) <= 1e-5 * scale))
        return measure::wrong(
            "the product on " + sides.engines[e],
            fmt::format("element {} is {}, oneDNN has {}", i, ours[i], sides.c[i]));
    }
  }
  return Done{};
}

Status compare_shape(const Engines& engines, const MatmulShape& shape, int threads,
                     const Options& options, Recorder& recorder) {
  Result<std::unique_ptr<Sides>> made = make_sides(engines, shape, threads);
  if (!made) return made.error();
  Sides& sides = **made;
  if (const Status equal = check_equal(sides); !equal) return equal;
  std::vector<measure::Contender> contenders;
  for (size_t e = 0; e < engines.size(); ++e)
    contenders.push_back(sides.programs[e]->contender(sides.engines[e]));
  contenders.push_back(
      repeated("oneDNN", [&sides] { sides.onednn->run(sides.a, sides.b, sides.c); }));
  if (OpenBlas::missing().empty())
    contenders.push_back(repeated("OpenBLAS", [&sides, threads] {
      OpenBlas::multiply(sides.shape, threads, sides.a, sides.b, sides.c);
    }));
  // Each twice: the second series is a rival's own band.
  const size_t count = contenders.size();
  for (size_t i = 0; i < count; ++i) contenders.push_back(contenders[i]);
  const auto all = measure::measure_interleaved(contenders, options.rounds);
  if (!all) return all.error();
  const bool asked = shape.m == kAsked.m && shape.n == kAsked.n && shape.k == kAsked.k;
  const std::string name = fmt::format("matmul f32 {}x{}x{}, {} thread{}", shape.m, shape.n,
                                       shape.k, threads, threads == 1 ? "" : "s");
  const double gflop = 2e-9 * shape.m * shape.n * shape.k;
  for (size_t e = 0; e < engines.size(); ++e) {
    const std::string ours = sides.engines[e] + " strict";
    for (size_t rival = e + 1; rival < count; ++rival) {
      const measure::Comparison result =
          measure::compare((*all)[e].seconds, (*all)[rival].seconds, (*all)[count + rival].seconds);
      const bool engine = rival < engines.size();
      recorder.add(
          {name, ours, (*all)[rival].name, result, asked ? (engine ? 1 : kAskedShare) : 0});
    }
    recorder.add(measure::Figure{name + ", " + ours, "GFLOP/s",
                                 measure::estimate((*all)[e].seconds).as_rate(gflop)});
  }
  return Done{};
}

}  // namespace

Status bench_matmul(const Options& options, Recorder& recorder) {
  const Result<Engines> engines = engines_named(kCpuEngines, recorder);
  if (!engines) return engines.error();
  recorder.add_version("onednn", OneDnnMatmul::version());
  if (OpenBlas::missing().empty())
    recorder.add_version("openblas", OpenBlas::version());
  else
    recorder.add_note("OpenBLAS is left out: " + OpenBlas::missing());
  for (const MatmulShape& shape : kShapes) {
    if (options.quick && shape.m * shape.k > 512 * 512) continue;
    for (const int threads : {1, 2}) {
      const Status status = compare_shape(*engines, shape, threads, options, recorder);
      if (!status) return status;
    }
  }
  return Done{};
}

}  // namespace trek::bench
