// Work that is bound by memory, over arrays far larger than the cache: how near it comes to the bandwidth that a
// plain addition reaches in the same run. A program that passes over memory once is a trip; bytes are those that have
// to be moved, so a program that passes twice shows half the bandwidth.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "emulator/measure/rivals.h"
#include "tests/bench/gpu_bench.h"

namespace trek::bench {
namespace {

constexpr double kAskedShare = 0.9;

using Floats = std::vector<float>;
// The result of a row in f64, from the tensors named in `operands`, each of as many rows or of one.
using Exact = void (*)(const std::vector<Floats>& operands, size_t row, std::span<double> result);

struct RowWork {
  const char* program;
  const char* title;
  uint64_t rows;
  uint64_t columns;
  int arrays;  // of rows x columns elements that are read or written
  std::vector<std::string> operands;
  std::string result;
  double least;  // what errors are relative to where results are smaller
  Exact exact;
};
constexpr double kTolerance = 2e-6;

double at(const Floats& values, size_t row, std::span<double> result, size_t column) {
  return static_cast<double>(values[row * result.size() + column]);
}

void exact_softmax(const std::vector<Floats>& operands, size_t row, std::span<double> result) {
  double most = at(operands[0], row, result, 0);
  for (size_t i = 1; i < result.size(); ++i) most = std::max(most, at(operands[0], row, result, i));
  double sum = 0;
  for (size_t i = 0; i < result.size(); ++i)
    sum += result[i] = std::exp(at(operands[0], row, result, i) - most);
  for (double& each : result) each /= sum;
}

void exact_layer_norm(const std::vector<Floats>& operands, size_t row, std::span<double> result) {
  const auto count = static_cast<double>(result.size());
  double sum = 0;
  for (size_t i = 0; i < result.size(); ++i) sum += result[i] = at(operands[0], row, result, i);
  double squares = 0;
  for (double& each : result) {
    each -= sum / count;
    squares += each * each;
  }
  const double factor = 1 / std::sqrt(squares / count + 1e-5);
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = result[i] * factor * at(operands[1], 0, result, i) + at(operands[2], 0, result, i);
}

double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

void exact_gelu(const std::vector<Floats>& operands, size_t row, std::span<double> result) {
  for (size_t i = 0; i < result.size(); ++i) result[i] = gelu(at(operands[0], row, result, i));
}

void exact_gelu_residual(const std::vector<Floats>& operands, size_t row,
                         std::span<double> result) {
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = gelu(at(operands[0], row, result, i) + at(operands[1], 0, result, i)) +
                at(operands[2], row, result, i);
}

// The gradient of the mean loss.
void exact_cross_entropy(const std::vector<Floats>& operands, size_t row,
                         std::span<double> result) {
  exact_softmax(operands, row, result);
  result[row % result.size()] -= 1;
  const size_t rows = operands[0].size() / result.size();
  for (double& each : result) each /= static_cast<double>(rows);
}

// The weights after the first step, with moments of zero before it.
void exact_adam(const std::vector<Floats>& operands, size_t row, std::span<double> result) {
  for (size_t i = 0; i < result.size(); ++i) {
    const double g = at(operands[1], row, result, i);
    result[i] = at(operands[0], row, result, i) - 1e-3 * g / (std::abs(g) + 1e-8);
  }
}

const RowWork kWorks[] = {{"softmax", "softmax", 16384, 4096, 2, {"x"}, "y", 1e-10, exact_softmax},
                          {"layer_norm",
                           "layer norm as a composition",
                           16384,
                           4096,
                           2,
                           {"x", "scale", "shift"},
                           "y",
                           1,
                           exact_layer_norm},
                          {"gelu", "gelu", 16384, 4096, 2, {"x"}, "y", 0.01, exact_gelu},
                          {"gelu_residual",
                           "bias, gelu and residual",
                           16384,
                           4096,
                           3,
                           {"x", "bias", "residual"},
                           "y",
                           1,
                           exact_gelu_residual},
                          {"cross_entropy",
                           "cross-entropy with its gradient",
                           16384,
                           4096,
                           2,
                           {"x"},
                           "dx",
                           1e-12,
                           exact_cross_entropy},
                          {"adam", "Adam", 124000, 1000, 7, {"w", "g"}, "w", 1, exact_adam}};

Result<Floats> read_floats(BenchProgram& program, const std::string& tensor) {
  const Result<std::vector<std::byte>> bytes = program.read(tensor);
  if (!bytes) return bytes.error();
  Floats values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

// The largest error of all rows, relative to the exact result or `least`; NaN where there is one.
double worst_error(const RowWork& work, uint64_t columns, const std::vector<Floats>& operands,
                   const Floats& found) {
  const size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<double> worst(threads, 0);
  std::vector<std::thread> all;
  for (size_t t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      std::vector<double> exact(columns);
      for (size_t row = t; row < found.size() / columns; row += threads) {
        work.exact(operands, row, exact);
        for (size_t i = 0; i < columns; ++i) {
          const double error = std::abs(static_cast<double>(found[row * columns + i]) - exact[i]) /
                               (std::abs(exact[i]) + work.least);
          if (!(error <= worst[t])) worst[t] = error;
        }
      }
    });
  for (std::thread& thread : all) thread.join();
  double result = 0;
  for (const double each : worst)
    if (!(each <= result)) result = each;
  return result;
}

// The first trip of the first side against f64, all elements; the others leave the same bytes.
Status check(const RowWork& work, uint64_t columns, std::vector<Side>& sides) {
  std::vector<Floats> operands;
  for (const std::string& name : work.operands) {
    Result<Floats> values = read_floats(*sides.front().program, name);
    if (!values) return values.error();
    operands.push_back(values.take());
  }
  Floats first;
  for (Side& side : sides) {
    if (Status ran = side.program->run(1); !ran) return ran;
    Result<Floats> found = read_floats(*side.program, work.result);
    if (!found) return found.error();
    if (first.empty()) {
      first = found.take();
    } else if (std::memcmp(first.data(), found->data(), first.size() * sizeof(float)) != 0) {
      return measure::wrong(fmt::format("{} on {}", work.title, side.name),
                            "other bits than on " + sides.front().name);
    }
  }
  const double error = worst_error(work, columns, operands, first);
  if (!(error <= kTolerance))
    return measure::wrong(fmt::format("{} on {}", work.title, sides.front().name),
                          fmt::format("an element is {:.2g} from f64", error));
  fmt::print("{}: all elements are within {:.1e} of f64, on {} engines\n", work.title, error,
             sides.size());
  return Done{};
}

// An addition that moves as many bytes as the work does.
measure::Contender scaled(measure::Contender addition, double factor) {
  return {addition.name, [sample = std::move(addition.sample), factor]() -> Result<double> {
            const Result<double> seconds = sample();
            if (!seconds) return seconds.error();
            return *seconds * factor;
          }};
}

Status bench_work(GpuBench& bench, const RowWork& work, measure::Additions* additions) {
  const bool small = bench.options.quick || bench.options.check;
  const uint64_t rows = small ? 24 : work.rows;
  const uint64_t columns = small ? 1500 : work.columns;
  Defines defines = {{"ROWS", std::to_string(rows)}, {"COLUMNS", std::to_string(columns)}};
  constexpr NumericsMode kStrict[] = {NumericsMode::strict};
  Result<std::vector<Side>> sides = open_sides(bench, work.program, defines, kStrict);
  if (!sides) return sides.error();
  if (Status right = check(work, columns, *sides); !right) return right;
  if (additions == nullptr) return Done{};

  const auto bytes = static_cast<double>(rows * columns * sizeof(float)) * work.arrays;
  std::vector<measure::Contender> contenders;
  for (Side& side : *sides) {
    const Result<int> trips = side.program->trips_lasting(small ? 0 : 0.03);
    if (!trips) return trips.error();
    contenders.push_back(side.program->contender(side.name, *trips));
  }
  for (int i = 0; i < 2; ++i)  // the second for the A/A band
    contenders.push_back(scaled(additions->contender("as many bytes by a plain add", 10),
                                bytes / static_cast<double>(additions->bytes())));
  const Result<std::vector<measure::Series>> series =
      measure::measure_interleaved(contenders, bench.options.rounds);
  if (!series) return series.error();
  if (Status right = additions->check(); !right) return right;
  const size_t native = sides->size();
  const std::string title = fmt::format("{}, f32[{},{}]", work.title, rows, columns);
  for (size_t i = 0; i < native; ++i) {
    const measure::Comparison result = measure::compare(
        (*series)[i].seconds, (*series)[native].seconds, (*series)[native + 1].seconds);
    bench.recorder.add({title, (*series)[i].name, (*series)[native].name, result, kAskedShare});
    bench.recorder.add(measure::Figure{fmt::format("{}, {}", title, (*series)[i].name), "GB/s",
                                       result.ours.as_rate(bytes * 1e-9)});
  }
  return Done{};
}

}  // namespace

Status bench_rows(GpuBench& bench) {
  std::optional<measure::Additions> additions;
  if (!bench.options.check) {
    const uint64_t elements = uint64_t{1} << (bench.options.quick ? 20 : 28);
    Result<measure::Additions> made = measure::Additions::create(*bench.natives.device, elements);
    if (!made) return made.error();
    additions = made.take();
  }
  for (const RowWork& work : kWorks) {
    const Status done = bench_work(bench, work, additions ? &*additions : nullptr);
    if (!done) return done;
  }
  return Done{};
}

}  // namespace trek::bench
