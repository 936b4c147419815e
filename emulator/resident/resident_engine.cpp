#include "emulator/resident/resident_engine.h"

#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "emulator/driver/support.h"
#include "emulator/loading.h"
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
    return resident::load_program(machine_, module, options, {});
  }
  isa::Result<std::shared_ptr<const plan::Device>> device(const LoadOptions& options) override {
    return resident::device_of(*machine_, options);
  }

 private:
  std::shared_ptr<const resident::Machine> machine_ = resident::open_host(kHostProcessors);
};

class ResidentEngine : public Engine {
 public:
  ResidentEngine(driver::Cuda cuda, int ordinal, std::string description, resident::Phases phases,
                 resident::Launching launching)
      : cuda_(std::move(cuda)),
        ordinal_(ordinal),
        description_(std::move(description)),
        phases_(std::move(phases)),
        launching_(launching) {}

  std::string_view name() const override {
    return launching_ == resident::Launching::through ? "resident" : "resident-graph";
  }
  std::string description() const override { return description_; }

  isa::Result<std::unique_ptr<Program>> load(const isa::Module& module,
                                             const LoadOptions& options) override {
    if (isa::Problems problems = open(); !problems.empty()) return problems;
    return resident::load_program(machine_, module, options, std::exchange(phases_, {}), {},
                                  launching_);
  }
  isa::Result<std::shared_ptr<const plan::Device>> device(const LoadOptions& options) override {
    if (isa::Problems problems = open(); !problems.empty()) return problems;
    return resident::device_of(*machine_, options, launching_);
  }

 private:
  isa::Problems open() {
    phases_.begin();
    if (machine_ != nullptr) return {};
    auto machine = resident::open_gpu(cuda_, ordinal_, phases_);
    if (!machine)
      return {problem(
          isa::ErrorCode::UnknownInstruction,
          fmt::format("the engine {} does not run here: {}", name(), machine.error().text()))};
    machine_ = machine.take();
    return {};
  }

  driver::Cuda cuda_;
  int ordinal_;
  std::string description_;
  resident::Phases phases_;  // of opening, until the first load
  resident::Launching launching_;
  std::shared_ptr<const resident::Machine> machine_;
};

// The device's line, or why the emulator does not run on it.
driver::Result<std::string> describe(const driver::Cuda& cuda, int ordinal) {
  const auto device = cuda.device(ordinal);
  if (!device) return device.error();
  if (!device->supported()) return driver::Error{"", "", device->refusal()};
  const auto level = resident::gpu_level(*device);
  if (!level) return level.error();
  return driver::device_line(*device, cuda) + ", " + *level;
}

std::unique_ptr<Engine> make_on_gpu(std::string& why, resident::Launching launching) {
  resident::Phases phases;
  auto cuda = driver::Cuda::load();
  if (!cuda) {
    why = cuda.error().text();
    return nullptr;
  }
  const int ordinal = device_ordinal();
  auto description = describe(*cuda, ordinal);
  if (!description) {
    why = description.error().text();
    return nullptr;
  }
  phases.end("driver");
  return std::make_unique<ResidentEngine>(cuda.take(), ordinal, description.take(),
                                          std::move(phases), launching);
}

}  // namespace

EngineStatus resident_engine_status() {
  EngineStatus status;
  status.name = "resident";
  const driver::GpuSupport support = driver::describe_gpu_support(resident::gpu_level);
  status.available = status.on_gpu = support.available;
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

std::unique_ptr<Engine> make_resident_engine(std::string& why) {
  return make_on_gpu(why, resident::Launching::through);
}

EngineStatus graph_engine_status(EngineStatus of, std::string name) {
  of.name = std::move(name);
  if (of.on_gpu) {
    of.detail = "a launch for each node, in a CUDA graph, for comparison: " + of.detail;
  } else if (of.available) {
    of.available = false;
    of.detail = "a graph of kernels needs a GPU";
  }
  return of;
}

EngineStatus resident_graph_engine_status() {
  return graph_engine_status(resident_engine_status(), "resident-graph");
}

std::unique_ptr<Engine> make_resident_graph_engine(std::string& why) {
  return make_on_gpu(why, resident::Launching::in_steps);
}

}  // namespace trek
