// A program in steps (steps.h), each a launch of its own: recorded once, as a CUDA graph on a GPU, and replayed.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "emulator/resident/launch.h"
#include "emulator/resident/steps.h"

namespace trek::resident {

class Sequence {
 public:
  // `plan` must outlive it; `code` is what the machine compiled of the steps' image, null where it interprets.
  static driver::Result<std::unique_ptr<Sequence>> create(std::shared_ptr<const Machine> machine,
                                                          const plan::Plan& plan, Steps steps,
                                                          std::shared_ptr<const MachineCode> code);

  const Executable& executable() const { return *executable_; }
  // Runs to the end. A stop takes effect between trips of the root's loops; which of several traps is told is not
  // defined, and there is no limit of instructions: an error.
  driver::Result<Ended> run(const Memory& arena, uint64_t seed, const RunOptions& options);

 private:
  using Range = std::pair<uint32_t, uint32_t>;  // of steps

  Sequence() = default;
  driver::Status allocate();
  driver::Result<Decision> decide(uint32_t step);
  driver::Result<bool> repeat(const Passage& passage, const Decision& decision,
                              const RunOptions& options);
  driver::Result<std::shared_ptr<const Recording>> record(Range steps, uint64_t copies);
  driver::Status wait() const;

  std::shared_ptr<const Machine> machine_;
  std::shared_ptr<const MachineCode> code_;
  Steps steps_;
  std::unique_ptr<Executable> executable_;
  Memory mailbox_;    // of the device: nobody reads it
  Memory decisions_;  // what a step decided; then the counters of trips that are under way
  Memory trips_;      // the counters of many trips
  Launch launch_ = {};
  Ended ended_;
  std::map<std::pair<Range, uint64_t>, std::shared_ptr<const Recording>> recordings_;
};

}  // namespace trek::resident
