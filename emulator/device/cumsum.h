// Running sums: blocks of 32 run on their own, then each is given the sum of those before it (ops.def says
// the order). A line that has no room comes in parts that end at blocks.
#pragma once

#include "emulator/device/stage.h"
#include "isa/semantics/elements.h"

namespace trek::device {

namespace cumsum_detail {

inline constexpr uint32_t kRun = 32;
inline constexpr uint32_t kLines = 128;                 // at once
inline constexpr uint32_t kOffsets = shared_at::kWork;  // of the blocks of the group's lines
inline constexpr uint32_t kBlocks = kValuesBytes / 4 / kRun + kLines;
inline constexpr uint32_t kCarry =
    kOffsets + kBlocks * 8;  // offset and last sum of the part before
static_assert(kCarry + 2 * 8 <= kSharedBytes);

// A staged part, in place.
template <typename C>
TREK_UNIT_CALL void sum_part(Task task, const Group& part) {
  const bool across = task.node().lines.across != 0;
  const uint32_t line_step = across ? 1 : part.n;
  const uint32_t element_step = across ? part.lines : 1;
  const Staged<C> x{shared_at::kValues, shift_of(task.node())};
  C* offsets = task.shared<C>(kOffsets);
  C* carry = task.shared<C>(kCarry);
  const uint32_t blocks = (part.n + kRun - 1) / kRun;
  for (uint32_t b = task.thread(); b < part.lines * blocks; b += task.threads()) {
    const uint32_t l = b / blocks;
    const uint32_t begin = (b - l * blocks) * kRun;
    const uint32_t end = begin + kRun < part.n ? begin + kRun : part.n;
    uint32_t at = l * line_step + begin * element_step;
    C running = x.get(task, at);
    for (uint32_t i = begin + 1; i < end; ++i) {
      at += element_step;
      running = semantics::add(running, x.get(task, at));
      x.put(task, at, running);
    }
  }
  task.sync();
  // Only the first block of a line has no offset; the second's is the first's last sum.
  for (uint32_t l = task.thread(); l < part.lines; l += task.threads()) {
    C offset = part.k > 0 ? carry[0] : C(0);
    C last = part.k > 0 ? carry[1] : C(0);
    for (uint32_t b = 0; b < blocks; ++b) {
      const int64_t block = part.k / kRun + b;
      if (block == 1) offset = last;
      if (block > 1) offset = semantics::add(offset, last);
      offsets[l * blocks + b] = offset;
      const uint32_t end = (b + 1) * kRun < part.n ? (b + 1) * kRun : part.n;
      last = x.get(task, l * line_step + (end - 1) * element_step);
    }
    if (part.n < task.node().lines.n) {  // alone in its group
      carry[0] = offset;
      carry[1] = last;
    }
  }
  task.sync();
  for (uint32_t i = task.thread(); i < part.size(); i += task.threads()) {
    const uint32_t l = across ? i % part.lines : i / part.n;
    const uint32_t b = (across ? i / part.lines : i - l * part.n) / kRun;
    if (part.k + b > 0) x.put(task, i, semantics::add(offsets[l * blocks + b], x.get(task, i)));
  }
  task.sync();
}

}  // namespace cumsum_detail

// Lines [line, end).
template <typename C>
TREK_UNIT_CALL void cumsum(Task task, int64_t line, int64_t end) {
  using namespace cumsum_detail;  // NOLINT(google-build-using-namespace)
  if (task.node().lines.n == 0) return;
  while (line < end) {
    const Group group = group_at(task.node(), line, end, 1, is_whole(task.node(), 1) ? kLines : 1);
    for (int64_t k = 0; k < task.node().lines.n; k += room_for(task.node(), 1)) {
      const Group part = part_of(task.node(), group, k, 1);
      stage(task, part, 1);
      task.sync();
      sum_part<C>(task, part);
      deliver(task, part, 0, 0);
      task.sync();
    }
    line += group.lines;
  }
}

}  // namespace trek::device
