// The state of a running module: tensors, parameters, and the frames of the functions being executed.
//
// Control flow is structured, but nothing here recurses: regions and calls are entries of stacks, so a
// program nests as deep as it likes. Instructions of the control family change frames through the
// functions below; all others see a Step alone.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "emulator/engine.h"
#include "emulator/ref/code_map.h"
#include "emulator/ref/memory.h"
#include "emulator/ref/step.h"
#include "emulator/ref/thread_pool.h"
#include "isa/module.h"

namespace trek::ref {

struct Execution {
  uint64_t calls = 0;
  uint64_t nanoseconds = 0;
};

class Machine {
 public:
  Machine(const isa::Module& module, const Kernels& kernels, const LoadOptions& options);

  // Executes a function without parameters from its beginning. kInitFunction: the initialisers.
  RunResult run(uint32_t function, const RunOptions& options);

  const isa::Module& module() const { return module_; }
  const Kernels& kernels() const { return kernels_; }
  ThreadPool& pool() { return pool_; }
  Memory& memory() { return memory_; }
  const Memory& memory() const { return memory_; }
  uint64_t seed() const { return seed_; }
  const RunOptions& options() const { return *options_; }
  uint64_t instructions() const { return instructions_; }
  // Per instruction of a function; empty where none was profiled.
  std::span<const Execution> executions(uint32_t function) const { return executions_[function]; }

  // ---- what a Ref names in the frame being executed
  Slot& slot(isa::Ref ref);
  // Whether a register is a parameter marked `!`, whose memory outlives its last use here.
  bool belongs_to_caller(isa::Ref ref) const;
  const isa::Type& type(isa::Ref ref) const;
  // The element of a scalar: a register, parameter or constant.
  uint64_t scalar_bits(isa::Ref ref);
  // Whether a register has its last use at this instruction.
  bool dies_here(isa::Ref ref) const;
  std::vector<Slot>& tensors() { return tensors_; }
  std::vector<uint64_t>& params() { return params_; }
  std::vector<StreamSource>& streams() { return streams_; }

  // ---- control
  void enter_loop(int64_t from, int64_t step, uint64_t trips);
  void enter_while();
  void enter_if(bool condition);
  void test(bool condition);
  void yield();
  void call(uint32_t callee);
  void return_values();

 private:
  struct Region {
    uint32_t opener = 0;
    uint64_t trips = 0;  // of a loop
    uint64_t done = 0;
    int64_t from = 0;
    int64_t step = 0;
  };
  struct Frame {
    const isa::Function* function = nullptr;
    const CodeMap* map = nullptr;
    uint32_t index = 0;  // of the function
    uint32_t at = 0;     // the instruction being executed
    std::vector<Slot> values;
    std::vector<Region> regions;
  };

  const isa::Function& function_at(uint32_t index) const {
    return index == kInitFunction ? module_.init : module_.functions[index];
  }
  const CodeMap& map_of(uint32_t index);
  void push_frame(uint32_t index);
  void pop_frame();
  Status execute_next();
  void jump(uint32_t to) { next_ = to; }
  const isa::Instruction& current() const { return frame_->function->code[frame_->at]; }
  void release(std::span<const uint32_t> registers);
  void clear_region(const Region& region);
  void take_operands(size_t first);
  void give(std::span<const isa::Ref> to);
  void assign(isa::Ref to, Slot&& value);
  void leave_region(uint32_t last_yield);
  void begin_trip();
  void report_progress(const Region& region);
  RunResult stopped_at(Outcome outcome, std::string detail) const;
  RunResult finish(Status status);
  void record(std::chrono::steady_clock::time_point& last, Place place);

  const isa::Module& module_;
  const Kernels& kernels_;
  Memory memory_;  // before the slots, whose buffers it owns
  ThreadPool pool_;
  uint64_t seed_;
  std::vector<Slot> tensors_;
  std::vector<uint64_t> params_;
  std::vector<StreamSource> streams_;

  std::vector<std::unique_ptr<CodeMap>> maps_;  // per function, and one for init
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<std::unique_ptr<Frame>> spare_frames_;
  Frame* frame_ = nullptr;     // the innermost
  uint32_t next_ = 0;          // the instruction after this one
  std::vector<Slot> carried_;  // values on their way between regions or frames
  Step step_;
  int loop_level_ = 0;
  bool may_stop_ = false;  // where the run begins, and behind a back-edge: states are whole there

  const RunOptions* options_ = nullptr;
  uint64_t instructions_ = 0;
  std::vector<std::vector<Execution>> executions_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace trek::ref
