#include "emulator/jit/jit_engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "emulator/device/matrix_panels.h"
#include "emulator/jit/gpu_engine.h"
#include "emulator/jit/library.h"
#include "emulator/jit/products.h"
#include "emulator/jit/requests.h"
#include "emulator/loading.h"
#include "emulator/resident/program.h"

namespace trek {
namespace jit {
namespace {

// The functions of one image, by node.
class NodeFunctions : public resident::HostCode {
 public:
  NodeFunctions(std::unique_ptr<Code> code, Wanted wanted, size_t nodes)
      : code_(std::move(code)), wanted_(std::move(wanted)), nodes_(nodes) {
    for (const Wanted::Use& use : wanted_.uses)
      nodes_[use.node] = {code_->function(use.request), use.addresses.data()};
  }
  resident::NodeCode of(uint32_t node) const override { return nodes_[node]; }

 private:
  std::unique_ptr<Code> code_;
  Wanted wanted_;  // whose addresses the nodes have
  std::vector<resident::NodeCode> nodes_;
};

class PlanCompiler : public resident::HostCompiler {
 public:
  PlanCompiler(const Compiler& compiler, int threads) : compiler_(compiler), threads_(threads) {}

  uint64_t scratch_bytes() const override { return device::kPanelBytes; }

  isa::Result<std::shared_ptr<const resident::HostCode>> compile(
      const plan::Plan& plan, const resident::Image& image) const override {
    Wanted wanted = wanted_of(plan, image, host_choice());
    auto made = compiler_.compile(wanted.requests, product_functions(), threads_);
    if (const auto* refusal = std::get_if<Refusal>(&made))
      return problem_of(plan, wanted, *refusal);
    auto& code = std::get<std::unique_ptr<Code>>(made);
    return std::shared_ptr<const resident::HostCode>(
        std::make_shared<NodeFunctions>(std::move(code), std::move(wanted), plan.nodes.size()));
  }

 private:
  const Compiler& compiler_;
  int threads_;
};

int threads_of(const LoadOptions& options) {
  if (options.threads > 0) return options.threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

class JitEngine : public Engine {
 public:
  explicit JitEngine(const Compiler& compiler) : compiler_(compiler) {}
  std::string_view name() const override { return "jit"; }
  std::string description() const override { return jit_engine_status().detail; }
  isa::Result<std::unique_ptr<Program>> load(const isa::Module& module,
                                             const LoadOptions& options) override {
    const int threads = threads_of(options);
    auto machine = resident::open_host(threads, std::make_shared<PlanCompiler>(compiler_, threads));
    return resident::load_program(std::move(machine), module, options, {});
  }

 private:
  const Compiler& compiler_;
};

}  // namespace

isa::Result<std::string> print_code(
    const isa::Module& module, const LoadOptions& options, Form form,
    const std::function<std::string(uint32_t function, uint32_t instruction)>& place) {
  std::string why;
  const Compiler* with = compiler(why);
  if (with == nullptr)
    return problem(isa::ErrorCode::UnknownInstruction, "the engine jit does not run here: " + why);
  const int threads = threads_of(options);
  const auto machine = resident::open_host(threads, std::make_shared<PlanCompiler>(*with, threads));
  auto listing = listing_of(module, resident::plan_device(*machine, available_memory()),
                            options.numerics, place);
  if (!listing) return listing.take_problems();
  auto text = with->print(listing->wanted.requests, form);
  if (const auto* refusal = std::get_if<Refusal>(&text))
    return problem_of(listing->plan, listing->wanted, *refusal);
  return std::get<std::string>(std::move(text));
}

}  // namespace jit

EngineStatus jit_engine_status() {
  EngineStatus status;
  status.name = "jit";
  const jit::GpuTarget target = jit::gpu_target();
  if (target.wanted) {
    status.available = target.why.empty();
    status.detail = target.why.empty() ? target.description : target.why;
    return status;
  }
  const jit::Compiler* compiler = jit::compiler(status.detail);
  status.available = compiler != nullptr;
  if (status.available)
    status.detail = fmt::format("{}, {} threads", compiler->description(),
                                std::max(1u, std::thread::hardware_concurrency()));
  return status;
}

std::unique_ptr<Engine> make_jit_engine(std::string& why) {
  if (const jit::GpuTarget target = jit::gpu_target(); target.wanted) {
    why = target.why;
    return why.empty() ? jit::make_gpu_engine(target) : nullptr;
  }
  const jit::Compiler* compiler = jit::compiler(why);
  if (compiler == nullptr) return nullptr;
  return std::make_unique<jit::JitEngine>(*compiler);
}

}  // namespace trek
