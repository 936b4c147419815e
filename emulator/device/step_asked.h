// The steps of step_fours.h where much of what they read comes from memory: by way of shared memory, where all of it is asked
// for at once. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/device/own_fours.h"
#include "emulator/device/step_fours.h"

namespace trek::device {

namespace train_detail {

// What a thread asks for, behind what Adam's elements have in common: of a turn four elements of each of the instruction's
// operands, in their order, and then of what is added to the gradient.
using Asked = OwnFours<shared_at::kSlots + 128>;
static_assert(Asked::kMost > 4 + kMostParts && sizeof(semantics::AdamParameters<float>) + 8 <= 128);

// Tensors of which a thread has asked for several turns. A gradient in blocks comes to registers; one that the task has made
// is there already, and turns of a tensor stand behind one another.
template <Opcode kOpcode, bool kMade = false>
class AskedTensors : public FourTensors<kOpcode> {
  using Of = FourTensors<kOpcode>;

 public:
  // made: the turns, where the task has made the gradient.
  TREK_ON_DEVICE explicit AskedTensors(const Task& task, uint32_t made = 0)
      : Of(task), fours_(task), made_(made) {}
  TREK_ON_DEVICE uint32_t turns() const { return Asked::kMost / of_turn(); }
  TREK_ON_DEVICE void ask(int64_t at, uint32_t turn) const {
    const uint32_t first = turn * of_turn();
    fours_.ask(first, this->w_ + at);
    if constexpr (Of::kHasM) fours_.ask(first + 1, this->m_ + at);
    if constexpr (Of::kHasV) fours_.ask(first + kV, this->v_ + at);
    if (this->blocks_ == 1) fours_.ask(first + Of::kGradient, this->g_ + at);
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMostParts; ++p)
      if (has_part(this->node_, p)) fours_.ask(first + Of::kGradient + 1 + p, this->part(p) + at);
  }
  // Once they have come.
  TREK_ON_DEVICE void take(int64_t at, uint32_t turn, StepFour& to) const {
    const uint32_t first = kMade ? turn : turn * of_turn();
    const auto get = [&](uint32_t which) TREK_TILE_LAMBDA {
      return fours_.template get<Fours>(first + (kMade ? which * made_ : which));
    };
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMostParts; ++p)
      if (has_part(this->node_, p)) to.part[p] = get(Of::kGradient + 1 + p);
    to.w = get(0);
    to.g = kMade || this->blocks_ == 1 ? get(Of::kGradient) : this->gradient(at);
    if constexpr (Of::kHasM) to.m = get(1);
    if constexpr (Of::kHasV) to.v = get(kV);
  }

 private:
  static constexpr uint32_t kV = Of::kHasM ? 2 : 1;
  TREK_ON_DEVICE uint32_t of_turn() const { return Of::kGradient + 1 + parts_of(this->node_); }

  Asked fours_;
  uint32_t made_;
};

// As step_in_registers(), with all that several turns read on its way at once: much of it comes from memory, and a step's instructions, of
// which there are hundreds, are there once.
template <Opcode kOpcode, typename C, class Prepare>
TREK_UNIT void step_asked(const Task& task, const Rule<C>& with, int64_t i, int64_t end,
                          Prepare prepare) {
  const AskedTensors<kOpcode> of(task);
  const uint32_t most = of.turns();
  const auto each = [&](auto act) TREK_TILE_LAMBDA {
    int64_t at = i;
    TREK_ROLLED
    for (uint32_t turn = 0; turn < most && at < end; ++turn, at += kBlockThreads) act(at, turn);
  };
  const auto ask = [&]() TREK_TILE_LAMBDA {
    each([&](int64_t at, uint32_t turn) TREK_TILE_LAMBDA { of.ask(at, turn); });
    commit_copies();
  };
  ask();
  prepare();
  const FourSteps<kOpcode, C> by(with);
  TREK_ROLLED
  while (true) {
    wait_for_copies(0);
    each([&](int64_t at, uint32_t turn) TREK_TILE_LAMBDA {
      StepFour four;
      of.take(at, turn, four);
      of.step(by, at, four);
    });
    i += int64_t{most} * kBlockThreads;
    if (i >= end) return;
    ask();
  }
}

}  // namespace train_detail

}  // namespace trek::device

#endif  // __CUDA__
