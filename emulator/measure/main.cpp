// trek-measure: what this machine can do at most, with intervals, as text and JSON.
//
//   trek-measure devices              the GPUs that are there, and why one is not used
//   trek-measure ceilings [options]   copy, add, matmul, barrier, launch on one of them
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "emulator/driver/cuda.h"
#include "emulator/driver/support.h"
#include "emulator/measure/ceilings.h"
#include "emulator/measure/exit_codes.h"

namespace trek::measure {
namespace {

struct Arguments {
  int device = 0;
  int rounds = 30;
  bool quick = false;
  std::string only;
  std::string json;
};

int fail(int code, const Error& error) {
  fmt::print(stderr, "trek-measure: {}\n", error.text());
  return code;
}

int list_devices() {
  const driver::GpuSupport support = driver::describe_gpu_support();
  for (const std::string& line : support.lines) fmt::print("{}\n", line);
  return support.available ? kDone : kNotAvailable;
}

int run_ceilings(const Arguments& arguments, int argc, const char* const* argv) {
  const Result<driver::Cuda> cuda = driver::Cuda::load();
  if (!cuda) return fail(kNotAvailable, cuda.error());
  const Result<driver::Context> context = driver::Context::open(*cuda, arguments.device);
  if (!context) return fail(kNotAvailable, context.error());
  fmt::print("{}\n", context->device().text());

  CeilingOptions options;
  options.rounds.count = arguments.rounds;
  options.quick = arguments.quick;
  options.only = arguments.only;
  options.on_figure = [](const Figure& figure) {
    fmt::print("{}\n", text(figure));
    std::fflush(stdout);
  };
  Result<Ceilings> ceilings = measure_ceilings(*context, options);
  if (!ceilings) return fail(kFailed, ceilings.error());
  for (const std::string& note : ceilings->notes) fmt::print("not measured: {}\n", note);

  if (arguments.json.empty()) return kDone;
  Report report;
  report.setting = describe_setting("trek-measure", argc, argv);
  report.setting.hardware.emplace_back("gpu", context->device().text());
  report.setting.versions = ceilings->versions;
  report.setting.versions.emplace_back("cuda_driver", cuda->version().text());
  report.setting.versions.emplace_back("nvidia_driver", driver::nvidia_driver_version());
  report.figures = ceilings->figures;
  if (Status written = write_file(arguments.json, to_json(report)); !written) {
    return fail(kNotWritten, written.error());
  }
  return kDone;
}

int run(int argc, const char* const* argv) {
  CLI::App app("What this machine can do at most: medians with 95 % intervals.", "trek-measure");
  app.require_subcommand(1);
  Arguments arguments;
  CLI::App* devices = app.add_subcommand("devices", "List the GPUs, and why one is not used");
  CLI::App* ceilings = app.add_subcommand("ceilings", "Measure the ceilings of one GPU");
  ceilings->add_option("--device", arguments.device, "Which GPU, counted from 0")
      ->check(CLI::NonNegativeNumber);
  ceilings->add_option("--rounds", arguments.rounds, "Samples of each figure")
      ->check(CLI::Range(kLeastRounds, 100000));
  ceilings->add_flag("--quick", arguments.quick, "Small sizes: check that it works");
  ceilings->add_option("--only", arguments.only, "One group")
      ->check(CLI::IsMember(ceiling_groups()));
  ceilings->add_option("--json", arguments.json, "Write the report there");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUsage;
  }
  if (devices->parsed()) return list_devices();
  return run_ceilings(arguments, argc, argv);
}

}  // namespace
}  // namespace trek::measure

int main(int argc, char** argv) { return trek::measure::run(argc, argv); }
