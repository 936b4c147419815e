#include "tests/bench/program.h"

#include <algorithm>

#include <fmt/format.h>

#include "assembler/assemble.h"
#include "emulator/measure/cpu_clock.h"

namespace trek::bench {

Result<std::unique_ptr<BenchProgram>> BenchProgram::open(Engine& engine, const std::string& folder,
                                                         const std::string& name,
                                                         NumericsMode numerics, Defines defines) {
  ModuleOptions options;
  options.defines = std::move(defines);
  SourceManager sources;
  const std::string path = fmt::format("{}/{}.trek", folder, name);
  isa::Result<ModuleFile> file = load_module_file(path, options, sources);
  if (!file) return to_error("reading " + path, file.problems());
  return load(engine, std::move(*file), name, numerics, nullptr);
}

Result<std::unique_ptr<BenchProgram>> BenchProgram::from_text(Engine& engine,
                                                              const std::string& name,
                                                              const std::string& text,
                                                              NumericsMode numerics, Tiles tiles) {
  Assembly assembly = assemble_text(name + ".trek", text);
  if (!assembly.ok()) return to_error("assembling " + name, assembly.problems);
  return load(engine, {"", std::move(assembly.module)}, name, numerics, std::move(tiles));
}

Result<std::unique_ptr<BenchProgram>> BenchProgram::load(Engine& engine, ModuleFile file,
                                                         const std::string& name,
                                                         NumericsMode numerics, Tiles tiles) {
  std::unique_ptr<BenchProgram> program(new BenchProgram(std::move(file), name));
  LoadOptions options;
  options.numerics = numerics;
  options.tiles = std::move(tiles);
  isa::Problems problems;
  program->load_seconds_ = measure::cpu_seconds([&] {
    isa::Result<Session> session =
        Session::open(program->file_, engine, Bindings(program->file_.module), options);
    if (session)
      program->session_ = std::make_unique<Session>(session.take());
    else
      problems = session.problems();
  });
  if (program->session_ == nullptr)
    return to_error(fmt::format("loading {} on {}", name, engine.name()), problems);
  return program;
}

Status BenchProgram::set_trips(int trips) {
  Bindings bindings(session_->module());
  isa::Problems problems = bindings.set("trips", std::to_string(trips));
  if (problems.empty()) problems = session_->bind(bindings);
  if (!problems.empty()) return to_error("setting the trips of " + name_, problems);
  return Done{};
}

Status BenchProgram::run(int trips) {
  if (Status set = set_trips(trips); !set) return set;
  return run();
}

Status BenchProgram::run() {
  const RunResult result = session_->run({});
  switch (result.outcome) {
    case Outcome::done:
      return Done{};
    case Outcome::trapped:
      return Error{"running " + name_, "", result.trap->detail};
    case Outcome::limit:
    case Outcome::stopped:
      break;
  }
  return Error{"running " + name_, "", result.detail};
}

measure::Contender BenchProgram::contender(std::string name, int trips) {
  return {std::move(name), [this, trips]() -> Result<double> {
            // One trip before them brings the device up, as one call does of rivals in processes of their own.
            Status status = run(1);
            if (status) status = set_trips(trips);
            if (!status) return status.error();
            const double seconds = measure::cpu_seconds([&] { status = run(); });
            if (!status) return status.error();
            return seconds / trips;
          }};
}

Result<int> BenchProgram::trips_lasting(double seconds) {
  for (int trips = 2;;) {
    const Result<double> of_one = contender("", trips).sample();
    if (!of_one) return of_one.error();
    if (*of_one * trips >= 0.7 * seconds) return trips;
    trips = std::max(2 * trips, static_cast<int>(seconds / *of_one));
  }
}

Result<std::vector<std::byte>> BenchProgram::read(const std::string& tensor) {
  const isa::Module& module = session_->module();
  for (uint32_t i = 0; i < module.tensors.size(); ++i) {
    if (module.string(module.tensors[i].name) != tensor) continue;
    const std::span<const std::byte> bytes = session_->read(i);
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  }
  return Error{fmt::format("reading @{} of {}", tensor, name_), "", "there is no such tensor"};
}

Status BenchProgram::save_state(const std::string& file) {
  const isa::Problems problems = session_->save_state(file);
  if (!problems.empty()) return to_error("writing " + file, problems);
  return Done{};
}

uint64_t BenchProgram::state_bytes() const {
  const isa::Module& module = session_->module();
  uint64_t bytes = 0;
  for (const isa::TensorDecl& tensor : module.tensors) {
    if (tensor.role != isa::Role::state) continue;
    bytes += static_cast<uint64_t>(module.type(tensor.type).bytes());
  }
  return bytes;
}

}  // namespace trek::bench
