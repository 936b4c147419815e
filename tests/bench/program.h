// A program of tests/bench/programs/, or a text, on an engine: loaded once and timed by its launches.
//
// What one trip of its outermost loop does is one unit of work; the parameter $trips says how many a run makes.
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
  using Tiles = std::shared_ptr<const plan::MeasuredTiles>;  // LoadOptions::tiles
  // The program `name` of the folder.
  static Result<std::unique_ptr<BenchProgram>> open(Engine& engine, const std::string& folder,
                                                    const std::string& name, NumericsMode numerics,
                                                    Defines defines);
  static Result<std::unique_ptr<BenchProgram>> from_text(Engine& engine, const std::string& name,
                                                         const std::string& text,
                                                         NumericsMode numerics, Tiles tiles = {});

  // One run from beginning to end. State goes on from where it was.
  Status run(int trips);
  // Seconds of one trip: those of a run, launch and return included, by the number of trips. A run of one trip comes before
  // it, and is not counted. The program must outlive it.
  measure::Contender contender(std::string name, int trips);
  // As many trips as make a run last so long, however fast it is, so that a launch's ends do not count. Begins
  // with few, whose launch may be nearly all ends.
  Result<int> trips_lasting(double seconds);

  const isa::Module& module() const { return file_.module; }
  // Seconds from the module to the loaded program: linking, compiling, uploading, initialising.
  double load_seconds() const { return load_seconds_; }
  // The bytes of a state tensor. The name is one of the program's.
  Result<std::vector<std::byte>> read(const std::string& tensor);
  Status save_state(const std::string& file);
  // Of all state tensors together.
  uint64_t state_bytes() const;

 private:
  BenchProgram(ModuleFile file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}
  static Result<std::unique_ptr<BenchProgram>> load(Engine& engine, ModuleFile file,
                                                    const std::string& name, NumericsMode numerics,
                                                    Tiles tiles);
  Status set_trips(int trips);
  Status run();  // as many trips as are set
  ModuleFile file_;
  std::string name_;
  double load_seconds_ = 0;
  std::unique_ptr<Session> session_;
};

}  // namespace trek::bench
