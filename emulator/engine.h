// The contract between a host and an engine: load, bind, run, read, trap, counters.
//
// An Engine is a way of executing modules (ref, resident, jit, native); a Program is a loaded module
// with its memory. The contract is the same for all, so that one conformance file, one profiler and one
// command line serve every engine:
//   - load() takes a module that isa::verify() accepted, and gives every tensor its initial bytes;
//   - bind() sets the bytes of an input or state, set() a parameter, before a run;
//   - run() executes `main` from its beginning to its end, a trap, a limit or a stop request; it may be
//     called again, and state goes on from where it was;
//   - read() gives the bytes of any module tensor between runs.
// Errors of the host's making (a wrong size, no such tensor) are Problems; guest faults are a Trap.
// Bytes are little-endian elements in row-major order without padding; bool is one byte, 0 or 1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/module.h"
#include "isa/result.h"

namespace trek::plan {
struct Device;
class MeasuredTiles;
}  // namespace trek::plan

namespace trek {

enum class NumericsMode : uint8_t { strict, fast };
inline std::string_view name(NumericsMode numerics) {
  return numerics == NumericsMode::strict ? "strict" : "fast";
}

// A value that a program hands to its host: a scalar, or a tensor's bytes.
struct Emitted {
  std::string_view name;
  isa::Type type;
  std::span<const std::byte> bytes;
};

// What a stream gives when the program asks for its next block: true and the block's bytes written into
// `block`, or false at the end (block is then left alone).
using StreamSource = std::function<bool(std::span<std::byte> block)>;

struct LoadOptions {
  NumericsMode numerics = NumericsMode::strict;
  int threads = 0;    // 0: as many as the machine has
  uint64_t seed = 0;  // mixed into the keys of random instructions; 0 leaves them as written
  uint64_t memory_limit = 0;  // bytes for tensors and registers; 0: what the machine has
  // Bytes of an external tensor, which the host has read and checked.
  std::function<isa::Result<std::vector<std::byte>>(const isa::TensorDecl&)> external;
  // Tiles that were measured on Engine::device(), which it takes before those of its cost model; may be null.
  std::shared_ptr<const plan::MeasuredTiles> tiles;
  // Looked at while code is made; once it is true, load() fails with a problem. May be null.
  const std::atomic<bool>* stop = nullptr;
};

struct RunOptions {
  std::function<void(const Emitted&)> emit;  // called on the thread that runs; may be empty
  const std::atomic<bool>* stop = nullptr;   // looked at where a run begins and at back-edges
  uint64_t instruction_limit = 0;            // dynamic instructions; 0: none
  bool profile = false;                      // fill Counters::per_instruction
  // Called after each instruction with its place and times (ns since the run began); may be empty.
  std::function<void(uint32_t function, uint32_t instruction, uint64_t begin, uint64_t end)> trace;
  // Called as a `loop` of one of the two outermost levels (0 or 1, counted through calls) begins, with
  // done = 0, and after each of its trips; may be empty.
  std::function<void(int level, uint64_t done, uint64_t trips)> progress;
};

// A place in a module. `function` is an index into Module::functions, or kInitFunction.
inline constexpr uint32_t kInitFunction = UINT32_MAX;
struct Place {
  uint32_t function = 0;
  uint32_t instruction = 0;
};

// A guest fault: the same on every engine.
struct Trap {
  isa::TrapCode code = isa::TrapCode::None;
  Place place;
  std::vector<Place> callers;  // innermost first
  int64_t element = -1;        // the row-major index of the offending element, or -1
  std::string detail;          // "index 12 is outside axis 0 of size 10"
};

enum class Outcome : uint8_t { done, trapped, limit, stopped };

struct RunResult {
  Outcome outcome = Outcome::done;
  std::optional<Trap> trap;  // when trapped
  Place place;               // where a limit or a stop took effect
  std::string detail;        // of a limit: which, and how much was allowed
};

// What was executed. Costs are those of the rows of ops.def (isa/cost.h).
struct InstructionCounters {
  Place place;
  uint64_t calls = 0;
  uint64_t nanoseconds = 0;
  uint64_t flops = 0;
  uint64_t bytes = 0;
};
// What load() did, in order, and how long each took.
struct LoadPhase {
  std::string_view name;
  uint64_t nanoseconds = 0;
};
// What was executed in one way, by all runs together. A trip is a back-edge that was taken.
struct Stage {
  uint64_t runs = 0;  // that ended in this way
  uint64_t nanoseconds = 0;
  uint64_t trips = 0;
};
// Of an engine that compiles: what that took, and what it gave.
struct CompileCounters {
  bool compiles = false;        // else nothing of this is said
  bool begins_without = false;  // runs need not wait for it
  uint64_t nanoseconds = 0;     // of compiling; 0 while it goes on
  std::string failure;          // why there is no code
  uint64_t first_run = 0;       // nanoseconds of load() and of the first run() together
  Stage interpreted;
  Stage compiled;
};
// Of an engine that cuts products into tiles.
struct TileCounters {
  uint64_t products = 0;  // of the program
  uint64_t measured = 0;  // those whose tiles were measured: LoadOptions::tiles
};
struct Counters {
  uint64_t instructions = 0;                         // dynamic, since load
  uint64_t nanoseconds = 0;                          // in run(), since load
  uint64_t memory_bytes = 0;                         // tensors and registers, at most at one time
  std::vector<InstructionCounters> per_instruction;  // executed ones, in program order
  std::vector<LoadPhase> load;                       // empty where an engine does not say
  CompileCounters compiling;
  TileCounters tiles;
};

class Program {
 public:
  virtual ~Program() = default;
  virtual const isa::Module& module() const = 0;
  // `tensor` is an index into Module::tensors of role input or state; bytes are of its type's size.
  virtual isa::Problems bind(uint32_t tensor, std::span<const std::byte> bytes) = 0;
  virtual isa::Problems bind_stream(uint32_t tensor, StreamSource source) = 0;
  // Sets Module::params[param]; bits as in isa::Constant.
  virtual void set(uint32_t param, uint64_t bits) = 0;
  virtual RunResult run(const RunOptions& options) = 0;
  // The bytes of a module tensor; valid until the next call on this program.
  virtual std::span<const std::byte> read(uint32_t tensor) = 0;
  virtual const Counters& counters() const = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string_view name() const = 0;
  virtual std::string description() const = 0;  // device, instruction sets, threads: one line
  // Whether it still compiles what nobody may want any more. Destroying it waits for that; who ends the process need
  // not destroy it.
  virtual bool is_busy() const { return false; }
  // What load() with such options cuts work into tiles for (emulator/plan/plan.h), opened if it must be; null where an
  // engine has no tiles.
  virtual isa::Result<std::shared_ptr<const plan::Device>> device(const LoadOptions& /*options*/) {
    return std::shared_ptr<const plan::Device>();
  }
  // The module must outlive the program. Fails with problems: out of memory, external data.
  // A trap while initialisers run is a problem too.
  virtual isa::Result<std::unique_ptr<Program>> load(const isa::Module& module,
                                                     const LoadOptions& options) = 0;
};

// Whether an engine can run here, and if not why, in one line.
struct EngineStatus {
  std::string name;
  bool available = false;
  std::string detail;
  bool on_gpu = false;  // where it can run
};

}  // namespace trek
