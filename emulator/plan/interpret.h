// Executes a plan on a CPU, as a device would: processors with queues of their own, which know of each
// other only through counters and decisions. Which processor goes next is drawn at random from a seed, so
// a missing wait shows as other bits under another seed, a wait that is never fulfilled as a plan that is
// stuck, and an operand that is said to stand in memory and does not (Node::standing) as a failure. It is
// slow, and meant for small programs: linker bugs show without a GPU.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "emulator/plan/plan.h"
#include "isa/result.h"

namespace trek::plan {

// What a task that was executed elsewhere came to.
struct Executed {
  isa::TrapCode code = isa::TrapCode::None;
  int64_t element = -1;
};

struct InterpretOptions {
  uint64_t order_seed = 1;         // which processor goes next
  uint64_t random_seed = 0;        // mixed into the keys of random instructions
  uint64_t task_limit = 0;         // tasks executed; 0: none
  uint64_t instruction_limit = 0;  // dynamic instructions, looked at as a trip begins; 0: none
  // Gives the next block of a stream (an index into Module::tensors), or false at its end.
  std::function<bool(uint32_t tensor, std::span<std::byte> block)> next;
  // Executes a task instead of this folder's evaluation, or gives nothing where that shall do it. Its
  // accesses are not held to the boxes. `counter` gives the counter of a loop around the task.
  using Counter = std::function<int64_t(uint32_t region)>;
  std::function<std::optional<Executed>(uint32_t task, std::span<std::byte> arena,
                                        const Counter& counter)>
      execute;
};

struct PlanTrap {
  isa::TrapCode code = isa::TrapCode::None;
  uint32_t function = 0;
  uint32_t instruction = 0;
  int64_t element = -1;
};

struct EmittedValue {
  std::string name;
  isa::Type type;
  std::vector<std::byte> bytes;
  bool operator==(const EmittedValue&) const = default;
};

struct Interpreted {
  std::optional<PlanTrap> trap;  // the earliest in program order; memory is then not defined
  std::string failure;           // of the plan: stuck, an access outside boxes, a limit; else empty
  std::vector<EmittedValue> emitted;
  uint64_t tasks = 0;
  uint64_t instructions =
      0;  // dynamic ones of the module, as the reference counts them, unless it traps
};

// `arena` has plan.arena_bytes; tensors and params hold what they begin with. What is left between them
// is overwritten with a pattern first, so that nothing read before it is written goes unseen.
Interpreted interpret(const Plan& plan, std::span<std::byte> arena,
                      const InterpretOptions& options);

// The bytes of a module tensor or a parameter within an arena.
std::span<std::byte> tensor_bytes(const Plan& plan, std::span<std::byte> arena, uint32_t tensor);
std::span<std::byte> param_bytes(const Plan& plan, std::span<std::byte> arena, uint32_t param);

}  // namespace trek::plan
