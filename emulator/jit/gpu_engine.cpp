#include "emulator/jit/gpu_engine.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "emulator/device/brought.h"
#include "emulator/device/node.h"
#include "emulator/driver/cubin_cache.h"
#include "emulator/driver/module.h"
#include "emulator/driver/support.h"
#include "emulator/driver/toolkit.h"
#include "emulator/jit/library.h"
#include "emulator/jit/requests.h"
#include "emulator/loading.h"
#include "emulator/resident/gpu_compiler.h"
#include "emulator/resident/program.h"

namespace trek::jit {
namespace {

constexpr std::string_view kHopper = "sm_90a";
constexpr std::string_view kPortable = "sm_80";
constexpr driver::Version kHopperCuda = {12, 1};  // takes PTX 8.1 (optimise.cpp)

int threads_here() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

// What makes cubins of code for a device.
struct Assembler {
  std::optional<driver::Tool> ptxas;  // else the driver
  std::string target;                 // of ptxas
  std::string name;  // of all that a cubin depends on beside its PTX, as a part of a file's name
};

// ptxas, where there is one that is no newer than the driver, which might not take its cubins.
Assembler assembler_for(driver::Version cuda, driver::Version capability, std::string_view level) {
  if (auto ptxas = driver::Tool::ptxas()) {
    const auto toolkit = ptxas->toolkit();
    if (toolkit && *toolkit <= cuda) {
      std::string target = level == kHopper
                               ? std::string(level)
                               : fmt::format("sm_{}{}", capability.major, capability.minor);
      std::string name = fmt::format("{}-ptxas-{}", target, toolkit->text());
      return {std::move(ptxas), std::move(target), std::move(name)};
    }
  }
  std::string driver = driver::nvidia_driver_version();
  if (driver.empty()) driver = cuda.text();
  return {{}, "", fmt::format("{}.{}-{}", capability.major, capability.minor, driver)};
}

class PlanCompiler : public resident::GpuCompiler {
 public:
  PlanCompiler(const jit::GpuCompiler& compiler, std::string level, driver::Version cuda)
      : compiler_(compiler), level_(std::move(level)), cuda_(cuda) {}

  bool copies_tensors(const driver::DeviceInfo& /*device*/) const override {
    return level_ == kHopper;
  }

  isa::Result<resident::CompiledCode> compile(const plan::Plan& plan, resident::Image& image,
                                              const driver::Context& context,
                                              resident::Phases& phases,
                                              const resident::Compiling& how) const override {
    const Wanted wanted = wanted_of(plan, image);
    // What is compiled while a kernel runs may not be loaded as PTX (toolkit.h).
    Assembler assembler;
    if (how.beside_launches) assembler = assembler_for(cuda_, context.device().capability, level_);
    const std::string key = compiler_.key(wanted.requests, level_) +
                            (how.beside_launches ? "-" + assembler.name : "-ptx");
    std::string code;
    if (auto kept = driver::find_cubin(key)) {
      code = std::move(*kept);
      phases.end("compile");
    } else {
      auto made = compiler_.compile(wanted.requests, level_, threads_here(), how.cancelled);
      if (const auto* refusal = std::get_if<Refusal>(&made))
        return problem_of(plan, wanted, *refusal);
      phases.end("compile");
      code = std::get<std::string>(std::move(made));
      if (how.beside_launches) {
        auto assembled = assemble(context, assembler, code, how.cancelled);
        if (!assembled)
          return problem(isa::ErrorCode::UnknownInstruction,
                         "the engine jit: " + assembled.error().text());
        code = assembled.take();
        phases.end("assemble");
      }
      driver::keep_cubin(key, code);
    }
    name_code(wanted, plan.nodes.size(), image);
    const bool in_pairs = std::ranges::any_of(
        wanted.requests, [](const Request& request) { return is_in_pairs(node_of(request)); });
    return resident::CompiledCode{std::move(code), in_pairs};
  }

 private:
  // By ptxas, or by the driver, whose linker has products wait for each other; also where ptxas does not know the device
  // or does not run.
  static driver::Result<std::string> assemble(const driver::Context& context, const Assembler& with,
                                              const std::string& ptx,
                                              const std::atomic<bool>* cancelled) {
    if (with.ptxas) {
      auto made = with.ptxas->assemble("a program", ptx, with.target, cancelled);
      if (made || (cancelled != nullptr && cancelled->load())) return made;
    }
    return driver::assemble(context, "a program", ptx);
  }
  // What the frame is to know of a node's code.
  static resident::Kind kind_of(const device::Node& node) {
    if (device::is_in_words(node)) return resident::Kind::words;
    if (device::may_trap(node)) return resident::Kind::task;
    return device::is_repeated(node) ? resident::Kind::quick : resident::Kind::thin;
  }
  // Whether blocks work on its tiles in pairs, by what the frame knows (resident/current.h): a plan may want that of a
  // product that has no tensor maps.
  static bool is_in_pairs(const device::Node& node) {
    constexpr uint32_t kInPairs = device::tensor::kColumnsShared | device::tensor::kDepthShared;
    return device::is_copied(node) && (device::tensor::ring_uses(node) & kInPairs) != 0;
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
      if (record.kind == resident::Kind::words) continue;  // the frame reads its descriptor
      record.descriptor = place.addresses;
      record.descriptor_size = place.lines;
    }
  }

  const jit::GpuCompiler& compiler_;
  std::string level_;
  driver::Version cuda_;  // of the driver
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
    auto machine = resident::open_gpu(
        *target_.cuda, target_.ordinal, phases_, executing_,
        std::make_shared<PlanCompiler>(*compiler, target_.level, target_.cuda->version()));
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
  const bool takes_hopper = is_hopper && cuda->version() >= kHopperCuda;
  if (target.level.empty()) target.level = takes_hopper ? kHopper : kPortable;
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

// `text`, with each line of `source` behind `before`.
void add_source(std::string& text, std::string_view source, std::string_view before) {
  while (!source.empty()) {
    const std::string_view line = source.substr(0, source.find('\n'));
    source.remove_prefix(std::min(source.size(), line.size() + 1));
    text += fmt::format("{}{}\n", before, line);
  }
}

// The lines of the program before each function of nvdisasm's text, `$resident$node_3:`; those of nodes that have none,
// being in line in the kernel, at the beginning.
std::string with_source(std::string_view sass, const std::vector<Request>& requests) {
  constexpr std::string_view kName = "$node_";
  std::vector<bool> has_function(requests.size());
  std::string functions;
  functions.reserve(sass.size());
  while (!sass.empty()) {
    const std::string_view line = sass.substr(0, sass.find('\n'));
    sass.remove_prefix(std::min(sass.size(), line.size() + 1));
    size_t node = requests.size();
    if (const size_t at = line.rfind(kName); line.ends_with(':') && at != std::string_view::npos)
      std::from_chars(line.data() + at + kName.size(), line.data() + line.size() - 1, node);
    if (node < requests.size()) {
      has_function[node] = true;
      add_source(functions, requests[node].source, "// ");
    }
    functions += line;
    functions += '\n';
  }
  std::string text;
  for (size_t node = 0; node < requests.size(); ++node)
    if (!has_function[node]) add_source(text, requests[node].source, "// in line: ");
  return text + functions;
}

// What --dump sass runs.
struct Toolkit {
  driver::Tool ptxas;
  driver::Tool nvdisasm;
};

isa::Result<Toolkit> find_toolkit() {
  const auto ptxas = driver::Tool::ptxas();
  const auto nvdisasm = driver::Tool::nvdisasm();
  if (ptxas && nvdisasm) return Toolkit{*ptxas, *nvdisasm};
  return cannot_print(
      fmt::format("--dump sass needs ptxas and nvdisasm of the CUDA toolkit: there is no {} on "
                  "the PATH or in /usr/local/cuda; --dump ptx needs neither",
                  ptxas ? "nvdisasm" : "ptxas"));
}

isa::Result<std::string> disassembled(const Toolkit& toolkit, const std::string& ptx,
                                      std::string_view level,
                                      const std::vector<Request>& requests) {
  const auto cubin = toolkit.ptxas.assemble("the code", ptx, level);
  if (!cubin) return cannot_print(cubin.error().text());
  const auto text = toolkit.nvdisasm.disassemble("the code", *cubin);
  if (!text) return cannot_print(text.error().text());
  return with_source(*text, requests);
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

namespace {

std::string level_of(std::string_view device) {
  if (names_gpu_level()) return environment("TREK_JIT_TARGET");
  return std::string(device == "a100" ? kPortable : kHopper);
}

}  // namespace

plan::Device device_linked_for(std::string_view name) {
  plan::Device device = *plan::find_device(name);
  device.shared_bytes = device::kSharedBytes;
  device.copies_tensors = level_of(name) == kHopper;
  device.has_pairs = device.copies_tensors && device.processors % 2 == 0;
  device.has_tags = true;
  device.has_tagged_moves = device.copies_tensors;
  return device;
}

isa::Result<std::string> print_gpu_code(
    const isa::Module& module, const LoadOptions& options, std::string_view device_name, Form form,
    const std::function<std::string(uint32_t function, uint32_t instruction)>& place) {
  std::string why;
  const GpuCompiler* compiler = gpu_compiler(why);
  if (compiler == nullptr) return cannot_print("there is no JIT here: " + why);
  std::optional<Toolkit> toolkit;
  if (form == Form::sass) {  // sought before anything is compiled, which takes seconds
    auto found = find_toolkit();
    if (!found) return found.take_problems();
    toolkit = found.take();
  }
  const std::string level = level_of(device_name);
  auto listing = listing_of(module, device_linked_for(device_name), options.numerics, place);
  if (!listing) return listing.take_problems();
  const std::vector<Request>& requests = listing->wanted.requests;
  auto text = form == Form::ir ? compiler->print(requests, level)
                               : compiler->compile(requests, level, threads_here(), nullptr);
  if (const auto* refusal = std::get_if<Refusal>(&text))
    return problem_of(listing->plan, listing->wanted, *refusal);
  std::string code = std::get<std::string>(std::move(text));
  if (toolkit) return disassembled(*toolkit, code, level, requests);
  return code;
}

}  // namespace trek::jit
