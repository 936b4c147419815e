#include "emulator/ref/ref_engine.h"

#include <thread>

#include <fmt/format.h>

#include "emulator/kernels/kernel_level.h"
#include "emulator/loading.h"
#include "emulator/ref/program.h"

namespace trek {
namespace {

class RefEngine : public Engine {
 public:
  std::string_view name() const override { return "ref"; }

  std::string description() const override { return ref_engine_status().detail; }

  isa::Result<std::unique_ptr<Program>> load(const isa::Module& module,
                                             const LoadOptions& options) override {
    // `fast` allows this engine more than it needs: strict results are inside every bound.
    std::string why;
    const kernels::Kernels* chosen = kernels::choose_kernels(why);
    if (chosen == nullptr) {
      return problem(isa::ErrorCode::UnknownInstruction,
                     fmt::format("the engine ref does not run here: {}", why));
    }
    return ref::load_program(module, *chosen, options);
  }
};

}  // namespace

EngineStatus ref_engine_status() {
  EngineStatus status;
  status.name = "ref";
  const kernels::Kernels* chosen = kernels::choose_kernels(status.detail);
  status.available = chosen != nullptr;
  if (status.available)
    status.detail = fmt::format("CPU, {} kernels, {} threads", chosen->level,
                                std::max(1u, std::thread::hardware_concurrency()));
  return status;
}

std::unique_ptr<Engine> make_ref_engine() { return std::make_unique<RefEngine>(); }

}  // namespace trek
