// Running sums: blocks of 32 run on their own, then each is given the sum of those before it (ops.def says
// the order). A line that does not fit comes in parts that end at blocks.
#pragma once

#include "emulator/device/stage.h"
#include "isa/semantics/elements.h"

namespace trek::device {

namespace cumsum_detail {
inline constexpr uint32_t kRun = 32;
inline constexpr uint32_t kLines = 128;  // at once
inline constexpr uint32_t kOffsets = shared_at::kWork;
inline constexpr uint32_t kBlocks = kValuesBytes / 4 / kRun + kLines;
inline constexpr uint32_t kCarry =
    kOffsets + kBlocks * 8;  // offset and last sum of the part before
static_assert(kCarry + 2 * 8 <= kSharedBytes);
}  // namespace cumsum_detail

template <typename C>
TREK_UNIT_CALL void cumsum(Task task, int64_t first, int64_t count) {
  using namespace cumsum_detail;  // NOLINT(google-build-using-namespace)
  const Node& node = task.node;
  if (node.lines.n == 0) return;
  const Grouping grouping{first,  first + count, capacity(node, kValuesBytes),
                          kLines, node.lines.n,  node.lines.across != 0};
  C* offsets = task.shared<C>(kOffsets);  // of the blocks of the group's lines
  C* carry = task.shared<C>(kCarry);
  const Staged<C> x = staged<C>(task, shared_at::kValues);
  for (int64_t line = first; line < first + count;) {
    const Group group = grouping.at(line);
    for (int64_t k = 0; k < grouping.n; k += grouping.room) {
      const Group part = grouping.part(group, k);
      stage(task, part, 0, shared_at::kValues);
      task.sync();
      const uint32_t blocks = (part.n + kRun - 1) / kRun;
      for (uint32_t b = task.thread(); b < part.lines * blocks; b += task.threads()) {
        const uint32_t l = b / blocks;
        const uint32_t begin = (b - l * blocks) * kRun;
        const uint32_t end = begin + kRun < part.n ? begin + kRun : part.n;
        uint32_t at = l * part.line_step() + begin * part.element_step();
        C running = x.get(at);
        for (uint32_t i = begin + 1; i < end; ++i) {
          at += part.element_step();
          running = semantics::add(running, x.get(at));
          x.put(at, running);
        }
      }
      task.sync();
      // Only the first block of a line has no offset; the second's is the first's last sum.
      for (uint32_t l = task.thread(); l < part.lines; l += task.threads()) {
        C offset = C(0);
        C last = C(0);
        if (k > 0) {
          offset = carry[0];
          last = carry[1];
        }
        for (uint32_t b = 0; b < blocks; ++b) {
          const int64_t block = k / kRun + b;
          if (block == 1) offset = last;
          if (block > 1) offset = semantics::add(offset, last);
          offsets[l * blocks + b] = offset;
          const uint32_t end = (b + 1) * kRun < part.n ? (b + 1) * kRun : part.n;
          last = x.get(l * part.line_step() + (end - 1) * part.element_step());
        }
        if (!grouping.whole()) {
          carry[0] = offset;
          carry[1] = last;
        }
      }
      task.sync();
      for (uint32_t i = task.thread(); i < part.size(); i += task.threads()) {
        const uint32_t l = part.across ? i % part.lines : i / part.n;
        const uint32_t b = (part.across ? i / part.lines : i - l * part.n) / kRun;
        if (k + b > 0) x.put(i, semantics::add(offsets[l * blocks + b], x.get(i)));
      }
      task.sync();
      deliver(task, part, 0, shared_at::kValues);
      task.sync();
    }
    line += group.lines;
  }
}

}  // namespace trek::device
