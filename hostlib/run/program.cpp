#include "hostlib/run/program.h"

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "assembler/diagnostics.h"
#include "hostlib/names.h"
#include "hostlib/run/console.h"
#include "hostlib/run/interrupt.h"
#include "hostlib/run/json_report.h"
#include "hostlib/run/output.h"
#include "hostlib/run/profile.h"
#include "hostlib/run/trace.h"
#include "hostlib/run/trap_report.h"
#include "hostlib/run/tune.h"
#include "hostlib/session.h"
#include "hostlib/writable.h"

namespace trek::run {
namespace {

using isa::Module;
using isa::Problems;
using isa::Role;

// A tensor and the file that it is to be written to.
struct Output {
  uint32_t tensor = 0;
  std::string file;
};

Problems bind_all(const Options& options, Bindings& bindings) {
  Problems problems;
  for (const Assignment& input : options.inputs)
    append(problems, bindings.bind_file(input.name, input.value));
  // An input that was given, though wrongly, would be listed a second time as one without data.
  if (problems.empty()) append(problems, bindings.unbound());
  for (const Assignment& setting : options.settings)
    append(problems, bindings.set(setting.name, setting.value));
  if (!options.state.empty()) append(problems, bindings.load_state(options.state));
  return problems;
}

Problems find_outputs(const Options& options, const Module& module, std::vector<Output>& outputs) {
  Problems problems;
  for (const Assignment& output : options.outputs) {
    const isa::Result<uint32_t> tensor =
        find_tensor(module, output.name, {Role::output, Role::state});
    if (tensor)
      outputs.push_back({*tensor, output.value});
    else
      append(problems, tensor.problems());
  }
  return problems;
}

Problems check_outputs(const Options& options) {
  Problems problems;
  const auto check = [&](const std::string& file) {
    if (!file.empty()) append(problems, check_writable(file));
  };
  for (const Assignment& output : options.outputs) check(output.value);
  check(options.save);
  check(options.json);
  check(options.trace);
  return problems;
}

// Who watches a run: the console always, the JSON report and the trace where they were asked for.
class Observers {
 public:
  Observers(const Options& options, const Module& module)
      : console_(Console::mode_of(options.quiet)), wants_history_(!options.json.empty()) {
    if (!options.trace.empty()) trace_.emplace(module);
  }

  Problems open(const Options& options) {
    return trace_ ? trace_->open(options.trace) : Problems{};
  }

  RunOptions run_options(const Options& options) {
    RunOptions run;
    run.stop = &stop_on_signals();
    run.instruction_limit = options.limit_instructions;
    run.profile = options.profile || !options.json.empty();
    run.emit = [this](const Emitted& value) { emitted(value); };
    run.progress = [this](int level, uint64_t done, uint64_t trips) {
      console_.progress(level, done, trips);
    };
    if (trace_) {
      trace_->begin();
      run.trace = [this](uint32_t function, uint32_t instruction, uint64_t begin, uint64_t end) {
        trace_->executed({function, instruction}, begin, end);
      };
    }
    return run;
  }

  void finish() { console_.finish(); }
  const EmittedHistory& history() const { return history_; }

  Problems close_trace(uint64_t instructions) {
    if (!trace_) return {};
    if (instructions > 0 && !trace_->has_instructions())
      print_error(fmt::format(
          "trek-run: warning: this engine has no times of single instructions, so the trace has "
          "none; --engine {} has\n",
          kTracingEngine));
    if (trace_->left_out() > 0)
      print_error(
          fmt::format("trek-run: the trace holds the first {} events; {} more were left out\n",
                      TraceWriter::kMaxEvents, trace_->left_out()));
    return trace_->close();
  }

 private:
  void emitted(const Emitted& value) {
    console_.emitted(value);
    if (wants_history_) history_.add(value);
    if (trace_) trace_->emitted(value);
  }

  Console console_;
  EmittedHistory history_;
  bool wants_history_;
  std::optional<TraceWriter> trace_;
};

void print_ending(const Module& module, const RunResult& result) {
  if (result.outcome == Outcome::trapped)
    print_error(trap_text(module, *result.trap));
  else if (result.outcome != Outcome::done)
    print_error(ending_text(module, result));
}

void print_digests(Session& session) {
  for (const TensorDigest& made : session.digests())
    print_out(
        fmt::format("{} {}\n", tensor_text(session.module(), made.tensor), made.digest.text()));
}

// Tensors and state are written unless the program trapped: what a faulty run left must not take the
// place of a good file. Reports are written in any case.
Problems deliver(const Options& options, Session& session, const RunResult& result,
                 const std::vector<Output>& outputs, const Engine& engine,
                 const std::optional<Tuning>& tuning, Observers& observers) {
  Problems problems;
  if (result.outcome != Outcome::trapped) {
    if (!options.save.empty()) append(problems, session.save_state(options.save));
    for (const Output& output : outputs)
      append(problems, session.write(output.tensor, output.file));
  }
  append(problems, observers.close_trace(session.counters().instructions));
  if (!options.json.empty())
    append(problems, write_json_report(options.json, options, engine, session, result,
                                       observers.history(), tuning));
  if (options.digest) print_digests(session);
  if (options.profile)
    print_out(fmt::format("\n{}", profile_text(session.module(), session.counters())));
  return problems;
}

// A verified module that does not load for its size has reached the memory limit, or the machine's.
int report_unloaded(const Problems& problems, const SourceManager& sources) {
  const isa::Problem& first = problems.front();
  if (first.code != isa::ErrorCode::ShapeLimit) {
    print_problems(problems, sources);
    return kExitInvalid;
  }
  print_error(fmt::format("trek-run: limit reached: memory: {}\n", first.message));
  return kExitTrap;
}

int exit_code(const RunResult& result, bool delivered) {
  if (result.outcome == Outcome::trapped || result.outcome == Outcome::limit) return kExitTrap;
  if (!delivered) return kExitNoOutput;
  return result.outcome == Outcome::stopped ? kExitInterrupted : kExitDone;
}

}  // namespace

LoadOptions load_options(const Options& options) {
  LoadOptions load;
  load.numerics = options.numerics;
  load.threads = options.threads;
  load.seed = options.seed;
  load.memory_limit = options.limit_memory;
  return load;
}

void print_problems(const Problems& problems, const SourceManager& sources, std::string_view file) {
  RenderOptions rendering;
  rendering.colour = wants_colour(STDERR_FILENO);
  rendering.file = file;
  print_error(render(problems, sources, rendering));
}

int run_program(const Options& options, const ModuleFile& file, Engine& engine,
                const SourceManager& sources) {
  Bindings bindings(file.module);
  std::vector<Output> outputs;
  Problems problems = bind_all(options, bindings);
  append(problems, find_outputs(options, file.module, outputs));
  if (!problems.empty()) {
    print_problems(problems, sources);
    return kExitInvalid;
  }
  Observers observers(options, file.module);
  problems = check_outputs(options);
  if (problems.empty()) problems = observers.open(options);
  if (!problems.empty()) {
    print_problems(problems, sources);
    return kExitNoOutput;
  }
  LoadOptions load = load_options(options);
  const RunTiles tiles = tiles_of(options, file.module, engine, load, stop_on_signals());
  if (tiles.code != kExitDone) return tiles.code;
  load.tiles = tiles.tiles;
  load.stop = &stop_on_signals();
  isa::Result<Session> session = Session::open(file, engine, bindings, load);
  if (!session && *load.stop) {
    print_error("trek-run: interrupted before the run began: nothing was executed or saved\n");
    return kExitInterrupted;
  }
  if (!session) return report_unloaded(session.problems(), sources);
  const RunResult result = session->run(observers.run_options(options));
  observers.finish();
  print_ending(file.module, result);
  problems = deliver(options, *session, result, outputs, engine, tiles.tuning, observers);
  print_problems(problems, sources);
  const bool delivered = printed() == kExitDone && problems.empty();
  return exit_code(result, delivered);
}

}  // namespace trek::run
