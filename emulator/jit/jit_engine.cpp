#include "emulator/jit/jit_engine.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "emulator/device/matrix_panels.h"
#include "emulator/jit/at_once.h"
#include "emulator/jit/gpu_engine.h"
#include "emulator/jit/library.h"
#include "emulator/jit/products.h"
#include "emulator/jit/requests.h"
#include "emulator/loading.h"
#include "emulator/resident/program.h"
#include "emulator/resident/resident_engine.h"

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

  std::shared_ptr<const resident::HostCode> at_once(const plan::Plan& plan,
                                                    const resident::Image& image) const override {
    return code_at_once(image, plan.nodes.size());
  }

  isa::Result<std::shared_ptr<const resident::HostCode>> compile(
      const plan::Plan& plan, const resident::Image& image,
      const std::atomic<bool>* cancelled) const override {
    Wanted wanted = wanted_of(plan, image, host_choice());
    auto made = compiler_.compile(wanted.requests, product_functions(), threads_, cancelled);
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

int cores() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

// Processors wait for one another by looking, so those without a core hold up the others: some more than there are
// cores are for tests, and thousands would take minutes for what is done in no time.
int threads_of(const LoadOptions& options) {
  constexpr int kMostOfACore = 4;
  return options.threads > 0 ? std::min(options.threads, kMostOfACore * cores()) : cores();
}

class JitEngine : public Engine {
 public:
  JitEngine(const Compiler& compiler, resident::Executing executing, resident::Moving moving)
      : compiler_(compiler), executing_(executing), moving_(std::move(moving)) {}
  std::string_view name() const override { return engine_name(executing_); }
  std::string description() const override { return jit_engine_status().detail; }
  bool is_busy() const override {
    return moving_.background != nullptr && moving_.background->is_busy();
  }
  isa::Result<std::unique_ptr<Program>> load(const isa::Module& module,
                                             const LoadOptions& options) override {
    return resident::load_program(open(options), module, options, {}, moving_);
  }
  isa::Result<std::shared_ptr<const plan::Device>> device(const LoadOptions& options) override {
    return resident::device_of(*open(options), options);
  }

 private:
  std::shared_ptr<const resident::Machine> open(const LoadOptions& options) const {
    const int threads = threads_of(options);
    return resident::open_host(threads, executing_,
                               std::make_shared<PlanCompiler>(compiler_, threads));
  }

  const Compiler& compiler_;
  resident::Executing executing_;
  resident::Moving moving_;
};

// Of the JIT, for a GPU or for this computer; null where it is not to be had.
std::unique_ptr<Engine> make_engine(std::string& why, resident::Executing executing,
                                    resident::Moving moving) {
  if (const GpuTarget target = gpu_target(); target.wanted) {
    why = target.why;
    return why.empty() ? make_gpu_engine(target, executing, std::move(moving)) : nullptr;
  }
  const Compiler* compiler = jit::compiler(why);
  if (compiler == nullptr) return nullptr;
  return std::make_unique<JitEngine>(*compiler, executing, std::move(moving));
}

// $TREK_AUTO_AT; false, and then `why` says so, where it is no number.
bool read_move_at(std::optional<uint64_t>& at, std::string& why) {
  const char* text = std::getenv("TREK_AUTO_AT");
  if (text == nullptr) return true;
  const std::string_view digits = text;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
  if (error != std::errc() || end != digits.end()) {
    why = fmt::format("TREK_AUTO_AT={}: a number of back-edges is wanted", digits);
    return false;
  }
  at = value;
  return true;
}

}  // namespace

isa::Result<std::string> print_code(
    const isa::Module& module, const LoadOptions& options, Form form,
    const std::function<std::string(uint32_t function, uint32_t instruction)>& place) {
  std::string why;
  const Compiler* with = compiler(why);
  if (with == nullptr)
    return problem(isa::ErrorCode::UnknownInstruction, "the engine jit does not run here: " + why);
  const int threads = threads_of(options);
  const auto machine = resident::open_host(threads, resident::Executing::compiles,
                                           std::make_shared<PlanCompiler>(*with, threads));
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
    status.on_gpu = status.available;
    status.detail = target.why.empty() ? target.description : target.why;
    return status;
  }
  const jit::Compiler* compiler = jit::compiler(status.detail);
  status.available = compiler != nullptr;
  if (status.available)
    status.detail = fmt::format("{}, {} threads", compiler->description(), jit::cores());
  return status;
}

std::unique_ptr<Engine> make_jit_engine(std::string& why) {
  return jit::make_engine(why, resident::Executing::compiles, {});
}

EngineStatus jit_graph_engine_status() {
  return graph_engine_status(jit_engine_status(), "jit-graph");
}

std::unique_ptr<Engine> make_jit_graph_engine(std::string& why) {
  const EngineStatus status = jit_graph_engine_status();
  if (status.available)
    return jit::make_gpu_engine(jit::gpu_target(), resident::Executing::compiles, {},
                                resident::Launching::in_steps);
  why = status.detail;
  return nullptr;
}

EngineStatus auto_engine_status() {
  EngineStatus status = jit_engine_status();
  status.name = "auto";
  if (status.available)
    status.detail = "interprets until there is code, then goes on as jit: " + status.detail;
  return status;
}

std::unique_ptr<Engine> make_auto_engine(std::string& why) {
  resident::Moving moving;
  if (!jit::read_move_at(moving.at, why)) return nullptr;
  moving.background = std::make_shared<resident::Background>();
  return jit::make_engine(why, resident::Executing::both, std::move(moving));
}

}  // namespace trek
