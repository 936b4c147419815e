// Tasks that are executed as GEMV (../device/gemv.h): what the warp that brings their columns does, and what compute warps
// do. Device only, and resident.cu's alone, as together.h.
#pragma once

#ifdef __CUDA__

#include "emulator/device/execute.h"
#include "emulator/resident/current.h"

namespace trek::resident {
namespace {

#ifdef TREK_FOR_CHAINS

// The filler's: has the columns of tasks brought, ahead of the block, to memory that other units work in. So not before a task
// of another kind that comes in between has been executed.
class Bringing {
 public:
  // Slot `n` is named: what its task's columns are.
  TREK_RESIDENT void look_at(const Slot& slot) {
    is_gemv_ = slot.kind == Kind::gemv;
    count_ = slot.in_stages;
  }
  // And what is fetched for it is on its way. A slot whose columns do not come in stages may be another task's by now.
  TREK_RESIDENT void bring(Shared& shared, uint32_t n) {
    if (!is_gemv_) {
      other_ = n;
      has_other_ = true;
      return;
    }
    if (count_ == device::gemv::Count::kNotInStages) return;
    Slot& slot = shared.slot[n % kSlots];
    fetched();
    warp_sync();
    if (has_other_ && n - other_ < kSlots)
      barrier_wait(&shared.executed[other_ % kSlots], phase(other_));
    const bool are_there = same_for_all(is_there(shared, count_) ? 1 : 0) != 0;
    if (thread_number() % 32 == 0) slot.are_there = are_there ? 1 : 0;
    warp_sync();
    step_ = device::gemv::bring(*reinterpret_cast<const device::Gemv*>(slot.descriptor),
                                static_cast<uint32_t>(slot.record.first), arena_of(shared),
                                are_there, step_);
  }

  // Behind the last: no phase of a barrier is left that nobody has waited for.
  TREK_RESIDENT void end() const { device::gemv::end_ring(step_); }

 private:
  TREK_RESIDENT static bool is_there(const Shared& shared, int64_t count) {
    using device::gemv::Count;
    if (count == Count::kAsTheyLie) return true;
    if (count < Count::kPackedFrom) return false;
    const auto number = static_cast<uint32_t>(count - Count::kPackedFrom);
    const bool is = (load_volatile(shared.packed + number / 32) >> number % 32 & 1) != 0;
    // What was written before that was said is there for copies that are asked for behind it.
    asm volatile("fence.acq_rel.cta;" ::: "memory");
    return is;
  }

  bool is_gemv_ = false;
  int64_t count_ = 0;
  uint32_t step_ = 0;   // of the ring
  uint32_t other_ = 0;  // the last slot of another kind
  bool has_other_ = false;
};

// Whether a task's factors are of bf16; else they are of f16.
TREK_RESIDENT bool is_bf16(const Slot& slot) {
  const auto& gemv = *reinterpret_cast<const device::Gemv*>(slot.descriptor);
  return static_cast<device::DType>(gemv.type) == device::DType::bf16;
}

// Tasks that compute warps execute as GEMV, one behind the other.
template <bool kBf16>
class GemvTasks {
 public:
  static constexpr uint32_t kArrivals = kWarpArrivals;
  TREK_RESIDENT GemvTasks() {
    const Place place;
    n_ = same_for_all(place.number());
    trapped_ = place.trapped();
    profiles_ = thread_number() == 0 && pipeline().launch.profile != nullptr;
  }

  // The compiler is to see that it is in shared memory.
  TREK_RESIDENT const device::Gemv& of() const {
    return *reinterpret_cast<const device::Gemv*>(slot().descriptor);
  }
  TREK_RESIDENT uint32_t number() const {
    return same_for_all(static_cast<uint32_t>(slot().record.first));
  }
  TREK_RESIDENT uint32_t turn() const { return n_; }
  TREK_RESIDENT uint32_t tag() const { return static_cast<uint32_t>(slot().due.moment >> 24); }
  TREK_RESIDENT bool ready() const {
    barrier_wait(&pipeline().ready[n_ % kSlots], phase(n_));
    return same_for_all(slot().skip != 0 || trapped_ ? 1 : 0) == 0;
  }
  TREK_RESIDENT void inputs_came() const {
    if (profiles_) slot().began = nanoseconds();
  }
  TREK_RESIDENT bool are_there() const { return same_for_all(slot().are_there) != 0; }
  // Behind a sync with all that was written.
  TREK_RESIDENT void has_packed() const {
    if (thread_number() != 0) return;
    const auto number = static_cast<uint32_t>(slot().in_stages - device::gemv::Count::kPackedFrom);
    uint32_t* bits = pipeline().packed + number / 32;
    store_volatile(bits, load_volatile(bits) | 1u << number % 32);
  }
  TREK_RESIDENT bool next() {
    Place().go_on(trapped_);
    block_of_units(pipeline()).sync();
    ++n_;
    barrier_wait(&pipeline().filled[n_ % kSlots], phase(n_));
    // Both are read at once: what a descriptor of another kind has there is some type, or none.
    const uint32_t other_kind = slot().record.kind == Kind::gemv ? 0 : 1;
    const uint32_t other_type = is_bf16(slot()) == kBf16 ? 0 : 1;
    return same_for_all(other_kind | other_type) == 0;
  }

 private:
  TREK_RESIDENT Slot& slot() const { return pipeline().slot[n_ % kSlots]; }
  uint32_t n_;
  bool trapped_;
  bool profiles_;  // this thread notes when inputs came
};

// Goes on to what comes behind them.
template <bool kBf16>
TREK_RESIDENT_CALL void perform_gemv() {
  Shared& shared = pipeline();
  GemvTasks<kBf16> tasks;
  device::execute_gemv<kBf16>(block_of_units(shared), tasks, arena_of(shared));
}

#else

// Elsewhere none are.
class Bringing {
 public:
  TREK_RESIDENT void look_at(const Slot& /*slot*/) {}
  TREK_RESIDENT void bring(Shared& /*shared*/, uint32_t /*n*/) {}
  TREK_RESIDENT void end() const {}
};

#endif

}  // namespace
}  // namespace trek::resident

#endif  // __CUDA__
