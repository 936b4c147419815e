#include "tests/bench/program.h"

#include <fmt/format.h>

#include "emulator/measure/cpu_clock.h"

namespace trek::bench {

Result<std::unique_ptr<BenchProgram>> BenchProgram::open(Engine& engine, const std::string& folder,
                                                         const std::string& name, int trips,
                                                         NumericsMode numerics, Defines defines) {
  ModuleOptions options;
  options.defines = std::move(defines);
  options.defines.emplace_back("TRIPS", std::to_string(trips));
  SourceManager sources;
  const std::string path = fmt::format("{}/{}.trek", folder, name);
  isa::Result<ModuleFile> file = load_module_file(path, options, sources);
  if (!file) return to_error("reading " + path, file.problems());
  std::unique_ptr<BenchProgram> program(new BenchProgram(std::move(*file), name, trips));
  LoadOptions load;
  load.numerics = numerics;
  isa::Result<Session> session =
      Session::open(program->file_, engine, Bindings(program->file_.module), load);
  if (!session) return to_error("loading " + path, session.problems());
  program->session_ = std::make_unique<Session>(session.take());
  return program;
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

measure::Contender BenchProgram::contender(std::string name) {
  return {std::move(name), [this]() -> Result<double> {
            Status status = Done{};
            const double seconds = measure::cpu_seconds([&] { status = run(); });
            if (!status) return status.error();
            return seconds / trips_;
          }};
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
