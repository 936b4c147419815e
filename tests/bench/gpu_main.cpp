// bench-gpu: the figures of the engines on a GPU, beside what is native there. `gpu.sh` runs it.
//
//   bench-gpu [BENCHMARK]... [--engine ENGINE]... [--json FILE] [--rounds N] [--python PYTHON] [--form FORM]...
//             [--quick] [--check]
//
// `--check` only compares results, on any engine: `bench-gpu --check --engine ref`.
#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "emulator/driver/cuda.h"
#include "emulator/driver/support.h"
#include "emulator/measure/ceilings.h"
#include "emulator/measure/exit_codes.h"
#include "tests/bench/gpu_bench.h"

namespace trek::bench {
namespace {

using measure::kDone;
using measure::kFailed;
using measure::kNotAvailable;
using measure::kNotWritten;
using measure::kWrongUsage;

struct Benchmark {
  std::string name;
  Status (*run)(GpuBench& bench);
};
const Benchmark kBenchmarks[] = {
    {"chains", bench_chains},           {"product_bf16", bench_product_bf16},
    {"product_f32", bench_product_f32}, {"rows", bench_rows},
    {"mlp_step", bench_mlp_step},       {"mlp_step_4096", bench_mlp_step_4096},
    {"mlp_forward", bench_mlp_forward}, {"lstm", bench_lstm},
    {"gpt2_token", bench_gpt2_token},   {"gemm_bf16", bench_gemm_bf16},
    {"gemm_f16", bench_gemm_f16},       {"gemm_f32", bench_gemm_f32},
    {"gemm_tf32", bench_gemm_tf32},     {"gemm_tuned", bench_gemm_tuned}};

int fail(int code, const Error& error) {
  fmt::print(stderr, "bench-gpu: {}\n", error.text());
  return code;
}

// PyTorch with what it says of itself; without it, a note.
Status greet_pytorch(const GpuOptions& options, Natives& natives, Recorder& recorder) {
  const Result<nlohmann::json> hello = natives.pytorch->ask({{"do", "hello"}}, 120);
  std::string missing;
  if (!hello) {
    missing = hello.error().text();
  } else if (hello->contains("missing")) {
    missing = hello->value("missing", "");
  } else if (!options.check && !hello->value("cuda", false)) {
    missing = "PyTorch sees no GPU";
  }
  if (!missing.empty()) {
    recorder.add_note(fmt::format(
        "PyTorch: {}. The networks are measured without their rivals, and not checked", missing));
    natives.pytorch = nullptr;
    return Done{};
  }
  const nlohmann::json versions = hello->value("versions", nlohmann::json::object());
  for (const auto& [what, version] : versions.items())
    recorder.add_version(what, version.get<std::string>());
  return Done{};
}

// Copying first: what a share of bandwidth is a share of.
Status measure_copy(const driver::Context& context, const GpuOptions& options, Natives& natives,
                    Recorder& recorder) {
  measure::CeilingOptions ceilings;
  ceilings.rounds = options.rounds;
  ceilings.quick = options.quick;
  ceilings.only = "copy";
  const Result<measure::Ceilings> copies = measure::measure_ceilings(context, ceilings);
  if (!copies) return copies.error();
  for (const measure::Figure& figure : copies->figures) {
    recorder.add(figure);
    natives.copy_bytes = std::max(natives.copy_bytes, 1e9 * figure.value.median);
  }
  return Done{};
}

// The device, and cuBLAS on it.
Status find_natives(const driver::Context& context, const measure::CeilingOptions& ceilings,
                    Natives& natives, Recorder& recorder) {
  Result<measure::CeilingBench> device = measure::CeilingBench::create(context, ceilings);
  if (!device) return device.error();
  natives.device = device.take();
  Result<driver::Cublas> cublas = driver::Cublas::create(context, natives.device->stream());
  if (!cublas) {
    recorder.add_note("products are measured without cuBLAS: " + cublas.error().text());
    return Done{};
  }
  recorder.add_version("cublas", cublas->version());
  natives.cublas = cublas.take();
  return Done{};
}

// Goes on after a benchmark that fails; the report notes it, and is saved after each.
int run_chosen(const std::vector<std::string>& names, GpuBench& bench) {
  int code = kDone;
  for (const Benchmark& benchmark : kBenchmarks) {
    const bool chosen =
        names.empty() || std::find(names.begin(), names.end(), benchmark.name) != names.end();
    if (!chosen) continue;
    if (const Status status = benchmark.run(bench); !status) {
      bench.recorder.add_note(fmt::format("{} failed: {}", benchmark.name, status.error().text()));
      code = kFailed;
    }
    if (const Status saved = bench.recorder.save(); !saved) return fail(kNotWritten, saved.error());
  }
  return code;
}

// Engines that have started: what the first program of a process waits for is no part of a first run. Compiled code
// that an earlier process kept is out of reach, so that every first run compiles.
Result<Engines> started(const std::vector<std::string>& names, Recorder& recorder) {
  Result<Engines> engines = engines_named(names, recorder);
  if (!engines) return engines;
  for (const std::unique_ptr<Engine>& engine : *engines) {
    Result<std::unique_ptr<BenchProgram>> program = BenchProgram::from_text(
        *engine, "start", ".trek 1.0\n.param $trips i64 = 1\n.func main() {\n}\n",
        NumericsMode::strict);
    if (!program) return program.error();
    if (Status ran = (*program)->run(1); !ran) return ran.error();
  }
  return engines;
}

int check_only(const GpuOptions& options, const std::vector<std::string>& names, Natives& natives,
               Recorder& recorder) {
  const Result<Engines> engines = started(options.engines, recorder);
  if (!engines) return fail(kNotAvailable, engines.error());
  natives.pytorch = std::make_unique<PyTorch>(options.python, options.script);
  if (Status greeted = greet_pytorch(options, natives, recorder); !greeted)
    return fail(kFailed, greeted.error());
  GpuBench bench = {options, *engines, natives, recorder};
  return run_chosen(names, bench);
}

int measure_all(const GpuOptions& options, const std::vector<std::string>& names, Natives& natives,
                Recorder& recorder) {
  const Result<driver::Cuda> cuda = driver::Cuda::load();
  if (!cuda) return fail(kNotAvailable, cuda.error());
  const Result<driver::Context> context = driver::Context::open(*cuda, 0);
  if (!context) return fail(kNotAvailable, context.error());
  const Result<Engines> engines = started(options.engines, recorder);
  if (!engines) return fail(kNotAvailable, engines.error());
  natives.pytorch = std::make_unique<PyTorch>(options.python, options.script);
  fmt::print("{}\n", context->device().text());
  recorder.add_hardware("gpu", context->device().text());
  recorder.add_version("cuda_driver", cuda->version().text());
  recorder.add_version("nvidia_driver", driver::nvidia_driver_version());

  const measure::CeilingOptions ceilings;  // the bench refers to them
  Status status = find_natives(*context, ceilings, natives, recorder);
  if (status) status = measure_copy(*context, options, natives, recorder);
  if (status) status = greet_pytorch(options, natives, recorder);
  if (!status) return fail(kFailed, status.error());
  GpuBench bench = {options, *engines, natives, recorder};
  const int code = run_chosen(names, bench);
  natives.cublas.reset();  // before what it works on
  natives.device.reset();
  return code;
}

int run(int argc, const char* const* argv) {
  CLI::App app("Engines on a GPU beside cuBLAS and PyTorch, as ratios in one run.", "bench-gpu");
  GpuOptions options;
  options.rounds.count = 15;
  options.rounds.seconds = 20;
  std::vector<std::string> known;
  for (const Benchmark& benchmark : kBenchmarks) known.push_back(benchmark.name);
  std::vector<std::string> names;
  std::string json;
  std::string kept_cubins;
  app.add_option("benchmark", names, "Which ones; all if none is named")
      ->check(CLI::IsMember(known));
  app.add_option("--json", json, "Write the report there");
  app.add_option("--engine", options.engines, "Ours; without it resident and jit");
  app.add_option("--programs", options.programs, "The folder of the programs");
  app.add_option("--python", options.python, "The interpreter that has PyTorch");
  app.add_option("--script", options.script, "What it runs");
  app.add_option("--form", options.forms, "Forms of PyTorch's; without it graph, eager and compile")
      ->check(CLI::IsMember({"graph", "compile", "autotune", "eager"}));
  app.add_option("--form-seconds", options.form_seconds, "Until a form is ready, at most")
      ->check(CLI::PositiveNumber);
  app.add_option("--numerics", options.numerics, "Of a network's only these; all if none is named")
      ->check(CLI::IsMember({"strict", "fast"}));
  app.add_option("--rounds", options.rounds.count, "Samples of each contender, at most")
      ->check(CLI::Range(measure::kLeastRounds, 100000));
  app.add_option("--seconds", options.rounds.seconds, "Of a benchmark's rounds, at most");
  app.add_option("--list", options.list,
                 "Of lists of products only those with this in their names");
  app.add_option("--shape", options.shapes,
                 "Of these products only those with one of these in their names");
  app.add_option(
      "--cubins", kept_cubins,
      "Keep compiled code there, and take it from there: what is said of first runs is then "
      "of compiled programs");
  app.add_flag("--quick", options.quick, "Small sizes: check that it works");
  app.add_flag("--check", options.check, "Only compare results, on any engine");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUsage;
  }
  const TemporaryFolder cubins;
  const std::string folder = kept_cubins.empty() ? cubins.file("cubins") : kept_cubins;
  setenv("TREK_CUBIN_CACHE", folder.c_str(), 1);
  Natives natives;
  Report report;
  report.setting = measure::describe_setting("bench-gpu", argc, argv);
  Recorder recorder(report, json);
  if (!kept_cubins.empty())
    recorder.add_note(
        "compiled code may have been kept from a run before: first runs are not measured");
  return options.check ? check_only(options, names, natives, recorder)
                       : measure_all(options, names, natives, recorder);
}

}  // namespace
}  // namespace trek::bench

int main(int argc, char** argv) { return trek::bench::run(argc, argv); }
