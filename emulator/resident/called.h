// What units call of the frame: the code of a compiled program's nodes (emulator/jit) for all that it waits for and keeps, and
// products whose operands are brought for what that is. Device only.
#pragma once

#ifdef __CUDA__

#include "emulator/resident/current.h"

#ifdef TREK_SPECIALISED
extern "C" __attribute__((device, always_inline)) bool trek_await_inputs() {
  return trek::resident::is_ready();
}
// See device/matrix_thin_packed.h.
extern "C" __attribute__((device, always_inline)) bool trek_is_packed(uint32_t number) {
  using namespace trek::resident;
  return (pipeline().packed[number / 32] >> number % 32 & 1) != 0;
}
extern "C" __attribute__((device, always_inline)) void trek_has_packed(uint32_t number) {
  using namespace trek::resident;
  pipeline().packed[number / 32] |= 1u << number % 32;
}
extern "C" __attribute__((device, always_inline)) void trek_meet() {
  trek::device::meet(1, trek::device::block_threads());
}
#ifdef TREK_SM90A
extern "C" __attribute__((device, always_inline)) bool trek_await_pair(uint32_t barrier,
                                                                       uint32_t parity) {
  using namespace trek::resident;
  if (barrier_passed(barrier, parity)) return true;
  return await_pair(pipeline(), Place().number(), barrier, parity);
}
#endif
#endif

#ifndef TREK_SPECIALISED
extern "C" __attribute__((device, always_inline)) bool trek_await_inputs() {
  return trek::resident::is_ready();
}
// See device/matrix_thin_tail.h.
extern "C" __attribute__((device, always_inline)) int64_t trek_counter(uint32_t number) {
  using namespace trek::resident;
  return pipeline().slot[Place().number() % kSlots].due.counters[number];
}
#endif

#ifdef TREK_HAS_TAGS
// See device/words.h.
extern "C" __attribute__((device, always_inline)) uint32_t trek_tag() {
  using namespace trek::resident;
  return static_cast<uint32_t>(pipeline().slot[Place().number() % kSlots].due.moment >> 24);
}
extern "C" __attribute__((device, always_inline)) bool trek_is_first_trip() {
  using namespace trek::resident;
  return pipeline().slot[Place().number() % kSlots].due.is_first != 0;
}
#ifdef TREK_SPECIALISED
extern "C" __attribute__((device, noinline)) bool trek_leaves() {
#else  // where more is kept in registers than a call leaves
extern "C" __attribute__((device, always_inline)) bool trek_leaves() {
#endif
  using namespace trek::resident;
  const Shared& shared = pipeline();
  const Slot& slot = shared.slot[Place().number() % kSlots];
  const uint32_t late = static_cast<uint32_t>(__builtin_ctz(slot.record.late | 1u << 31));
  const uint32_t wait = late < kMaxLate ? late : 0;
  return leaves_waiting(shared.launch, shared.launch.states[__nvvm_read_ptx_sreg_ctaid_x()],
                        slot.record.node, slot.due.moment, slot.due.counter[wait],
                        slot.due.target[wait], 0);
}
extern "C" __attribute__((device, always_inline)) void trek_inputs_came() {
  using namespace trek::resident;
  Shared& shared = pipeline();
  if (shared.launch.profile != nullptr)
    shared.slot[Place().number() % kSlots].began = nanoseconds();
}
#endif

#ifdef TREK_SM90A
// That it is there says to the host that units copy tensors by maps.
extern "C" __attribute__((device, used)) uint32_t resident_copies_tensors = 1;
extern "C" __attribute__((device, always_inline)) const trek::device::tensor::Bringing*
trek_bringing() {
  using namespace trek::resident;
  return &pipeline().slot[Place().number() % kSlots].bringing;
}
#endif

#endif  // __CUDA__
