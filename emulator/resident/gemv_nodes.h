// Which nodes of a plan are executed as GEMV (../device/gemv.h), and what their tasks are told besides what the node says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "emulator/device/gemv.h"
#include "emulator/plan/plan.h"
#include "emulator/resident/image.h"
#include "emulator/resident/tags.h"

namespace trek::resident {

// A node as it would be executed else.
struct GemvCandidate {
  const device::Node* node = nullptr;
  Kind kind = Kind::task;
  bool needs_full = false;  // the full build of the units
};

// Per node, of those that are GEMV. None is unless the device has the kernel for chains, numerics are fast, and that kernel
// has units for all other nodes. What is in words, packed and left to the next task is not said yet.
std::vector<std::optional<device::Gemv>> gemv_nodes(const plan::Plan& plan,
                                                    std::span<const GemvCandidate> nodes);

// Columns of which a loop writes nothing but a line of each matrix, as the cache of an attention: the node that writes this,
// in the same trip and before them, and the GEMV where they come in stages but for that line, which comes in words.
struct GemvLine {
  uint32_t maker = plan::kNone;
  device::Gemv as;
};
std::vector<std::optional<GemvLine>> gemv_lines(const plan::Plan& plan,
                                                std::span<const GemvCandidate> nodes,
                                                std::span<const std::optional<device::Gemv>> gemv);

// What of it is in words; `line` are the maker's of its columns' line.
void tell_words(device::Gemv& to, const TaggedNode& tagged, const device::Areas& areas,
                int64_t line);

// A row of f32 that a GEMV has made of one matrix, and the processor's next task has as its row, it finds in shared memory.
// `tasks` are those of each processor, in program order.
void leave_rows_here(const plan::Plan& plan, const std::vector<std::vector<uint32_t>>& tasks,
                     std::span<std::optional<device::Gemv>> nodes);

// What a task's record has as its count (device::gemv::Count); `number` is the task's among those of its processor whose
// columns are packed.
int64_t gemv_count(const device::Gemv& of, uint32_t number);

}  // namespace trek::resident
