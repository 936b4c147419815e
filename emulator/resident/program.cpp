#include "emulator/resident/program.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "emulator/loading.h"
#include "emulator/plan/check.h"
#include "emulator/plan/link.h"
#include "emulator/plan/measured.h"
#include "emulator/resident/sequence.h"
#include "emulator/resident/trap_words.h"
#include "isa/cost.h"

namespace trek::resident {
namespace {

using driver::Status;
using isa::ErrorCode;
using isa::Module;
using isa::Problems;
using isa::Role;

using Clock = std::chrono::steady_clock;

uint64_t since(Clock::time_point began) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began).count());
}

Problems device_problem(const driver::Error& error) {
  return {problem(ErrorCode::ShapeLimit, "the resident emulator: " + error.text())};
}

// A faulty plan is a bug of the linker; on a device it would wait for ever, or read what is not there yet.
Problems check(const plan::Plan& plan) {
  Problems problems;
  for (const std::string& error : plan::check_plan_at_load(plan))
    problems.push_back(problem(ErrorCode::ShapeLimit, "the linker made a wrong plan: " + error));
  return problems;
}

// Bytes that a program may take.
driver::Result<uint64_t> memory_for(const Machine& machine, const LoadOptions& options) {
  auto free = machine.free_memory();
  if (!free || options.memory_limit == 0) return free;
  return std::min(options.memory_limit, *free);
}

class ResidentProgram : public Program {
 public:
  ResidentProgram(std::shared_ptr<const Machine> machine, const Module& module,
                  const LoadOptions& options, Phases phases, Moving moving, Launching launching)
      : machine_(std::move(machine)),
        module_(module),
        seed_(options.seed),
        phases_(std::move(phases)),
        moving_(std::move(moving)),
        launching_(launching),
        fast_(options.numerics == NumericsMode::fast),
        tiles_(options.tiles) {}
  ResidentProgram(const ResidentProgram&) = delete;
  ResidentProgram& operator=(const ResidentProgram&) = delete;
  ~ResidentProgram() override {
    if (main_.compilation != nullptr) main_.compilation->cancel();
  }

  Problems initialise(const LoadOptions& options);

  const Module& module() const override { return module_; }
  Problems bind(uint32_t tensor, std::span<const std::byte> bytes) override;
  Problems bind_stream(uint32_t tensor, StreamSource source) override;
  void set(uint32_t param, uint64_t bits) override;
  RunResult run(const RunOptions& options) override;
  std::span<const std::byte> read(uint32_t tensor) override;
  const Counters& counters() const override { return counters_; }

 private:
  // A linked function, and what it became on the device.
  struct Part {
    std::shared_ptr<const plan::Plan> plan;
    Image image;  // until it is there
    Steps steps;  // the same, where it is launched in steps
    std::shared_ptr<const MachineCode> code;
    std::shared_ptr<Compilation> compilation;  // of what it is to move to
    std::unique_ptr<Executable> executable;    // or, in steps:
    std::unique_ptr<Sequence> sequence;
  };
  Problems link_part(Part& part, bool initialisers, uint64_t memory, const std::atomic<bool>* stop);
  Problems make_executables();
  Problems make_sequence();
  Problems run_initialisers();
  Problems place_tensor(uint32_t tensor, const LoadOptions& options);
  Problems write(uint32_t tensor, std::span<const std::byte> bytes);
  Problems clear(uint32_t tensor);
  RunResult result_of(const Part& part, const Ended& ended, uint64_t limit) const;
  void count(const Part& part);
  void count_tiles();
  void count_compiling();

  std::string name(uint32_t tensor) const { return module_.string(module_.tensors[tensor].name); }
  const isa::Type& type(uint32_t tensor) const {
    return module_.type(module_.tensors[tensor].type);
  }
  uint64_t offset(uint32_t tensor) const {
    return static_cast<uint64_t>(main_.plan->buffers[tensor].offset);
  }

  std::shared_ptr<const Machine> machine_;
  const Module& module_;
  uint64_t seed_;
  Phases phases_;  // of loading
  Moving moving_;
  Launching launching_;
  bool fast_;
  std::shared_ptr<const plan::MeasuredTiles> tiles_;
  Part init_;  // without an executable where there is nothing to do
  Part main_;
  Memory arena_;
  std::vector<std::byte> read_;  // what read() gave last
  Counters counters_;
};

// What a program is linked for, as it is launched: node by node no two blocks are there for certain.
plan::Device device_for(const Machine& machine, uint64_t memory, Launching launching) {
  plan::Device device = plan_device(machine, memory);
  if (launching != Launching::in_steps) return device;
  device.code += ", node by node";
  device.has_pairs = false;
  device.has_tags = device.has_tagged_moves = device.has_chains = false;
  return device;
}

Problems ResidentProgram::link_part(Part& part, bool initialisers, uint64_t memory,
                                    const std::atomic<bool>* stop) {
  plan::LinkOptions options;
  options.initialisers = initialisers;
  options.fast = fast_;
  options.tiles = tiles_.get();
  isa::Result<plan::Plan> linked =
      plan::link(module_, device_for(*machine_, memory, launching_), options);
  if (!linked) return linked.take_problems();
  part.plan = std::make_shared<const plan::Plan>(linked.take());
  phases_.end("link");
  if (Problems problems = check(*part.plan); !problems.empty()) return problems;
  phases_.end("check");
  isa::Result<Image> image = encode(*part.plan);
  if (!image) return image.take_problems();
  if (image->arena_bytes > memory)
    return {plan::out_of_memory(*part.plan, static_cast<int64_t>(image->arena_bytes))};
  part.image = std::move(*image);
  if (!initialisers && launching_ == Launching::in_steps) {
    isa::Result<Steps> steps = unroll(*part.plan, part.image);
    if (!steps) return steps.take_problems();
    part.steps = steps.take();
  }
  phases_.end("link");
  if (initialisers && part.plan->tasks.empty()) return {};
  if (machine_->interprets()) {
    if (initialisers || !machine_->compiles()) return {};
    isa::Result<Image> going_on = part.image.for_chains ? encode(*part.plan, true) : part.image;
    if (!going_on) return going_on.take_problems();
    part.compilation = std::make_shared<Compilation>(machine_, part.plan, going_on.take());
    moving_.background->begin(part.compilation);
    return {};
  }
  const auto began = Clock::now();
  Image& compiled = part.steps.steps.empty() ? part.image : part.steps.image;
  auto code = machine_->compile(*part.plan, compiled, phases_, {false, stop});
  if (!code) return code.take_problems();
  auto loaded = machine_->load(code.take(), phases_);
  if (!loaded) return device_problem(loaded.error());
  part.code = loaded.take();
  counters_.compiling.nanoseconds += since(began);
  return {};
}

Problems ResidentProgram::make_sequence() {
  auto sequence = Sequence::create(machine_, *main_.plan, std::move(main_.steps), main_.code);
  if (!sequence) return device_problem(sequence.error());
  main_.sequence = sequence.take();
  return {};
}

Problems ResidentProgram::make_executables() {
  for (Part* part : {&init_, &main_}) {
    if (part == &init_ && part->plan->tasks.empty()) continue;
    if (part == &main_ && launching_ == Launching::in_steps) {
      if (Problems problems = make_sequence(); !problems.empty()) return problems;
      continue;
    }
    auto executable =
        part->compilation == nullptr
            ? Executable::create(machine_, *part->plan, std::move(part->image), part->code)
            : Executable::create_moving(machine_, *part->plan, std::move(part->image),
                                        part->compilation, moving_.at);
    if (!executable) return device_problem(executable.error());
    part->executable = executable.take();
  }
  phases_.end("plan");
  return {};
}

Problems ResidentProgram::initialise(const LoadOptions& options) {
  const auto free = memory_for(*machine_, options);
  if (!free) return device_problem(free.error());
  const uint64_t memory = *free;
  for (const bool initialisers : {true, false}) {
    Problems problems = link_part(initialisers ? init_ : main_, initialisers, memory, options.stop);
    if (!problems.empty()) return problems;
  }
  phases_.end("link");
  const uint64_t bytes = std::max(init_.image.arena_bytes, main_.image.arena_bytes);
  // Copies in words of 16 bytes may read a few bytes more than a tensor has.
  auto arena = machine_->allocate(bytes + 256);
  if (!arena) return device_problem(arena.error());
  arena_ = arena.take();
  phases_.end("memory");
  if (Problems problems = make_executables(); !problems.empty()) return problems;
  counters_.memory_bytes = bytes;
  count_tiles();
  for (uint32_t tensor = 0; tensor < module_.tensors.size(); ++tensor) {
    if (module_.tensors[tensor].role == Role::stream) continue;
    Problems problems = place_tensor(tensor, options);
    if (!problems.empty()) return problems;
  }
  for (uint32_t param = 0; param < module_.params.size(); ++param)
    set(param, module_.constants[module_.params[param].value].bits);
  phases_.end("data");
  Problems problems = run_initialisers();
  phases_.end("initialisers");
  counters_.load = phases_.list();
  return problems;
}

Problems ResidentProgram::run_initialisers() {
  if (init_.executable == nullptr) return {};
  auto ended = init_.executable->run(arena_, seed_, {});
  if (!ended) return device_problem(ended.error());
  if (ended->ending == Ending::done) return {};
  const RunResult result = result_of(init_, *ended, 0);
  return {initialiser_problem(module_, result)};
}

Problems ResidentProgram::write(uint32_t tensor, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (Status status = machine_->upload(arena_.address + offset(tensor), bytes); !status)
    return device_problem(status.error());
  return {};
}

Problems ResidentProgram::clear(uint32_t tensor) {
  const auto bytes = static_cast<uint64_t>(type(tensor).bytes());
  if (Status status = machine_->zero(arena_.address + offset(tensor), bytes); !status)
    return device_problem(status.error());
  return {};
}

Problems ResidentProgram::place_tensor(uint32_t tensor, const LoadOptions& options) {
  isa::Result<FirstBytes> first = first_bytes(module_, tensor, options);
  if (!first) return first.take_problems();
  return first->zero ? clear(tensor) : write(tensor, first->bytes());
}

Problems ResidentProgram::bind(uint32_t tensor, std::span<const std::byte> bytes) {
  if (Problems problems = check_bind(module_, tensor, bytes); !problems.empty()) return problems;
  return write(tensor, bytes);
}

Problems ResidentProgram::bind_stream(uint32_t tensor, StreamSource source) {
  if (Problems problems = check_bind_stream(module_, tensor); !problems.empty()) return problems;
  if (main_.executable == nullptr) return {};  // nothing reads it
  main_.executable->mail().set_source(tensor, std::move(source));
  return {};
}

void ResidentProgram::set(uint32_t param, uint64_t bits) {
  for (const plan::Buffer& buffer : main_.plan->buffers) {
    if (buffer.kind != plan::BufferKind::param || buffer.source != param) continue;
    const std::span bytes(reinterpret_cast<const std::byte*>(&bits),
                          static_cast<size_t>(buffer.bytes));
    // A failure of the device shows at the next run.
    static_cast<void>(
        machine_->upload(arena_.address + static_cast<uint64_t>(buffer.offset), bytes));
  }
}

// The words of the contract for what the device said.
RunResult ResidentProgram::result_of(const Part& part, const Ended& ended, uint64_t limit) const {
  RunResult result;
  const auto place_of = [&](uint32_t node) {
    return Place{part.plan->nodes[node].function, part.plan->nodes[node].instruction};
  };
  switch (ended.ending) {
    case Ending::running:
    case Ending::done:
      return result;
    case Ending::limit:
      result.outcome = Outcome::limit;
      result.place = place_of(ended.node);
      result.detail = fmt::format("instructions: {} executed at a back-edge, {} allowed",
                                  ended.instructions, limit);
      return result;
    case Ending::stopped:
      result.outcome = Outcome::stopped;
      result.place = place_of(ended.node);
      return result;
    case Ending::aborted:
      result.outcome = Outcome::limit;
      result.detail =
          fmt::format("watchdog: no task ended for {} s\n{}", watchdog_time().count(), ended.dump);
      return result;
    case Ending::trapped:
      break;
  }
  const plan::Node& node = part.plan->nodes[ended.trap.node];
  result.outcome = Outcome::trapped;
  result.place = place_of(ended.trap.node);
  Trap trap;
  trap.code = static_cast<isa::TrapCode>(ended.trap.code);
  trap.place = result.place;
  for (uint32_t site = node.site; site != plan::kNone; site = part.plan->sites[site].parent)
    trap.callers.push_back({part.plan->sites[site].function, part.plan->sites[site].instruction});
  trap.element = ended.trap.element;
  trap.detail = trap_words(*part.plan, ended.trap);
  result.trap = std::move(trap);
  return result;
}

RunResult ResidentProgram::run(const RunOptions& options) {
  const auto began = Clock::now();
  for (uint32_t tensor = 0; tensor < module_.tensors.size(); ++tensor) {
    if (module_.tensors[tensor].role != Role::output) continue;
    if (Problems problems = clear(tensor); !problems.empty())
      return {Outcome::limit, std::nullopt, {}, problems[0].message};
  }
  auto ended = main_.sequence != nullptr ? main_.sequence->run(arena_, seed_, options)
                                         : main_.executable->run(arena_, seed_, options);
  if (!ended) return {Outcome::limit, std::nullopt, {}, ended.error().text()};
  const uint64_t took = since(began);
  counters_.nanoseconds += took;
  if (counters_.compiling.first_run == 0) {
    counters_.compiling.first_run = took;
    for (const LoadPhase& phase : counters_.load)
      counters_.compiling.first_run += phase.nanoseconds;
  }
  count_compiling();
  counters_.instructions += ended->instructions;
  if (options.profile) count(main_);
  return result_of(main_, *ended, options.instruction_limit);
}

void ResidentProgram::count_tiles() {
  const std::vector<plan::ChosenProduct>& products = main_.plan->products;
  counters_.tiles.products = products.size();
  counters_.tiles.measured = static_cast<uint64_t>(
      std::ranges::count_if(products, [](const auto& product) { return product.measured; }));
}

void ResidentProgram::count_compiling() {
  CompileCounters& counters = counters_.compiling;
  counters.compiles = machine_->compiles();
  counters.begins_without = machine_->interprets();
  if (main_.executable == nullptr) return;
  counters.interpreted = main_.executable->interpreted();
  counters.compiled = main_.executable->compiled();
  const Compilation* compilation = main_.compilation.get();
  if (compilation == nullptr || !compilation->is_done()) return;
  counters.nanoseconds = compilation->nanoseconds();
  if (!compilation->code()) counters.failure = compilation->code().problems()[0].message;
}

// What nodes took, said of the instructions that name them; the time is that of a processor on average. An instruction
// that became several nodes was executed as often as that of them which was executed most.
void ResidentProgram::count(const Part& part) {
  const std::vector<uint64_t>& profile =
      (part.sequence != nullptr ? part.sequence->executable() : *part.executable).profile();
  const auto processors = static_cast<uint64_t>(part.plan->device.processors);
  using Instruction = std::pair<uint32_t, uint32_t>;  // function, number: in program order
  struct Taken {
    std::map<uint32_t, uint64_t> calls;  // by call site
    uint64_t nanoseconds = 0;
  };
  std::map<Instruction, Taken> taken;
  for (size_t i = 0; i < part.plan->nodes.size(); ++i) {
    const plan::Node& node = part.plan->nodes[i];
    const uint64_t tasks = profile[2 * i + 1];
    if (tasks == 0 || node.tasks == 0) continue;
    Taken& of = taken[{node.function, node.instruction}];
    uint64_t& calls = of.calls[node.site];
    calls = std::max(calls, tasks / node.tasks);
    of.nanoseconds += profile[2 * i] / processors;
  }
  std::map<Instruction, InstructionCounters> rows;
  for (const InstructionCounters& row : counters_.per_instruction)
    rows[{row.place.function, row.place.instruction}] = row;
  for (const auto& [at, of] : taken) {
    const auto [function, instruction] = at;
    InstructionCounters& row = rows[at];
    row.place = {function, instruction};
    uint64_t calls = 0;
    for (const auto& [site, of_site] : of.calls) calls += of_site;
    const isa::Function& code = module_.functions[function];
    const isa::Cost cost = isa::cost(module_, code, code.code[instruction]);
    row.calls += calls;
    row.nanoseconds += of.nanoseconds;
    row.flops += cost.flops * calls;
    row.bytes += cost.bytes * calls;
  }
  counters_.per_instruction.clear();
  for (const auto& [at, row] : rows) counters_.per_instruction.push_back(row);
}

std::span<const std::byte> ResidentProgram::read(uint32_t tensor) {
  read_.resize(static_cast<size_t>(type(tensor).bytes()));
  if (read_.empty()) return read_;
  if (!machine_->download(arena_.address + offset(tensor), read_)) return {};
  return read_;
}

}  // namespace

isa::Result<std::shared_ptr<const plan::Device>> device_of(const Machine& machine,
                                                           const LoadOptions& options,
                                                           Launching launching) {
  const auto memory = memory_for(machine, options);
  if (!memory) return device_problem(memory.error());
  return std::make_shared<const plan::Device>(device_for(machine, *memory, launching));
}

isa::Result<std::unique_ptr<Program>> load_program(std::shared_ptr<const Machine> machine,
                                                   const Module& module, const LoadOptions& options,
                                                   Phases phases, Moving moving,
                                                   Launching launching) {
  auto program = std::make_unique<ResidentProgram>(std::move(machine), module, options,
                                                   std::move(phases), std::move(moving), launching);
  Problems problems = program->initialise(options);
  if (!problems.empty()) return problems;
  return std::unique_ptr<Program>(std::move(program));
}

}  // namespace trek::resident
