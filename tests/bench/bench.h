// The benchmarks that need no GPU: each adds its comparisons and figures to one report, which is the
// evidence of a run (tests/bench/results). Ratios are rival ÷ ours of one run, interleaved.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "emulator/engine.h"
#include "emulator/measure/report.h"

namespace trek::bench {

using measure::Done;
using measure::Error;
using measure::Report;
using measure::Result;
using measure::Status;

struct Options {
  bool quick = false;  // small: that it works, no figures
  measure::Rounds rounds;
  std::string tools;  // the folder of trek-as and trek-dis
};

// Adds to a report, and says what came out as it comes.
class Recorder {
 public:
  explicit Recorder(Report& report) : report_(report) {}
  void add(measure::Figure figure);
  void add(measure::NamedComparison comparison);
  void add_version(const std::string& what, const std::string& version);

 private:
  Report& report_;
};

// f32 strict matrix products of the ref engine against oneDNN's, on 1 and 2 threads.
Status bench_matmul(const Options& options, Recorder& recorder);
// trek-as and trek-dis against spirv-as and spirv-dis on as many instructions.
Status bench_assembler(const Options& options, Recorder& recorder);
// Images per second of the MLP of samples/, on 1 and 2 threads.
Status bench_training(const Options& options, Recorder& recorder);

// A problem of Trek's as an error of the harness.
Error to_error(const std::string& doing, const isa::Problems& problems);
// The CPU reference, or why there is none.
Result<std::unique_ptr<Engine>> reference_engine();

}  // namespace trek::bench
