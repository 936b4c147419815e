// This computer as a machine: a thread for each processor, with a block of one thread.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include "emulator/loading.h"
#include "emulator/measure/report.h"
#include "emulator/resident/host_code.h"
#include "emulator/resident/machine.h"
#include "emulator/resident/pipeline.h"

namespace trek::resident {
namespace {

using driver::Result;
using driver::Status;

// A page that the system may give for so many bytes: a product goes through panels and tensors in strides of many
// pages, and there are few entries for the small ones.
constexpr uint64_t kLarge = uint64_t{2} * 1024 * 1024;
// How often a processor looks at a counter before it sleeps between looks.
constexpr int kPatience = 2000;
constexpr auto kShortRest = std::chrono::microseconds(20);
constexpr auto kLongRest = std::chrono::microseconds(500);

// Puts this thread on a core of its own to begin with, from where the system may move it. Threads that are made one
// after the other by one that then sleeps often begin on one core, and a system that sees the sleeper wake again and
// again does not part them for milliseconds.
void begin_on_core(uint32_t number) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  auto before = static_cast<int>(number % static_cast<uint32_t>(std::max(1, CPU_COUNT(&allowed))));
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || before-- > 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    if (::sched_setaffinity(0, sizeof own, &own) == 0)
      ::sched_setaffinity(0, sizeof allowed, &allowed);
    return;
  }
}

// What the controller, the waiter and the compute warps of a block do, one after the other.
class Processor {
 public:
  // `scratch` is the block's shared memory and what code wants behind it, 64-byte aligned.
  Processor(const Launch& launch, uint32_t number, const HostCode* code, std::byte* scratch)
      : launch_(launch),
        number_(number),
        code_(code),
        regions_(launch.region_count),
        scratch_(scratch),
        walker_(launch, number, regions_.data(), Queue{launch.records + launch.queues[number]},
                kKept),
        decisions_(decisions_before(launch)) {
    device::begin_tasks(block());
  }

  // The records themselves.
  struct Queue {
    const Record* first;
    const Record& at(uint32_t i) const { return first[i]; }
  };

  void run() {
    walker_.begin();
    while (const Record* record = next()) {
      Kept& task = next_place();
      task.record = record;
      task.due.moment = walker_.moment(*record);
      bool goes_on = true;
      name_due(task.due, walker_, *record, 0, 1, [&](uint32_t counter, uint32_t target) {
        goes_on = goes_on && await(task, counter, target);
      });
      if (!goes_on || !perform(task)) break;
    }
    note(launch_.states[number_], Doing::finished);
    walker_.say_end();
  }

 private:
  // The last tasks, as in the slots of a GPU's pipeline: those of trips that are alike come again.
  static constexpr uint32_t kKept = 8;
  struct Kept {
    const Record* record = nullptr;
    Due due = {};
  };
  Kept& next_place() { return kept_[visits_++ % kKept]; }

  // The next task, once those that come before it and are kept have been executed; null at the end, or where this
  // processor leaves.
  const Record* next() {
    const Record* record = walker_.next();
    const Repeats repeats = walker_.repeats();
    for (uint32_t left = repeats.tasks * repeats.trips; left > 0; --left) {
      Kept& task = next_place();
      move_on(task.due, static_cast<uint32_t>(std::countr_zero(kKept / repeats.tasks)), 0, 1);
      if (!perform(task)) return nullptr;
    }
    return record;
  }
  bool perform(Kept& task) { return wait(task) && execute(task); }

  static void note(ProcessorState& state, Doing doing) {
    __atomic_store_n(reinterpret_cast<uint32_t*>(&state.doing), static_cast<uint32_t>(doing),
                     __ATOMIC_RELAXED);
  }

  device::Block block() {
    device::Block block;
    block.shared = scratch_;
    block.shared_bytes = launch_.scratch_bytes;
    return block;
  }

  bool wait(const Kept& task) {
    for (uint32_t i = 0; i < task.due.waits; ++i)
      if (task.due.counter[i] != kNoCounter &&
          !await(task, task.due.counter[i], task.due.target[i]))
        return false;
    return true;
  }
  bool await(const Kept& task, uint32_t counter, uint32_t target) {
    ProcessorState& state = launch_.states[number_];
    const uint32_t* at = counter_at(launch_, counter);
    for (int looks = 0;; ++looks) {
      const uint32_t seen = load_acquire(at);
      if (static_cast<int32_t>(seen - target) >= 0) return true;
      __atomic_store_n(&state.node, task.record->node, __ATOMIC_RELAXED);
      __atomic_store_n(&state.counter, counter, __ATOMIC_RELAXED);
      __atomic_store_n(&state.target, target, __ATOMIC_RELAXED);
      __atomic_store_n(&state.seen, seen, __ATOMIC_RELAXED);
      note(state, Doing::waiting);
      if (must_leave(launch_, task.due.moment)) return false;
      if (looks < kPatience)
        pause();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  bool execute(Kept& task) {
    const Record& record = *task.record;
    const unsigned char* at = launch_.descriptors + size_t{16} * record.descriptor;
    const auto& node = *reinterpret_cast<const device::Node*>(at);
    const int64_t* counters = task.due.counters;
    const device::Block block = this->block();
    ProcessorState& state = launch_.states[number_];
    __atomic_store_n(&state.node, record.node, __ATOMIC_RELAXED);
    note(state, Doing::executing);
    device::Fault fault = device::kNoFault;
    const uint64_t began = nanoseconds();
    const device::Environment environment = {reinterpret_cast<std::byte*>(launch_.arena),
                                             launch_.seed, counters};
    const auto once = [](uint32_t turn) { return turn == 0; };
    if (const NodeCode code = code_of(record); code.function != nullptr)
      code.function(environment.arena, code.addresses, block.shared, environment.seed, counters,
                    record.first, record.count, &fault);
    else if (record.kind == Kind::quick)
      device::execute_quick<device::Quick::simple>(block, node, record.first, record.count,
                                                   environment, once);
    else if (record.kind == Kind::calls)
      device::execute_quick<device::Quick::calls>(block, node, record.first, record.count,
                                                  environment, once);
    else if (record.kind == Kind::move)
      device::execute_quick<device::Quick::move>(block, node, record.first, record.count,
                                                 environment, once);
    else if (is_of_unit(record.kind))
      device::execute(block, node, record.first, record.count, environment, &fault);
    else
      control(block, launch_, record, node, environment, &decisions_, &fault);
    if (device::is_fault(fault)) {
      report_trap(launch_, task.due.moment, record.node, fault);
      return false;
    }
    for (uint32_t i = 0; i < record.signals; ++i)
      add_release(counter_at(launch_, record.signal[i]), 1);
    if (launch_.profile != nullptr) count_tasks(launch_, record.node, began, 1);
    store_relaxed(&state.retired, ++retired_);
    return true;
  }

  // Compiled code for a task of a unit; none where the interpreter executes it.
  NodeCode code_of(const Record& record) const {
    return code_ != nullptr && is_of_unit(record.kind) ? code_->of(record.node) : NodeCode{};
  }

  const Launch& launch_;
  uint32_t number_;
  const HostCode* code_;
  std::vector<RegionState> regions_;
  std::byte* scratch_;
  Walker<Queue> walker_;
  std::array<Kept, kKept> kept_;
  uint32_t visits_ = 0;
  uint64_t decisions_;
  uint64_t retired_ = 0;
};

// A thread for each processor, kept from launch to launch: to make threads takes longer than small programs.
class Threads {
 public:
  Threads() = default;
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() {
    start(0, nullptr);
    for (std::thread& thread : threads_) thread.join();
  }

  // Calls body(p) for each p < count on a thread of its own, once what was started before is over; is over when is_idle().
  // None: the threads end.
  void start(uint32_t count, std::function<void(uint32_t)> body) {
    wait();
    while (threads_.size() < count)
      threads_.emplace_back([this, p = static_cast<uint32_t>(threads_.size()), seen = started_] {
        begin_on_core(p);
        work(p, seen);
      });
    {
      const std::lock_guard lock(mutex_);
      body_ = std::move(body);
      count_ = running_ = count;
      ++started_;
    }
    starts_.notify_all();
  }
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return running_ == 0;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ends_.wait(lock, [this] { return running_ == 0; });
  }
  void wait_for(std::chrono::nanoseconds most) {
    std::unique_lock lock(mutex_);
    ends_.wait_for(lock, most, [this] { return running_ == 0; });
  }

 private:
  // Of thread p, from the start behind number `seen` on.
  void work(uint32_t p, uint64_t seen) {
    std::unique_lock lock(mutex_);
    for (;;) {
      starts_.wait(lock, [&] { return started_ != seen; });
      seen = started_;
      if (count_ == 0) return;
      if (p >= count_) continue;
      lock.unlock();
      body_(p);
      lock.lock();
      if (--running_ == 0) ends_.notify_one();
    }
  }

  std::mutex mutex_;  // of all below but threads_
  std::condition_variable starts_;
  std::condition_variable ends_;
  std::function<void(uint32_t)> body_;  // not written while one runs
  uint32_t count_ = 0;
  uint32_t running_ = 0;
  uint64_t started_ = 0;
  std::vector<std::thread> threads_;
};

struct RecordedLaunches : public Recording {
  std::vector<Launch> launches;
  std::shared_ptr<const MachineCode> code;
};

class Host : public Machine {
 public:
  Host(int processors, Executing executing, std::shared_ptr<const HostCompiler> compiler)
      : processors_(processors), executing_(executing), compiler_(std::move(compiler)) {}
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host() override = default;

  std::string name() const override { return "this computer's threads"; }
  std::string code() const override {
    return fmt::format("{} on {}", compiles() ? "jit" : "resident-host", measure::processor());
  }
  int processors() const override { return processors_; }
  uint32_t scratch_bytes() const override { return device::kSharedBytes; }
  bool packs_panels() const override { return compiles(); }
  Result<uint64_t> free_memory() const override { return available_memory(); }
  Result<Memory> allocate(uint64_t bytes) const override {
    if (bytes == 0) return Memory{};
    const uint64_t page = bytes >= kLarge ? kLarge : 256;
    const uint64_t whole = (bytes + page - 1) / page * page;
    void* data = std::aligned_alloc(page, whole);
    if (data == nullptr)
      return driver::Error{"allocating memory", "", "there is not so much of it"};
    if (page == kLarge) ::madvise(data, whole, MADV_HUGEPAGE);
    std::shared_ptr<void> owner(data, std::free);
    return Memory{reinterpret_cast<uint64_t>(data),
                  bytes,
                  {static_cast<std::byte*>(data), static_cast<size_t>(bytes)},
                  owner};
  }
  Result<Memory> allocate_shared(uint64_t bytes) const override { return allocate(bytes); }
  Status upload(uint64_t address, std::span<const std::byte> from) const override {
    if (!from.empty()) std::memcpy(reinterpret_cast<void*>(address), from.data(), from.size());
    return driver::Done{};
  }
  Status download(uint64_t address, std::span<std::byte> to) const override {
    if (!to.empty()) std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
    return driver::Done{};
  }
  Status zero(uint64_t address, uint64_t bytes) const override {
    if (bytes > 0) std::memset(reinterpret_cast<void*>(address), 0, bytes);
    return driver::Done{};
  }
  bool interprets() const override { return executing_ != Executing::compiles; }
  bool compiles() const override { return executing_ != Executing::interprets; }
  Result<std::shared_ptr<const MachineCode>> at_once(const plan::Plan& plan,
                                                     const Image& image) const override {
    std::shared_ptr<const MachineCode> code;
    if (compiles()) code = compiler_->at_once(plan, image);
    return code;
  }
  isa::Result<std::shared_ptr<const MachineCode>> compile(const plan::Plan& plan, Image& image,
                                                          Phases& phases,
                                                          const Compiling& how) const override {
    auto code = compiler_->compile(plan, image, how.cancelled);
    if (!code) return code.take_problems();
    phases.end("compile");
    return std::shared_ptr<const MachineCode>(code.take());
  }
  Status start(const Launch& launch, std::shared_ptr<const MachineCode> made) const override {
    threads_.wait();
    // Kept from launch to launch: fresh pages take longer than small programs.
    while (scratch_.size() < launch.processors) {
      Result<Memory> memory =
          allocate(launch.scratch_bytes + (compiler_ == nullptr ? 0 : compiler_->scratch_bytes()));
      if (!memory) return memory.error();
      scratch_.push_back(memory.take());
    }
    const auto code = std::static_pointer_cast<const HostCode>(made);
    threads_.start(launch.processors, [this, launch, code](uint32_t p) {
      Processor(launch, p, code.get(), reinterpret_cast<std::byte*>(scratch_[p].address)).run();
    });
    return driver::Done{};
  }
  Result<std::shared_ptr<const Recording>> record(
      std::span<const Launch> launches, std::shared_ptr<const MachineCode> code) const override {
    auto recording = std::make_shared<RecordedLaunches>();
    recording->launches.assign(launches.begin(), launches.end());
    recording->code = std::move(code);
    return std::shared_ptr<const Recording>(std::move(recording));
  }
  Status replay(std::shared_ptr<const Recording> recording) const override {
    const auto& recorded = static_cast<const RecordedLaunches&>(*recording);
    for (const Launch& launch : recorded.launches) {
      if (Status status = start(launch, recorded.code); !status) return status;
      threads_.wait();
    }
    return driver::Done{};
  }
  Status copy(uint64_t to, uint64_t from, uint64_t bytes) const override {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return driver::Done{};
  }
  Result<bool> is_done() const override { return threads_.is_idle(); }
  // The launch wants all cores: a host that looked all the time would take one of them.
  void rest(std::chrono::nanoseconds idle) const override {
    threads_.wait_for(std::clamp<std::chrono::nanoseconds>(idle / 4, kShortRest, kLongRest));
  }
  // A word at a time, since the processors write while it is read.
  Status peek(uint64_t address, std::span<std::byte> to) const override {
    for (size_t at = 0; at + 4 <= to.size(); at += 4) {
      const uint32_t word =
          __atomic_load_n(reinterpret_cast<const uint32_t*>(address + at), __ATOMIC_RELAXED);
      std::memcpy(to.data() + at, &word, 4);
    }
    return driver::Done{};
  }
  Status poke(uint64_t address, uint64_t value) const override {
    __atomic_store_n(reinterpret_cast<uint64_t*>(address), value, __ATOMIC_RELEASE);
    return driver::Done{};
  }

 private:
  int processors_;
  Executing executing_;
  std::shared_ptr<const HostCompiler> compiler_;
  mutable std::vector<Memory> scratch_;  // of a processor
  mutable Threads threads_;              // the last: they end before what they use
};

}  // namespace

std::shared_ptr<const Machine> open_host(int processors, Executing executing,
                                         std::shared_ptr<const HostCompiler> compiler) {
  return std::make_shared<Host>(processors, executing, std::move(compiler));
}

}  // namespace trek::resident
