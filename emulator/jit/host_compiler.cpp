// The compiler for this computer: modules of nodes are compiled in parallel, each in an LLVM context of its own,
// and their objects are linked into the process by ORC.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include "emulator/jit/compiler.h"
#include "emulator/jit/optimise.h"
#include "emulator/jit/specialise.h"

extern "C" const char trek_jit_units[];
extern "C" const char trek_jit_units_end[];

namespace trek::jit {
namespace {

using Object = llvm::SmallVector<char, 0>;

// LLVM ends the process where its code generator meets what it does not know. Here such an error goes back to
// where the compilation began; what it had allocated is lost.
thread_local std::jmp_buf* recovery = nullptr;
thread_local std::string* recovered_from = nullptr;

void on_fatal_error(void*, const char* reason, bool) {
  if (recovery == nullptr) return;
  *recovered_from = reason;
  std::longjmp(*recovery, 1);  // NOLINT(cert-err52-cpp): LLVM is built to throw nothing
}

// Calls body(), which gives an llvm::Error; the text of what went wrong, or nothing.
template <typename Body>
std::string guarded(const Body& body) {
  std::string fatal;
  std::jmp_buf place;
  recovered_from = &fatal;
  recovery = &place;
  std::string text;
  if (setjmp(place) == 0) {  // NOLINT(cert-err52-cpp)
    if (llvm::Error error = body()) text = llvm::toString(std::move(error));
  } else {
    text = "LLVM: " + fatal;
  }
  recovery = nullptr;
  return text;
}

llvm::StringRef bitcode() {
  return {trek_jit_units, static_cast<size_t>(trek_jit_units_end - trek_jit_units)};
}

class HostCode : public Code {
 public:
  HostCode(std::unique_ptr<llvm::orc::LLJIT> jit, std::vector<TaskFunction> functions,
           size_t made)
      : jit_(std::move(jit)), functions_(std::move(functions)), made_(made) {}
  TaskFunction function(size_t request) const override { return functions_[request]; }
  size_t functions() const override { return made_; }

 private:
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  std::vector<TaskFunction> functions_;
  size_t made_;
};

// Requests by what their code depends on.
struct Distinct {
  std::vector<size_t> first;  // a request of each
  std::vector<size_t> of;     // per request
};
Distinct distinct(std::span<const Request> requests) {
  Distinct result;
  std::map<std::string_view, size_t> known;
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::span<const std::byte> record = requests[i].record;
    const auto [at, is_new] = known.try_emplace(
        std::string_view(reinterpret_cast<const char*>(record.data()), record.size()),
        result.first.size());
    if (is_new) result.first.push_back(i);
    result.of.push_back(at->second);
  }
  return result;
}

// What generated code may call besides itself.
llvm::orc::SymbolMap outside(llvm::orc::LLJIT& jit) {
  using Fma = double (*)(double, double, double);
  using Fmaf = float (*)(float, float, float);
  llvm::orc::SymbolMap symbols;
  const auto add = [&](const char* name, auto* address) {
    symbols[jit.mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(address),
                                          llvm::JITSymbolFlags::Exported};
  };
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

  std::variant<std::unique_ptr<Code>, Refusal> compile(std::span<const Request> requests,
                                                       int threads) const override {
    const Distinct nodes = distinct(requests);
    std::vector<Object> objects(nodes.first.size());
    Refusal refusal = each(nodes.first.size(), threads, [&](size_t i, Units& units, llvm::TargetMachine& machine) {
      return to_object(requests[nodes.first[i]], name_of(i), units, machine, objects[i]);
    });
    if (!refusal.why.empty()) {
      refusal.request = nodes.first[refusal.request];
      return refusal;
    }
    std::unique_ptr<Code> code;
    refusal.why = guarded([&] { return link(objects, nodes, code); });
    if (!refusal.why.empty()) return refusal;
    return code;
  }

  std::variant<std::string, Refusal> print(std::span<const Request> requests,
                                           Form form) const override {
    const Distinct nodes = distinct(requests);
    std::string text;
    Refusal refusal = each(nodes.first.size(), 1, [&](size_t i, Units& units, llvm::TargetMachine& machine) {
      const Request& request = requests[nodes.first[i]];
      return to_text(request, units, machine, form, text);
    });
    if (refusal.why.empty()) return text;
    refusal.request = nodes.first[refusal.request];
    return refusal;
  }

 private:
  static std::string name_of(size_t number) { return "task." + std::to_string(number); }

  // Calls body(i, units, machine) for all i < n, on `threads` threads; the first refusal.
  template <typename Body>
  static Refusal each(size_t n, int threads, const Body& body) {
    std::atomic<size_t> next = 0;
    std::mutex mutex;
    Refusal refusal;
    const auto work = [&] {
      std::unique_ptr<llvm::TargetMachine> machine;
      std::unique_ptr<Units> units;
      size_t i = 0;
      std::string why = guarded([&]() -> llvm::Error {
        auto made = host_machine();
        if (!made) return made.takeError();
        machine = std::move(*made);
        auto opened = Units::open(bitcode());
        if (!opened) return opened.takeError();
        units = std::move(*opened);
        return llvm::Error::success();
      });
      while (why.empty() && (i = next++) < n)
        why = guarded([&] { return body(i, *units, *machine); });
      if (why.empty()) return;
      next = n;
      const std::lock_guard lock(mutex);
      if (refusal.why.empty()) refusal = {i, why};
    };
    const int wanted = std::clamp<int>(static_cast<int>(std::min<size_t>(n, 256)), 1,
                                       std::max(1, threads));
    std::vector<std::thread> crew;
    for (int t = 1; t < wanted; ++t) crew.emplace_back(work);
    work();
    for (std::thread& thread : crew) thread.join();
    return refusal;
  }

  static llvm::Error to_object(const Request& request, const std::string& name, Units& units,
                               llvm::TargetMachine& machine, Object& object) {
    auto module = units.specialise(request, name);
    if (!module) return module.takeError();
    optimise(**module, machine);
    auto code = generate(**module, machine, llvm::CodeGenFileType::ObjectFile);
    if (!code) return code.takeError();
    object = std::move(*code);
    return llvm::Error::success();
  }

  static llvm::Error to_text(const Request& request, Units& units, llvm::TargetMachine& machine,
                             Form form, std::string& text) {
    auto module = units.specialise(request, request.name);
    if (!module) return module.takeError();
    optimise(**module, machine);
    const char comment = form == Form::ir ? ';' : '#';
    std::string line;
    llvm::raw_string_ostream out(text);
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(request.source).split(lines, '\n', -1, false);
    for (llvm::StringRef of : lines) out << comment << ' ' << of << '\n';
    if (form == Form::ir) {
      for (llvm::Function& function : **module)
        if (!function.isDeclaration()) function.print(out);
    } else {
      auto code = generate(**module, machine, llvm::CodeGenFileType::AssemblyFile);
      if (!code) return code.takeError();
      out << llvm::StringRef(code->data(), code->size());
    }
    out << '\n';
    return llvm::Error::success();
  }

  static llvm::Error link(std::span<Object> objects, const Distinct& nodes,
                          std::unique_ptr<Code>& code) {
    auto jit = llvm::orc::LLJITBuilder()
                   .setLinkProcessSymbolsByDefault(false)
                   .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                   .create();
    if (!jit) return jit.takeError();
    llvm::orc::JITDylib& library = (*jit)->getMainJITDylib();
    if (llvm::Error error = library.define(llvm::orc::absoluteSymbols(outside(**jit))))
      return error;
    for (size_t i = 0; i < objects.size(); ++i) {
      auto buffer = llvm::MemoryBuffer::getMemBufferCopy({objects[i].data(), objects[i].size()},
                                                         name_of(i));
      if (llvm::Error error = (*jit)->addObjectFile(std::move(buffer))) return error;
    }
    std::vector<TaskFunction> made;
    for (size_t i = 0; i < objects.size(); ++i) {
      auto address = (*jit)->lookup(name_of(i));
      if (!address) return address.takeError();
      made.push_back(address->toPtr<TaskFunction>());
    }
    std::vector<TaskFunction> functions;
    functions.reserve(nodes.of.size());
    for (const size_t node : nodes.of) functions.push_back(made[node]);
    code = std::make_unique<HostCode>(std::move(*jit), std::move(functions), made.size());
    return llvm::Error::success();
  }
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
    llvm::install_fatal_error_handler(trek::jit::on_fatal_error);
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
