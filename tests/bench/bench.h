// What the benchmarks share. Each adds its comparisons and figures to one report, which is the evidence of
// a run (tests/bench/results). Ratios are rival ÷ ours of one run, interleaved.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
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
  std::string tools;                        // the folder of trek-as and trek-dis
  std::string python = "/usr/bin/python3";  // one that may have PyTorch
  std::string script = "tests/bench/pytorch_rivals.py";
};

// Adds to a report, and says what came out as it comes.
class Recorder {
 public:
  // `file` is where the report goes; "" for nowhere.
  Recorder(Report& report, std::string file) : report_(report), file_(std::move(file)) {}
  void add(measure::Figure figure);
  void add(measure::NamedComparison comparison);
  void add_version(const std::string& what, const std::string& version);
  void add_hardware(const std::string& what, const std::string& description);
  // What could not be measured, and why.
  void add_note(std::string note);
  // Writes what there is so far.
  Status save() const;

 private:
  Report& report_;
  std::string file_;
};

// Those of the named engines that run here; the absence of one is a note, and of all an error.
using Engines = std::vector<std::unique_ptr<Engine>>;
Result<Engines> engines_named(const std::vector<std::string>& names, Recorder& recorder);

inline const std::vector<std::string> kCpuEngines = {"jit", "ref"};

// Those that need no GPU (bench-cpu): f32 strict matrix products on jit and ref against oneDNN's and OpenBLAS's, on 1
// and 2 threads.
Status bench_matmul(const Options& options, Recorder& recorder);
// trek-as and trek-dis against spirv-as and spirv-dis on as many instructions.
Status bench_assembler(const Options& options, Recorder& recorder);
// A fused chain of pointwise instructions against a copy.
Status bench_chain(const Options& options, Recorder& recorder);
// Images per second of the MLP of samples/ on jit and ref, on 1 and 2 threads, against PyTorch.
Status bench_training(const Options& options, Recorder& recorder);

// A problem of Trek's as an error of the harness.
Error to_error(const std::string& doing, const isa::Problems& problems);

// A folder that is removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  bool ok() const { return !path_.empty(); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace trek::bench
