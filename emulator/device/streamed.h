// Elements of arrays that are more than caches hold, where code is made for one node on a device: what a thread reads is
// on its way to shared memory while it works on what came before, in copies that take no registers (cp.async). A thread
// copies what it will itself read, to places of its own, so it waits for nobody else. Included by program_specialised.h.
#pragma once

#include "emulator/device/copies.h"

namespace trek::device::program_detail {

inline constexpr uint32_t kFour = 4;
inline constexpr uint32_t kMostFours = 4;  // of a thread in a turn
inline constexpr uint32_t kTurns = 2;      // that are on their way

// What a program reads of four elements: of each, by the number of the load, in register form.
struct Arrived {
  uint64_t value[kFour][kNarrowSlots];
};

// Whether load l of a program comes through shared memory.
TREK_UNIT bool is_copied(const Node& node, const Program& program, uint32_t l) {
  if (l >= program.loads) return false;
  return lies_in_fours(node.operand(node.load(program.first_load + l)->operand));
}

// The operands of a program in turns: `fours` times four neighbouring elements of a thread each.
class Stream {
 public:
  TREK_ON_DEVICE Stream(const Task& task, const Program& program, int64_t first, uint32_t count)
      : task_(task), program_(program), first_(first), count_(count) {
    TREK_UNROLLED
    for (uint32_t l = 0; l < kNarrowSlots; ++l) {
      if (!is_copied(task.node(), program, l)) continue;
      memory_[l] = task.memory(operand(l));
      ++copied_;
    }
    fours_ = fits(kMostFours) ? kMostFours : fits(2) ? 2 : 1;
  }
  TREK_ON_DEVICE uint32_t fours() const { return fours_; }
  TREK_ON_DEVICE uint32_t stride() const { return kFour * task_.threads(); }
  TREK_ON_DEVICE uint32_t turn_elements() const { return fours_ * stride(); }
  // Where this thread's four number 0 of a turn is; the others are a stride apart.
  TREK_TILE_MEMBER uint32_t position(uint32_t turn) const {
    return turn * turn_elements() + kFour * task_.thread();
  }
  TREK_TILE_MEMBER bool has(uint32_t turn, uint32_t a) const {
    return position(turn) + a * stride() + kFour <= count_;
  }

  // Asks for a turn, or what there is of it.
  TREK_TILE_MEMBER void ask(uint32_t turn) const {
    if (has(turn, fours_ - 1)) {
      TREK_UNROLLED
      for (uint32_t a = 0; a < kMostFours; ++a)
        if (a < fours_) ask_four(turn, a);
    } else {
      TREK_ROLLED
      for (uint32_t a = 0; a < fours_ && has(turn, a); ++a) ask_four(turn, a);
    }
    commit_copies();
  }
  // Four a of a turn that has arrived.
  TREK_TILE_MEMBER Arrived take(uint32_t turn, uint32_t a) const {
    Arrived arrived{};
    each_copied([&](uint32_t l, uint32_t place) TREK_TILE_LAMBDA {
      // At once: what is narrower is in the first of these.
      const Words words = *task_.shared<const Words>(at(turn, a, place));
      TREK_UNROLLED
      for (uint32_t e = 0; e < kFour; ++e)
        arrived.value[e][l] = load64(reinterpret_cast<const std::byte*>(words.e), type_of(l), e);
    });
    return arrived;
  }

 private:
  TREK_TILE_MEMBER void ask_four(uint32_t turn, uint32_t a) const {
    each_copied([&](uint32_t l, uint32_t place) TREK_TILE_LAMBDA {
      const uint32_t size = size_of(type_of(l));
      const std::byte* from = memory_[l] + (first_ + position(turn) + a * stride()) * size;
      const uint32_t to = shared_address(task_.shared<std::byte>(at(turn, a, place)));
      if (size == 4) copy_ahead<16>(to, from);
      if (size == 2) copy_ahead<8>(to, from);
      if (size == 1) copy_ahead<4>(to, from);
    });
  }
  TREK_ON_DEVICE bool fits(uint32_t fours) const {
    return kTurns * fours * copied_ * pitch() <= kSharedBytes - shared_at::kSlots;
  }
  TREK_ON_DEVICE uint32_t pitch() const { return 16 * task_.threads(); }
  TREK_TILE_MEMBER uint32_t at(uint32_t turn, uint32_t a, uint32_t place) const {
    return shared_at::kSlots + ((turn % kTurns * fours_ + a) * copied_ + place) * pitch() +
           16 * task_.thread();
  }
  TREK_ON_DEVICE const Operand& operand(uint32_t l) const {
    return task_.node().operand(task_.node().load(program_.first_load + l)->operand);
  }
  TREK_ON_DEVICE DType type_of(uint32_t l) const { return static_cast<DType>(operand(l).dtype); }
  // Calls f(load, place) for what is copied.
  template <class F>
  TREK_TILE_MEMBER void each_copied(F f) const {
    uint32_t place = 0;
    TREK_UNROLLED
    for (uint32_t l = 0; l < kNarrowSlots; ++l)
      if (is_copied(task_.node(), program_, l)) f(l, place++);
  }

  const Task& task_;
  const Program& program_;
  int64_t first_;
  uint32_t count_;
  const std::byte* memory_[kNarrowSlots];
  uint32_t copied_ = 0;
  uint32_t fours_ = 1;
};

}  // namespace trek::device::program_detail
