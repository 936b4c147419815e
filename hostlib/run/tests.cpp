// trek-run --test: the tests that the file carries, one line each, and how many passed.
#include <string>

#include <fmt/format.h>

#include "hostlib/embedded_tests.h"
#include "hostlib/run/interrupt.h"
#include "hostlib/run/output.h"
#include "hostlib/run/program.h"

namespace trek::run {

int run_tests(const Options& options, const ModuleFile& file, Engine& engine) {
  const isa::Module& module = file.module;
  if (module.tests.empty()) {
    print_error(fmt::format("trek-run: {} has no tests\n", options.file));
    return kExitInvalid;
  }
  const std::atomic<bool>& stop = stop_on_signals();
  RunOptions run;
  run.stop = &stop;
  run.instruction_limit = options.limit_instructions;
  LoadOptions load = load_options(options);
  load.stop = &stop;
  size_t failed = 0;
  size_t done = 0;
  for (; done < module.tests.size() && !stop; ++done) {
    const TestReport report = run_test(file, static_cast<uint32_t>(done), engine, load, run);
    if (stop) break;
    if (!report.failures.empty()) ++failed;
    if (!options.quiet || !report.failures.empty())
      print_out(fmt::format("{} {}\n", report.failures.empty() ? "pass" : "FAIL", report.name));
    for (const std::string& failure : report.failures) print_out(fmt::format("     {}\n", failure));
  }
  print_out(fmt::format("{} passed, {} failed\n", done - failed, failed));
  if (stop) return kExitInterrupted;
  if (failed > 0) return kExitTrap;
  return printed();
}

}  // namespace trek::run
