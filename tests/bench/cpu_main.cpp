// bench-cpu: the benchmarks that need no GPU. `make bench` runs all of them.
//
//   bench-cpu [matmul] [chain] [training] [assembler] [--python PYTHON] [--json FILE] [--rounds N] [--quick]
#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "emulator/measure/exit_codes.h"
#include "tests/bench/bench.h"

namespace trek::bench {
namespace {

using measure::kDone;
using measure::kFailed;
using measure::kNotWritten;
using measure::kWrongUsage;

struct Benchmark {
  std::string name;
  Status (*run)(const Options& options, Recorder& recorder);
};
const Benchmark kBenchmarks[] = {{"matmul", bench_matmul},
                                 {"chain", bench_chain},
                                 {"training", bench_training},
                                 {"assembler", bench_assembler}};

int run_chosen(const std::vector<std::string>& names, const Options& options, Recorder& recorder) {
  for (const Benchmark& benchmark : kBenchmarks) {
    const bool chosen =
        names.empty() || std::find(names.begin(), names.end(), benchmark.name) != names.end();
    if (!chosen) continue;
    if (const Status status = benchmark.run(options, recorder); !status) {
      fmt::print(stderr, "bench-cpu: {}\n", status.error().text());
      return kFailed;
    }
  }
  return kDone;
}

int run(int argc, const char* const* argv) {
  CLI::App app("Trek against the native yardsticks, as ratios in one run.", "bench-cpu");
  Options options;
  options.rounds.count = 15;
  options.rounds.seconds = 120;
  options.rounds.rest = 0.06;
  options.tools = TREK_TOOLS;
  std::vector<std::string> names;
  std::string json;
  app.add_option("benchmark", names, "Which ones; all if none is named")
      ->check(CLI::IsMember({"matmul", "chain", "training", "assembler"}));
  app.add_option("--python", options.python, "The interpreter that has PyTorch");
  app.add_option("--json", json, "Write the report there");
  app.add_option("--rounds", options.rounds.count, "Samples of each contender, at most")
      ->check(CLI::Range(measure::kLeastRounds, 100000));
  app.add_flag("--quick", options.quick, "Small sizes: check that it works");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUsage;
  }
  if (const measure::Load load = measure::machine_load(); load.busy()) {
    fmt::print(
        stderr,
        "bench-cpu: this machine is busy ({:.1f} programs run on {} processors): what follows "
        "is no measure of either side\n",
        load.running, load.processors);
  }
  Report report;
  report.setting = measure::describe_setting("bench-cpu", argc, argv);
  Recorder recorder(report, json);
  if (const int code = run_chosen(names, options, recorder); code != kDone) return code;
  if (const Status saved = recorder.save(); !saved) {
    fmt::print(stderr, "bench-cpu: {}\n", saved.error().text());
    return kNotWritten;
  }
  return kDone;
}

}  // namespace
}  // namespace trek::bench

int main(int argc, char** argv) { return trek::bench::run(argc, argv); }
