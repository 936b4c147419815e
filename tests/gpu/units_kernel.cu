// All units as a kernel that executes tasks one after the other, without the resident emulator around them.
#include "emulator/device/execute.h"

namespace trek::device {

// What a frame is asked for: counters by thin products (matrix_thin_tail.h), and by units that wait themselves for inputs.
__attribute__((shared)) static const int64_t* counters;
extern "C" __attribute__((device)) int64_t trek_counter(uint32_t number) {
  return counters[number];
}

extern "C" __attribute__((device)) bool trek_await_inputs() { return true; }

struct ProbeTask {
  const Node* node;
  int64_t first;
  int64_t count;
};

extern "C" __attribute__((global)) __attribute__((launch_bounds(384, 1))) void execute_tasks(
    const ProbeTask* tasks, uint32_t count, Environment environment, Fault* faults) {
  extern __attribute__((shared)) std::byte shared[];
  __attribute__((shared)) static Fault fault;
  const uint32_t thread = __nvvm_read_ptx_sreg_tid_x();
  if (thread >= kBlockThreads) return;
  const Block block{thread, kBlockThreads, shared, kSharedBytes};
  if (thread == 0) counters = environment.counters;
  if (thread == 0) begin_tasks(block);
  for (uint32_t t = 0; t < count; ++t) {
    if (thread == 0) fault = kNoFault;
    block.sync();
    const Node& node = *tasks[t].node;
    // The resident kernel executes these products by themselves, and has no other way to them.
    if (is_thin(node))
      execute_thin(block, node, tasks[t].first, environment, [] { return true; });
    else if (is_in_order(node))
      execute_in_order(block, node, tasks[t].first, environment, [] { return true; });
    else
      execute(block, node, tasks[t].first, tasks[t].count, environment, &fault);
    block.sync();
    if (thread == 0) faults[t] = fault;
  }
}

}  // namespace trek::device
