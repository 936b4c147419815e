#include "emulator/resident/resident_engine.h"

#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "emulator/driver/support.h"
#include "emulator/resident/program.h"

namespace trek {
namespace {

constexpr int kHostProcessors = 4;

int device_ordinal() {
  const char* wanted = std::getenv("TREK_DEVICE");
  return wanted == nullptr ? 0 : std::atoi(wanted);
}

class HostEngine : public Engine {
 public:
  std::string_view name() const override { return "resident-host"; }
  std::string description() const override { return resident_host_engine_status().detail; }
  isa::Result<std::unique_ptr<Program>> load(const isa::Module& module,
                                             const LoadOptions& options) override {
    return resident::load_program(machine_, module, options);
  }

 private:
  std::shared_ptr<const resident::Machine> machine_ = resident::open_host(kHostProcessors);
};

class ResidentEngine : public Engine {
 public:
  std::string_view name() const override { return "resident"; }
  std::string description() const override { return resident_engine_status().detail; }

  isa::Result<std::unique_ptr<Program>> load(const isa::Module& module,
                                             const LoadOptions& options) override {
    if (machine_ == nullptr) {
      auto machine = resident::open_gpu(device_ordinal());
      if (!machine) {
        isa::Problem problem;
        problem.code = isa::ErrorCode::UnknownInstruction;
        problem.message = "the engine resident does not run here: " + machine.error().text();
        return problem;
      }
      machine_ = machine.take();
    }
    return resident::load_program(machine_, module, options);
  }

 private:
  std::shared_ptr<const resident::Machine> machine_;
};

}  // namespace

EngineStatus resident_engine_status() {
  EngineStatus status;
  status.name = "resident";
  const driver::GpuSupport support = driver::describe_gpu_support();
  status.available = support.available;
  for (const std::string& line : support.lines)
    status.detail += (status.detail.empty() ? "" : "; ") + line;
  return status;
}

EngineStatus resident_host_engine_status() {
  return {"resident-host", true,
          fmt::format("the resident emulator on {} CPU threads, for tests and debugging",
                      kHostProcessors)};
}

std::unique_ptr<Engine> make_resident_host_engine() { return std::make_unique<HostEngine>(); }

std::unique_ptr<Engine> make_resident_engine() { return std::make_unique<ResidentEngine>(); }

}  // namespace trek
