// The compiler for this computer: modules of nodes are compiled in parallel, each in an LLVM context of its own,
// and their objects are linked into the process by ORC.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include "emulator/jit/compiler.h"
#include "emulator/jit/guard.h"
#include "emulator/jit/optimise.h"
#include "emulator/jit/places.h"
#include "emulator/jit/relocate.h"
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
  TaskFunction code = nullptr;  // null: known is that nodes with other addresses need another
  std::shared_ptr<const Linked> in;
};

// A request on its way to a function.
struct Job {
  const Request* request = nullptr;
  Placed placed;
  bool shares = true;  // the function with nodes that differ in addresses alone
  Function function;

  // A function's key: what it is made from.
  std::string key(bool shared) const {
    const std::span<const std::byte> of = shared ? placed.record : request->record;
    return (shared ? std::to_string(placed.first_number) + " places " : "arena ") +
           std::string(reinterpret_cast<const char*>(of.data()), of.size());
  }
};

class HostCode : public Code {
 public:
  explicit HostCode(std::vector<Job> jobs) : jobs_(std::move(jobs)) {}
  TaskCode code(size_t request) const override {
    const Job& job = jobs_[request];
    return {job.function.code, job.placed.places.data()};
  }

 private:
  std::vector<Job> jobs_;
};

// What was compiled last: a program that is loaded again is not compiled again.
class Known {
 public:
  // Looks for a job's function; false: it is to be compiled, as job.shares says.
  bool find(Job& job) const {
    const auto lock = std::lock_guard(mutex_);
    const auto* function = at(job.key(true));
    job.shares = function == nullptr || function->code != nullptr;
    if (!job.shares) function = at(job.key(false));
    if (function != nullptr) job.function = *function;
    return function != nullptr;
  }
  void add(const Job& job, const Function& function) {
    const auto lock = std::lock_guard(mutex_);
    functions_[job.key(job.shares)] = function;
    if (!job.shares) functions_[job.key(true)] = {};
  }
  // Between programs, so that what one needs is there while it is compiled.
  void forget_many() {
    const auto lock = std::lock_guard(mutex_);
    if (functions_.size() >= kMost) functions_.clear();
  }

 private:
  static constexpr size_t kMost = 1024;
  const Function* at(const std::string& key) const {
    const auto found = functions_.find(key);
    return found == functions_.end() ? nullptr : &found->second;
  }
  mutable std::mutex mutex_;
  std::map<std::string, Function> functions_;
};

std::vector<Job> jobs_of(std::span<const Request> requests) {
  std::vector<Job> jobs;
  for (const Request& request : requests)
    jobs.push_back({&request, without_addresses(request.record), true, {}});
  return jobs;
}

// Of the jobs at `among`, the first of each function.
std::vector<size_t> distinct(std::span<const Job> jobs, std::span<const size_t> among) {
  std::vector<size_t> first;
  std::set<std::string> seen;
  for (const size_t i : among)
    if (seen.insert(jobs[i].key(jobs[i].shares)).second) first.push_back(i);
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

  std::variant<std::unique_ptr<Code>, Refusal> compile(std::span<const Request> requests,
                                                       std::span<const Outside> outside,
                                                       int threads) const override {
    known_.forget_many();
    std::vector<Job> jobs = jobs_of(requests);
    // A second time for those that cannot share what was made for another.
    for (;;) {
      std::vector<size_t> missing;
      for (size_t i = 0; i < jobs.size(); ++i)
        if (jobs[i].function.code == nullptr && !known_.find(jobs[i])) missing.push_back(i);
      if (missing.empty()) return std::make_unique<HostCode>(std::move(jobs));
      Refusal refusal = compile_some(jobs, distinct(jobs, missing), outside, threads);
      if (!refusal.why.empty()) return refusal;
    }
  }

  std::variant<std::string, Refusal> print(std::span<const Request> requests,
                                           Form form) const override {
    std::string text;
    std::vector<Job> jobs = jobs_of(requests);
    std::vector<size_t> all(jobs.size());
    std::iota(all.begin(), all.end(), size_t{0});
    Refusal refusal = each(distinct(jobs, all), 1,
                           [&](size_t, std::span<const size_t> of, Maker& maker) -> llvm::Error {
                             for (const size_t i : of)
                               if (llvm::Error error = maker.print(jobs[i], form, text))
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

  // Compiles the jobs at `wanted`, so that they are known.
  Refusal compile_some(std::span<Job> jobs, std::span<const size_t> wanted,
                       std::span<const Outside> outside, int threads) const {
    std::vector<Object> objects((wanted.size() + kTogether - 1) / kTogether);
    Refusal refusal =
        each(wanted, threads, [&](size_t batch, std::span<const size_t> of, Maker& maker) {
          return maker.compile(jobs, of, objects[batch]);
        });
    if (!refusal.why.empty()) return refusal;
    refusal.why = guarded([&]() -> llvm::Error {
      auto linked = link(objects, outside);
      if (!linked) return linked.takeError();
      for (const size_t i : wanted) {
        auto address = (*linked)->jit->lookup(name_of(i));
        if (!address) return address.takeError();
        known_.add(jobs[i], {address->toPtr<TaskFunction>(), *linked});
      }
      return llvm::Error::success();
    });
    return refusal;
  }

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
    llvm::Error compile(std::span<Job> jobs, std::span<const size_t> of, Object& object) const {
      for (const size_t i : of)
        if (llvm::Error error = specialise(jobs[i], name_of(i))) return error;
      const std::unique_ptr<llvm::Module> module = units->take();
      for (const size_t i : of) finish(*module, jobs[i], name_of(i));
      optimise(*module, *machine);
      auto code = generate(*module, *machine, llvm::CodeGenFileType::ObjectFile);
      if (!code) return code.takeError();
      object = std::move(*code);
      return llvm::Error::success();
    }
    llvm::Error print(Job& job, Form form, std::string& text) const {
      if (llvm::Error error = specialise(job, job.request->name)) return error;
      const std::unique_ptr<llvm::Module> module = units->take();
      finish(*module, job, job.request->name);
      optimise(*module, *machine);
      return print_code(*module, *machine, *job.request, form, text);
    }
    // Without addresses, if that can be; else says so in the job.
    llvm::Error specialise(Job& job, const std::string& name) const {
      if (job.shares) {
        Request shared = *job.request;
        shared.record = job.placed.record;
        if (llvm::Error error = units->specialise(shared, name)) return error;
        job.shares = goes_to_places(units->last(), job.placed.places.size());
        if (job.shares) return llvm::Error::success();
        units->drop_last();
      }
      return units->specialise(*job.request, name);
    }
    static void finish(llvm::Module& module, const Job& job, const std::string& name) {
      give_places(*module.getFunction(name), job.shares ? job.placed.places.size() : 0,
                  job.placed.first_number);
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
