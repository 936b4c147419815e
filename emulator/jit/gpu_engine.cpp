#include "emulator/jit/gpu_engine.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "emulator/device/node.h"
#include "emulator/driver/cubin_cache.h"
#include "emulator/driver/module.h"
#include "emulator/driver/support.h"
#include "emulator/jit/library.h"
#include "emulator/jit/requests.h"
#include "emulator/loading.h"
#include "emulator/resident/gpu_compiler.h"
#include "emulator/resident/program.h"

namespace trek::jit {
namespace {

constexpr std::string_view kHopper = "sm_90a";
constexpr std::string_view kPortable = "sm_80";

int threads_here() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

class PlanCompiler : public resident::GpuCompiler {
 public:
  PlanCompiler(const jit::GpuCompiler& compiler, std::string level, std::string driver)
      : compiler_(compiler), level_(std::move(level)), driver_(std::move(driver)) {}

  bool copies_tensors(const driver::DeviceInfo& /*device*/) const override {
    return level_ == kHopper;
  }

  isa::Result<std::string> compile(const plan::Plan& plan, resident::Image& image,
                                   const driver::Context& context, resident::Phases& phases,
                                   const std::atomic<bool>* cancelled) const override {
    const Wanted wanted = wanted_of(plan, image);
    // The driver compiles PTX that it loads for itself, and what it links for others that may call it: then it ignores
    // `setmaxnreg`, and lets one product of a warpgroup wait for the other (ptxas: C7504, C7509). But it may not load
    // while a kernel runs.
    const bool links = cancelled != nullptr;
    std::string key = compiler_.key(wanted.requests, level_);
    const driver::Version capability = context.device().capability;
    key += links ? fmt::format("-{}.{}-{}", capability.major, capability.minor, driver_) : "-ptx";
    std::string code;
    if (auto kept = driver::find_cubin(key)) {
      code = std::move(*kept);
      phases.end("compile");
    } else {
      auto made = compiler_.compile(wanted.requests, level_, threads_here(), cancelled);
      if (const auto* refusal = std::get_if<Refusal>(&made))
        return problem_of(plan, wanted, *refusal);
      phases.end("compile");
      code = std::get<std::string>(std::move(made));
      if (links) {
        auto assembled = driver::assemble(context, "a program", code);
        if (!assembled)
          return problem(isa::ErrorCode::UnknownInstruction,
                         "the engine jit: " + assembled.error().text());
        code = assembled.take();
        phases.end("assemble");
      }
      driver::keep_cubin(key, code);
    }
    name_code(wanted, plan.nodes.size(), image);
    return code;
  }

 private:
  // What the frame is to know of a node's code.
  static resident::Kind kind_of(const device::Node& node) {
    if (device::may_trap(node)) return resident::Kind::task;
    return device::is_repeated(node) ? resident::Kind::quick : resident::Kind::thin;
  }
  static const device::Node& node_of(const Request& request) {
    return *reinterpret_cast<const device::Node*>(request.record.data());
  }

  // Records name their function, and in the place of their descriptor the node's addresses.
  static void name_code(const Wanted& wanted, size_t nodes, resident::Image& image) {
    struct Place {
      uint32_t function;
      uint32_t addresses;  // in units of 16 bytes
      uint16_t lines;
      resident::Kind kind;
    };
    std::vector<Place> places(nodes);
    for (const Wanted::Use& use : wanted.uses) {
      const std::span<const std::byte> bytes = std::as_bytes(std::span(use.addresses));
      const size_t at = image.descriptors.size();
      image.descriptors.insert(image.descriptors.end(), bytes.begin(), bytes.end());
      image.descriptors.resize((image.descriptors.size() + 15) / 16 * 16);
      places[use.node] = {static_cast<uint32_t>(use.request), static_cast<uint32_t>(at / 16),
                          static_cast<uint16_t>((image.descriptors.size() - at) / 16),
                          kind_of(node_of(wanted.requests[use.request]))};
    }
    for (resident::Record& record : image.records) {
      if (!resident::is_of_unit(record.kind)) continue;
      const Place& place = places[record.node];
      // A warp of the frame brings the operands of what is copied.
      if (record.kind != resident::Kind::copied) record.kind = place.kind;
      record.weight = place.function;
      record.descriptor = place.addresses;
      record.descriptor_size = place.lines;
    }
  }

  const jit::GpuCompiler& compiler_;
  std::string level_;
  std::string driver_;  // whose compiler makes the cubin
};

class GpuJitEngine : public Engine {
 public:
  GpuJitEngine(const GpuTarget& target, resident::Executing executing, resident::Moving moving,
               resident::Launching launching)
      : target_(target), executing_(executing), moving_(std::move(moving)), launching_(launching) {}
  std::string_view name() const override { return engine_name(executing_, launching_); }
  std::string description() const override { return target_.description; }
  bool is_busy() const override {
    return moving_.background != nullptr && moving_.background->is_busy();
  }
  isa::Result<std::unique_ptr<Program>> load(const isa::Module& module,
                                             const LoadOptions& options) override {
    if (isa::Problems problems = open(); !problems.empty()) return problems;
    return resident::load_program(machine_, module, options, std::exchange(phases_, {}), moving_,
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
    std::string why;
    const GpuCompiler* compiler = gpu_compiler(why);
    if (compiler == nullptr) return {does_not_run(why)};
    std::string driver = driver::nvidia_driver_version();
    if (driver.empty()) driver = target_.cuda->version().text();
    auto machine = resident::open_gpu(
        *target_.cuda, target_.ordinal, phases_, executing_,
        std::make_shared<PlanCompiler>(*compiler, target_.level, std::move(driver)));
    if (!machine) return {does_not_run(machine.error().text())};
    machine_ = machine.take();
    return {};
  }
  isa::Problem does_not_run(const std::string& why) const {
    return problem(isa::ErrorCode::UnknownInstruction,
                   fmt::format("the engine {} does not run here: {}", name(), why));
  }
  GpuTarget target_;
  resident::Executing executing_;
  resident::Moving moving_;
  resident::Launching launching_;
  resident::Phases phases_;  // of opening, until the first load
  std::shared_ptr<const resident::Machine> machine_;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The device's line in target.description, or why the JIT does not run on it.
std::string take_device(GpuTarget& target) {
  auto cuda = driver::Cuda::load();
  if (!cuda) return cuda.error().text();
  const auto device = cuda->device(target.ordinal);
  if (!device) return device.error().text();
  if (!device->supported()) return device->refusal();
  if (driver::Status status = resident::fits_gpu(*device); !status) return status.error().text();
  const bool is_hopper = device->capability == driver::Version{9, 0};
  if (target.level.empty()) target.level = is_hopper ? kHopper : kPortable;
  if (target.level == kHopper && !is_hopper)
    return fmt::format("{} is none of {}", device->name, kHopper);
  std::string why;
  const GpuCompiler* compiler = gpu_compiler(why);
  if (compiler == nullptr) return why;
  target.description = fmt::format("{}, {} for level {}", driver::device_line(*device, *cuda),
                                   compiler->description(), target.level);
  target.cuda = cuda.take();
  return "";
}

// ---- printing ------------------------------------------------------------------------------------

isa::Problem cannot_print(const std::string& why) {
  return problem(isa::ErrorCode::UnknownInstruction, why);
}

// A file that goes when this does.
class Scratch {
 public:
  explicit Scratch(std::string_view suffix)
      : path_(std::filesystem::temp_directory_path() / fmt::format("trek-{}{}", getpid(), suffix)) {
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// What a command writes, and how it ended.
std::pair<std::string, int> output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");  // NOLINT(cert-env33-c): two tools of a toolkit
  if (pipe == nullptr) return {text, -1};
  std::array<char, 4096> piece{};
  for (size_t n = 0; (n = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    text.append(piece.data(), n);
  return {text, pclose(pipe)};
}

isa::Result<std::string> disassembled(const std::string& ptx, std::string_view level) {
  for (const char* tool : {"ptxas", "nvdisasm"})
    if (output_of(fmt::format("command -v {}", tool)).second != 0)
      return cannot_print(
          fmt::format("--dump sass needs ptxas and nvdisasm of the CUDA toolkit: there is no {} on "
                      "the PATH; --dump ptx needs neither",
                      tool));
  const Scratch source(".ptx");
  const Scratch cubin(".cubin");
  FILE* file = std::fopen(source.path().c_str(), "w");
  const bool written =
      file != nullptr && std::fwrite(ptx.data(), 1, ptx.size(), file) == ptx.size();
  if (file == nullptr || std::fclose(file) != 0 || !written)
    return cannot_print("--dump sass cannot write " + source.path());
  auto [log, assembled] = output_of(
      fmt::format("ptxas -arch {} '{}' -o '{}' 2>&1", level, source.path(), cubin.path()));
  if (assembled != 0) return cannot_print("ptxas does not take the code: " + log);
  auto [text, shown] = output_of(fmt::format("nvdisasm -c '{}' 2>&1", cubin.path()));
  if (shown != 0) return cannot_print("nvdisasm: " + text);
  return std::move(text);
}

}  // namespace

bool names_gpu_level() {
  const std::string named = environment("TREK_JIT_TARGET");
  return named == kHopper || named == kPortable;
}

GpuTarget gpu_target() {
  GpuTarget target;
  const std::string named = environment("TREK_JIT_TARGET");
  if (named == "host") return target;
  target.ordinal = std::atoi(environment("TREK_DEVICE").c_str());
  if (named.empty()) {
    target.wanted = take_device(target).empty();
    return target;
  }
  target.wanted = true;
  target.level = named;
  if (!names_gpu_level())
    target.why =
        fmt::format("TREK_JIT_TARGET={}: it may be host, {} or {}", named, kHopper, kPortable);
  else
    target.why = take_device(target);
  return target;
}

std::unique_ptr<Engine> make_gpu_engine(const GpuTarget& target, resident::Executing executing,
                                        resident::Moving moving, resident::Launching launching) {
  return std::make_unique<GpuJitEngine>(target, executing, std::move(moving), launching);
}

isa::Result<std::string> print_gpu_code(
    const isa::Module& module, const LoadOptions& options, std::string_view device_name, Form form,
    const std::function<std::string(uint32_t function, uint32_t instruction)>& place) {
  std::string why;
  const GpuCompiler* compiler = gpu_compiler(why);
  if (compiler == nullptr) return cannot_print("there is no JIT here: " + why);
  std::string level = environment("TREK_JIT_TARGET");
  if (!names_gpu_level()) level = device_name == "a100" ? kPortable : kHopper;
  plan::Device device = *plan::find_device(device_name);
  device.shared_bytes = device::kSharedBytes;
  device.copies_tensors = level == kHopper;
  auto listing = listing_of(module, device, options.numerics, place);
  if (!listing) return listing.take_problems();
  const std::vector<Request>& requests = listing->wanted.requests;
  auto text = form == Form::ir ? compiler->print(requests, level)
                               : compiler->compile(requests, level, threads_here(), nullptr);
  if (const auto* refusal = std::get_if<Refusal>(&text))
    return problem_of(listing->plan, listing->wanted, *refusal);
  std::string code = std::get<std::string>(std::move(text));
  if (form == Form::sass) return disassembled(code, level);
  return code;
}

}  // namespace trek::jit
