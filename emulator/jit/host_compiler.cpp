// The compiler for this computer: modules of nodes are compiled in parallel, each in an LLVM context of its own,
// and their objects are linked into the process by ORC.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include "emulator/jit/compiler.h"
#include "emulator/jit/guard.h"
#include "emulator/jit/optimise.h"
#include "emulator/jit/specialise.h"

// NOLINTBEGIN(readability-identifier-naming): symbols of the embedded file
extern "C" const char trek_jit_units[];
extern "C" const char trek_jit_units_end[];
// NOLINTEND(readability-identifier-naming)

namespace trek::jit {
namespace {

using Object = llvm::SmallVector<char, 0>;

llvm::StringRef bitcode() {
  return {trek_jit_units, static_cast<size_t>(trek_jit_units_end - trek_jit_units)};
}

// Machine code in this process, shared by the programs that use functions of it.
struct Linked {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};
struct Function {
  TaskFunction code = nullptr;
  std::shared_ptr<const Linked> in;
};

class HostCode : public Code {
 public:
  explicit HostCode(std::vector<Function> functions) : functions_(std::move(functions)) {}
  TaskFunction function(size_t request) const override { return functions_[request].code; }

 private:
  std::vector<Function> functions_;
};

std::string_view key_of(const Request& request) {
  return {reinterpret_cast<const char*>(request.record.data()), request.record.size()};
}

// What was compiled last, by descriptor: a program that is loaded again is not compiled again.
class Known {
 public:
  Function find(const Request& request) {
    const std::lock_guard lock(mutex_);
    const auto at = functions_.find(std::string(key_of(request)));
    return at == functions_.end() ? Function{} : at->second;
  }
  void add(const Request& request, const Function& function) {
    const std::lock_guard lock(mutex_);
    if (functions_.size() >= kMost) functions_.clear();
    functions_[std::string(key_of(request))] = function;
  }

 private:
  static constexpr size_t kMost = 1024;
  std::mutex mutex_;
  std::map<std::string, Function> functions_;
};

// Requests that are to be compiled, each descriptor once.
std::vector<size_t> distinct(std::span<const Request> requests) {
  std::vector<size_t> first;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < requests.size(); ++i)
    if (seen.insert(key_of(requests[i])).second) first.push_back(i);
  return first;
}

// What generated code may call besides itself and `more`.
llvm::orc::SymbolMap callable(llvm::orc::LLJIT& jit, std::span<const Outside> more) {
  using Fma = double (*)(double, double, double);
  using Fmaf = float (*)(float, float, float);
  llvm::orc::SymbolMap symbols;
  const auto add = [&](const char* name, auto* address) {
    symbols[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                          llvm::JITSymbolFlags::Exported};
  };
  for (const Outside& function : more) add(function.name, function.address);
  add("memcpy", &std::memcpy);
  add("memmove", &std::memmove);
  add("memset", &std::memset);
  add("fma", static_cast<Fma>(&::fma));
  add("fmaf", static_cast<Fmaf>(&::fmaf));
  return symbols;
}

class HostCompiler : public Compiler {
 public:
  std::string description() const override {
    return "LLVM " LLVM_VERSION_STRING " for " + llvm::sys::getHostCPUName().str();
  }

  std::variant<std::unique_ptr<Code>, Refusal> compile(
      std::span<const Request> requests, std::span<const Outside> outside, int threads,
      const std::atomic<bool>* cancelled) const override {
    std::vector<size_t> wanted;
    std::map<std::string_view, Function> made;
    for (const size_t i : distinct(requests)) {
      made[key_of(requests[i])] = known_.find(requests[i]);
      if (made[key_of(requests[i])].code == nullptr) wanted.push_back(i);
    }
    std::vector<Object> objects((wanted.size() + kTogether - 1) / kTogether);
    Refusal refusal =
        each(wanted, threads, [&](size_t batch, std::span<const size_t> of, Maker& maker) {
          return maker.compile(requests, of, cancelled, objects[batch]);
        });
    if (!refusal.why.empty()) return refusal;
    refusal.why = guarded([&]() -> llvm::Error {
      if (objects.empty()) return llvm::Error::success();
      auto linked = link(objects, outside);
      if (!linked) return linked.takeError();
      for (const size_t i : wanted) {
        auto address = (*linked)->jit->lookup(name_of(i));
        if (!address) return address.takeError();
        const Function function = {address->toPtr<TaskFunction>(), *linked};
        known_.add(requests[i], function);
        made[key_of(requests[i])] = function;
      }
      return llvm::Error::success();
    });
    if (!refusal.why.empty()) return refusal;
    std::vector<Function> functions;
    functions.reserve(requests.size());
    for (const Request& request : requests) functions.push_back(made[key_of(request)]);
    return std::make_unique<HostCode>(std::move(functions));
  }

  std::variant<std::string, Refusal> print(std::span<const Request> requests,
                                           Form form) const override {
    std::string text;
    Refusal refusal = each(distinct(requests), 1,
                           [&](size_t, std::span<const size_t> of, Maker& maker) -> llvm::Error {
                             for (const size_t i : of)
                               if (llvm::Error error = maker.print(requests[i], form, text))
                                 return error;
                             return llvm::Error::success();
                           });
    if (refusal.why.empty()) return text;
    return refusal;
  }

 private:
  // Nodes in one module: what each module costs LLVM, however small it is, they share.
  static constexpr size_t kTogether = 8;

  static std::string name_of(size_t request) { return "task." + std::to_string(request); }

  // What a thread compiles with.
  struct Maker {
    std::unique_ptr<llvm::TargetMachine> machine;
    std::unique_ptr<Units> units;

    static llvm::Expected<Maker> make() {
      Maker maker;
      auto machine = host_machine();
      if (!machine) return machine.takeError();
      maker.machine = std::move(*machine);
      auto units = Units::open(bitcode());
      if (!units) return units.takeError();
      maker.units = std::move(*units);
      return maker;
    }
    llvm::Error compile(std::span<const Request> requests, std::span<const size_t> of,
                        const std::atomic<bool>* cancelled, Object& object) const {
      for (const size_t i : of) {
        if (llvm::Error error = unless_cancelled(cancelled)) return error;
        if (llvm::Error error = units->specialise(requests[i], name_of(i))) return error;
      }
      const std::unique_ptr<llvm::Module> module = units->take();
      optimise(*module, *machine);
      auto code = generate(*module, *machine, llvm::CodeGenFileType::ObjectFile);
      if (!code) return code.takeError();
      object = std::move(*code);
      return llvm::Error::success();
    }
    llvm::Error print(const Request& request, Form form, std::string& text) const {
      if (llvm::Error error = units->specialise(request, request.name)) return error;
      const std::unique_ptr<llvm::Module> module = units->take();
      optimise(*module, *machine);
      return print_code(*module, *machine, request, form, text);
    }
  };

  // Calls body(number, requests, maker) for all batches of `wanted`, on `threads` threads; the first refusal. A
  // batch that is refused is tried again one by one, so that it can be said of which request.
  template <typename Body>
  static Refusal each(std::span<const size_t> wanted, int threads, const Body& body) {
    const size_t batches = (wanted.size() + kTogether - 1) / kTogether;
    std::atomic<size_t> next = 0;
    std::mutex mutex;
    Refusal refusal;
    const auto work = [&] {
      Maker maker;
      const auto renew = [&] {
        return guarded([&]() -> llvm::Error {
          auto made = Maker::make();
          if (!made) return made.takeError();
          maker = std::move(*made);
          return llvm::Error::success();
        });
      };
      std::string why = renew();
      size_t culprit = wanted.empty() ? 0 : wanted[0];
      for (size_t batch = 0; why.empty() && (batch = next++) < batches;) {
        const auto of = wanted.subspan(batch * kTogether,
                                       std::min(kTogether, wanted.size() - batch * kTogether));
        why = guarded([&] { return body(batch, of, maker); });
        for (size_t i = 0; !why.empty() && i < of.size(); ++i) {
          if (!renew().empty()) break;
          culprit = of[i];
          std::string again = guarded([&] { return body(batch, of.subspan(i, 1), maker); });
          if (again.empty()) continue;
          why = std::move(again);
          break;
        }
      }
      if (why.empty()) return;
      next = batches;
      const std::lock_guard lock(mutex);
      if (refusal.why.empty()) refusal = {culprit, why};
    };
    if (batches == 0) return refusal;
    const auto crew_size =
        std::clamp<size_t>(static_cast<size_t>(std::max(1, threads)), 1, batches);
    std::vector<std::thread> crew;
    for (size_t t = 1; t < crew_size; ++t) crew.emplace_back(work);
    work();
    for (std::thread& thread : crew) thread.join();
    return refusal;
  }

  static llvm::Expected<std::shared_ptr<Linked>> link(std::span<Object> objects,
                                                      std::span<const Outside> outside) {
    auto jit = llvm::orc::LLJITBuilder()
                   .setLinkProcessSymbolsByDefault(false)
                   .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                   .create();
    if (!jit) return jit.takeError();
    llvm::orc::JITDylib& library = (*jit)->getMainJITDylib();
    if (llvm::Error error = library.define(llvm::orc::absoluteSymbols(callable(**jit, outside))))
      return error;
    for (const Object& object : objects) {
      auto buffer = llvm::MemoryBuffer::getMemBufferCopy({object.data(), object.size()});
      if (llvm::Error error = (*jit)->addObjectFile(std::move(buffer))) return error;
    }
    auto linked = std::make_shared<Linked>();
    linked->jit = std::move(*jit);
    return linked;
  }

  static llvm::Error print_code(llvm::Module& module, llvm::TargetMachine& machine,
                                const Request& request, Form form, std::string& text) {
    const char comment = form == Form::ir ? ';' : '#';
    llvm::raw_string_ostream out(text);
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(request.source).split(lines, '\n', -1, false);
    for (const llvm::StringRef line : lines) out << comment << ' ' << line << '\n';
    if (form == Form::ir) {
      for (llvm::Function& function : module)
        if (!function.isDeclaration()) function.print(out);
    } else {
      auto code = generate(module, machine, llvm::CodeGenFileType::AssemblyFile);
      if (!code) return code.takeError();
      out << llvm::StringRef(code->data(), code->size());
    }
    out << '\n';
    return llvm::Error::success();
  }

  mutable Known known_;
};

}  // namespace
}  // namespace trek::jit

extern "C" __attribute__((visibility("default"))) trek::jit::Compiler* trek_jit_compiler(
    const char* key, std::string* why) {
  if (std::string_view(key) != trek::jit::kLibraryKey) {
    *why = "libtrek_jit is of another build";
    return nullptr;
  }
  static const bool once = [] {
    trek::jit::guard_against_fatal_errors();
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  static_cast<void>(once);
  auto machine = trek::jit::host_machine();
  if (!machine) {
    *why = llvm::toString(machine.takeError());
    return nullptr;
  }
  return new trek::jit::HostCompiler;
}
