#include "emulator/ref/program.h"

#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "emulator/loading.h"
#include "emulator/ref/machine.h"
#include "isa/cost.h"

namespace trek::ref {
namespace {

using isa::ErrorCode;
using isa::Module;
using isa::Problems;
using isa::Role;
using isa::TensorDecl;

class RefProgram : public Program {
 public:
  RefProgram(const Module& module, const Kernels& kernels, const LoadOptions& options)
      : module_(module), machine_(module, kernels, options) {}

  Problems initialise(const LoadOptions& options);

  const Module& module() const override { return module_; }
  Problems bind(uint32_t tensor, std::span<const std::byte> bytes) override;
  Problems bind_stream(uint32_t tensor, StreamSource source) override;
  void set(uint32_t param, uint64_t bits) override { machine_.params()[param] = bits; }
  RunResult run(const RunOptions& options) override;
  std::span<const std::byte> read(uint32_t tensor) override;
  const Counters& counters() const override { return counters_; }

 private:
  std::string name(uint32_t tensor) const { return module_.string(module_.tensors[tensor].name); }
  const isa::Type& type(uint32_t tensor) const {
    return module_.type(module_.tensors[tensor].type);
  }
  Slot& slot(uint32_t tensor) { return machine_.tensors()[tensor]; }
  Problems check_memory() const;
  Problems place_tensor(uint32_t tensor, const LoadOptions& options);
  Problems make_own(uint32_t tensor);
  void count_executions();

  const Module& module_;
  Machine machine_;
  Counters counters_;
};

// All tensors together must fit; said at once, before any is allocated.
Problems RefProgram::check_memory() const {
  uint64_t sum = 0;
  for (const TensorDecl& decl : module_.tensors) {
    if (decl.role == Role::stream) continue;
    const auto bytes = static_cast<uint64_t>(module_.type(decl.type).bytes());
    sum = sum > UINT64_MAX - bytes ? UINT64_MAX : sum + bytes;
  }
  const uint64_t limit = machine_.memory().limit();
  if (sum <= limit) return {};
  return {
      problem(ErrorCode::ShapeLimit,
              fmt::format("the module's tensors take {} bytes, and {} are to be had", sum, limit))};
}

Problems RefProgram::place_tensor(uint32_t tensor, const LoadOptions& options) {
  const auto bytes = static_cast<uint64_t>(type(tensor).bytes());
  Buffer& buffer = slot(tensor).buffer;
  buffer = machine_.memory().allocate(bytes);
  if (!buffer)
    return {problem(ErrorCode::ShapeLimit, fmt::format("@{} {} takes {} bytes: no memory for it",
                                                       name(tensor), type(tensor).text(), bytes))};
  isa::Result<FirstBytes> first = first_bytes(module_, tensor, options);
  if (!first) return first.take_problems();
  if (first->zero)
    std::memset(buffer.data(), 0, bytes);
  else if (bytes > 0)
    std::memcpy(buffer.data(), first->bytes().data(), bytes);
  return {};
}

Problems RefProgram::initialise(const LoadOptions& options) {
  Problems problems = check_memory();
  for (uint32_t tensor = 0; problems.empty() && tensor < module_.tensors.size(); ++tensor)
    if (module_.tensors[tensor].role != Role::stream) problems = place_tensor(tensor, options);
  if (!problems.empty()) return problems;
  const RunResult result = machine_.run(kInitFunction, {});
  if (result.outcome == Outcome::done) return {};
  return {initialiser_problem(module_, result)};
}

// Registers may share a tensor's memory; before the host writes, it is the tensor's alone.
Problems RefProgram::make_own(uint32_t tensor) {
  Buffer& buffer = slot(tensor).buffer;
  if (buffer.is_unique()) return {};
  const auto bytes = static_cast<uint64_t>(type(tensor).bytes());
  Buffer own = machine_.memory().allocate(bytes);
  if (!own)
    return {problem(ErrorCode::ShapeLimit,
                    fmt::format("@{} takes {} bytes: no memory for it", name(tensor), bytes))};
  std::memcpy(own.data(), buffer.data(), bytes);
  buffer = std::move(own);
  return {};
}

Problems RefProgram::bind(uint32_t tensor, std::span<const std::byte> bytes) {
  if (Problems problems = check_bind(module_, tensor, bytes); !problems.empty()) return problems;
  if (Problems problems = make_own(tensor); !problems.empty()) return problems;
  if (!bytes.empty()) std::memcpy(slot(tensor).buffer.data(), bytes.data(), bytes.size());
  return {};
}

Problems RefProgram::bind_stream(uint32_t tensor, StreamSource source) {
  if (Problems problems = check_bind_stream(module_, tensor); !problems.empty()) return problems;
  machine_.streams()[tensor] = std::move(source);
  return {};
}

RunResult RefProgram::run(const RunOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  for (uint32_t tensor = 0; tensor < module_.tensors.size(); ++tensor) {
    if (module_.tensors[tensor].role != Role::output) continue;
    if (!make_own(tensor).empty())
      return {Outcome::limit, std::nullopt, {}, "memory: none for the outputs"};
    std::memset(slot(tensor).buffer.data(), 0, static_cast<size_t>(type(tensor).bytes()));
  }
  const auto* main = module_.find_function("main");
  RunResult result = machine_.run(static_cast<uint32_t>(main - module_.functions.data()), options);
  const auto took = std::chrono::steady_clock::now() - began;
  counters_.nanoseconds +=
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  counters_.instructions = machine_.instructions();
  counters_.memory_bytes = machine_.memory().peak();
  if (options.profile) count_executions();
  return result;
}

void RefProgram::count_executions() {
  counters_.per_instruction.clear();
  for (uint32_t f = 0; f < module_.functions.size(); ++f) {
    const isa::Function& function = module_.functions[f];
    const std::span<const Execution> executions = machine_.executions(f);
    for (uint32_t i = 0; i < executions.size(); ++i) {
      if (executions[i].calls == 0) continue;
      const isa::Cost cost = isa::cost(module_, function, function.code[i]);
      InstructionCounters counters;
      counters.place = {f, i};
      counters.calls = executions[i].calls;
      counters.nanoseconds = executions[i].nanoseconds;
      counters.flops = cost.flops * counters.calls;
      counters.bytes = cost.bytes * counters.calls;
      counters_.per_instruction.push_back(counters);
    }
  }
}

std::span<const std::byte> RefProgram::read(uint32_t tensor) {
  const Buffer& buffer = slot(tensor).buffer;
  if (!buffer) return {};
  return {buffer.data(), static_cast<size_t>(type(tensor).bytes())};
}

}  // namespace

isa::Result<std::unique_ptr<Program>> load_program(const Module& module, const Kernels& kernels,
                                                   const LoadOptions& options) {
  auto program = std::make_unique<RefProgram>(module, kernels, options);
  Problems problems = program->initialise(options);
  if (!problems.empty()) return problems;
  return std::unique_ptr<Program>(std::move(program));
}

}  // namespace trek::ref
