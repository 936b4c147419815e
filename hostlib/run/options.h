// trek-run's command line, read and checked for form; what it names is checked against the module later.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "emulator/engine.h"

namespace trek::run {

inline constexpr int kExitDone = 0;
inline constexpr int kExitUsage = 1;
inline constexpr int kExitInvalid = 2;
inline constexpr int kExitTrap = 3;
inline constexpr int kExitNoEngine = 4;
inline constexpr int kExitNoOutput = 5;

// Others execute tiles, several at a time, and have no times of single instructions.
inline constexpr const char* kTracingEngine = "ref";
inline constexpr const char* kDeviceHere = "here";  // that of the engine

struct Assignment {  // NAME=VALUE
  std::string name;
  std::string value;
};

struct Options {
  std::string file;
  std::vector<std::string> include_dirs;
  std::vector<Assignment> defines;

  std::string engine;  // empty: the default
  NumericsMode numerics = NumericsMode::strict;
  int threads = 0;
  uint64_t seed = 0;
  uint64_t limit_instructions = 0;
  uint64_t limit_memory = 0;

  std::vector<Assignment> inputs;
  std::vector<Assignment> settings;
  std::vector<Assignment> outputs;
  std::string state;
  std::string save;
  std::string json;
  std::string trace;

  bool digest = false;
  bool profile = false;
  bool quiet = false;
  bool test = false;
  bool tune = false;
  bool list_engines = false;
  std::string dump;                  // plan, fusion, or nothing
  std::string device = "generic";    // or kDeviceHere
  std::vector<std::string> command;  // as typed
};

// The options, or the exit code where the command line was wrong or asked for help or the version;
// what there is to say about that has been printed.
std::variant<Options, int> parse_options(int argc, char** argv);

}  // namespace trek::run
