// A program of tests/bench/programs/ on an engine, loaded once and timed by its launches.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "emulator/measure/harness.h"
#include "hostlib/session.h"
#include "tests/bench/bench.h"

namespace trek::bench {

// Constants of a program that are not as its file says: -D of trek-run.
using Defines = std::vector<std::pair<std::string, std::string>>;

class BenchProgram {
 public:
  // The program `name` of the folder; its loop makes `trips` trips in a run (the constant TRIPS).
  static Result<std::unique_ptr<BenchProgram>> open(Engine& engine, const std::string& folder,
                                                    const std::string& name, int trips,
                                                    NumericsMode numerics, Defines defines);

  // One run from beginning to end. State goes on from where it was.
  Status run();
  // Seconds of one trip: those of a run, launch and return included, by the number of trips.
  measure::Contender contender(std::string name);

  // The bytes of a state tensor. The name is one of the program's.
  Result<std::vector<std::byte>> read(const std::string& tensor);
  Status save_state(const std::string& file);
  // Of all state tensors together.
  uint64_t state_bytes() const;

 private:
  BenchProgram(ModuleFile file, std::string name, int trips)
      : file_(std::move(file)), name_(std::move(name)), trips_(trips) {}
  ModuleFile file_;
  std::string name_;
  int trips_;
  std::unique_ptr<Session> session_;
};

}  // namespace trek::bench
