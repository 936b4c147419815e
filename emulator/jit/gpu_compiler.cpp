// The compiler for GPUs: the nodes' functions are made and optimised in parallel, each thread with an LLVM context of
// its own, then linked with the frame, which is resident.cu without the units, and written as PTX.
#include "emulator/jit/gpu_compiler.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/SHA256.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Support/xxhash.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/Internalize.h>

#include "emulator/device/brought.h"
#include "emulator/device/node.h"
#include "emulator/jit/guard.h"
#include "emulator/jit/optimise.h"
#include "emulator/jit/specialise.h"

// NOLINTBEGIN(readability-identifier-naming): symbols of the embedded files
extern "C" const char trek_jit_units_sm_90a[];
extern "C" const char trek_jit_units_sm_90a_end[];
extern "C" const char trek_jit_units_sm_80[];
extern "C" const char trek_jit_units_sm_80_end[];
extern "C" const char trek_jit_frame_sm_90a[];
extern "C" const char trek_jit_frame_sm_90a_end[];
extern "C" const char trek_jit_frame_sm_80[];
extern "C" const char trek_jit_frame_sm_80_end[];
// NOLINTEND(readability-identifier-naming)

namespace trek::jit {
namespace {

llvm::StringRef between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

struct Level {
  std::string_view name;
  llvm::StringRef units;
  llvm::StringRef frame;
};
const std::array<Level, 2>& levels() {
  static const std::array<Level, 2> all = {{
      {"sm_90a", between(trek_jit_units_sm_90a, trek_jit_units_sm_90a_end),
       between(trek_jit_frame_sm_90a, trek_jit_frame_sm_90a_end)},
      {"sm_80", between(trek_jit_units_sm_80, trek_jit_units_sm_80_end),
       between(trek_jit_frame_sm_80, trek_jit_frame_sm_80_end)},
  }};
  return all;
}
const Level* level_of(std::string_view name) {
  const auto& all = levels();
  const auto* at = std::ranges::find(all, name, &Level::name);
  return at == all.end() ? nullptr : at;
}

llvm::Error error(const llvm::Twine& what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), what);
}

// To be raised when this folder makes other code of the same bitcode.
constexpr const char* kRevision = "4";

// What the frame calls: see emulator/resident/resident.cu.
constexpr const char* kExecuteNode = "trek_execute_node";
constexpr const char* kRingUses = "trek_ring_uses";
constexpr const char* kKernel = "resident";

constexpr uint32_t kWideBlockThreads = 512;
static_assert(kWideBlockThreads <= device::kMostRowThreads);

std::string name_of(size_t function) { return "node_" + std::to_string(function); }

const device::Node& node_of(const Request& request) {
  return *reinterpret_cast<const device::Node*>(request.record.data());
}

// The most threads for which a node's unit is right and has registers enough: products share out a tile by kBlockThreads,
// sorting has counts of each thread in shared memory, and a row node has a row of each held array in registers.
uint32_t most_threads_of(const Request& request) {
  const device::Node& node = node_of(request);
  switch (static_cast<device::Kind>(node.kind)) {
    case device::Kind::matrix:
    case device::Kind::order:
    case device::Kind::permutation:
      return device::kBlockThreads;
    case device::Kind::phases:
      return node.phases().held > 1 ? device::kBlockThreads : kWideBlockThreads;
    case device::Kind::optimizer:
      return device::makes_gradient(node) ? device::kBlockThreads : kWideBlockThreads;
    default:
      return kWideBlockThreads;
  }
}
// Whether what counts of a node is how much of its data is on its way: more than caches hold.
bool is_streamed(const Request& request) {
  const device::Node& node = node_of(request);
  for (uint32_t i = 0; i < node.all_operands; ++i)
    if (node.operand(i).elements >= device::kStreamed) return true;
  for (uint32_t i = 0; i < node.results; ++i)
    if (node.result(i).elements >= device::kStreamed) return true;
  return false;
}
// Threads for the units of a program's kernel. Where all of its units take more, and one of them waits for memory, as
// many as have 96 registers each.
uint32_t block_threads_of(std::span<const Request> requests) {
  uint32_t threads = kWideBlockThreads;
  for (const Request& request : requests) threads = std::min(threads, most_threads_of(request));
  return std::ranges::any_of(requests, is_streamed) ? threads : device::kBlockThreads;
}

// Streamed nodes in line in a kernel, at most: ptxas takes longer and longer for one function.
constexpr std::ptrdiff_t kMostInLine = 16;

bool is_in_runs(const device::Node& node) {
  return static_cast<device::OfRuns>(node.matrix.runs.part) != device::OfRuns::none;
}
// Which functions are in line in the kernel. Products that bring their operands by maps are: those of warpgroups must be
// (device/matrix_tensor_90a.h), and all of a program in which one is in runs, where a function that is called beside it costs
// the kernel spills. In other programs those of f32 are faster called. Streamed nodes of a wide kernel are in line: in a
// function that is called, the descriptor that every access to memory takes is moved to uniform registers anew.
std::vector<bool> functions_in_line(std::span<const Request> requests, std::string_view level) {
  const auto is_product = [&](const device::Node& node) {
    return level == "sm_90a" && device::is_copied(node);
  };
  const bool has_runs = std::ranges::any_of(requests, [&](const Request& request) {
    return is_product(node_of(request)) && is_in_runs(node_of(request));
  });
  const auto is_in_line = [&](const device::Node& node) {
    return is_product(node) && (has_runs || static_cast<device::Product>(node.matrix.product) ==
                                                device::Product::tensor);
  };
  const bool streams = block_threads_of(requests) > device::kBlockThreads &&
                       std::ranges::count_if(requests, is_streamed) <= kMostInLine;
  std::vector<bool> in_line;
  for (const Request& request : requests)
    in_line.push_back(is_in_line(node_of(request)) || (streams && is_streamed(request)));
  return in_line;
}

// What products do with the ring of slots: for that alone the frame has code.
uint32_t ring_uses_of(std::span<const Request> requests) {
  uint32_t uses = 0;
  for (const Request& request : requests)
    if (device::is_copied(node_of(request))) uses |= device::tensor::ring_uses(node_of(request));
  return uses;
}

using Bitcode = llvm::SmallVector<char, 0>;

// What a thread compiles with.
class Maker {
 public:
  Maker(const Level& level, uint32_t block_threads)
      : level_(&level), block_threads_(block_threads) {}
  llvm::Error begin() {
    auto machine = gpu_machine({level_->name.data(), level_->name.size()});
    if (!machine) return machine.takeError();
    machine_ = std::move(*machine);
    auto units = Units::open(level_->units);
    if (!units) return units.takeError();
    units_ = std::move(*units);
    units_->give_block_threads(block_threads_);
    return llvm::Error::success();
  }
  // The optimised module of one function.
  llvm::Expected<std::unique_ptr<llvm::Module>> module_of(const Request& request,
                                                          const std::string& name) {
    if (llvm::Error error = units_->specialise(request, name)) return error;
    std::unique_ptr<llvm::Module> module = units_->take();
    optimise(*module, *machine_);
    return module;
  }

 private:
  const Level* level_;
  uint32_t block_threads_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<Units> units_;
};

// The switch over all functions, which the compute loop of the frame takes in line.
void define_execute_node(llvm::Module& module, size_t functions) {
  llvm::Function& execute = *module.getFunction(kExecuteNode);
  llvm::IRBuilder<> builder(module.getContext());
  auto* nowhere = llvm::BasicBlock::Create(module.getContext(), "nowhere", &execute);
  builder.SetInsertPoint(nowhere);
  builder.CreateUnreachable();
  auto* entry = llvm::BasicBlock::Create(module.getContext(), "", &execute, nowhere);
  builder.SetInsertPoint(entry);
  auto* choice = builder.CreateSwitch(execute.getArg(0), nowhere, static_cast<unsigned>(functions));
  for (size_t f = 0; f < functions; ++f) {
    llvm::Function* function = module.getFunction(name_of(f));
    auto* block = llvm::BasicBlock::Create(module.getContext(), "", &execute);
    builder.SetInsertPoint(block);
    const auto located = [&](unsigned argument, unsigned parameter) {
      llvm::Type* type = function->getArg(parameter)->getType();
      return type == execute.getArg(argument)->getType()
                 ? execute.getArg(argument)
                 : builder.CreateAddrSpaceCast(execute.getArg(argument), type);
    };
    // A list that fits lies in shared memory, and the function knows it.
    const bool near = function->getArg(1)->getType()->getPointerAddressSpace() != 0;
    llvm::CallInst* call =
        builder.CreateCall(function, {located(1, 0), located(near ? 3 : 2, 1),
                                      llvm::PoisonValue::get(function->getArg(2)->getType()),
                                      execute.getArg(4), located(5, 4), execute.getArg(6),
                                      execute.getArg(7), located(8, 7), execute.getArg(9)});
    call->addFnAttr(llvm::Attribute::Convergent);
    builder.CreateRetVoid();
    choice->addCase(builder.getInt32(static_cast<uint32_t>(f)), block);
  }
  execute.addFnAttr(llvm::Attribute::AlwaysInline);
}

// A block of the frame has kMostBlockThreads for the units, and some more. Now it has so many for them.
void bound_threads(llvm::Module& module, uint32_t threads) {
  const llvm::Function* kernel = module.getFunction(kKernel);
  for (llvm::MDNode* note : module.getNamedMetadata("nvvm.annotations")->operands()) {
    const auto* of = llvm::mdconst::dyn_extract_or_null<llvm::Function>(note->getOperand(0));
    const auto* what = llvm::dyn_cast<llvm::MDString>(note->getOperand(1));
    if (of != kernel || what->getString() != "maxntidx") continue;
    const auto* all = llvm::mdconst::extract<llvm::ConstantInt>(note->getOperand(2));
    note->replaceOperandWith(
        2, llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(
               all->getType(), all->getZExtValue() - device::kMostBlockThreads + threads)));
  }
}

// The kernel is all that is called from outside; the shared memory is given by its launch.
bool is_seen(const llvm::GlobalValue& value) {
  const llvm::StringRef name = value.getName();
  return name == kKernel || name == "resident_copies_tensors" || name.starts_with("llvm.") ||
         value.isDeclaration();
}

// What the bitcode is. There are 12 MB of it for Hopper, for which SHA-256 itself took 50 of the 90 ms of a short run.
void add_contents(llvm::SHA256& hash, llvm::StringRef bitcode) {
  const llvm::XXH128_hash_t contents = llvm::xxh3_128bits(llvm::arrayRefFromStringRef(bitcode));
  hash.update(llvm::ArrayRef(reinterpret_cast<const uint8_t*>(&contents), sizeof contents));
}

class NvptxCompiler : public GpuCompiler {
 public:
  std::string description() const override { return "LLVM " LLVM_VERSION_STRING; }
  std::string key(std::span<const Request> requests, std::string_view level) const override {
    llvm::SHA256 hash;
    hash.update(llvm::StringRef(kRevision));
    hash.update(llvm::StringRef(kLibraryKey));
    hash.update(llvm::StringRef(LLVM_VERSION_STRING));
    add_contents(hash, level_of(level)->units);
    add_contents(hash, level_of(level)->frame);
    for (const Request& request : requests)
      hash.update(llvm::ArrayRef(reinterpret_cast<const uint8_t*>(request.record.data()),
                                 request.record.size()));
    return llvm::toHex(hash.final(), true);
  }
  bool has(std::string_view level) const override {
    const Level* found = level_of(level);
    return found != nullptr && !found->units.empty();
  }

  std::variant<std::string, Refusal> compile(std::span<const Request> requests,
                                             std::string_view level, int threads,
                                             const std::atomic<bool>* cancelled) const override {
    std::vector<Bitcode> modules(requests.size());
    Refusal refusal =
        each(requests, *level_of(level), threads, [&](size_t i, Maker& maker) -> llvm::Error {
          if (llvm::Error error = unless_cancelled(cancelled)) return error;
          auto module = maker.module_of(requests[i], name_of(i));
          if (!module) return module.takeError();
          llvm::raw_svector_ostream out(modules[i]);
          llvm::WriteBitcodeToFile(**module, out);
          return llvm::Error::success();
        });
    if (!refusal.why.empty()) return refusal;
    std::string text;
    refusal.why = guarded([&]() -> llvm::Error {
      if (llvm::Error error = unless_cancelled(cancelled)) return error;
      auto ptx = link(modules, requests, *level_of(level));
      if (!ptx) return ptx.takeError();
      text = std::move(*ptx);
      return llvm::Error::success();
    });
    if (!refusal.why.empty()) return refusal;
    return text;
  }

  std::variant<std::string, Refusal> print(std::span<const Request> requests,
                                           std::string_view level) const override {
    std::string text;
    Refusal refusal =
        each(requests, *level_of(level), 1, [&](size_t i, Maker& maker) -> llvm::Error {
          auto module = maker.module_of(requests[i], requests[i].name);
          if (!module) return module.takeError();
          llvm::raw_string_ostream out(text);
          write_source(out, requests[i], "; ");
          for (llvm::Function& function : **module)
            if (!function.isDeclaration()) function.print(out);
          out << '\n';
          return llvm::Error::success();
        });
    if (refusal.why.empty()) return text;
    return refusal;
  }

 private:
  // Requests for which another thread is worth its start.
  static constexpr size_t kOfThread = 2;

  // Calls body(i, maker) for all requests, on `threads` threads; the first refusal.
  static Refusal each(std::span<const Request> requests, const Level& level, int threads,
                      llvm::function_ref<llvm::Error(size_t, Maker&)> body) {
    std::atomic<size_t> next = 0;
    std::mutex mutex;
    Refusal refusal;
    const auto work = [&] {
      Maker maker(level, block_threads_of(requests));
      std::string why = guarded([&] { return maker.begin(); });
      size_t i = 0;
      while (why.empty() && (i = next++) < requests.size())
        why = guarded([&] { return body(i, maker); });
      if (why.empty()) return;
      next = requests.size();
      const std::lock_guard lock(mutex);
      if (refusal.why.empty()) refusal = {i < requests.size() ? i : 0, why};
    };
    const auto crew_size = std::clamp<size_t>(static_cast<size_t>(std::max(1, threads)), 1,
                                              requests.size() / kOfThread + 1);
    std::vector<std::thread> crew;
    for (size_t t = 1; t < crew_size; ++t) crew.emplace_back(work);
    work();
    for (std::thread& thread : crew) thread.join();
    return refusal;
  }

  static void write_source(llvm::raw_ostream& out, const Request& request,
                           llvm::StringRef comment) {
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(request.source).split(lines, '\n', -1, false);
    for (const llvm::StringRef line : lines) out << comment << line << '\n';
  }

  static llvm::Expected<std::string> link(std::span<const Bitcode> modules,
                                          std::span<const Request> requests, const Level& level) {
    llvm::LLVMContext context;
    auto frame = llvm::parseBitcodeFile(llvm::MemoryBufferRef(level.frame, "frame"), context);
    if (!frame) return frame.takeError();
    llvm::Module& module = **frame;
    for (const Bitcode& bitcode : modules) {
      auto part = llvm::parseBitcodeFile(
          llvm::MemoryBufferRef({bitcode.data(), bitcode.size()}, "node"), context);
      if (!part) return part.takeError();
      if (llvm::Linker::linkModules(module, std::move(*part))) return error("cannot link a node");
    }
    const std::vector<bool> in_line = functions_in_line(requests, level.name);
    for (size_t i = 0; i < requests.size(); ++i)
      module.getFunction(name_of(i))
          ->addFnAttr(in_line[i] ? llvm::Attribute::AlwaysInline : llvm::Attribute::NoInline);
    define_execute_node(module, requests.size());
    define_number(module, kBlockThreadsGiven, block_threads_of(requests));
    define_number(module, kRingUses, ring_uses_of(requests));
    bound_threads(module, block_threads_of(requests));
    llvm::internalizeModule(module, is_seen);
    auto machine = gpu_machine({level.name.data(), level.name.size()});
    if (!machine) return machine.takeError();
    inline_always(module, **machine);
    std::string why;
    llvm::raw_string_ostream out(why);
    if (llvm::verifyModule(module, &out)) return error("the kernel is not valid: " + why);
    auto ptx = generate(module, **machine, llvm::CodeGenFileType::AssemblyFile);
    if (!ptx) return ptx.takeError();
    return annotated({ptx->data(), ptx->size()}, requests, in_line);
  }

  // The lines of the program before each function, and those of nodes without one before the kernel.
  static std::string annotated(llvm::StringRef ptx, std::span<const Request> requests,
                               const std::vector<bool>& in_line) {
    std::map<std::string, const Request*, std::less<>> functions;
    for (size_t i = 0; i < requests.size(); ++i) functions[name_of(i)] = &requests[i];
    std::string text;
    llvm::raw_string_ostream out(text);
    while (!ptx.empty()) {
      const auto [line, rest] = ptx.split('\n');
      if (line.starts_with(".visible .entry "))
        for (size_t i = 0; i < requests.size(); ++i)
          if (in_line[i]) write_source(out, requests[i], "// in line: ");
      // A declaration has its parameters on the next lines.
      if (line.starts_with(".func ") && line.ends_with("(")) {
        const llvm::StringRef name = line.drop_front(6).trim().take_until(
            [](char c) { return c == '(' || c == ' ' || c == '\t'; });
        if (const auto at = functions.find(name.str()); at != functions.end())
          write_source(out, *at->second, "// ");
      }
      out << line << '\n';
      ptx = rest;
    }
    return text;
  }
};

}  // namespace
}  // namespace trek::jit

extern "C" __attribute__((visibility("default"))) trek::jit::GpuCompiler* trek_jit_gpu_compiler(
    const char* key, std::string* why) {
  if (std::string_view(key) != trek::jit::kLibraryKey) {
    *why = "libtrek_jit is of another build";
    return nullptr;
  }
  static const bool once = [] {
    trek::jit::guard_against_fatal_errors();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  static_cast<void>(once);
  return new trek::jit::NvptxCompiler;
}
